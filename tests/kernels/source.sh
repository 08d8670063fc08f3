# Sourced by check.sh: a mount of one file system, used by root and by another user. Each piece of work is first
# done in the file system itself: if it fails there it is SKIPPED, otherwise it must end the same way through the mount.
# shellcheck shell=bash disable=SC2034,SC2154

check_source() {
    make_source "$1" || return 0
    mkdir "$fs/native" "$fs/source"
    if [[ $1 == *-casefold ]]; then chattr +F "$fs/native" "$fs/source"; fi
    chmod 777 "$fs/native" "$fs/source"
    make_material
    mount_namegate "$fs/source" "$mnt" || return 0
    use_mount "$fs/native" "$fs/source" "$mnt"
    unmount_namegate "$mnt"
}

# make_material: creates a tree, an archive of it, and a git repository to work with.
make_material() {
    local i dir
    # All names are valid, and no two differ only in case.
    for i in {1..4}; do
        dir=$lab/tree/dir$i/sub/Tiefe-ä-資料
        mkdir -p "$dir"
        seq $((i * 900)) >"$dir/numbers.txt"
        echo "$i" >"$lab/tree/dir$i/.hidden"
        : >"$lab/tree/dir$i/empty"
        head -c $((i * 50000)) /dev/urandom >"$lab/tree/dir$i/Ünïcode $i.bin"
        chmod 755 "$lab/tree/dir$i/.hidden"
    done
    mkdir "$lab/tree/many"
    for i in {1..60}; do echo "$i" >"$lab/tree/many/file-$i"; done
    cp -a "$lab/tree" "$lab/linked"
    ln -s dir1/.hidden "$lab/linked/symlink"
    ln -s "nowhere/é" "$lab/linked/dangling"
    ln "$lab/linked/dir1/empty" "$lab/linked/dir2/hardlink"
    chmod 600 "$lab/linked/dir3/.hidden"
    tar -C "$lab" -cf "$lab/tree.tar" tree
    tar -C "$lab" -cf "$lab/linked.tar" linked
    git init -q -b main "$lab/repository"
    cp -r "$lab/tree/." "$lab/repository"
    for i in 1 2; do
        echo "$i" >>"$lab/repository/many/file-$i"
        git -C "$lab/repository" add -A
        git -C "$lab/repository" -c user.name=lab -c user.email=lab@example.org commit -qm "$i"
    done
    git -C "$lab/repository" config --global --add safe.directory '*'
    cp "$HOME/.gitconfig" "$lab/home/.gitconfig"
    chmod -R a+rX "$lab/tree" "$lab/linked" "$lab/repository" "$lab"/*.tar "$lab/home/.gitconfig"
}

# use_mount NATIVE SOURCE MNT: runs all comparisons for a mount, as root and as a user.
use_mount() {
    local native=$1 source=$2 through=$3 who work
    for who in root user; do
        mkdir -m 777 "$native/$who" "$source/$who"
        chmod 777 "$native/$who" "$source/$who"
        compare_smoke "$who" "$native/$who" "$through/$who" "$source/$who"
        check_names "$who" "$source/$who" "$through/$who"
        for work in tar tar-links cp cp-links copies git; do
            compare_work "$who" "$work" "$native/$who" "$through/$who"
        done
        compare_removal "$who" "$native/$who" "$through/$who" "$source/$who"
    done
    conformance "$source" "$through"
}

# compare_smoke WHO NATIVE THROUGH SOURCE: each operation of smoke.py must have the same result through the mount as without it.
compare_smoke() {
    local who=$1 difference
    as "$who" timeout 120 python3 "$here/smoke.py" "$2" >"$lab/smoke.native" 2>&1
    as "$who" timeout 300 python3 "$here/smoke.py" "$3" >"$lab/smoke.mount" 2>&1
    if [[ $check == export ]]; then
        # nfsd has user attributes only for file systems with a handler of that very prefix (xattr_supports_user_prefix);
        # FUSE has one for all names.
        result SKIPPED "$who" xattr "the kernel's NFS server offers no user attributes of a FUSE file system"
        sed -i '/ xattr: /d' "$lab/smoke.native" "$lab/smoke.mount"
    fi
    if ! grep -q ^done "$lab/smoke.native"; then
        result SKIPPED "$who" smoke "it does not finish on the file system itself: $(tail -n 1 "$lab/smoke.native")"
    elif difference=$(diff "$lab/smoke.native" "$lab/smoke.mount"); then
        result PASS "$who" smoke "$(grep -c ': ' "$lab/smoke.mount") operations as without the mount"
    else
        result FAIL "$who" smoke "$(grep '^[<>]' <<<"$difference" | tr '\n' ' ')"
    fi
}

# check_names WHO SOURCE THROUGH: every call refuses bad names, and stores good names unchanged.
check_names() {
    local output errno=EILSEQ
    # What the NFS server of the kernel gets for EILSEQ.
    if [[ $check == export ]]; then errno=EINVAL; fi
    if output=$(as "$1" timeout 300 python3 "$here/names.py" "$2" "$3" $errno 2>&1); then
        result PASS "$1" names "$(tail -n 1 <<<"$output")"
    else
        result FAIL "$1" names "$(tail -n 3 <<<"$output")"
    fi
}

# compare_work WHO WORK NATIVE THROUGH
compare_work() {
    local who=$1 work=$2
    if ! as "$who" timeout 200 bash "$here/work.sh" "$work" "$3" >"$lab/work.native" 2>&1; then
        result SKIPPED "$who" "$work" "it fails on the file system itself: $(tail -n 1 "$lab/work.native")"
        return
    fi
    if ! as "$who" timeout 400 bash "$here/work.sh" "$work" "$4" >"$lab/work.mount" 2>&1; then
        result FAIL "$who" "$work" "$(tail -n 3 "$lab/work.mount")"
    elif ! diff "$lab/work.native" "$lab/work.mount" >"$lab/work.diff"; then
        result FAIL "$who" "$work" "not as without the mount: $(grep '^[<>]' "$lab/work.diff" | head -n 4)"
    else
        result PASS "$who" "$work"
    fi
}

# compare_removal WHO NATIVE THROUGH SOURCE: rm -rf removes everything.
compare_removal() {
    local who=$1 left
    if ! as "$who" timeout 200 bash "$here/work.sh" rm "$2" >"$lab/work.native" 2>&1; then
        result SKIPPED "$who" rm "it fails on the file system itself: $(tail -n 1 "$lab/work.native")"
        return
    fi
    if ! as "$who" timeout 400 bash "$here/work.sh" rm "$3" >"$lab/work.mount" 2>&1; then
        result FAIL "$who" rm "$(head -n 3 "$lab/work.mount"); left: $(find "$4" -mindepth 1 | wc -l)"
        return
    fi
    left=$(find "$4" -mindepth 1 | wc -l)
    if ((left)); then
        result FAIL "$who" rm "$left entries are left in the source: $(find "$4" -mindepth 1 | head -n 2)"
    else
        result PASS "$who" rm
    fi
}

# conformance SOURCE THROUGH: names from test data of other projects, if that data is beside the repository. Once for each
# kind of access: the names are checked before they reach the source.
conformance() {
    local data=$root/../shared/conformance output
    case $check in
        source-ext4 | source-nfs | export) ;;
        *) return ;;
    esac
    if [[ ! -e $data/names.py ]]; then
        result SKIPPED root conformance "no conformance data beside the repository"
        return
    fi
    output=$(timeout 600 python3 "$data/names.py" "$2" "$1" "$data/names.tsv" --policy strict --every 400 2>&1)
    if grep -q 'failed 0 ' <<<"$output"; then
        result PASS root conformance "$(grep -o 'passed [0-9]* failed 0 skipped [0-9]*' <<<"$output")"
    else
        result FAIL root conformance "$(head -n 3 <<<"$output")"
    fi
}
