"""Writes the charts' copies of `monitoring/`, and what kustomize installs from the operator's.

`python -m tests.helm.manifests` does both.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.helm.monitoring import copy_monitoring
from tests.helm.program import helm_program
from tests.helm.running import Helm

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "charts" / "grid-operator"
HEAD: Final = "# Written by `make manifests` from charts/grid-operator.\n"
OTHER_NAMESPACE: Final = "other"
"""Stands for the one that `kubectl -n` says."""
OF_A_RELEASE: Final = re.compile(
    r"^ +(app\.kubernetes\.io/(instance|part-of|version|managed-by)|helm\.sh/chart): .*\n", re.M
)
SOURCE: Final = re.compile(r"\A# Source: grid-operator/templates/(\S+)\n")
NAMESPACE: Final = re.compile(rf'^  namespace: "?{OTHER_NAMESPACE}"?\n', re.M)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file, and which of the chart's objects it holds."""

    path: Path
    templates: tuple[str, ...]
    values: Mapping[str, Any]
    with_text: str = ""
    """Only objects whose text has this."""


MANIFESTS: Final = (
    Manifest(Path("install/rbac.yaml"), ("service-account.yaml", "roles.yaml"), {}),
    *(
        Manifest(Path("install") / name, (name,), {})
        for name in (
            *("deletion-protection.yaml", "deployment.yaml", "network-policy.yaml"),
            "user-roles.yaml",
        )
    ),
    Manifest(
        Path("install-namespace/role.yaml"),
        ("roles.yaml",),
        {"watch": {"namespaces": [OTHER_NAMESPACE]}},
        f'\n  namespace: "{OTHER_NAMESPACE}"\n',
    ),
    Manifest(
        Path("install-all-namespaces/cluster-role.yaml"),
        ("roles.yaml",),
        {"watch": {"all": True}},
        "\nkind: ClusterRole",
    ),
)


def written_manifests(helm: Helm) -> dict[Path, str]:
    """Return the text of each file, by its path below `operator`."""
    return {manifest.path: _text(helm, manifest) for manifest in MANIFESTS}


def _text(helm: Helm, manifest: Manifest) -> str:
    parts = re.split(r"^---\n", helm.text(manifest.values), flags=re.M)
    chosen = []
    for part in parts:
        source = SOURCE.match(part)
        if source and source[1] in manifest.templates and manifest.with_text in part:
            text = NAMESPACE.sub("", OF_A_RELEASE.sub("", part[source.end() :]))
            chosen.append((manifest.templates.index(source[1]), text.strip("\n") + "\n"))
    ordered = sorted(chosen, key=lambda found: found[0])
    return HEAD + "---\n".join(text for _, text in ordered)


def main() -> int:
    """Write every file."""
    copy_monitoring()
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(helm_program(), CHART, Path(home))
        for path, text in written_manifests(helm).items():
            (ROOT / "operator" / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
