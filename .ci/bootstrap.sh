# Sourced by ./run and ./test: makes sure that a Python with venv is there, and for ./test what the
# tests need. As root on Debian it installs them; elsewhere it says exactly what to install.

grid_python_works() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

grid_find_python() {
    for grid_candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        [ -n "$grid_candidate" ] || continue
        if grid_python_works "$grid_candidate"; then
            PYTHON=$(command -v "$grid_candidate")
            export PYTHON
            return 0
        fi
    done
    return 1
}

# Says which package has the headers of Debian's Python, when they are not there.
grid_missing_headers() {
    case $PYTHON in
        /usr/bin/*) "$PYTHON" -c '
import pathlib, sys, sysconfig
if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    print("python%d.%d-dev" % sys.version_info[:2])' ;;
    esac
}

grid_missing=
grid_find_python || grid_missing="python3 python3-venv"

# The disk tests compile small shims that record or break what is written, and members are tested
# compiled; the TLS tests make certificates; the tests of lines that swallow packets make networks
# of their own; the configurations of docs/load-balancers.md run, and the blocks of
# docs/tutorial-kubernetes.md.
grid_balancers=
if [ -n "${GRID_NEEDS_TEST_TOOLS:-}" ]; then
    command -v make >/dev/null 2>&1 || grid_missing="$grid_missing make"
    command -v cc >/dev/null 2>&1 || grid_missing="$grid_missing gcc libc6-dev"
    if [ -n "${PYTHON:-}" ]; then
        grid_headers=$(grid_missing_headers)
        [ -z "$grid_headers" ] || grid_missing="$grid_missing $grid_headers"
    else
        grid_missing="$grid_missing python3-dev"
    fi
    command -v openssl >/dev/null 2>&1 || grid_missing="$grid_missing openssl"
    command -v curl >/dev/null 2>&1 || grid_missing="$grid_missing curl"
    PATH=$PATH:/usr/sbin:/sbin command -v nft >/dev/null 2>&1 || grid_missing="$grid_missing nftables"
    PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null 2>&1 || grid_missing="$grid_missing iproute2"
    PATH=$PATH:/usr/sbin:/sbin command -v nginx >/dev/null 2>&1 || grid_balancers="nginx"
    PATH=$PATH:/usr/sbin:/sbin command -v haproxy >/dev/null 2>&1 ||
        grid_balancers="$grid_balancers haproxy"
    [ -z "$grid_balancers" ] || grid_missing="$grid_missing $grid_balancers"
fi

if [ -n "$grid_missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing:$grid_missing" | sed 's/: */: /' >&2
        apt-get update -qq >&2
        # shellcheck disable=SC2086  # a list of package names
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
            --no-install-recommends $grid_missing >&2
        # The tests start their own; the ones of the packages would hold port 80.
        # shellcheck disable=SC2086  # a list of services
        [ -z "$grid_balancers" ] || ! command -v systemctl >/dev/null 2>&1 ||
            systemctl disable --now $grid_balancers >/dev/null 2>&1 || true
    else
        echo "This needs: $grid_missing (Python 3.11 or newer, with the venv module)." >&2
        echo "On Debian or Ubuntu, as root: apt-get install $grid_missing" >&2
        exit 2
    fi
    grid_find_python || {
        echo "No Python 3.11 or newer with the venv module was found; name one: PYTHON=… $0" >&2
        exit 2
    }
fi
