# Sourced by check.sh: which requests a mount gets for everyday work. Kernels differ in what they ask again.
# shellcheck shell=bash disable=SC2034,SC2154

# requests: what the mount has been asked so far.
requests() { NAMEGATE_RUNTIME_DIR=$lab/run "$built" metrics "$mnt" | sed -n 's/^namegate_fuse_requests_total{.*op="\([a-z0-9_]*\)".*} /\1 /p'; }

# count WHAT COMMAND...: reports the requests that the command causes. Requests that nobody waits for are not of interest.
count() {
    local what=$1
    shift
    requests >"$lab/before"
    "$@"
    requests >"$lab/after"
    result PASS root "$what: $(awk 'NR == FNR { before[$1] += $2; next } { after[$1] += $2 }
        END { for (op in after) if (after[op] > before[op]) print op, after[op] - before[op] }' "$lab/before" "$lab/after" |
        grep -Ev '^(release|releasedir|forget|batch_forget) ' | sort -k 2nr | paste -sd ' ')"
}

check_requests() {
    make_source ext4 || return 0
    mkdir "$fs/source"
    mount_namegate "$fs/source" "$mnt" --profile utf8 || return 0
    # In one process: each path is walked from the root, as programs do.
    count "200 creates" python3 -c 'import os, sys
for i in range(200): os.close(os.open(f"{sys.argv[1]}/{i}", os.O_CREAT | os.O_WRONLY))' "$mnt"
    count "200 unlinks" python3 -c 'import os, sys
for i in range(200): os.unlink(f"{sys.argv[1]}/{i}")' "$mnt"
    count "200 mkdirs" python3 -c 'import os, sys
for i in range(200): os.mkdir(f"{sys.argv[1]}/{i}")' "$mnt"
    count "200 rmdirs" python3 -c 'import os, sys
for i in range(200): os.rmdir(f"{sys.argv[1]}/{i}")' "$mnt"
    tar cf "$lab/tree.tar" -C "$here" --exclude=namegate --exclude=deps --exclude=bench-mount .
    mkdir "$lab/tree" && tar xf "$lab/tree.tar" -C "$lab/tree"
    count "cp -r of $(find "$lab/tree" -type f | wc -l) files" cp -r "$lab/tree" "$mnt/tree"
    count "rm -rf of them" rm -rf "$mnt/tree"
    # A client on processor 0 that asks one thing after another: whatever runs on processor 1 is the server, which was woken there.
    result PASS root "3000 lookups, $(python3 -c 'import os, sys
def busy():
    with open("/proc/stat") as stat:
        return [sum(map(int, line.split()[1:4])) for line in stat if line[:4] in ("cpu0", "cpu1")]
os.sched_setaffinity(0, {0})
before = busy()
for i in range(3000): os.path.lexists(f"{sys.argv[1]}/absent {i}")
used = [after - before for before, after in zip(before, busy())]
print(f"processor time by processor: {used}, on that of the client {100 * used[0] // max(1, sum(used))} %")' "$mnt")"
    unmount_namegate "$mnt"
}
