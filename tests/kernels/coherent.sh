# Sourced by check.sh: caches that are kept until something changes. The timeouts are an hour, so only an event of the kernel shows a direct
# change soon. Kernels before Linux 6.2 cannot expire names: the timeouts hold there, and the status says why.
# shellcheck shell=bash disable=SC2034,SC2154

check_coherent() {
    local output=$lab/law.log facts
    make_source ext4 || return 0
    mkdir "$fs/source"
    mount_namegate "$fs/source" "$mnt" --cache coherent --entry-timeout 3600 --attr-timeout 3600 || return 0
    facts=$(NAMEGATE_RUNTIME_DIR=$lab/run "$built" status --json "$mnt")
    python3 "$here/coherent_changes.py" "$fs/source" "$mnt" "$facts" >"$lab/changes.log" 2>&1 || echo "FAIL script exit status $?" >>"$lab/changes.log"
    while read -r word test reason; do
        result "$word" root "$test" "$reason"
    done <"$lab/changes.log"
    unmount_namegate "$mnt"
    # The law of the test suite, with more patience: the processors are slow. That listings are cached at all is not for them to say.
    if (cd "$root" && TMPDIR=$fs NAMEGATE_LAW_SECONDS=${law_seconds:-20} NAMEGATE_LAW_MILLIS=5000 \
        "$here/deps/mount-suite" coherent::law::every_answer --show-output --test-threads 1 >"$output" 2>&1); then
        grep -aE '^(SKIPPED| *[0-9]+ answers)' "$output" | while read -r reason; do
            case $reason in
                SKIPPED*) result SKIPPED root law "${reason#SKIPPED: }" ;;
                *) result PASS root law "$reason" ;;
            esac
        done
    else
        result FAIL root law "$(grep -aE -A 1 'panicked' "$output" | sed 's/^--$//')"
        cat "$output"
    fi
}
