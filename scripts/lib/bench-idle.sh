# shellcheck shell=bash
# bench_idle SECONDS ROUNDS PLACE...: what people do in a repository, each time SECONDS after the last one, in milliseconds. A place is
# NAME=SEEN=BEHIND=SERVER. The first two rounds do not count: the kernel learns what it keeps.
bench_idle() {
    local seconds=$1 rounds=$2 place name seen behind first='' i round
    shift 2
    for place; do
        IFS='=' read -r name seen behind _ <<<"$place"
        if [[ -z $first ]]; then
            first=$behind/repository
            git init -q "$first"
            # It would run in the background while the repository is copied.
            git -C "$first" config gc.auto 0
            git -C "$first" config maintenance.auto false
            for ((i = 0; i < 260; i++)); do
                mkdir -p "$first/$((i % 20))/$i"
                (cd "$first/$((i % 20))/$i" && for name in {1..81}; do echo "$i $name" >"$name"; done)
            done
            git -C "$first" add -A
            git -C "$first" -c user.name=bench -c user.email=bench@example.org commit -qm all
        else
            cp -a "$first" "$behind"
        fi
    done
    # Attributes of files that have just changed are not kept.
    sleep 60
    for place; do
        IFS='=' read -r name seen behind _ <<<"$place"
        git -C "$seen/repository" update-index -q --refresh || true
    done
    echo "each:    median of $rounds rounds, $seconds s apart, in milliseconds; in brackets × native"
    local row begun native
    declare -A times
    for row in 'du -s .' 'find . -newer .git/HEAD -type f' 'ls -lR .' 'git status --short'; do
        times=()
        for ((round = -2; round < rounds; round++)); do
            sleep "$seconds"
            for place; do
                IFS='=' read -r name seen behind _ <<<"$place"
                begun=$(date +%s%N)
                (cd "$seen/repository" && $row >/dev/null)
                if ((round >= 0)); then times[$name]+="$(($(date +%s%N) - begun)) "; fi
            done
        done
        printf '%-32s' "$row"
        native=''
        for place; do
            name=${place%%=*}
            begun=$(tr ' ' '\n' <<<"${times[$name]}" | sed '/^$/d' | sort -n | sed -n "$((rounds / 2 + 1))p")
            native=${native:-$begun}
            awk -v name="$name" -v it="$begun" -v native="$native" 'BEGIN { printf "  %s %.0f (%.1f)", name, it / 1e6, it / native }'
        done
        echo
    done
}
