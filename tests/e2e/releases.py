"""Helm on the Kubernetes of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.e2e.installation import NAMESPACE, ROOT
from tests.helm.program import helm_program
from tests.helm.running import Helm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.provider.kube import Kube

LIMIT_S: Final = 240.0
"""Longer than helm itself waits for members."""


def helm_on(kube: Kube, chart: str, home: Path, release: str) -> Helm:
    """Return Helm 4 with one of the project's charts, for a release on this Kubernetes."""
    context = kube.provider.kubectl
    named = ("--kube-context", context[-1]) if "--context" in context else ()
    return Helm(
        helm_program(4),
        ROOT / "charts" / chart,
        home,
        release=release,
        namespace=NAMESPACE,
        limit_s=LIMIT_S,
        cluster=("--kubeconfig", str(kube.kubeconfig), *named),
    )
