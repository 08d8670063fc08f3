# Sourced by check.sh: file systems to mount over.
# shellcheck shell=bash disable=SC2034,SC2154

# make_source NAME: creates a file system and mounts it on $fs. If that is impossible, reports SKIPPED with the reason, and fails.
make_source() {
    local name=$1 kind=$1 mkfs=() options=loop
    fs=$lab/fs
    mkdir -p "$fs" "$lab/home"
    chmod 777 "$lab/home"
    case $name in
        ext4) mkfs=(mkfs.ext4 -qF -b 4096) ;;
        ext4-casefold) kind=ext4 mkfs=(mkfs.ext4 -qF -b 4096 -O casefold -E encoding=utf8) ;;
        xfs) mkfs=(mkfs.xfs -q -f) ;;
        btrfs) mkfs=(mkfs.btrfs -q -f) ;;
        f2fs) mkfs=(mkfs.f2fs -q -f) ;;
        # These store no owners and modes: everyone may do everything.
        vfat) mkfs=(mkfs.vfat -F 32) options+=,umask=0,utf8 ;;
        exfat) mkfs=(mkfs.exfat) options+=,umask=0 ;;
        ntfs3 | ntfs) mkfs=(mkfs.ntfs -q -F -f) options+=,umask=0 ;;
        ntfs-3g) kind=fuseblk mkfs=(mkfs.ntfs -q -F -f) options=permissions ;;
        nfs | cifs) "make_$name" && return ;;
    esac
    if ((${#mkfs[@]} == 0)); then return 1; fi
    need source "${mkfs[0]}" || return 1
    modprobe -q "$kind"
    if ! grep -qw "$kind" /proc/filesystems; then
        result SKIPPED - source "this kernel has no $kind"
        return 1
    fi
    truncate -s "${source_size:-600M}" "$lab/image"
    if ! "${mkfs[@]}" "$lab/image" >"$lab/mkfs.log" 2>&1; then
        result FAIL - source "${mkfs[0]}: $(tail -n 1 "$lab/mkfs.log")"
        return 1
    fi
    if [[ $name == ntfs-3g ]]; then
        need source ntfs-3g || return 1
        modprobe -q fuse
        set -- ntfs-3g -o "$options" "$(losetup --find --show "$lab/image")" "$fs"
    else
        set -- mount -t "$kind" -o "$options" "$lab/image" "$fs"
    fi
    if ! "$@" >"$lab/mkfs.log" 2>&1; then
        result FAIL - source "$1: $(tail -n 1 "$lab/mkfs.log")"
        return 1
    fi
    if ! touch "$fs/.try"; then
        result SKIPPED - source "this kernel's $kind is read-only"
        return 1
    fi
    rm "$fs/.try"
}

# An ext4 behind this machine's own NFS server.
make_nfs() {
    need source rpc.nfsd mount.nfs mkfs.ext4 || return 1
    if ! nfs_server; then
        result FAIL - source "the NFS server does not start"
        return 1
    fi
    truncate -s 600M "$lab/image"
    mkdir -p "$lab/export/share"
    mkfs.ext4 -qF -b 4096 "$lab/image" && mount -o loop "$lab/image" "$lab/export/share" && nfs_export "$lab/export/share" fsid=5
    if ! nfs_mount /share "$fs"; then
        result FAIL - source "mount.nfs failed"
        return 1
    fi
}

# An ext4 behind this machine's own SMB server, the kernel's. $cifs_options: more options of the mount, each after a comma.
make_cifs() {
    local password=lab
    need source ksmbd.mountd ksmbd.adduser mount.cifs || return 1
    if ! modprobe -q ksmbd || ! modprobe -q cifs; then
        result SKIPPED - source "this kernel has no ksmbd or no cifs"
        return 1
    fi
    truncate -s 600M "$lab/image"
    mkdir -p "$lab/share" /etc/ksmbd /run/lock
    mkfs.ext4 -qF -b 4096 "$lab/image" && mount -o loop "$lab/image" "$lab/share" && chmod 777 "$lab/share"
    printf '%s\n' '[global]' 'server string = lab' 'interfaces = lo' 'bind interfaces only = yes' '[share]' "path = $lab/share" \
        'read only = no' 'store dos attributes = no' >/etc/ksmbd/ksmbd.conf
    cp /etc/ksmbd/ksmbd.conf /etc/ksmbd/smb.conf
    : >/etc/ksmbd/ksmbdpwd.db
    ksmbd.adduser -a root -p "$password" >"$lab/mkfs.log" 2>&1 && ksmbd.mountd >>"$lab/mkfs.log" 2>&1
    # nobrl: locks stay in this machine, as they do in a mount.
    for _ in {1..20}; do
        if timeout 30 mount -t cifs -o "username=root,password=$password,vers=3.1.1,noperm,file_mode=0666,dir_mode=0777,nounix,nobrl,mfsymlinks${cifs_options:-}" \
            //127.0.0.1/share "$fs" 2>>"$lab/mkfs.log"; then return 0; fi
        sleep 1
    done
    result FAIL - source "mount.cifs: $(tail -n 1 "$lab/mkfs.log"); $(dmesg | grep -iE 'cifs|ksmbd' | tail -n 2)"
    return 1
}
