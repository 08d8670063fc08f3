# Sourced by check.sh: a mount that the kernel's NFS server exports, used by an NFS client.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=tests/kernels/source.sh
source "$here/source.sh"

check_export() {
    local client=$lab/client
    need server rpc.nfsd mount.nfs mkfs.ext4 || return 0
    make_source ext4 || return 0
    mkdir -m 777 "$fs/source" "$fs/native"
    chmod 777 "$fs/source" "$fs/native"
    make_material
    if ! nfs_server; then
        result FAIL - server "the NFS server does not start"
        return
    fi
    # The results are compared with the same directory exported without the mount.
    mkdir -p "$lab/export/native"
    mount --bind "$fs/native" "$lab/export/native"
    nfs_export "$lab/export/native" fsid=5
    mount_namegate "$fs/source" "$lab/export/mnt" --survive --export || return 0
    if ! nfs_export "$lab/export/mnt" fsid=7; then
        result FAIL - export "exportfs refuses the mount"
        return
    fi
    if ! nfs_mount /mnt "$client" || ! nfs_mount /native "$lab/client-native"; then
        result FAIL - export "the client cannot mount it"
        return
    fi
    if [[ $1 == listing ]]; then
        list_entries "$client"
    else
        use_mount "$lab/client-native" "$fs/source" "$client"
        work_on_export "$client" || return 0
    fi
    timeout 60 umount "$client" "$lab/client-native" || umount -l "$client" "$lab/client-native"
    exportfs -ua
    rpc.nfsd 0
    unmount_namegate "$lab/export/mnt"
}

# list_entries CLIENT: programs of 32 and of 64 bits list a directory of the client, and the same without the mount; again after its
# caches were dropped.
list_entries() {
    local bits output place begun
    for place in native source; do
        mkdir "$fs/$place/listed" && (cd "$fs/$place/listed" && seq -f 'file %g' 3000 | tr '\n' '\0' | xargs -0 touch)
    done
    for bits in 32 64 32 64; do
        if [[ ! -x $here/list-entries-$bits ]]; then
            result SKIPPED root "list-$bits" "no gcc with libraries for $bits bits"
            continue
        fi
        for place in "$lab/client-native" "$1"; do
            begun=$SECONDS
            output=$(timeout 120 "$here/list-entries-$bits" "$place/listed" 50 stat 2>&1 | paste -sd ' ')
            if [[ $output == "3002 entries of $bits bits, then Success 0 found elsewhere" ]]; then
                result PASS root "list-$bits" "in ${place##*/}, $((SECONDS - begun)) s"
            else
                result FAIL root "list-$bits" "in ${place##*/}, $((SECONDS - begun)) s: $output"
            fi
        done
        echo 3 >/proc/sys/vm/drop_caches
    done
}

# work_on_export CLIENT: what clients notice of the server.
work_on_export() {
    local client=$1
    open_file_after_drop "$client"
    under_load "$client" kill kill_servers
    under_load "$client" upgrade upgrade_servers
    after_new_mount "$client"
}

# A file that a client has open is readable after the server's kernel has dropped its caches, and so is the path
# of a file that is not open.
open_file_after_drop() {
    mkdir -p "$1/deep/er"
    echo one >"$1/deep/er/file"
    exec 9<"$1/deep/er/file"
    echo 2 >/proc/sys/vm/drop_caches
    sleep 2
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
    if [[ $(timeout 60 cat <&9) == one ]]; then
        result PASS root open-file-after-drop
    else
        result FAIL root open-file-after-drop "it cannot be read"
    fi
    exec 9<&-
    if [[ $(timeout 60 cat "$1/deep/er/file") == one ]]; then
        result PASS root path-after-drop
    else
        result FAIL root path-after-drop "it cannot be read"
    fi
    rm -rf "$1/deep"
}

# under_load CLIENT TEST COMMAND: a client works, and checks each result, while COMMAND replaces the server of the mount.
under_load() {
    local client=$1 test=$2 rounds load
    : >"$lab/load.errors"
    rm -f "$lab/load.end"
    client_load "$client/load" >"$lab/load.rounds" 2>"$lab/load.errors" &
    load=$!
    "$3" || echo "$3 failed" >>"$lab/load.errors"
    touch "$lab/load.end"
    wait "$load" || echo "the client ended with an error" >>"$lab/load.errors"
    rounds=$(tail -n 1 "$lab/load.rounds")
    if [[ ! -s $lab/load.errors ]]; then
        result PASS root "$test-under-load" "$rounds rounds of the client"
    else
        result FAIL root "$test-under-load" "$rounds rounds: $(head -n 3 "$lab/load.errors")"
    fi
    # What the server says of its predecessors is no complaint.
    : >"$server_log"
}

# client_load DIR: creates, renames, reads and removes files until $lab/load.end exists, at least ten times. Prints the number of rounds.
client_load() {
    local i
    mkdir -p "$1" || return
    cd "$1" || return
    echo open >open
    exec 8<open
    for ((i = 1; ; i++)); do
        if ((i > 10)) && [[ -e $lab/load.end ]]; then break; fi
        mkdir "d$i" && echo "$i" >"d$i/a" && mv "d$i/a" "d$i/b" && [[ $(<"d$i/b") == "$i" ]] || return
        if [[ -e d$i/a || $(ls "d$i") != b ]]; then return 1; fi
        rm "d$i/b" && rmdir "d$i" && [[ $(<open) == open ]] || return
        echo "$i"
    done
    read -r i <&8 && [[ $i == open ]] && rm open && [[ -z $(ls) ]]
}

# The server is the child of the holder.
child_of_holder() { cut -d ' ' -f 1 "/proc/$server/task/$server/children"; }

# kill_servers: kills the server of the mount, which the holder replaces.
kill_servers() {
    local i before
    for i in {1..5}; do
        sleep 2
        before=$(child_of_holder)
        kill -9 "$before" || return
        until [[ -n $(child_of_holder) && $(child_of_holder) != "$before" ]]; do sleep 0.1; done
    done
    sleep 2
}

upgrade_servers() {
    local i
    for i in 1 2 3; do
        sleep 2
        NAMEGATE_RUNTIME_DIR=$lab/run timeout 120 "$built" upgrade "$lab/export/mnt" || return
    done
    sleep 2
}

# A client goes on in its working directory after the mount and the NFS server were stopped and started.
after_new_mount() {
    mkdir -p "$1/deep/er"
    echo one >"$1/deep/er/file"
    cd "$1/deep/er" || return
    rpc.nfsd 0
    exportfs -ua
    exportfs -f
    unmount_namegate "$lab/export/mnt"
    if ! mount_namegate "$fs/source" "$lab/export/mnt" --survive --export; then
        cd /
        return 1
    fi
    echo 3 >/proc/sys/vm/drop_caches
    nfs_export "$lab/export" fsid=0,crossmnt
    nfs_export "$lab/export/native" fsid=5
    nfs_export "$lab/export/mnt" fsid=7
    rpc.nfsd -N 3 -V 4 4
    if [[ $(timeout 120 cat file 2>&1) == one && $(timeout 60 ls) == file ]]; then
        result PASS root directory-after-new-mount
    else
        result FAIL root directory-after-new-mount "$(timeout 10 cat file 2>&1)"
    fi
    cd /
    rm -rf "$1/deep"
}
