"""Helm as a tool of tests, built from its Go modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.binaries import built_module, cache_root

SOURCES: Final = Path(__file__).parent
PROGRAM: Final = "helm"
Major = Literal[3, 4]
HELM_VERSIONS: Final[tuple[Major, ...]] = (4, 3)
KNOWS_ITS_KUBERNETES: Final = 4
"""The first major version that finds out for itself which Kubernetes its libraries are made for."""


def helm_program(major: Major = 4) -> Path:
    """Return the helm of the committed go.mod, building it when the cache has none.

    Both are of one Go module, so that they share what they have of Kubernetes: the second one
    costs a few seconds.

    Raises:
        MissingPartError: There is no Go compiler to be had.
        CommandError: The build failed.
    """
    package, place = f"{_module(major)}/cmd/helm", cache_root() / f"helm-{major}"
    flags = ("-ldflags", " ".join(["-s", "-w", *_settings(major)]))
    return built_module(SOURCES, place, (package,), (PROGRAM,), flags) / PROGRAM


def helm_version(major: Major) -> str:
    """Return the version that go.mod names, such as v4.3.1."""
    return _version(_module(major))


def _module(major: Major) -> str:
    return f"helm.sh/helm/v{major}"


def _settings(major: Major) -> list[str]:
    """Return what the linker has to set, as the Makefile of Helm does."""
    values = {"internal/version.version": helm_version(major)}
    if major < KNOWS_ITS_KUBERNETES:
        minor = _version("k8s.io/client-go").split(".")[1]
        for package in ("pkg/chartutil", "pkg/lint/rules"):
            values |= {f"{package}.k8sVersionMajor": "1", f"{package}.k8sVersionMinor": minor}
    return [f"-X {_module(major)}/{name}={value}" for name, value in values.items()]


def _version(module: str) -> str:
    text = (SOURCES / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", text, re.M)
    if found is None:
        raise MissingPartError(f"go.mod names no version of {module}")
    return found.group(1)
