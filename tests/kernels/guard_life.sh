# Sourced by guard.sh: what happens to a guard when its directory or its file system goes, when another path names them, and to its
# events when it has ended; and what GUARD.md says a guard does not see.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154

bad=$'bad\xff'

# expect WHAT COMMAND...: reports whether the command succeeds.
expect() {
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then result PASS root "$what"; else result FAIL root "$what" "$output"; fi
}

# refused COMMAND...: succeeds if the command fails.
refused() { ! "$@" 2>/dev/null; }

# says TEXT COMMAND...: succeeds if the output has the text.
says() {
    local text=$1 output
    shift
    output=$("$@" 2>&1)
    echo "$output"
    [[ $output == *"$text"* ]]
}

enforce() { guard on "$@" --profile utf8 --enforce; }

guard_life() {
    mkdir -p "$lab"/{a,b,c,home} && chmod 755 "$lab"
    mount -t tmpfs first "$lab/a"
    life_of_directory
    life_of_two_paths
    life_of_file_system
    life_of_events
    life_outside
    guard off --all >/dev/null 2>&1
    expect "nothing is pinned" test -z "$(ls "$pins")"
}

life_of_directory() {
    local share=$lab/a/share round
    mkdir "$share" && expect "on" enforce "$share"
    mv "$share" "$lab/a/moved" && mkdir "$share"
    expect "a guard follows its directory" refused mkdir "$lab/a/moved/$bad"
    expect "and not its path" mkdir "$share/$bad"
    rm -r "$lab/a/moved" "$share" && mkdir "$share"
    # More often than there are slots.
    for round in {1..34}; do
        guard on "$share" --profile utf8 >"$lab/said" 2>&1 && rmdir "$share" && mkdir "$share"
    done
    expect "removed and made again: on replaces the stale guard, however often" says "guard off: the directory that was" cat "$lab/said"
    expect "and is on" says "refuses bad names" enforce "$share"
    expect "for the new directory" refused mkdir "$share/$bad"
    rmdir "$share" && mkdir "$share" && expect "off, of a directory that is not there any more" guard off "$share"
    expect "nothing is refused, and nothing is pinned" bash -c 'mkdir "$1" && [[ -z $(ls /sys/fs/bpf) ]]' - "$share/$bad"
    rm -r "$share"
}

life_of_two_paths() {
    mount --bind "$lab/a" "$lab/b"
    expect "on" enforce "$lab/a" --errno EPERM
    expect "the same file system by another path is refused, and both are named" says "file system of $lab/b is guarded as $lab/a already" refused_on "$lab/b"
    # A unit fails by that; the status 1 is none.
    enforce "$lab/b" >/dev/null 2>&1
    expect "with status 2" test $? == 2
    expect "and the guard stays" says "EPERM" guard status
    expect "unless --replace is given" says "It replaces the guard of $lab/a" enforce "$lab/b" --replace
    expect "off by the first path ends nothing" refused guard off "$lab/a"
    expect "names are refused" refused mkdir "$lab/a/$bad"
    expect "off" guard off "$lab/b"
    umount "$lab/b"
}

refused_on() { guard on "$@" && echo "it was turned on"; }

# What has the device number of a file system that is gone is not guarded.
life_of_file_system() {
    local device image loop
    mount -t tmpfs second "$lab/b"
    device=$(stat -c %d "$lab/b")
    enforce "$lab/b" >/dev/null
    (cd "$lab/b" && exec sleep 1000) &
    umount -l "$lab/b"
    expect "after umount -l the guard is on" refused mkdir "/proc/$!/cwd/$bad"
    kill $! && wait $! 2>/dev/null
    mount -t tmpfs third "$lab/b"
    expect "tmpfs: another file system gets the number" test "$device" == "$(stat -c %d "$lab/b")"
    expect "tmpfs: and no guard" mkdir "$lab/b/$bad"
    expect "tmpfs: status says that the guard has ended" says "the guard has ended" guard status
    expect "tmpfs: on gives it one" says "guard on: $lab/b" enforce "$lab/b"
    expect "tmpfs: names are refused" refused mkdir "$lab/b/$bad$bad"
    umount "$lab/b"
    expect "tmpfs: off by the path" guard off "$lab/b"
    for image in one two; do truncate -s 64M "$lab/$image" && mkfs.ext4 -qF "$lab/$image"; done
    loop=$(losetup -f --show "$lab/one") && mount "$loop" "$lab/b" && enforce "$lab/b" >/dev/null
    device=$(stat -c %d "$lab/b")
    expect "loop: names are refused" refused mkdir "$lab/b/$bad"
    umount "$lab/b" && losetup -d "$loop" && losetup "$loop" "$lab/two" && mount "$loop" "$lab/b"
    expect "loop: another file system gets the number, and no guard" bash -c '[[ $1 == $(stat -c %d "$2") ]] && mkdir "$2/$3"' - "$device" "$lab/b" "$bad"
    umount "$lab/b"
    guard off --all >/dev/null
}

