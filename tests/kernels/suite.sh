# Sourced by check.sh: the mount's own tests, with all their directories in one file system. Each failed test is
# a FAIL; everything that a test skips is SKIPPED.
# shellcheck shell=bash disable=SC2034,SC2154

check_suite() {
    local output=$lab/suite.log passed name reason
    make_source "$1" || return 0
    mkdir "$fs/tmp" && chmod 1777 "$fs/tmp"
    # Two at a time: emulated processors are slow, and the tests have time limits.
    (cd "$root" && TMPDIR=$fs/tmp RUST_TEST_THREADS=2 timeout 1700 "$here/deps/mount-suite" --show-output >"$output" 2>&1)
    cat "$output"
    if ! grep -q '^test result:' "$output"; then
        result FAIL root suite "it did not end: $(grep -a '^test ' "$output" | tail -n 1)"
        return
    fi
    passed=$(sed -n 's/^test result:.* \([0-9]*\) passed;.*/\1/p' "$output")
    result PASS root suite "$passed tests"
    sed -n 's/^test \([a-z_0-9:]*\) \.\.\. FAILED$/\1/p; s/^    \([a-z_0-9]*::[a-z_0-9:]*\)$/\1/p' "$output" | sort -u |
        while read -r name; do
            reason=$(grep -A 6 -- "^---- $name stdout ----" "$output" | sed 1d | grep -v '^$' | grep -v '^note:' | head -n 4)
            if grep -q "^test $name \.\.\. ok" "$output"; then continue; fi
            result FAIL root "$name" "$reason"
        done
    grep -a '^ *SKIPPED' "$output" | sed 's/^ *SKIPPED: *//' | sort | uniq -c | while read -r passed reason; do
        result SKIPPED root suite "$reason ($passed times)"
    done
}
