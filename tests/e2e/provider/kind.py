"""A kind cluster, for machines that have Docker and kind.

Unlike the native provider this one is not proved by the project's own checks, which run where
there is no Docker. kind's own network enforces NetworkPolicy.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.base import Capability, WithoutMachineControl
from tests.e2e.provider.commands import run

if TYPE_CHECKING:
    from collections.abc import Sequence

UP_TIMEOUT_S: Final = 600.0
LOAD_TIMEOUT_S: Final = 300.0


class KindProvider(WithoutMachineControl):
    """One kind cluster, known by its name."""

    capabilities = frozenset(
        {
            Capability.LOAD_IMAGE,
            Capability.NETWORK_POLICY,
            Capability.NODE_POWER,
            Capability.SIGNAL,
            Capability.STORAGE,
        }
    )

    def __init__(self, name: str) -> None:
        self.name = f"grid-{name}"

    @property
    def kubeconfig(self) -> Path:
        return Path(tempfile.gettempdir()) / f"{self.name}.kubeconfig"

    @property
    def kubectl(self) -> Sequence[str]:
        return ("kubectl", "--kubeconfig", str(self.kubeconfig))

    def up(self, nodes: int = 1) -> None:
        # kind's first node is also the control plane and runs pods only while it is alone.
        roles = ["control-plane"] + ["worker"] * (nodes if nodes > 1 else 0)
        config = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "nodes": [{"role": role} for role in roles],
        }
        command = ("kind", "create", "cluster", "--name", self.name, "--wait", "5m")
        kubeconfig = ("--kubeconfig", self.kubeconfig, "--config", "-")
        try:
            run(*command, *kubeconfig, stdin=json.dumps(config), timeout_s=UP_TIMEOUT_S)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        run("kind", "delete", "cluster", "--name", self.name, timeout_s=UP_TIMEOUT_S)
        self.kubeconfig.unlink(missing_ok=True)

    def load_image(self, archive: Path) -> None:
        load = ("kind", "load", "image-archive", archive, "--name", self.name)
        run(*load, timeout_s=LOAD_TIMEOUT_S)

    def node_off(self, node: str) -> None:
        run("docker", "kill", node)

    def node_on(self, node: str) -> None:
        run("docker", "start", node)

    def signal_pod(self, namespace: str, pod: str, signal: str) -> None:
        found = json.loads(run(*self.kubectl, "-n", namespace, "get", "pod", pod, "-o", "json"))
        for status in found["status"]["containerStatuses"]:
            container_id = status["containerID"].removeprefix("containerd://")
            kill = ("ctr", "-n", "k8s.io", "task", "kill", "--all", "-s", f"SIG{signal}")
            run("docker", "exec", found["spec"]["nodeName"], *kill, container_id)
