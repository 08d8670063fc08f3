# Run by scripts/test-install: `stranger.sh deb|tar` in the root of a fresh system, `stranger.sh rpm` outside of the system in STRANGER_ROOT.
# shellcheck shell=bash disable=SC2016,SC2317 # expanded in the other shell; functions are called by name
set -euo pipefail

kind=$1
system=${STRANGER_ROOT:-}
failed=0
# inside COMMAND...: runs it in the system.
inside() { if [[ $system ]]; then chroot "$system" "$@"; else "$@"; fi; }
# expect SENTENCE COMMAND...: prints the sentence, and whether the command succeeds.
expect() {
    local said status=0
    said=$("${@:2}" 2>&1 </dev/null) || status=$?
    if ((status == 0)); then echo "ok      $1"; else echo "FAILED  $1 (status $status): $said" && failed=1; fi
}
ours() { inside find /etc /usr /var /run /opt -xdev -name '*namegate*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/rpm/*' | sort; }
rpm_in() { rpm --root "$system" --dbpath /var/lib/rpm "$@"; }

for program in rustc cargo cc gcc; do expect "there is no $program" inside bash -c "! command -v $program"; done
expect "there is no network" bash -c '! grep -v "^ *lo:" /proc/net/dev | grep :'
before=$(ours)
case $kind in
    deb)
        install_older() { apt-get install --yes --no-install-recommends /tmp/older.deb; }
        install_newer() { apt-get install --yes --no-install-recommends /tmp/namegate.deb; }
        remove() { apt-get remove --yes namegate; }
        ;;
    rpm)
        install_older() { rpm_in --nodeps --install "$system/tmp/older.rpm"; }
        install_newer() { rpm_in --nodeps --upgrade "$system/tmp/namegate.rpm"; }
        remove() { rpm_in --erase namegate; }
        # Debian's libraries are not in a database of rpm. So what the package needs is looked at: it must be the C library alone.
        expect "the package needs no library but those of C and of gcc" bash -c \
            '! rpm --query --package --requires "$0" | grep -vE "^(/bin/sh|config\(|rpmlib\(|lib(c|m|gcc_s)\.so|ld-linux|rtld\()"' "$system/tmp/namegate.rpm"
        ;;
    tar)
        mkdir /tmp/unpacked
        install_older() { tar -xzf /tmp/namegate.tar.gz -C /tmp/unpacked && cp /tmp/unpacked/*/namegate /usr/bin/; }
        ;;
esac
expect "it can be installed" install_older
expect "the program runs" inside namegate --version
if ! inside namegate --version >/dev/null; then exit 1; fi

# The main job: scan, fix, undo.
job='set -e; cd /tmp; mkdir -p share/2019; : >"share/2019/$(printf "caf\351.txt")"; : >share/aux.txt; ls -R share >before
    namegate scan share --profile utf8,windows && exit 1 || test $? = 1
    namegate fix plan share --profile utf8,windows -o plan.jsonl
    namegate fix apply plan.jsonl --yes --at-least guess --journal journal.jsonl
    test -e "share/2019/$(printf "caf\303\251.txt")"
    namegate scan share --profile utf8,windows
    namegate fix undo journal.jsonl; ls -R share | cmp - before'
expect "it scans, fixes, and undoes" inside bash -c "$job"
mounted=
if inside test -e /dev/fuse; then
    inside mkdir -p /tmp/tree /tmp/mnt
    if [[ $kind == tar ]]; then
        expect "it mounts" inside namegate mount /tmp/tree /tmp/mnt --daemon --profile windows
    else
        expect "mount(8) finds the helper" inside mount -t namegate /tmp/tree /tmp/mnt -o profile=windows
    fi
    expect "a good name can be made" inside touch /tmp/mnt/good
    expect "a bad one cannot" inside bash -c '! touch /tmp/mnt/aux'
    mounted=yes
else
    echo "SKIPPED: no /dev/fuse: nothing was mounted"
fi
if [[ $kind == tar ]]; then
    if [[ $mounted ]]; then expect "it unmounts" inside umount /tmp/mnt; fi
    for file in man/man1/namegate.1.gz completions/namegate.bash systemd/namegate@.service LICENSE-MIT LICENSE-APACHE third-party-licenses.txt.gz README.md docs/MOUNT.md; do
        expect "the archive has $file" test -s /tmp/unpacked/*/"$file"
    done
    exit "$failed"
fi
if [[ $mounted ]]; then exec 9>"$system/tmp/mnt/open"; fi
expect "it can be upgraded" install_newer
if [[ $mounted ]]; then
    expect "what is open stays open" bash -c 'echo content >&9'
    expect "and is written" grep -q content "$system/tmp/tree/open"
    exec 9>&-
    expect "the mount still checks names" inside bash -c '! touch /tmp/mnt/aux'
    expect "and answers the new program" inside namegate status /tmp/mnt
    expect "which lists it" inside namegate list
fi
expect "it still does its job" inside bash -c "rm -rf /tmp/share /tmp/*.jsonl; $job"
expect "it can be removed" remove
expect "the program is gone" inside test ! -e /usr/bin/namegate
if [[ $mounted ]]; then
    expect "what is mounted goes on" inside touch /tmp/mnt/after
    expect "until it is unmounted" inside umount /tmp/mnt
fi
if [[ $kind == deb ]]; then expect "it can be purged" apt-get purge --yes namegate; fi
# The list of undo journals stays by intent.
inside rm -rf /var/lib/namegate/journals
inside rmdir --ignore-fail-on-non-empty /var/lib/namegate
# RPM knows no purging: what the mount that outlived the package had there goes with the next boot.
if [[ $kind == rpm ]]; then inside rm -rf /run/namegate; fi
after=$(ours)
expect "nothing else is left" diff <(echo "$before") <(echo "$after")
exit "$failed"
