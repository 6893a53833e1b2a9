"""A cluster that is already there, reached through a kubeconfig context that the caller names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.base import Capability, MissingPartError, WithoutMachineControl
from tests.e2e.provider.commands import run

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTEXT_VARIABLE: Final = "GRID_E2E_CONTEXT"
DEFAULT_KUBECONFIG: Final = "~/.kube/config"


class ExistingProvider(WithoutMachineControl):
    """Touches nothing but the named context; makes no cluster and takes none away."""

    capabilities = frozenset({Capability.STORAGE})

    def __init__(self, context: str | None = None) -> None:
        named = context or os.environ.get(CONTEXT_VARIABLE)
        if not named:
            raise MissingPartError(f"name the kubeconfig context to use in {CONTEXT_VARIABLE}")
        self.name = named

    @property
    def kubeconfig(self) -> Path:
        return Path(os.environ.get("KUBECONFIG", DEFAULT_KUBECONFIG)).expanduser()

    @property
    def kubectl(self) -> Sequence[str]:
        return ("kubectl", "--kubeconfig", str(self.kubeconfig), "--context", self.name)

    def up(self, nodes: int = 1) -> None:
        found = len(json.loads(run(*self.kubectl, "get", "nodes", "-o", "json"))["items"])
        if found < nodes:
            raise MissingPartError(f"context {self.name} has {found} nodes, {nodes} are needed")

    def down(self) -> None:
        """The cluster belongs to someone else."""

    def load_image(self, archive: Path) -> None:
        raise MissingPartError(f"push {archive.name} to a registry that the cluster reaches")
