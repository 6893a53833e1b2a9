"""Runs helm, with a cluster and without, and reads back what it renders."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RUN_LIMIT_S: Final = 50.0
HOMES: Final = ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
NOTES: Final = "\nNOTES:\n"


class _Loader(yaml.CSafeLoader):
    """Reads `<<` and `=` as values as Kubernetes does: as text."""


def _text(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _tag in ("merge", "value"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _text)


@dataclass(frozen=True, slots=True)
class Helm:
    """One program and one chart, rendered for one release."""

    program: Path
    chart: Path
    home: Path
    """A directory of its own for what helm keeps."""
    release: str = "grid-operator"
    namespace: str = "grid-system"
    limit_s: float = RUN_LIMIT_S
    cluster: tuple[str, ...] = ()
    """Arguments that name the Kubernetes; none is needed to render."""

    def run(
        self, *arguments: str, values: Mapping[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run helm with the values, if any, as a file on its standard input."""
        given = ("--values", "-") if values is not None else ()
        return subprocess.run(
            [self.program, *arguments, *given, *self.cluster],
            input=_yaml(values) if values is not None else "",
            env={"PATH": os.defpath, **dict.fromkeys(HOMES, str(self.home))},
            capture_output=True,
            text=True,
            timeout=self.limit_s,
            check=False,
        )

    def text(self, values: Mapping[str, Any] | None = None, *more: str) -> str:
        """Return what `helm template` writes."""
        ran = self.run("template", *self._release, *more, values=values)
        assert ran.returncode == 0, ran.stderr
        # What helm ignores it says in a warning.
        assert ran.stderr == ""
        return ran.stdout

    def objects(self, values: Mapping[str, Any] | None = None, *more: str) -> list[dict[str, Any]]:
        """Return the rendered objects."""
        read = yaml.load_all(self.text(values, *more), Loader=_Loader)
        return [found for found in read if found is not None]

    def refusal(self, values: Mapping[str, Any], *more: str) -> str:
        """Return helm's words about values that it must not take."""
        ran = self.run("template", *self._release, *more, values=values)
        assert ran.returncode != 0, "helm took the values"
        return ran.stderr

    def notes(self, values: Mapping[str, Any] | None = None, *more: str) -> str:
        """Return what helm says after an installation."""
        dry = more or ("--dry-run=client",)
        ran = self.run("install", *self._release, *dry, values=values)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.partition(NOTES)[2]

    def deploy(self, values: Mapping[str, Any] | None = None, *more: str) -> None:
        """Install or upgrade the release on the cluster."""
        ran = self._deploy(values, *more)
        assert ran.returncode == 0, ran.stderr

    def refused_deploy(self, values: Mapping[str, Any] | None = None, *more: str) -> str:
        """Return why the release cannot be installed or upgraded."""
        ran = self._deploy(values, *more)
        assert ran.returncode != 0, "helm installed or upgraded it"
        return ran.stderr

    def roll_back(self) -> None:
        """Take the release up as it was before."""
        ran = self.run("rollback", self.release, "--namespace", self.namespace)
        assert ran.returncode == 0, ran.stderr

    def uninstall(self) -> None:
        """Take the release away, and wait until its objects are gone."""
        ran = self._uninstall()
        assert ran.returncode == 0, ran.stderr

    def refused_uninstall(self, *more: str) -> str:
        """Return why the release cannot be taken away."""
        ran = self._uninstall(*more)
        assert ran.returncode != 0, "helm uninstalled it"
        return ran.stderr

    def complaints(self, *files: Path) -> str:
        """Return what `helm lint --strict` has against the chart with these values."""
        named = [word for file in files for word in ("--values", str(file))]
        ran = self.run("lint", "--strict", "--quiet", str(self.chart), *named)
        return (ran.stdout + ran.stderr).strip() if ran.returncode else ""

    def _deploy(
        self, values: Mapping[str, Any] | None, *more: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run("upgrade", "--install", *self._release, *more, values=values)

    def _uninstall(self, *more: str) -> subprocess.CompletedProcess[str]:
        named = (self.release, "--namespace", self.namespace)
        return self.run("uninstall", *named, "--wait", *more)

    @property
    def _release(self) -> tuple[str, ...]:
        return self.release, str(self.chart), "--namespace", self.namespace


def _yaml(values: Mapping[str, Any]) -> str:
    """Return text that every version of YAML reads alike: JSON, with the escapes of YAML."""
    text = json.dumps(dict(values), ensure_ascii=False)
    return re.sub(r"[^\x20-\x7e]", lambda found: f"\\U{ord(found[0]):08x}", text)
