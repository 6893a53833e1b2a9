"""What the engine of one of several members is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.api import EngineError

MAX_FULL_REPLICAS: Final = 5
"""Members that hold all of the data. Where there are more, the others hold a part of it."""


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """Files in PEM form with which members know each other; each end checks the other."""

    certificate_file: Path
    key_file: Path
    ca_file: Path


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How this member finds the others and is known by them."""

    cluster_name: str
    member_name: str
    """For people: it is part of the name of the member's nats-server."""
    port: int
    """Where this member listens for the others; never shared with REST."""
    members: tuple[tuple[str, int], ...]
    """Host and cluster port of every member, this one included."""
    user: str
    password: str = field(repr=False)
    """What members show each other; who has another one never joins."""
    host: str = "0.0.0.0"  # noqa: S104 - members are on other machines
    """The address to listen on."""
    tls: ClusterTls | None = None
    """None: members talk in plain text."""
    lite: bool = False
    """Whether this member holds no data: it serves REST and forwards."""
    backup_count: int = 1
    """Members that may be lost with their disks at the same time: 0, 1 or 2."""
    directory: Path | None = None
    """Where data is kept; None keeps it in memory only."""
    restore_from: Path | None = None
    """The backup that a new cluster begins as."""
    leftovers: tuple[str, ...] = ()
    """Begin the keys of system values that no backup has and no import takes over."""
    max_payload_bytes: int = 9 << 20
    """The largest record: above the largest value with its key."""
    validation_timeout_s: int = 120
    """How long a start waits for those that are missing and may have what was in memory only."""
    server: Path | None = None
    """The nats-server to run; None looks for one."""
    report_time: Callable[[float], None] | None = None
    """Hears how long commits take, as `JetStreamLog` tells it."""
    on_replaced: Callable[[EngineError], None] | None = None
    """Hears why this process has to end, as an older one is the member."""

    @property
    def copies(self) -> int:
        """How many members are to hold each record, as far as there are so many."""
        return 2 * max(self.backup_count, 1) + 1

    @property
    def alone(self) -> bool:
        """Whether there is no other member."""
        return len(self.members) == 1

    @property
    def crowded(self) -> bool:
        """Whether there may be more members with data than are to hold all of it."""
        return not self.lite and len(self.members) > MAX_FULL_REPLICAS
