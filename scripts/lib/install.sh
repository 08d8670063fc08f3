# Sourced by the scripts in the parent directory: finds and installs the packages and the toolchain that they need.
#
# Nothing is installed without consent: --yes of scripts/quickstart and scripts/test, NAMEGATE_YES=1 in the environment, or
# the answer of a person at a terminal. One answer counts for the whole run.
# shellcheck shell=bash

# Each script answers --help with the comment at its beginning.
case ${1:-} in -h | --help) sed -n '2,/^set/{s/^# \{0,1\}//p}' "$root/scripts/$(basename -- "${BASH_SOURCE[1]}")" && exit 0 ;; esac

# yes, no, or empty before the question.
consent=${NAMEGATE_YES:+yes}

# confirm LINE...: prints what is about to be installed, and returns whether that is allowed.
confirm() {
    local answer
    printf '%s\n' "$@" >&2
    if [[ -z $consent && -t 0 ]]; then
        read -r -p "Install this now? [Y/n] " answer
        case $answer in
            '' | [yY]*) consent=yes ;;
            *) consent=no ;;
        esac
    elif [[ -z $consent ]]; then
        consent=no
        echo "Not installed: there is no terminal to ask on. To allow it, set NAMEGATE_YES=1 (or give --yes)." >&2
    fi
    [[ $consent == yes ]]
}

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

# as_root COMMAND...: runs it as root, by sudo for other users.
as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# apt_get ARGUMENT...: apt-get, which asks nothing, prints only errors and waits for another apt-get to finish.
apt_get() {
    local log status=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" </dev/null >"$log" 2>&1 || status=$?
    if ((status)); then cat "$log" >&2; fi
    rm -f "$log"
    return "$status"
}

# apt_install PACKAGE...: installs packages without what they only recommend.
apt_install() {
    apt_get update && apt_get install -y --no-install-recommends "$@"
}

# can_apt: whether packages can be installed here, given consent.
can_apt() {
    command -v apt-get >/dev/null && { [[ $(id -u) == 0 ]] || command -v sudo >/dev/null; }
}

# install_packages required|optional PROBE=PACKAGE...: installs what is missing by apt; where that is not possible or not
# allowed, prints the command that does it. A required package that stays missing ends the script; an optional one makes
# the function return 1.
install_packages() {
    local kind=$1 packages package
    shift
    packages=$(missing_packages "$@")
    [[ -z $packages ]] && return 0
    if can_apt && confirm "Packages to install by apt-get ($kind): $packages"; then
        # The words of $packages are package names from this repository: splitting them is meant.
        # shellcheck disable=SC2086
        if ! apt_install $packages && [[ $kind == optional ]]; then
            # A release without one of them still gets the others.
            for package in $packages; do apt_get install -y --no-install-recommends "$package" || true; done
        fi
        packages=$(missing_packages "$@")
        [[ -z $packages ]] && return 0
        echo "Not installed ($kind): $packages" >&2
    elif command -v apt-get >/dev/null; then
        echo "Missing ($kind). Run: sudo apt-get install -y $packages" >&2
    else
        echo "Missing ($kind), by their Debian names: $packages" >&2
    fi
    [[ $kind == required ]] && exit 1
    return 1
}

# wanted_rust ROOT: the oldest Rust that builds the package at ROOT.
wanted_rust() {
    sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$1/Cargo.toml"
}

# has_cargo ROOT: whether there is a cargo that is new enough for the package at ROOT. One that rustup has installed for
# this user need not be on the path.
has_cargo() {
    local wanted found own=${CARGO_HOME:-$HOME/.cargo}/bin
    wanted=$(wanted_rust "$1")
    is_new_enough() {
        found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) && [[ -n $found ]] &&
            [[ $(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1) == "$wanted" ]]
    }
    if is_new_enough; then return 0; fi
    [[ -x $own/cargo ]] || return 1
    PATH=$own:$PATH
    is_new_enough
}

