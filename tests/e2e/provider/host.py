"""What the native provider needs of this machine: root, Debian packages, kernel settings."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.commands import run
from tests.e2e.provider.layout import state_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEEDS_ROOT: Final = (
    "the end-to-end tests need root (for the native cluster), or GRID_E2E_PROVIDER=kind with "
    "Docker, or GRID_E2E_PROVIDER=existing with GRID_E2E_CONTEXT naming a kubeconfig context"
)
APT_TIMEOUT_S: Final = 600.0
RUN_PROGRAMS: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "ipset": "ipset",
    "iptables": "iptables",
    "nft": "nftables",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
IMAGE_PROGRAMS: Final[Mapping[str, str]] = {"buildah": "buildah"}
# The kubelet sets these; they belong to the whole machine, not to its namespaces.
KUBELET_SYSCTLS: Final = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


def is_root() -> bool:
    return os.geteuid() == 0


def require_root() -> None:
    """Refuse to go on as anyone else.

    Raises:
        MissingPartError: This process is not root's.
    """
    if not is_root():
        raise MissingPartError(NEEDS_ROOT)


def require_programs(programs: Mapping[str, str]) -> None:
    """Install the Debian packages of programs that are not there.

    Raises:
        MissingPartError: They are missing and cannot be installed; the message names them.
    """
    missing = _missing_packages(programs)
    if not missing:
        return
    wanted = " ".join(missing)
    if not is_root() or shutil.which("apt-get") is None:
        raise MissingPartError(f"missing here: {wanted}; install these packages and try again")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "update", env=env, timeout_s=APT_TIMEOUT_S)
    install = ("apt-get", "-qq", "install", "-y", "--no-install-recommends")
    run(*install, *missing, env=env, timeout_s=APT_TIMEOUT_S)
    if still_missing := _missing_packages(programs):
        raise MissingPartError(f"installed, but not found: {' '.join(still_missing)}")


def _missing_packages(programs: Mapping[str, str]) -> list[str]:
    return sorted({pkg for program, pkg in programs.items() if shutil.which(program) is None})


@contextlib.contextmanager
def host_lock() -> Iterator[None]:
    """Hold the one lock for what all clusters of this machine share."""
    state_root().mkdir(parents=True, exist_ok=True)
    with (state_root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def save_sysctls() -> None:
    """Remember the machine's settings unless an earlier cluster's `up` did (under the lock)."""
    saved = _saved_sysctls()
    if not saved.exists():
        values = {key: Path("/proc/sys", key).read_text().strip() for key in KUBELET_SYSCTLS}
        saved.write_text(json.dumps(values))


def restore_sysctls() -> None:
    """Set the machine's settings as they were before the first cluster (under the lock)."""
    saved = _saved_sysctls()
    if not saved.exists():
        return
    for key, value in json.loads(saved.read_text()).items():
        Path("/proc/sys", key).write_text(value)
    saved.unlink()


def _saved_sysctls() -> Path:
    return state_root() / "sysctls.json"
