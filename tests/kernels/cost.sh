# Sourced by check.sh: what a guard costs each create, in instructions. The machine runs with -icount shift=0, by which its clock counts
# them: a nanosecond is an instruction.
# shellcheck shell=bash disable=SC2034,SC2154

check_cost() {
    local length where none outside inside audit output pins=/sys/fs/bpf
    mountpoint -q $pins || mount -t bpf -o mode=0700 bpf $pins
    make_source ext4 || return 0
    mkdir -p "$lab/tmpfs" "$lab/other" "$fs/tree" && mount -t tmpfs guarded "$lab/tmpfs" && mount -t tmpfs other "$lab/other"
    mkdir -p "$lab/tmpfs/tree"
    for where in "$lab/tmpfs" "$fs"; do
        for length in 15 255; do
            none=$("$here/create-cost" "$where/tree" $length)
            "$built" guard on "$lab/other" --profile windows --enforce >/dev/null
            outside=$("$here/create-cost" "$where/tree" $length)
            "$built" guard on "$where" --profile windows --enforce >/dev/null
            inside=$("$here/create-cost" "$where/tree" $length)
            "$built" guard off "$where" >/dev/null && "$built" guard on "$where" --profile portable --enforce >/dev/null
            output=$("$here/create-cost" "$where/tree" $length)
            "$built" guard off --all >/dev/null
            result PASS root "$(stat -f -c %T "$where"), $length bytes: none $none, other $outside, windows $inside, portable $output"
        done
    done
}