# rust_plan ROOT: prints the line about the toolchain that require_cargo would install.
rust_plan() {
    echo "Rust $(wanted_rust "$1") or newer, by rustup (https://rustup.rs), for this user: in ${RUSTUP_HOME:-$HOME/.rustup} and ${CARGO_HOME:-$HOME/.cargo}"
}

# require_cargo ROOT: makes sure that there is a cargo that is new enough for the package at ROOT, or ends the script.
require_cargo() {
    if has_cargo "$1"; then return; fi
    if ! confirm "To install: $(rust_plan "$1")"; then
        echo "Rust $(wanted_rust "$1") or newer is missing. Run: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y" >&2
        exit 1
    fi
    echo "Installing Rust ..." >&2
    if command -v rustup >/dev/null; then
        # What this user has chosen for other projects stays.
        export RUSTUP_TOOLCHAIN=stable
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2 || true
    else
        install_packages required curl=curl /etc/ssl/certs/ca-certificates.crt=ca-certificates
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            RUSTUP_INIT_SKIP_PATH_CHECK=yes sh -s -- -y -q --no-modify-path --profile minimal --component rustfmt --component clippy >&2 || true
    fi
    if ! has_cargo "$1"; then
        echo "Rust could not be installed; the messages above say why. https://rustup.rs has other ways." >&2
        exit 1
    fi
}

# set_up ROOT PROBE=PACKAGE... [-- PROBE=PACKAGE...]: makes the machine ready to build the package at ROOT: required
# packages, after -- those that some steps can do without, and Rust. Prints all that is missing, and asks once.
set_up() {
    local root=$1 required=() missing plan=()
    shift
    while (($#)) && [[ $1 != -- ]]; do
        required+=("$1")
        shift
    done
    local optional=("${@:2}")
    if ! has_cargo "$root"; then
        required+=(curl=curl /etc/ssl/certs/ca-certificates.crt=ca-certificates)
        plan+=("  $(rust_plan "$root")")
    fi
    missing=$(missing_packages "${required[@]}" "${optional[@]}")
    if [[ -n $missing ]] && can_apt; then plan=("  packages, by apt-get: $missing" "${plan[@]}"); fi
    if ((${#plan[@]})); then confirm "Missing on this machine:" "${plan[@]}" || true; fi
    install_packages required "${required[@]}"
    if ((${#optional[@]})); then install_packages optional "${optional[@]}" || echo "Going on without them."; fi
    require_cargo "$root"
}

# rust_target TARGET: makes sure that there is the standard library of a target.
rust_target() {
    if [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]]; then return; fi
    if command -v rustup >/dev/null && rustup target add "$1"; then return; fi
    echo "The target $1 is missing. Run: rustup target add $1" >&2
    return 1
}

# build_program ROOT [ARGUMENT...]: builds the program, for scripts/release (NAMEGATE_PROFILE, NAMEGATE_AUDITABLE) with the list of its crates
# inside.
build_program() {
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$1/target}
    cargo ${NAMEGATE_AUDITABLE:+auditable} build --profile "${NAMEGATE_PROFILE:-release}" --locked --manifest-path "$1/Cargo.toml" --bin namegate "${@:2}" >&2
}

# cargo_tool NAME VERSION [ARGUMENT...]: puts exactly this version of a tool of crates.io on the path, so that a script does the same
# everywhere and every year. One of another version that the user has stays as it is.
cargo_tool() {
    local dir=${CARGO_TARGET_DIR:-$root/target}/tools/$1-$2
    if [[ $("$1" --version 2>/dev/null) == *"$2"* ]]; then return; fi
    if [[ ! -x $dir/bin/$1 ]]; then cargo install --locked --root "$dir" --version "=$2" "$1" "${@:3}" >&2; fi
    PATH=$dir/bin:$PATH
}

# cargo_about: the tool that collects the licences of linked crates.
cargo_about() { cargo_tool cargo-about 0.9.3 --features cli; }
