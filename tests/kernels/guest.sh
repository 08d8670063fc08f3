#!/bin/bash
# The first process of a guest: prepares the machine, runs each check with a time limit, and turns the machine off.
# Its output goes to the console; results go to the second serial port.

here=$(dirname -- "${BASH_SOURCE[0]}")
modules='' checks=()
# Sets root, built, modules and checks.
# shellcheck source=/dev/null
source "$here/config"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root
export here root built
export lab=/lab results=/dev/ttyS1
exec </dev/null

mkdir -p $lab
mount -t tmpfs -o size=2500m lab $lab
mount -t tmpfs run /run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
mkdir -p "/lib/modules/$(uname -r)"
mount --bind "$modules" "/lib/modules/$(uname -r)"
modprobe -a fuse loop
mount --bind "$here/namegate" "$built"
ip link set lo up
stty -F $results -opost
echo "guest: Linux $(uname -r), $(nproc) processors, up $(cut -d ' ' -f 1 /proc/uptime) s" | tee $results

# Each check has a time limit well below that of the machine, which ends checks that hang in the kernel.
limit_of() {
    case $1 in
        suite-* | export | cost-rows) echo 1800 ;;
        *) echo 900 ;;
    esac
}

# Kills processes and unmounts file systems that a check left behind.
tidy() {
    local point
    if grep -q /proc/fs/nfsd /proc/self/mountinfo; then exportfs -ua; rpc.nfsd 0; fi
    if [[ -e /sys/module/ksmbd ]]; then ksmbd.control -s; fi
    # From the first process, this signals all processes except itself.
    kill -9 -1 2>/dev/null
    wait 2>/dev/null
    cut -d ' ' -f 5 /proc/self/mountinfo | grep "^$lab/" | tac | while read -r point; do
        timeout 30 umount "$point" 2>/dev/null || umount -l "$point"
    done
    losetup -D
    rm -rf --one-file-system "${lab:?}"/*
}

# Kernel messages about a defect in the kernel, or one that a mount caused in it.
kernel_complaints() { dmesg | grep -aE 'WARNING:|BUG:|Oops|general protection fault|KASAN|refcount_t' | grep -av 'soft lockup'; }

for check in "${checks[@]}"; do
    echo "BEGIN $check" | tee $results
    begin=$SECONDS
    dmesg -C
    timeout -k 10 "$(limit_of "$check")" bash "$here/check.sh" "$check"
    status=$?
    case $status in
        0) ;;
        124 | 137) echo "FAIL $check - time: more than $(limit_of "$check") s" | tee $results ;;
        *) echo "FAIL $check - script: exit status $status" | tee $results ;;
    esac
    tidy
    if [[ -n $(kernel_complaints) ]]; then
        echo "FAIL $check - kernel-log: $(kernel_complaints | head -n 1)" | tee $results
        dmesg | tail -n 80
    fi
    echo "END $check $((SECONDS - begin))" | tee $results
done
sync
echo o >/proc/sysrq-trigger
sleep 100
