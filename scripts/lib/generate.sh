# Sourced by the scripts beside it: files of an installation that are not in the source tree.
# shellcheck shell=bash

# generate PROGRAM DIR: manual pages, completions and links, in DIR, which is made anew.
generate() {
    local program=$1 dir=$2 shell
    rm -rf -- "$dir"
    mkdir -p -- "$dir/man" "$dir/completions"
    "$program" man "$dir/man"
    for shell in bash zsh fish; do "$program" completions "$shell" >"$dir/completions/namegate.$shell"; done
    # Relative links, which hold wherever the tree is unpacked.
    ln -s ../bin/namegate "$dir/mount.namegate"
    ln -s ../examples "$dir/examples"
}

# generate_licenses ROOT FILE: the licences of all crates that the program links, with their texts.
generate_licenses() {
    # cargo about must not ask servers for licences: the crates bring them. So all crates have to be here.
    cargo fetch --quiet --locked --manifest-path "$1/Cargo.toml"
    cargo about generate --locked --offline --fail --manifest-path "$1/Cargo.toml" \
        --config "$1/scripts/licenses/about.toml" --output-file "$2" "$1/scripts/licenses/text.hbs"
}
