#!/bin/bash -eu
# Not run here: OSS-Fuzz runs it, in the source. Builds the targets, and packs the corpus of each.
cargo fuzz build -O
for target in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$target" .rs)
    cp "fuzz/target/x86_64-unknown-linux-gnu/release/$name" "${OUT:?}/"
    if [[ -e fuzz/corpus/$name.tar.gz ]]; then
        corpus=$(mktemp -d)
        tar -xzf "fuzz/corpus/$name.tar.gz" -C "$corpus"
        (cd "$corpus" && zip -qr "$OUT/${name}_seed_corpus.zip" .)
        rm -r "$corpus"
    fi
done
