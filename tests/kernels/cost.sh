# Sourced by check.sh: what a guard costs each create, a mount each call with a name and rows of scripts/bench-mount, and a directory that ignores case each lookup, in
# instructions. The machine runs with -icount shift=0, by which its clock counts them: a nanosecond is an instruction.
# shellcheck shell=bash disable=SC2034,SC2154

check_cost() { "cost_$1"; }

# create_cost DIR LENGTH: the instructions of a create.
create_cost() { "$here/name-cost" "$1" "$2" warm | cut -d ' ' -f 1; }

cost_guard() {
    local length where none outside inside audit output pins=/sys/fs/bpf
    mountpoint -q $pins || mount -t bpf -o mode=0700 bpf $pins
    make_source ext4 || return 0
    mkdir -p "$lab/tmpfs" "$lab/other" "$fs/tree" && mount -t tmpfs guarded "$lab/tmpfs" && mount -t tmpfs other "$lab/other"
    mkdir -p "$lab/tmpfs/tree"
    for where in "$lab/tmpfs" "$fs"; do
        for length in 15 255; do
            none=$(create_cost "$where/tree" $length)
            "$built" guard on "$lab/other" --profile windows --enforce >/dev/null
            outside=$(create_cost "$where/tree" $length)
            "$built" guard on "$where" --profile windows --enforce >/dev/null
            inside=$(create_cost "$where/tree" $length)
            "$built" guard off "$where" >/dev/null && "$built" guard on "$where" --profile portable --enforce >/dev/null
            output=$(create_cost "$where/tree" $length)
            "$built" guard off --all >/dev/null
            result PASS root "$(stat -f -c %T "$where"), $length bytes: none $none, other $outside, windows $inside, portable $output"
        done
    done
}

cost_mount() {
    make_source ext4 || return 0
    mkdir "$fs/native" "$fs/source"
    result PASS root "create, lstat, lstat of an absent name, rename, unlink: natively $("$here/name-cost" "$fs/native" 15)"
    mount_namegate "$fs/source" "$mnt" --profile utf8 || return 0
    result PASS root "create, lstat, lstat of an absent name, rename, unlink: in a mount $("$here/name-cost" "$mnt" 15)"
    unmount_namegate "$mnt"
}

cost_case() {
    local options
    make_source ext4-casefold || return 0
    mkdir "$fs/native" "$fs/folded" "$fs/source"
    chattr +F "$fs/folded" || return 0
    result PASS root "lstat of exact, other and absent names among 4000: ext4 $("$here/case-cost" "$fs/native" 4000)"
    result PASS root "lstat of exact, other and absent names among 4000: ext4 with casefold $("$here/case-cost" "$fs/folded" 4000)"
    for options in '' --ignore-case; do
        mkdir "$fs/source/dir$options"
        # shellcheck disable=SC2086 # no option is no argument
        mount_namegate "$fs/source/dir$options" "$mnt" $options || return 0
        result PASS root "lstat of exact, other and absent names among 4000: in a mount $options $("$here/case-cost" "$mnt" 4000)"
        unmount_namegate "$mnt"
    done
}

# In this table a microsecond is a thousand instructions, of all processes and the kernel. The requests follow.
cost_rows() {
    local transport line uring=/sys/module/fuse/parameters/enable_uring places=("native=$lab/fs/native=$lab/fs/native=0")
    if [[ ! -x $here/bench-mount ]]; then result SKIPPED - rows "no benchmark was built" && return; fi
    source_size=1500M make_source ext4 || return 0
    mkdir "$fs/native" "$lab/scratch"
    for transport in dev uring; do
        if [[ $transport == uring ]]; then
            if [[ ! -e $uring ]]; then result SKIPPED - uring "this kernel has no io_uring for FUSE" && continue; fi
            echo Y >$uring
        fi
        mkdir "$fs/$transport"
        mount_namegate "$fs/$transport" "$lab/$transport" --transport $transport --cache timeout || return 0
        places+=("$transport=$lab/$transport=$fs/$transport=$server")
    done
    NAMEGATE_RUNTIME_DIR=$lab/run NAMEGATE_BENCH_PROGRAM=$built "$here/bench-mount" "$lab/scratch" 1 \
        stat-cold,absent,readdir-cold,find,create,rename,cp,checkout 0 "${places[@]}" |
        while read -r line; do if [[ $line == '| '* ]]; then result PASS root "$line"; fi; done
    if ((PIPESTATUS[0])); then result FAIL root rows "the benchmark failed"; fi
    for transport in "${places[@]:1}"; do umount "$lab/${transport%%=*}"; done
    if [[ -e $uring ]]; then echo N >$uring; fi
}
