"""How well the data of a cluster is replicated, as one member sees it."""

from __future__ import annotations

from typing import NamedTuple


class Replication(NamedTuple):
    """What the member's last look at the streams and its own records told."""

    in_contact: bool
    """Whether a quorum took a record of this member within the last seconds."""
    replicas: int
    """Copies of all streams that there should be."""
    not_current: int
    """How many of them are missing, behind or offline."""
    offline: tuple[str, ...]
    """Names of the servers that hold a copy and are not reachable, ordered."""


NOT_REPLICATED = Replication(in_contact=False, replicas=0, not_current=0, offline=())
"""Before the first look."""
