# Sourced by the scripts in the parent directory: builds the Python package (crates/python) into a virtual environment.
# shellcheck shell=bash

# These versions, so that a test does the same everywhere and every year, with Python 3.10 to 3.14.
# shellcheck disable=SC2034 # for scripts that source this
spark=(pyspark==4.0.2 pandas==2.3.3)

# make_environment DIR [PACKAGE...]: creates a virtual environment with what builds the package, the engines that it is tested
# with, and these packages. Fails without python3-venv or PyPI.
make_environment() {
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check \
        maturin==1.16.0 pyarrow==22.0.0 duckdb==1.4.5 polars==1.44.2 pytest==8.4.2 \
        "numpy==2.2.6; python_version < '3.11'" "numpy==2.4.6; python_version >= '3.11'" "${@:2}"
}

# install_wheel ROOT DIR PROFILE: builds the package with this profile of cargo, and installs it there.
install_wheel() {
    (cd -- "$1/crates/python" && VIRTUAL_ENV=$2 "$2/bin/maturin" develop --profile "$3" --locked)
}
