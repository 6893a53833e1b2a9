"""What a member counts of WAN replication, for its metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.telemetry.measurements import REQUEST_BOUNDS_S, Durations
from grid_member.wan.members.reports import SenderReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from grid_member.engine.local.wan import PublisherLook
    from grid_member.engine.wan.agreement import PublisherName

MAX_SHOWN: Final = 32
"""Publishers of which metrics tell."""
MAX_SOURCES: Final = 64
REFUSED: Final = "refused"
OTHER_SOURCES: Final = "other"


@dataclass(slots=True)
class PublisherFigures:
    """Of one publisher, all shards together."""

    lanes: int = 0
    """How many shards this member sends."""
    connected: bool = False
    endpoint: str = ""
    """The address that answered last."""
    problem: str = ""
    """Why it is not connected, or why the target takes nothing now."""
    names_problem: str = ""
    """Why a name of the target's endpoints has no address; the target may answer nevertheless."""
    size_problem: str = ""
    """Why batches are smaller than they could be."""
    under_way: int = 0
    """Batches that the target has to answer, and rests after which it is asked again."""
    sent_changes: int = 0
    sent_bytes: int = 0
    """Of batches as they travelled."""
    plain_bytes: int = 0
    """Of the same before they were deflated."""
    batches: Durations = field(default_factory=lambda: Durations(REQUEST_BOUNDS_S))
    """From sending a batch to its answer."""
    blocked: dict[str, str] = field(default_factory=dict)
    """By map, why the target refuses its changes."""

    def end(self) -> None:
        """Have no connection any more."""
        self.connected, self.endpoint, self.problem = False, "", ""
        self.names_problem = self.size_problem = ""
        self.blocked.clear()

    def report(self, *, able: bool = True) -> SenderReport:
        """Return what the other members are told."""
        problem = "; ".join(filter(None, (self.problem, self.names_problem, self.size_problem)))
        return SenderReport(
            able, self.lanes, self.connected, self.endpoint, problem, dict(self.blocked)
        )


class JobFigures(NamedTuple):
    """Of the synchronisations and checks of one publisher."""

    progress: float | None
    """The part of the job under way that is done; None without one."""
    differences: int | None
    """Keys that differed in the last checks of all maps; None without any check."""


NO_JOBS: Final = JobFigures(None, None)


@dataclass(slots=True)
class WanFigures:
    """Of one member."""

    publishers: dict[PublisherName, PublisherFigures] = field(default_factory=dict)
    received: dict[str, Counter[str]] = field(default_factory=dict)
    """By name of the source: how many changes had which result."""
    look: Callable[[PublisherName], PublisherLook | None] = lambda _: None
    """Returns how far a publisher is."""
    of_cluster: Callable[[PublisherName], SenderReport] | None = None
    """Returns how a publisher is by what all members tell; None: this member is alone."""
    unsynced: Callable[[PublisherName], int] = lambda _: 0
    """Returns of how many maps the target may miss changes that are in no queue."""
    tombstones: Callable[[], int] = lambda: 0
    """Returns how many removed keys are remembered."""
    jobs: Callable[[PublisherName], JobFigures] = lambda _: NO_JOBS
    """Returns what is known of a publisher's synchronisations and checks."""

    def publisher(self, name: PublisherName) -> PublisherFigures:
        """Return the figures of a publisher, which begin now if there are none."""
        return self.publishers.setdefault(name, PublisherFigures())

    def keep(self, names: Collection[PublisherName]) -> None:
        """Forget the figures of publishers that are no more."""
        for name in [name for name in self.publishers if name not in names]:
            del self.publishers[name]

    def shown(self) -> list[tuple[PublisherName, PublisherFigures]]:
        """Return the publishers of which metrics tell."""
        return sorted(self.publishers.items(), key=itemgetter(0))[:MAX_SHOWN]

    def of(self, name: PublisherName) -> PublisherFigures:
        """Return the figures of a publisher, those of one that has sent nothing if it has none."""
        return self.publishers.get(name) or PublisherFigures()

    def report(self, name: PublisherName) -> SenderReport:
        """Return how a publisher of the cluster is."""
        return self.of(name).report() if self.of_cluster is None else self.of_cluster(name)

    def count_received(self, source: str, results: Counter[str]) -> None:
        """Count the changes of a batch."""
        if source not in self.received and len(self.received) >= MAX_SOURCES:
            source = OTHER_SOURCES
        self.received.setdefault(source, Counter()).update(results)
