"""Helm as a tool of tests, built from its Go module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.e2e.provider.base import MissingPartError
from tests.e2e.provider.binaries import built_module, cache_root

SOURCES: Final = Path(__file__).parent
PROGRAM: Final = "helm"
PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"
VERSION_VARIABLE: Final = "helm.sh/helm/v4/internal/version.version"


def helm_program() -> Path:
    """Return the helm of the committed go.mod, building it when the cache has none.

    Raises:
        MissingPartError: There is no Go compiler to be had.
        CommandError: The build failed.
    """
    flags = ("-ldflags", f"-s -w -X {VERSION_VARIABLE}={helm_version()}")
    return built_module(SOURCES, cache_root() / "helm", (PACKAGE,), (PROGRAM,), flags) / PROGRAM


def helm_version() -> str:
    """Return the version that go.mod names, such as v4.3.1."""
    found = re.search(r"^\s*helm\.sh/helm/v4 (v\S+)", (SOURCES / "go.mod").read_text(), re.M)
    if found is None:
        raise MissingPartError("go.mod names no version of helm.sh/helm/v4")
    return found.group(1)
