"""Which maps are replicated, to which publishers, and the clock that stamps their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.names import find
from grid_member.engine.wan.key_filter import KeyFilter
from grid_member.engine.wan.map_wan import MapWan
from grid_member.engine.wan.publisher_queue import (
    NEEDS_SYNC,
    PublisherQueue,
    Shared,
    Target,
)
from grid_member.engine.wan.stamps import next_stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from grid_member.engine.wan.agreement import (
        Agreement,
        MapReference,
        PublisherName,
        PublisherState,
    )

MAX_RESOLVED: Final = 4096
"""Names of maps whose configuration is remembered: clients choose the names."""


class Registry:
    """The replicated maps of one state. A map is here before its first change is applied."""

    def __init__(self) -> None:
        self.agreement: Agreement | None = None
        self.clock = 0
        """The greatest stamp of all changes that were applied."""
        self.maps: dict[str, MapWan] = {}
        self.forgotten = 0
        """The newest stamp at which forgotten parts of maps were purged or cleared."""
        self.targets: dict[PublisherName, Target] = {}
        """In the order of the agreement."""
        self.shared = Shared()
        self._configured: dict[str, tuple[MapReference | None]] = {}
        self._resolved: dict[str, MapReference | None] = {}

    def tick(self, now_ms: int) -> int:
        """Return the stamp of a change of this cluster, made at the log's time in milliseconds."""
        self.clock = stamp = next_stamp(self.clock, now_ms)
        return stamp

    def of(self, name: str) -> MapWan | None:
        """Return the part of a map that is replicated, which begins now if it has not yet."""
        found = self.maps.get(name)
        if found is None and self._configured and self.reference(name) is not None:
            return self.begin(name)
        return found

    def begin(self, name: str) -> MapWan:
        """Begin to replicate a map; the entries that it has are older than what comes."""
        found = self._new(name)
        self._refer(name, found)
        return found

    def forget(self, name: str) -> None:
        """Forget a map's part that holds nothing any more.

        A source may still have a change from before: such a change of any map that is begun again
        is ambiguous.
        """
        found = self.maps.pop(name)
        # What a part began with is the registry's own mark, or an older one.
        self.forgotten = max(self.forgotten, found.purged, found.cleared)
        found.close()

    def _new(self, name: str) -> MapWan:
        found = self.maps[name] = MapWan(self.clock, self.shared)
        found.purged = self.forgotten
        return found

    def reference(self, name: str) -> MapReference | None:
        """Return the reference of the configuration that fits the map's name best."""
        try:
            return self._resolved[name]
        except KeyError:
            configured = find(self._configured, name)
            if len(self._resolved) >= MAX_RESOLVED:
                self._resolved.clear()
            found = self._resolved[name] = None if configured is None else configured[0]
            return found

    def agree(self, agreement: Agreement, names: Collection[str], now_ms: int) -> bool:
        """Go by an agreement, unless it is no newer; tell whether it is.

        A state that came from a backup meets an agreement of another cluster id: it is somebody
        else now, and has queued nothing.

        Args:
            agreement: the new one.
            names: the maps that have entries.
            now_ms: the log's time, milliseconds since 1970.
        """
        former = self.agreement
        if former is not None and former.cluster_id != agreement.cluster_id:
            self.begin_anew()
        elif former is not None and agreement.revision <= former.revision:
            return False
        self._configure(agreement)
        self.tick(now_ms)
        for name in sorted({*self.maps, *names}):
            found = self.maps.get(name)
            reference = self.reference(name)
            if found is None:
                if reference is None:
                    continue
                found = self._new(name)
            elif reference is None and not found.received:
                found.close()
                del self.maps[name]
                continue
            lacking = self._refer(name, found)
            if name in names or found.tombstones or found.cleared:
                for queue in lacking:
                    queue.set_gaps(queue.gaps | NEEDS_SYNC)
        return True

    def begin_anew(self) -> None:
        """Forget the agreement, the members' states and what is queued: all but the data's own."""
        for name in self.maps:
            found = self.maps[name]
            for publisher in list(found.queues):
                found.drop_publisher(publisher)
        self.agreement = None
        self.targets = {}
        self._configured = {}
        self._resolved = {}

    def restore(
        self,
        clock: int,
        agreement: Agreement | None,
        states: Iterable[tuple[PublisherName, bytes, PublisherState]],
    ) -> None:
        """Be what a snapshot says; its maps come later.

        Raises:
            KeyError: a state is one of a publisher that the agreement has not.
        """
        self.clock = clock
        if agreement is not None:
            self._configure(agreement)
        for publisher, member, state in states:
            self.targets[publisher].states[member] = state

    def _configure(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._configured = {name: (reference,) for name, reference in agreement.maps}
        self._resolved = {}
        self.shared.max_tombstones = agreement.max_tombstones
        former = self.targets
        self.targets = {}
        for agreed in agreement.publishers:
            target = Target(agreed)
            before = former.get(agreed.name)
            if before is not None:
                target.follow(before)
            self.targets[agreed.name] = target

    def _refer(self, name: str, found: MapWan) -> list[PublisherQueue]:
        """Let a map go by its reference; return the queues whose targets may lack older changes.

        Those are of publishers that the map had not, or that send to another cluster than before,
        and all of them when the reference includes more than before.
        """
        former, reference = found.reference, self.reference(name)
        found.reference = reference
        widened = former is not None and reference is not None and _widens(former, reference)
        found.filter = KeyFilter(reference)
        wanted = {
            publisher: target
            for publisher, target in self.targets.items()
            if reference is not None and publisher.replication == reference.replication
        }
        for publisher in [one for one in found.queues if one not in wanted]:
            found.drop_publisher(publisher)
        lacking: list[PublisherQueue] = []
        queues: dict[PublisherName, PublisherQueue] = {}
        for publisher, target in wanted.items():
            queue = found.queues.get(publisher)
            if queue is None:
                queue = PublisherQueue(name, target, self.shared)
                lacking.append(queue)
            elif widened or queue.target.agreed.cluster_name != target.agreed.cluster_name:
                lacking.append(queue)
            queue.target = target
            queues[publisher] = queue
        found.queues = queues
        return lacking


def _widens(former: MapReference, reference: MapReference) -> bool:
    """Tell whether changes may have been left out that would be queued by the reference."""
    filters = (former.include, former.exclude), (reference.include, reference.exclude)
    return filters[0] != filters[1] or (reference.republishing and not former.republishing)