life_of_events() {
    local share=$lab/a/share other=$lab/a/other reader output
    mkdir "$share" "$other"
    guard on "$lab/c" --profile utf8 --audit --whole-filesystem >/dev/null
    enforce "$share" >/dev/null
    mkdir "$share/${bad}1" "$share/${bad}2" 2>/dev/null
    guard off "$share" >/dev/null
    enforce "$other" >/dev/null
    mkdir "$other/${bad}3" 2>/dev/null
    python3 - "$other" <<'FLOOD'
import os, sys
for i in range(3000):
    try:
        os.mkdir(os.fsencode(sys.argv[1]) + b"/flood\xff%d" % i)
    except OSError:
        pass
FLOOD
    "$built" guard events --json --audit "$lab/audit" >"$lab/out" 2>"$lab/events.log" &
    reader=$!
    for ((i = 0; i < 300; i++)); do
        if [[ $(wc -l <"$lab/out") -ge 1000 ]]; then break; fi
        sleep 0.2
    done
    sleep 3 && kill $reader && wait $reader
    guard status --json >"$lab/status"
    if output=$(python3 - "$lab" <<'SUMS'
import json, sys
lab = sys.argv[1]
rows = lambda name: [json.loads(line) for line in open(f"{lab}/{name}", encoding="utf-8", errors="replace")]
out, audit, status = rows("out"), rows("audit"), rows("status")[0]
kept = [row for row in audit if row["type"] == "refusal"]
lost = sum(row["count"] for row in audit if row["type"] == "dropped" and row["reason"] == "buffer")
other = next(guard["counts"] for guard in status["guards"] if guard["path"]["shown"].endswith("other"))
ours = [row for row in kept if row["parent"].endswith("other")]
ended = [row for row in kept if row["parent"].startswith("…")]
print(len(out), "on stdout,", len(kept), "in the audit log,", lost, "lost;", other, [row["name"] for row in ended])
assert len(out) == len(kept)
assert lost == other["lost_events"] > 0
assert len(ours) + lost == other["refused"] == 3001
assert [(row["parent"], row["rule"]) for row in ended] == [("…", None)] * 2
assert len(ours) + len(ended) == len(kept)
SUMS
    ); then
        result PASS root "events: $output"
    else
        result FAIL root events "$output $(tail -n 3 "$lab/events.log")"
    fi
    guard off --all >/dev/null
    rm -r "$share" "$other"
}

# What a guard does not see.
life_outside() {
    local share=$lab/a/share
    mkdir "$share" && chmod 777 "$lab/a" "$share"
    mkdir -p "$lab/a/kept/in" && touch "$lab/a/kept/in/$bad" && chown -R "$user" "$lab/a/kept"
    mkdir "$share/bound" && mount --bind "$lab/a/kept" "$share/bound"
    expect "on lists a bind mount of another tree" says "$share/bound" enforce "$share"
    expect "names in it are not checked" mkdir "$share/bound/$bad"
    umount "$share/bound"
    as user mv "$lab/a/kept/in" "$share/in"
    expect "a user can move in a directory with bad names" test -e "$share/in/$bad"
    rm -r "$lab/a/kept"
    guard off --all >/dev/null

    mkdir -p "$lab"/a/{lower,upper,work} "$lab/merged"
    echo text >"$lab/a/lower/$bad"
    mount -t overlay -o "lowerdir=$lab/a/lower,upperdir=$lab/a/upper,workdir=$lab/a/work" overlay "$lab/merged"
    enforce "$lab/a/upper" >/dev/null
    expect "overlay: a bad name of the lower directory can be read" grep -q text "$lab/merged/$bad"
    expect "overlay: not written" refused bash -c 'echo more >>"$1"' - "$lab/merged/$bad"
    expect "overlay: nor removed" refused rm "$lab/merged/$bad"
    expect "overlay: nor renamed" refused mv "$lab/merged/$bad" "$lab/merged/good"
    umount "$lab/merged"
    guard off --all >/dev/null

    need btrfs mkfs.btrfs || return 0
    truncate -s 128M "$lab/btrfs" && mkfs.btrfs -q "$lab/btrfs" && mount -o loop "$lab/btrfs" "$lab/b" && chmod 777 "$lab/b"
    enforce "$lab/b" >/dev/null
    expect "Btrfs: the hook refuses the name" refused as user mkdir "$lab/b/$bad"
    expect "Btrfs: a user's ioctl creates it" as user python3 - "$lab/b" <<'SUBVOLUME'
import fcntl, os, sys
# BTRFS_IOC_SUBVOL_CREATE, with struct btrfs_ioctl_vol_args: a number and a name of 4088 bytes.
fcntl.ioctl(os.open(sys.argv[1], os.O_DIRECTORY), 0x5000940E, bytearray(8) + b"bad\xff".ljust(4088, b"\0"))
SUBVOLUME
    expect "Btrfs: it is there" test -d "$lab/b/$bad"
    umount "$lab/b"
    guard off --all >/dev/null
}
