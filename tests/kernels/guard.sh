# Sourced by check.sh: guards on a file system. Each policy, enforcing and in audit; a part of the file system; what happens when
# processes are killed and policies replaced; and that nothing stays when the last guard is off.
# shellcheck shell=bash disable=SC2034,SC2154

pins=/sys/fs/bpf

guard() { "$built" guard "$@"; }

check_guard() {
    mountpoint -q $pins || mount -t bpf -o mode=0700 bpf $pins
    case $1 in
        without-bpf)
            guard_without_bpf
            return
            ;;
        life)
            # shellcheck source=tests/kernels/guard_life.sh
            source "$here/guard_life.sh"
            guard_life
            return
            ;;
    esac
    guard_source "$1" || return 0
    local output
    if ! output=$(guard check 2>&1); then
        result FAIL root check "$output"
        # With what the kernel's verifier says.
        RUST_LOG=info guard check 2>&1 | cut -c 1-200 | tail -n 100
        return
    fi
    result PASS root check
    output=$(timeout 300 python3 "$here/guard_names.py" native "$fs" "$lab/native" "${server_dir[@]}" 2>&1) || result FAIL root native "$output"
    echo "[$SECONDS s] $output"
    guard_policies "$1"
    guard_events
    if [[ $1 == cifs ]]; then
        # The load of that test is a name that is not UTF-8, and none gets through the protocol.
        guard on "$guarded" --profile windows --enforce >/dev/null
    else
        guard_kills
    fi
    output=$(guard status --json)
    if [[ $output == *'"mode":"enforcing"'* ]]; then result PASS root status; else result FAIL root status "$output"; fi
    output=$(guard off "$guarded" 2>&1) || result FAIL root off "$output"
    if [[ -z $(ls $pins) ]]; then result PASS root "off: nothing is pinned"; else result FAIL root off "$(ls -R $pins)"; fi
    guard_names "$fs" windows allow "without guard"
    [[ $1 == cifs ]] || guard_tree
    if [[ $1 == ext4-casefold ]]; then strict_casefold; fi
    if [[ $1 == mount ]]; then
        umount "$fs"
        wait "$server"
    fi
}

# guard_source NAME: makes the file system. Sets $guarded, the path to guard, $whole, options for it, $fs, where names are created,
# $creator, the process that the kernel sees creating them, and $server_dir, where they arrive if other names may arrive there.
guard_source() {
    creator=python3 whole=() server_dir=()
    case $1 in
        tmpfs) fs=$lab/fs && mkdir -p "$fs" && mount -t tmpfs guarded "$fs" ;;
        overlay)
            make_source ext4 || return 1
            mkdir "$fs"/{lower,upper,work,merged}
            mount -t overlay -o "lowerdir=$fs/lower,upperdir=$fs/upper,workdir=$fs/work" overlay "$fs/merged" && fs=$fs/merged
            ;;
        mount)
            # The mount lets all names through: it is the guard that refuses them.
            make_source ext4 || return 1
            mkdir "$fs/source"
            mount_namegate "$fs/source" "$mnt" --profile utf8 --mode permissive || return 1
            # What is mounted there is a directory of the mount's file system.
            fs=$mnt whole=(--whole-filesystem)
            ;;
        nfs)
            # The guard is on the server's file system; names come from a client.
            make_source nfs || return 1
            guarded=$lab/export/share creator=nfsd
            return
            ;;
        nfs-client) make_source nfs || return 1 ;;
        cifs)
            # Nothing is cached: what arrives is removed on the server.
            cifs_options=,actimeo=0,closetimeo=0,nolease make_source cifs || return 1
            guarded=$lab/share creator=kworker server_dir=("$lab/share")
            return
            ;;
        *) make_source "$1" || return 1 ;;
    esac
    guarded=$fs
}

# guard_names DIR POLICY refuse|allow WHAT: reports the result of all operations.
guard_names() {
    local output last calls missing refused twice errors
    output=$(timeout 300 python3 "$here/guard_names.py" "$3" "$1" "$lab/native" "$2" "${server_dir[@]}" 2>&1)
    last=$(tail -n 1 <<<"$output")
    echo "[$SECONDS s] $4: $last"
    read -r _ calls missing refused twice errors <<<"$last"
    if [[ $last == done\ * && $(wc -l <<<"$output") == 1 && ($3 == allow || $((refused + twice)) -gt 0) ]]; then
        result PASS root "$4: $calls calls, $refused refused by the guard alone, $twice by the file system too, errors: $errors; $missing kinds not in this file system"
    else
        result FAIL root "$4" "$output"
    fi
}

# guard_policies NAME: enforces. The policies are the same on every file system: all four on two of them, two on the others.
guard_policies() {
    local policy output policies=(windows utf8)
    case $1 in
        tmpfs | ext4) policies=(windows strict utf8 security) ;;
        cifs) policies=(windows) ;;
    esac
    for policy in "${policies[@]}"; do
        output=$(guard on "$guarded" "${whole[@]}" --profile "$policy" --enforce 2>&1) || result FAIL root on "$output"
        guard_names "$fs" "$policy" refuse "$policy enforcing"
    done
}

