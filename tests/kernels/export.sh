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
    mount_namegate "$fs/source" "$lab/export/mnt" --export || return 0
    if ! nfs_export "$lab/export/mnt" fsid=7; then
        result FAIL - export "exportfs refuses the mount"
        return
    fi
    if ! nfs_mount /mnt "$client" || ! nfs_mount /native "$lab/client-native"; then
        result FAIL - export "the client cannot mount it"
        return
    fi
    use_mount "$lab/client-native" "$fs/source" "$client"
    open_file_after_drop "$client"
    timeout 60 umount "$client" "$lab/client-native" || umount -l "$client" "$lab/client-native"
    exportfs -ua
    rpc.nfsd 0
    unmount_namegate "$lab/export/mnt"
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
