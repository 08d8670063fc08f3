# Sourced by check.sh: functions for all checks. $check is the name of the running check.
# shellcheck shell=bash disable=SC2034,SC2154

user=65534
# The mount point, and the log of the server.
mnt=$lab/mnt
server_log=$lab/server.log

# result PASS|FAIL|SKIPPED WHO TEST [REASON]: reports one result. WHO is root, user or -.
result() {
    local line
    line="$1 $check $2 $3${4:+: $4}"
    # One line of printable text, whatever the reason contains.
    line=$(tr '\n' ' ' <<<"${line:0:400}" | tr -cd '[:print:]')
    echo "${line% }" >"$results"
    echo "[$SECONDS s] ${line% }"
}

# as root|user COMMAND...: runs the command as this user.
as() {
    local who=$1
    shift
    case $who in
        root) "$@" ;;
        user) setpriv --reuid $user --regid $user --clear-groups --inh-caps=-all env HOME="$lab/home" "$@" ;;
    esac
}

# need TEST COMMAND...: reports SKIPPED and fails when one of the commands is missing.
need() {
    local test=$1 command
    shift
    for command in "$@"; do
        if ! command -v "$command" >/dev/null; then
            result SKIPPED - "$test" "$command is not installed"
            return 1
        fi
    done
}

# mount_namegate SOURCE TARGET OPTION...: mounts, and waits until the mount answers. Sets $server.
mount_namegate() {
    local source=$1 target=$2 i
    shift 2
    mkdir -p "$target"
    NAMEGATE_RUNTIME_DIR=$lab/run "$built" mount "$source" "$target" "$@" 2>"$server_log" &
    server=$!
    for ((i = 0; i < 300; i++)); do
        if grep -q " $target .* - fuse" /proc/self/mountinfo && stat -f "$target" >/dev/null 2>&1; then return 0; fi
        if ! kill -0 "$server" 2>/dev/null; then break; fi
        sleep 0.2
    done
    result FAIL - mount "no mount: $(tail -n 3 "$server_log")"
    return 1
}

# unmount_namegate TARGET: unmounts, and reports whether the server ended without errors or warnings.
unmount_namegate() {
    local target=$1 status complaints
    echo "[$SECONDS s] processor time of the server: $(ps -o cputime= "$server"), of the machine: $(head -n 1 /proc/stat)"
    if ! umount "$target"; then
        result FAIL - unmount "busy"
        umount -l "$target"
        kill "$server"
    fi
    wait "$server"
    status=$?
    complaints=$(grep -aE '^\[[^ ]* (ERROR|WARN)|panicked' "$server_log" | grep -avE 'refused|costs an open file|file contents go through this process' | head -n 3)
    if ((status)); then
        result FAIL - server "exit status $status: $(tail -n 2 "$server_log")"
    elif [[ -n $complaints ]]; then
        result FAIL - server "it logged: $complaints"
    else
        result PASS - server
    fi
}

# nfs_server: a kernel NFS server that exports $lab/export as its root, without a long grace period.
nfs_server() {
    modprobe nfsd || return 1
    mount -t tmpfs nfs /var/lib/nfs
    mkdir -p /var/lib/nfs/{v4recovery,rpc_pipefs,sm,nfsdcltrack,nfsdcld}
    touch /var/lib/nfs/{etab,rmtab,xtab}
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
    mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs 2>/dev/null
    echo 5 >/proc/fs/nfsd/nfsv4gracetime
    echo 5 >/proc/fs/nfsd/nfsv4leasetime
    mkdir -p "$lab/export"
    rpc.mountd -N 2 -N 3 && rpc.nfsd -N 3 -V 4 4 || return 1
    nfs_export "$lab/export" fsid=0,crossmnt
}

# nfs_export DIR OPTIONS
nfs_export() { exportfs -o "rw,no_root_squash,no_subtree_check,insecure,$2" "127.0.0.1:$1"; }

# nfs_mount PATH TARGET: mounts this path of the server's root by NFS 4.2; waits for the end of the grace period.
nfs_mount() {
    mkdir -p "$2"
    timeout 120 mount -t nfs -o vers=4.2 "127.0.0.1:$1" "$2" || return 1
    # A server in its grace period delays opens.
    timeout 120 touch "$2/.grace" && rm -f "$2/.grace"
}
