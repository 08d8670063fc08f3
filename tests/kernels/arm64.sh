#!/bin/busybox sh
# shellcheck shell=dash disable=SC1091 # files of the machine
# The first process of the machine that scripts/test-arm64 boots. Each check is a line, PASS or FAIL and what was tried; `DONE` says that all were.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for dir in run tmp dev/shm; do mkdir -p /$dir && mount -t tmpfs none /$dir; done
mount -t securityfs none /sys/kernel/security
mount -t bpf none /sys/fs/bpf
mount -t cgroup2 none /sys/fs/cgroup
. /modules/load

# check STATUS SAYS COMMAND...: whether the command exits with STATUS, and its output has a line with SAYS, if that is not empty.
check() {
    local wanted=$1 says=$2 status=0
    shift 2
    "$@" >/tmp/output 2>&1 </dev/null || status=$?
    if [ "$status" = "$wanted" ] && { [ ! "$says" ] || grep -q -e "$says" /tmp/output; }; then
        echo "PASS $*"
    else
        echo "FAIL $* (exit status $status, expected $wanted and \"$says\")"
        cat /tmp/output
    fi
}
# equal WHAT IS EXPECTED
equal() { if [ "$2" = "$3" ]; then echo "PASS $1"; else echo "FAIL $1: $2 instead of $3"; fi; }

uname -a
bad=$(printf 'caf\351.txt') ill=$(printf 'x\355\240\200')
mkdir /run/tree
mount -t ext4 -o loop /ext4 /source
for source in /source /run/tree; do
    echo "-- $source"
    printf x >"$source/good.txt"
    printf x >"$source/$bad"
    check 1 'truncated' namegate scan "$source"
    check 0 '' namegate mount --daemon --profile windows --audit /tmp/audit "$source" /mnt
    check 0 'enforcing' namegate status /mnt
    check 0 '' touch /mnt/minutes.txt
    check 1 'Invalid argument' touch /mnt/CON.txt
    check 1 'Invalid or incomplete multibyte' mkdir "/mnt/$ill"
    equal "names that were refused" "$(grep -c '"outcome":"refused"' /tmp/audit)" 2
    check 0 'caf.*E9.txt' ls /mnt
    for i in $(seq 200); do echo "$i" >"/mnt/f$i"; done
    equal "contents of 200 files" "$(cat /mnt/f* | wc -c)" "$(cat "$source"/f* | wc -c)"
    mkdir /mnt/dir
    mv /mnt/f1 /mnt/dir/moved
    ln /mnt/f2 /mnt/dir/linked
    ln -s ../f3 /mnt/dir/symlink
    chmod 4751 /mnt/f4
    equal "a link" "$(cat /mnt/dir/linked /mnt/dir/symlink /mnt/dir/moved | tr '\n' ' ')" "2 3 1 "
    for path in . dir dir/moved dir/linked dir/symlink f4; do
        format='%n %i %h %a %u %g %s %b %B %o %F %Y %Z'
        equal "attributes of $path" "$(cd /mnt && stat -c "$format" "$path")" "$(cd "$source" && stat -c "$format" "$path")"
    done
    dd if=/dev/urandom of=/mnt/large bs=64k count=128 2>/dev/null
    equal "8 MiB" "$(md5sum </mnt/large)" "$(md5sum <"$source/large")"
    printf direct >"$source/direct"
    check 0 'direct' cat /mnt/direct
    rm "$source/direct"
    sleep 2
    check 1 'No such file' cat /mnt/direct
    check 0 '' rm -r /mnt/dir
    check 0 '' umount /mnt
    rm /tmp/audit
    check 0 '1 rename' namegate fix plan --encoding windows-1252 --output /tmp/plan "$source"
    check 0 '1 entry renamed' namegate fix apply --yes --journal /tmp/journal /tmp/plan
    check 0 'clean  no finding' namegate scan "$source"
    check 0 '' namegate fix undo --yes /tmp/journal
    equal "the name before" "$(cat "$source/$bad")" x
    rm -r /tmp/plan /tmp/journal
done

echo "-- a server that is killed"
check 0 '' namegate mount --daemon --survive /source /mnt
exec 5</mnt/f100
pid=$(namegate status --format json /mnt | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
check 0 '' kill -9 "$pid"
check 0 'minutes.txt' ls /mnt
equal "a file that was open" "$(cat <&5)" 100
exec 5<&-
check 0 '' touch /mnt/after
check 0 '' umount /mnt

echo "-- the guard"
check 0 'ok.*guard-load' namegate guard check
check 0 'guard on' namegate guard on --enforce --profile windows /source
check 1 'Invalid argument' touch /source/CON.txt
check 1 'Invalid argument' mkdir "/source/$ill"
check 0 '' touch /source/fine.txt
check 0 '2 refused' namegate guard status
check 0 'guard off' namegate guard off /source
check 0 '' touch /source/CON.txt

check 1 'ok.*fuse-passthrough' namegate doctor /source
if dmesg | grep -E 'Oops|BUG:|WARNING:'; then echo "FAIL the kernel complains"; fi
echo DONE
poweroff -f
