# shellcheck shell=bash
# Kernels of Debian's archive, for virtual machines. $lab is where they are kept, $architecture Debian's name of their processor.
# shellcheck disable=SC2154 # set by the script that reads this file

# read_archive SUITE...: sets apt_options, for Debian's archive apart from what this machine's own apt is configured for, and `offered`, the
# versions of its kernels.
read_archive() {
    local suite archive=http://deb.debian.org
    mkdir -p "$lab/apt/lists/partial" "$lab/apt/archives/partial" "$lab/packages"
    : >"$lab/apt/status"
    for suite; do
        if [[ $suite == *-security ]]; then archive=http://deb.debian.org/debian-security; else archive=http://deb.debian.org/debian; fi
        echo "deb [arch=$architecture signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
    done >"$lab/apt/sources.list"
    apt_options=(-q -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture" -o "Dir::State::status=$lab/apt/status"
        -o "Dir::Etc::sourcelist=$lab/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$lab/apt/lists"
        -o "Dir::Cache=$lab/apt" -o APT::Update::Post-Invoke= -o APT::Update::Post-Invoke-Success= -o Acquire::Languages=none
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=)
    if [[ -z $(find "$lab/apt/lists" -name '*Packages*' -mmin -720 -print -quit) ]]; then
        echo "Reading the lists of Debian's archive"
        apt-get "${apt_options[@]}" update >"$lab/apt/update.log" 2>&1 || cat "$lab/apt/update.log" >&2
    fi
    mapfile -t offered < <(apt-cache "${apt_options[@]}" search --names-only "^linux-image-[0-9].*-$architecture\$" |
        sed -n "s/^linux-image-\([0-9]*\.[0-9]*\.[^ ]*\)-$architecture .*/\1/p" | grep -Ev -- '-(cloud|rt|16k)$' | sort -Vu)
}

# newest_of VERSION: the newest kernel of the archive that this version stands for.
newest_of() {
    local version found=
    for version in "${offered[@]}"; do
        case $version in
            "$1") found=$version && break ;;
            "$1"[.-]*) found=$version ;;
            *) if [[ $1 == newest ]]; then found=$version; fi ;;
        esac
    done
    if [[ -z $found ]]; then
        echo "Debian's archive offers no kernel $1. It has: ${offered[*]}" >&2
        return 1
    fi
    echo "$found"
}

# download PACKAGE: downloads it to $lab/packages, unless it is there.
download() {
    if ! compgen -G "$lab/packages/$1_*.deb" >/dev/null; then
        (cd "$lab/packages" && apt-get "${apt_options[@]}" download "$1")
    fi
}

# unpack KERNEL: downloads the packages of a kernel, and unpacks them to $lab/root-KERNEL.
unpack() {
    local kernel=$1 package packages=("linux-image-$1") target=$lab/root-$1
    if [[ -e $target/done ]]; then return; fi
    # Newer kernels come in several packages, all of them named for the version.
    while read -r package; do packages+=("$package"); done < <(apt-cache "${apt_options[@]}" depends "linux-image-$kernel" |
        sed -n "s/^ *Depends: \(linux-[a-z]*-$kernel\)\$/\1/p")
    rm -rf "$target" && mkdir -p "$target"
    for package in "${packages[@]}"; do
        download "$package"
        dpkg-deb -x "$lab/packages/${package}"_*.deb "$target"
    done
    if [[ ! -e $target/lib ]]; then ln -s usr/lib "$target/lib"; fi
    depmod -b "$target" "$kernel"
    : >"$target/done"
}

# image_of KERNEL: the file to boot.
image_of() { compgen -G "$lab/root-$1/boot/vmlinuz-*" || compgen -G "$lab/root-$1/lib/modules/$1/vmlinuz"; }

# copy_modules KERNEL DIR MODULE...: copies modules and what they need to DIR/modules, and writes there how to load them.
copy_modules() {
    local kernel=$1 dir=$2 module path name
    mkdir -p "$dir/modules"
    for module in "${@:3}"; do
        while read -r _ path _; do
            name=$(basename "$path") && name=${name%.xz} && name=${name%.zst}
            if [[ -e $dir/modules/$name ]]; then continue; fi
            case $path in
                *.xz) xz -dc "$path" >"$dir/modules/$name" ;;
                *.zst) zstd -qdc "$path" >"$dir/modules/$name" ;;
                *) cp "$path" "$dir/modules/$name" ;;
            esac
            echo "insmod /modules/$name"
        done < <(modprobe -d "$lab/root-$kernel" -S "$kernel" --show-depends "$module" | grep ^insmod)
    done >"$dir/modules/load"
}
