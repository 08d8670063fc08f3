# Sourced by the scripts beside it: what they need from the machine, and how it gets there.
# shellcheck shell=bash

# missing_packages PROBE=PACKAGE...: prints the packages whose probe fails, on one line. A probe with a slash is a path
# that must exist, any other is a command that must be found.
missing_packages() {
    local item probe missing=()
    for item in "$@"; do
        probe=${item%%=*}
        case $probe in
            */*) [[ -e $probe ]] && continue ;;
            *) command -v "$probe" >/dev/null && continue ;;
        esac
        missing+=("${item#*=}")
    done
    echo "${missing[*]}"
}

# apt_install PACKAGE...: installs quietly, never asks, waits for another apt to finish.
apt_install() {
    local log status=0
    log=$(mktemp)
    {
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@"
    } </dev/null >"$log" 2>&1 || status=$?
    if ((status)); then cat "$log" >&2; fi
    rm -f "$log"
    return "$status"
}

# install_packages required|optional PROBE=PACKAGE...: as root installs what is missing by apt; otherwise prints the one
# line to run. A required package that stays missing ends the script; an optional one makes the function return 1.
install_packages() {
    local kind=$1 packages
    shift
    packages=$(missing_packages "$@")
    [[ -z $packages ]] && return 0
    # The words of $packages are package names from this repository: splitting them is meant.
    # shellcheck disable=SC2086
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        echo "Installing $kind packages: $packages"
        if apt_install $packages && [[ -z $(missing_packages "$@") ]]; then return 0; fi
        echo "Not installed ($kind): $(missing_packages "$@")" >&2
    elif command -v apt-get >/dev/null; then
        echo "Missing ($kind). Run: sudo apt-get install -y $packages" >&2
    else
        echo "Missing ($kind), by their Debian names: $packages" >&2
    fi
    [[ $kind == required ]] && exit 1
    return 1
}

# require_cargo ROOT: ends the script, saying the one line to run, unless there is a cargo that is new enough for the
# package at ROOT.
require_cargo() {
    local wanted found
    if ! command -v cargo >/dev/null && [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    if ! found=$(cargo --version 2>/dev/null); then
        echo "Rust is missing. Run: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y" >&2
        exit 1
    fi
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$1/Cargo.toml")
    found=$(cut -d ' ' -f 2 <<<"$found")
    if [[ $(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1) != "$wanted" ]]; then
        echo "Rust $found is too old, $wanted is needed. Run: rustup update stable" >&2
        echo "(without rustup: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y)" >&2
        exit 1
    fi
}