# A reader of events that is killed changes nothing for the guard, and the next one goes on. Not by the function `guard`: a shell around
# the reader would get the signal.
guard_events() {
    local events output
    "$built" guard events --json >>"$lab/events" 2>"$lab/events.log" &
    events=$!
    sleep 2 && kill -9 $events && wait $events 2>/dev/null
    output=$(guard on "$guarded" "${whole[@]}" --profile windows --audit 2>&1) || result FAIL root on "$output"
    # Appended, so that nothing is before what follows the truncation.
    "$built" guard events --json >>"$lab/events" 2>"$lab/events.log" &
    events=$!
    sleep 3
    : >"$lab/events"
    guard_names "$fs" windows allow "windows audit"
    sleep 3
    kill $events && wait $events
    if output=$(python3 - "$lab/events" "$creator" <<'EVENTS'
import collections, json, sys
with open(sys.argv[1], encoding="ascii", errors="replace") as file:
    rows = [row for row in map(json.loads, file) if row["outcome"] == "let-through"]
if not rows:
    sys.exit("no events")
for row in rows:
    if not row["rule"] or row["uid"] != 0 or not row["parent"].endswith("/sub") or not row["command"].startswith((sys.argv[2], "iou-wrk")):
        sys.exit(f"{row}")
print(len(rows), "events,", dict(collections.Counter(row["operation"] for row in rows)))
EVENTS
    ); then
        result PASS root "events: $output"
    else
        result FAIL root events "$output $(tail -n 2 "$lab/events.log") $(guard status 2>&1)"
    fi
}

# Replacement under load, and processes that are killed while they replace a policy: it is the old one or the new one that is in force.
guard_kills() {
    local i mode delay
    guard on "$guarded" "${whole[@]}" --profile utf8 --enforce >/dev/null
    (for ((i = 0; i < 400; i++)); do if mkdir "$fs/"$'bad\xff' 2>/dev/null; then echo passed; fi; done) >"$lab/load" &
    for mode in 1 2 3 4 5; do guard on "$guarded" "${whole[@]}" --profile strict >/dev/null && guard on "$guarded" "${whole[@]}" --profile utf8 >/dev/null; done
    wait $!
    if [[ -s $lab/load ]]; then result FAIL root replace "$(wc -l <"$lab/load") bad names passed"; else result PASS root replace; fi
    for delay in 0.02 0.05 0.1 0.2 0.3 0.5; do
        "$built" guard on "$guarded" "${whole[@]}" --profile utf8 >/dev/null 2>&1 &
        sleep $delay
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
    done
    guard_names "$fs" utf8 refuse "after kills of the loader"
}

# A part of the file system.
guard_tree() {
    local output
    mkdir -p "$guarded/tree/deep" "$guarded/beside"
    if output=$(guard on "$guarded/tree" --profile windows --enforce 2>&1); then
        guard_names "$fs/tree/deep" windows refuse "in the tree"
        guard_names "$fs/beside" windows allow "beside the tree"
        mv "$guarded/beside" "$guarded/tree/moved" && guard_names "$fs/tree/moved" windows refuse "moved into the tree"
        guard off "$guarded/tree" >/dev/null
    else
        result SKIPPED root tree "$output"
    fi
    if [[ -n $(ls $pins) ]]; then result FAIL root off "$(ls -R $pins)"; fi
}

# A kernel that was started without bpf among its security modules: a clear refusal, and nothing stays.
guard_without_bpf() {
    local output status
    fs=$lab/fs
    mkdir -p "$fs" && mount -t tmpfs guarded "$fs"
    echo "security modules: $(cat /sys/kernel/security/lsm)"
    output=$(guard check 2>&1)
    status=$?
    if [[ $status == 1 && $output == *lsm=*bpf* ]]; then result PASS root check; else result FAIL root check "$status: $output"; fi
    output=$(guard on "$fs" --profile utf8 --enforce 2>&1)
    status=$?
    if [[ $status == 2 && $output == *lsm=*bpf* && -z $(ls $pins) ]]; then
        result PASS root "on refuses: $output"
    else
        result FAIL root on "$status: $output $(ls $pins)"
    fi
    if mkdir "$fs/"$'bad\xff'; then result PASS root "names are allowed"; else result FAIL root names; fi
    output=$("$built" doctor --json | python3 -c 'import json, sys; print(*[c["condition"] for c in json.load(sys.stdin)["checks"] if c["id"] == "guard"])')
    if [[ $output == warn ]]; then result PASS root doctor; else result FAIL root doctor "$output"; fi
}

# The file system's own refusal: directories with casefold, on a file system whose encoding is strict.
strict_casefold() {
    local output
    mkdir -p "$lab/strict"
    truncate -s 64M "$lab/strict.image"
    if ! output=$(mkfs.ext4 -qF -O casefold -E encoding=utf8,encoding_flags=strict "$lab/strict.image" 2>&1 &&
        mount -o loop "$lab/strict.image" "$lab/strict" 2>&1 && mkdir "$lab/strict/fold" && chattr +F "$lab/strict/fold" 2>&1); then
        result SKIPPED root strict "$output"
        return
    fi
    python3 "$here/guard_names.py" native "$lab/strict/fold" "$lab/strict.native" 2>&1
    if output=$(python3 - "$lab/strict.native" <<'STRICT'
import collections, json, sys
with open(sys.argv[1], encoding="ascii") as file:
    native = json.load(file)
found = collections.defaultdict(collections.Counter)
for results in native.values():
    for name, error in results.items():
        if not results[b"report.txt".hex()]:
            try:
                bytes.fromhex(name).decode()
                found["UTF-8"][error] += 1
            except UnicodeDecodeError:
                found["not UTF-8"][error] += 1
print({kind: dict(errors) for kind, errors in found.items()})
sys.exit(set(found["UTF-8"]) != {0} or set(found["not UTF-8"]) != {22})
STRICT
    ); then
        result PASS root "encoding_flags=strict: $output"
    else
        result FAIL root encoding_flags=strict "$output"
    fi
    umount "$lab/strict"
}
