# Sourced by the scripts beside it: what is made from the program itself for whoever installs it.
# shellcheck shell=bash

# generate PROGRAM DIR: manual pages, completions and the helper of mount(8), in DIR, which is made anew.
generate() {
    local program=$1 dir=$2 shell
    rm -rf -- "$dir"
    mkdir -p -- "$dir/man" "$dir/completions"
    "$program" man "$dir/man"
    for shell in bash zsh fish; do "$program" completions "$shell" >"$dir/completions/namegate.$shell"; done
    # Relative, so that it holds wherever the tree is unpacked.
    ln -s ../bin/namegate "$dir/mount.namegate"
}
