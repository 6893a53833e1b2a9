"""What rendering says a cluster should be: plain data between `render` and `decide`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grid_operator.api.conditions import ConfigValidReason
    from grid_operator.api.objects import KubeObject
    from grid_operator.api.wan import PublisherState


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """Why a spec cannot work, for the `ConfigValid` condition."""

    reason: ConfigValidReason
    message: str


@dataclass(frozen=True, slots=True)
class Live:
    """What a running member can take without a restart."""

    digest: str
    """Of all of it; secret content enters as a keyed hash only. Empty: nothing to give."""
    structures: str = ""
    """YAML document for config/upload with the structures that the pods were made without; empty:
    there are none."""
    log_level: str = ""
    """As POST log-level takes it."""
    license: str = field(default="", repr=False)
    replications: tuple[str, ...] = ()
    """Names of the replications that maps of the structures refer to: a member without one of them
    refuses the structures."""


@dataclass(frozen=True, slots=True)
class WanPublisher:
    """One publisher of the spec."""

    replication: str
    id: str
    state: PublisherState
    definition: str
    """JSON by which `addWanConfig` adds it as the members' file has it."""

    @property
    def name(self) -> tuple[str, str]:
        """Replication and id."""
        return self.replication, self.id


@dataclass(frozen=True, slots=True)
class WanWish:
    """What members are to do about WAN replication."""

    publishers: tuple[WanPublisher, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    """Replication and id of publishers that left the spec, and that members may have."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What render says the cluster should consist of now."""

    children: tuple[KubeObject, ...]
    """In the order in which they are applied."""
    live: Live = field(default_factory=lambda: Live(""))
    changes: tuple[str, ...] = ()
    """What differs from the live configuration, each with its effect: `maps[m]: changed:
    restart`."""
    problem: SpecProblem | None = None
    """What the objects that the spec refers to lack; judged like a problem of the spec itself."""
    size: int = 1
    """How many members there are to be now; more than the spec says while some have to leave."""
    wan: WanWish = field(default_factory=WanWish)
    members_tls: bool | None = None
    """Whether the members that there are speak TLS with each other; None: a single one, or none."""
