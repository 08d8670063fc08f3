# Sourced by the scripts in the parent directory: builds the Python package (crates/python) into a virtual environment.
# shellcheck shell=bash

# make_environment DIR [PACKAGE...]: creates a virtual environment with what builds the package, the engines that it is tested
# with, and these packages. Fails without python3-venv or PyPI.
make_environment() {
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check \
        'maturin>=1.9,<2' 'pyarrow>=15' 'duckdb>=1.1' numpy 'polars>=1.3' "${@:2}"
}

# install_wheel ROOT DIR PROFILE: builds the package with this profile of cargo, and installs it there.
install_wheel() {
    (cd -- "$1/crates/python" && VIRTUAL_ENV=$2 "$2/bin/maturin" develop --profile "$3" --locked)
}
