"""Names, addresses and directories of one native cluster, all from its name and slot.

A slot is a small number that no other cluster on this machine has: several clusters stand side
by side. Pod and service addresses exist only inside the cluster's own namespaces, the nodes'
network is the only one that the host is connected to.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.provider.base import ProviderError

SLOTS: Final = 16
MAX_NODES: Final = 9
NAME: Final = re.compile(r"[a-z][a-z0-9]{0,15}")
SERVICE_CIDR: Final = "10.96.0.0/16"
API_SERVICE_IP: Final = "10.96.0.1"
DNS_SERVICE_IP: Final = "10.96.0.10"
POD_CIDR: Final = "10.244.0.0/16"
CONTROL_PLANE: Final = "cp"
NATIVE_DIR: Final = Path(__file__).resolve().parents[1] / "native"


def state_root() -> Path:
    """Return the directory of all clusters' state.

    It must not lie under /run, /var/lib or /var/log: a node lays its own directories there.
    """
    return Path(os.environ.get("GRID_E2E_STATE_DIR", "/var/tmp/grid-native"))


@dataclass(frozen=True, slots=True)
class Machine:
    """The control plane or one node: a set of namespaces."""

    name: str
    index: int
    netns: str
    cgroup: str
    address: str
    directory: Path
    pod_cidr: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything that follows from a cluster's name and slot."""

    name: str
    slot: int
    nodes: int

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ProviderError(f"cluster name {self.name!r}: want {NAME.pattern}")
        if not 0 <= self.nodes <= MAX_NODES:
            raise ProviderError(f"{self.nodes} nodes: want 0 to {MAX_NODES}")

    @property
    def directory(self) -> Path:
        return state_root() / self.name

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.pki / "admin.kubeconfig"

    @property
    def prefix(self) -> str:
        """The start of every kernel object's name of this cluster."""
        return f"grid-{self.name}-"

    @property
    def host_link(self) -> str:
        """The host's end of its one link to the nodes' network (at most 15 characters)."""
        return f"grid-s{self.slot}"

    def address(self, host_number: int) -> str:
        # The range that RFC 2544 keeps for benchmarks: no real network uses it.
        return f"198.18.{32 + self.slot}.{host_number}"

    @property
    def api_server(self) -> str:
        return f"https://{self.address(1)}:6443"

    @property
    def control_plane(self) -> Machine:
        return self._machine(CONTROL_PLANE, 0, self.address(1), None)

    @property
    def workers(self) -> tuple[Machine, ...]:
        return tuple(
            self._machine(f"n{number}", number, self.address(10 + number), f"10.244.{number}.0/24")
            for number in range(1, self.nodes + 1)
        )

    @property
    def machines(self) -> tuple[Machine, ...]:
        return (self.control_plane, *self.workers)

    def worker(self, name: str) -> Machine:
        """Return the node of a name.

        Raises:
            ProviderError: There is none.
        """
        for machine in self.workers:
            if machine.name == name:
                return machine
        raise ProviderError(f"cluster {self.name} has no node {name}")

    def _machine(self, name: str, index: int, address: str, pod_cidr: str | None) -> Machine:
        full_name = self.prefix + name
        directory = self.directory / "machines" / name
        return Machine(name, index, full_name, full_name, address, directory, pod_cidr)
