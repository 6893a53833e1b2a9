"""What the end-to-end tests need of a Kubernetes cluster, whoever provides it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class ProviderError(Exception):
    """The cluster cannot be provided; the message says what to do."""


class MissingPartError(ProviderError):
    """This machine lacks something that the provider needs."""


class CommandError(ProviderError):
    """A command failed; the message carries the command and the end of its output."""


class WaitTimeoutError(ProviderError):
    """A condition did not come true in time."""


class Capability(enum.StrEnum):
    """What a provider can do beyond answering the Kubernetes API."""

    LOAD_IMAGE = "load-image"
    NETWORK_POLICY = "network-policy"
    NODE_POWER = "node-power"
    NODE_CUT = "node-cut"
    SIGNAL = "signal"
    STORAGE = "storage"
    TEARDOWN = "teardown"


class Provider(Protocol):
    """One cluster of one provider.

    Calls block until what they ask for is so. A call whose capability is not in
    `capabilities` raises `MissingPartError`.
    """

    name: str
    capabilities: frozenset[Capability]

    @property
    def kubeconfig(self) -> Path:
        """The file with the administrator's credentials; there once `up` returned."""

    @property
    def kubectl(self) -> Sequence[str]:
        """The start of a kubectl command line that reaches this cluster."""

    def up(self, nodes: int = 1) -> None:
        """Bring the cluster up with all nodes Ready, or leave nothing behind and raise."""

    def down(self) -> None:
        """Take away everything that `up` made; nothing to do is no error."""

    def load_image(self, archive: Path) -> None:
        """Make the image of a docker archive known to every node."""

    def node_off(self, node: str) -> None:
        """Stop a node as a power cut would."""

    def node_on(self, node: str) -> None:
        """Start a node again, with the disk that it had."""

    def cut(self, node: str, others: Sequence[str]) -> None:
        """Drop all traffic between a node (and its pods) and the others."""

    def heal(self) -> None:
        """Undo every `cut`."""

    def signal_pod(self, namespace: str, pod: str, signal: str) -> None:
        """Send a signal (`KILL`, `STOP`, ...) to every process of a pod, from outside it."""

    def logs(self) -> Iterable[tuple[str, str]]:
        """Yield name and text of the logs that show why the cluster itself misbehaves."""


def missing_capabilities(provider: Provider, wanted: Iterable[Capability]) -> str | None:
    """Return why a case that needs these cannot run, and what to do; None when it can."""
    missing = sorted(set(wanted) - provider.capabilities)
    if not missing:
        return None
    return (
        f"provider {provider.name} cannot do: {', '.join(missing)}; choose another provider, "
        "or leave out all cases that need more than an API server: -m 'not capability'"
    )


class WithoutMachineControl:
    """The refusals of a provider that cannot reach under its nodes."""

    def node_off(self, node: str) -> None:
        raise MissingPartError(f"this provider cannot switch node {node} off")

    def node_on(self, node: str) -> None:
        raise MissingPartError(f"this provider cannot switch node {node} on")

    def cut(self, node: str, others: Sequence[str]) -> None:
        raise MissingPartError(f"this provider cannot cut {node} from {', '.join(others)}")

    def heal(self) -> None:
        """Nothing was cut."""

    def logs(self) -> Iterable[tuple[str, str]]:
        return ()

    def signal_pod(self, namespace: str, pod: str, signal: str) -> None:
        raise MissingPartError(f"this provider cannot send {signal} to {namespace}/{pod}")
