# Sourced by check.sh: guards on a file system. Each policy, enforcing and in audit; a part of the file system; what happens when
# processes are killed and policies replaced; and that nothing stays when the last guard is off.
# shellcheck shell=bash disable=SC2034,SC2154

# guard_names DIR POLICY refuse|allow WHAT: reports the result of all operations.
guard_names() {
    local output last
    output=$(timeout 300 python3 "$here/guard_names.py" "$1" "$2" "$3" 2>&1)
    last=$(tail -n 1 <<<"$output")
    echo "[$SECONDS s] $4: $last"
    if [[ $last == done\ * && $(wc -l <<<"$output") == 1 ]]; then
        read -r _ operations missing bad <<<"$last"
        result PASS root "$4: $operations operations, $missing kinds not in this file system"
    else
        result FAIL root "$4" "$output"
    fi
}

guard() { "$built" guard "$@"; }

check_guard() {
    local name=$1 tree policy output events status pins=/sys/fs/bpf mode
    mountpoint -q $pins || mount -t bpf -o mode=0700 bpf $pins
    fs=$lab/fs
    case $name in
        tmpfs) mkdir -p "$fs" && mount -t tmpfs guarded "$fs" ;;
        overlay)
            make_source ext4 || return 0
            mkdir "$fs"/{lower,upper,work,merged}
            mount -t overlay -o "lowerdir=$fs/lower,upperdir=$fs/upper,workdir=$fs/work" overlay "$fs/merged" && fs=$fs/merged
            ;;
        *) make_source "$name" || return 0 ;;
    esac
    if ! output=$(guard check 2>&1); then
        result FAIL root check "$output"
        return
    fi
    result PASS root check
    for policy in windows strict utf8 security; do
        output=$(guard on "$fs" --profile "$policy" --enforce 2>&1) || result FAIL root on "$output"
        guard_names "$fs" "$policy" refuse "$policy enforcing"
    done
    # Events: a reader that is killed changes nothing for the guard, and the next one goes on. Not by the function: a shell around the
    # reader would get the signal.
    "$built" guard events --json >"$lab/events" 2>"$lab/events.log" &
    events=$!
    sleep 2 && kill -9 $events && wait $events 2>/dev/null
    output=$(guard on "$fs" --profile windows --audit 2>&1) || result FAIL root on "$output"
    "$built" guard events --json >"$lab/events" 2>"$lab/events.log" &
    events=$!
    sleep 3
    : >"$lab/events"
    guard_names "$fs" windows allow "windows audit"
    sleep 3
    kill $events && wait $events
    if output=$(python3 - "$lab/events" <<'EVENTS'
import collections, json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rows = [row for row in rows if row["outcome"] == "let-through"]
if not rows: sys.exit("no events")
for row in rows:
    if not row["rule"] or row["uid"] != 0 or not row["parent"].endswith("/sub") or row["command"] != "python3":
        sys.exit(f"{row}")
print(len(rows), dict(collections.Counter(row["operation"] for row in rows)))
EVENTS
    ); then
        result PASS root "events: $output"
    else
        result FAIL root events "$output $(tail -n 2 "$lab/events.log") $(guard status 2>&1)"
    fi
    guard on "$fs" --profile utf8 --enforce >/dev/null
    # Replacement under load.
    (for ((i = 0; i < 400; i++)); do if mkdir "$fs/"$'bad\xff' 2>/dev/null; then echo passed; fi; done) >"$lab/load" &
    for mode in 1 2 3 4 5; do guard on "$fs" --profile strict >/dev/null && guard on "$fs" --profile utf8 >/dev/null; done
    wait $!
    if [[ -s $lab/load ]]; then result FAIL root replace "$(wc -l <"$lab/load") bad names passed"; else result PASS root replace; fi
    output=$(guard status --json)
    if [[ $output == *'"mode":"enforcing"'* ]]; then result PASS root status; else result FAIL root status "$output"; fi
    output=$(guard off "$fs" 2>&1) || result FAIL root off "$output"
    if [[ -z $(ls $pins) ]]; then result PASS root "off: nothing is pinned"; else result FAIL root off "$(ls -R $pins)"; fi
    guard_names "$fs" windows allow "without guard"
    # A part of the file system.
    mkdir -p "$fs/tree/deep" "$fs/beside"
    if output=$(guard on "$fs/tree" --profile windows --enforce 2>&1); then
        guard_names "$fs/tree/deep" windows refuse "in the tree"
        guard_names "$fs/beside" windows allow "beside the tree"
        mv "$fs/beside" "$fs/tree/moved" && guard_names "$fs/tree/moved" windows refuse "moved into the tree"
        guard off "$fs/tree" >/dev/null
    else
        result SKIPPED root tree "$output"
    fi
    if [[ -n $(ls $pins) ]]; then result FAIL root off "$(ls -R $pins)"; fi
}
