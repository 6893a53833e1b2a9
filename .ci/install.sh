# Sourced by ./run: installs into .venv what members, the operator and gridctl need to run, unless
# the same is there. `make setup`, which ./test calls, installs the tools of development as well.

grid_is_installed() {
    cat run.lock pyproject.toml | cmp -s - .venv/.run
}

if ! grid_is_installed; then
    mkdir -p build
    # Two starts at once do not install into the same place.
    exec 9>build/.install.lock
    ! command -v flock >/dev/null 2>&1 || flock 9
    if ! grid_is_installed; then
        echo "installing what running needs into .venv" >&2
        "$PYTHON" -m venv .venv
        grid_pip=".venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
        $grid_pip --require-hashes -r run.lock
        $grid_pip --no-deps --no-build-isolation -e .
        cat run.lock pyproject.toml >.venv/.run
    fi
    exec 9>&-
fi
