#!/bin/bash
# check.sh CHECK: runs one check in the guest. A check is a name of checks.sh; the part before its first hyphen is its topic,
# a file beside this one, and the function of that name takes the rest.
set -u
here=${here:?}
check=$1
topic=${check%%-*}
# shellcheck source=tests/kernels/lib.sh
source "$here/lib.sh"
# shellcheck source=tests/kernels/make_source.sh
source "$here/make_source.sh"
# shellcheck source=/dev/null
source "$here/$topic.sh"
"check_$topic" "${check#*-}"
