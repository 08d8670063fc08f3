# Sourced by check.sh: asks each file system which names it stores, and compares the answer with what is known of it.
# shellcheck shell=bash disable=SC2154

# check_target NAME: a file system of make_source, or what is made here.
check_target() {
    local name=$1 dir status=0 said
    case $name in
        tmpfs) fs=$lab/fs && mkdir -p "$fs" && mount -t tmpfs target "$fs" ;;
        ecryptfs) make_source ext4 && make_ecryptfs || return 0 ;;
        *) make_source "$name" || return 0 ;;
    esac
    dir=$fs/asked
    mkdir "$dir"
    if [[ $name == ext4-casefold ]] && ! chattr +F "$dir"; then
        result SKIPPED - target "no directory ignores case"
        return 0
    fi
    "$built" probe "$dir" --json >"$lab/said" 2>"$lab/log" || status=$?
    if said=$(python3 "$here/probe_facts.py" "$name" <"$lab/said" 2>&1) && ((status == 0)); then
        result PASS - "target: $said"
    else
        result FAIL - target "status $status: $said $(tail -n 1 "$lab/log")"
    fi
    rmdir "$dir" || result FAIL - left-behind "$(ls -A "$dir")"
}

# eCryptfs with encrypted names over $fs.
make_ecryptfs() {
    local key=$lab/key
    if ! modprobe -q ecryptfs; then
        result SKIPPED - target "this kernel has no ecryptfs"
        return 1
    fi
    need target mount.ecryptfs ecryptfs-add-passphrase || return 1
    mkdir "$fs/lower" "$lab/upper"
    printf 'passphrase' | ecryptfs-add-passphrase --fnek - >"$key" 2>&1
    local sig fnek
    sig=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$key" | sed -n 1p) fnek=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$key" | sed -n 2p)
    if ! mount -i -t ecryptfs -o "ecryptfs_sig=$sig,ecryptfs_fnek_sig=$fnek,ecryptfs_cipher=aes,ecryptfs_key_bytes=16" "$fs/lower" "$lab/upper" 2>"$lab/log"; then
        result FAIL - target "mount: $(tail -n 1 "$lab/log")"
        return 1
    fi
    fs=$lab/upper
}
