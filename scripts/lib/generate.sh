# Sourced by the scripts in the parent directory: generates the files of an installation that are not in the source tree.
# shellcheck shell=bash

# The names under which mount(8) looks for the program: by the type that is asked for, and by the type that the mount table shows,
# as in `mount -o remount,ro MOUNTPOINT`. Without the second, mount.fuse of the package fuse3 is started instead.
HELPERS="mount.namegate mount.fuse.namegate"

# link_helpers TARGET DIR: makes the links for mount(8) in DIR.
link_helpers() {
    local helper
    mkdir -p -- "$2"
    for helper in $HELPERS; do ln -sfn -- "$1" "$2/$helper"; done
}

# generate PROGRAM DIR: writes manual pages, completions and links to DIR, which is replaced.
generate() {
    local program=$1 dir=$2 shell
    rm -rf -- "$dir"
    mkdir -p -- "$dir/man" "$dir/completions"
    "$program" man "$dir/man"
    for shell in bash zsh fish; do "$program" completions "$shell" >"$dir/completions/namegate.$shell"; done
    # Relative links, which work wherever the tree is unpacked.
    link_helpers ../bin/namegate "$dir/sbin"
    # In a directory where it leads nowhere: cargo-deb takes no link to a directory, and cargo has one of this name in target/release.
    mkdir -- "$dir/links"
    ln -s ../examples "$dir/links/examples"
}

# generate_licenses ROOT FILE: writes the licences of all linked crates, with their texts, to FILE.
generate_licenses() {
    # cargo about must not download licences: the crates contain them. So all crates must be present.
    cargo fetch --quiet --locked --manifest-path "$1/Cargo.toml"
    cargo about generate --locked --offline --fail --manifest-path "$1/Cargo.toml" \
        --config "$1/scripts/licenses/about.toml" --output-file "$2" "$1/scripts/licenses/text.hbs"
}
