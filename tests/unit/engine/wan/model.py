"""Clusters of real states that replicate to each other over a wire that loses and reorders.

One run is a short story by chance: clients put, remove and clear, clocks are skewed and jump,
entries expire, queues are full, members are paused and stopped, states restart from a snapshot at
any record. It ends amid flights; then the wire becomes reliable until nothing waits. What all
clusters hold then must be the winner among all changes, whichever cluster made them, and what
arrives once more must change nothing.

The runs are short, since later writes hide faults.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.api import Refused
from grid_member.engine.state import codec, snapshot
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    MapClear,
    MapPut,
    MapRemove,
    Operation,
    Outcome,
    Record,
    WanAcknowledge,
    WanAgree,
    WanCompare,
    WanMemberState,
    WanMerge,
    WanPurge,
)
from grid_member.engine.wan.agreement import (
    MergePolicy,
    PublisherName,
    PublisherState,
    WhenQueueFull,
)
from grid_member.engine.wan.changes import Change, ChangeKind, MergeResult
from grid_member.engine.wan.stamps import COUNTER_BITS, EPOCH_MS, last_stamp
from tests.unit.engine.wan.agreements import MAP, MEMBERS, agreement, publisher

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEPS: Final = 80
KEYS: Final = ("k", "l", "m", "n")
BEGIN_MS: Final = EPOCH_MS + 1_000_000
TTL_MS: Final = 30
FLIGHTS: Final = 3
"""Batches of a queue under way at a time."""
FAR_MS: Final = 100_000
"""A clock that is so far ahead is wrong: no other cluster takes its changes before their time."""
REPEATED: Final = 8
"""Batches that arrive once more when all is quiet."""
ROUNDS: Final = 60
"""Exchanges after which a run that is not quiet never will be."""
UNLIMITED: Final = 1 << 30
Path = tuple[str, str]


class Topology(NamedTuple):
    """Which cluster publishes to which."""

    names: str
    edges: tuple[Path, ...]
    republishing: bool
    writers: str = ""
    """The clusters whose clients write; empty means all."""
    policy: MergePolicy = MergePolicy.LATEST_UPDATE


def _both_ways(*paths: str) -> tuple[Path, ...]:
    return tuple(edge for ends in paths for edge in ((ends[0], ends[1]), (ends[1], ends[0])))


TOPOLOGIES: Final = {
    "pair": Topology("AB", _both_ways("AB"), republishing=True),
    "star": Topology("ABCD", _both_ways("AB", "AC", "AD"), republishing=True),
    "mesh": Topology("ABC", _both_ways("AB", "AC", "BC"), republishing=False),
    "ring": Topology("ABC", (("A", "B"), ("B", "C"), ("C", "A")), republishing=True),
    "fan": Topology("ABC", (("A", "B"), ("A", "C")), republishing=True, writers="A"),
    "chain": Topology("ABC", _both_ways("AB", "BC"), republishing=True),
    "loop": Topology(
        "ABC",
        (("A", "B"), ("B", "C"), ("C", "A")),
        republishing=True,
        writers="A",
        policy=MergePolicy.PASS_THROUGH,
    ),
}


class Cluster:
    """A state, and the log that feeds it."""

    def __init__(self, name: str, topology: Topology, chance: random.Random) -> None:
        self.name = name
        self.cluster_id = name.encode() * 16
        self.state = State()
        self.skew_ms = chance.choice([0, 0, chance.randrange(-40, 40)])
        self.counters = dict.fromkeys(MEMBERS, 0)
        capacity = chance.choice([2, 3, 100, 100])
        when_full = chance.choice(list(WhenQueueFull))
        targets = [target for source, target in topology.edges if source == name]
        self.agreement = agreement(
            tuple(publisher(target, capacity, when_full) for target in targets),
            cluster_id=self.cluster_id,
            policy=topology.policy,
            republishing=topology.republishing,
            max_tombstones=UNLIMITED,
        )

    def now_ms(self, step: int) -> int:
        """Return the log's time, which never goes back."""
        return max(self.state.timestamp_ms, BEGIN_MS + step + self.skew_ms)

    def apply(self, member: bytes, step: int, *operations: Operation) -> list[Outcome]:
        """Append a record to the log, and apply what can be read of it."""
        self.counters[member] += 1
        written = codec.encode_record(Record(member, 1, self.counters[member], operations))
        state, record = self.state, codec.decode_record(written)
        outcomes = state.apply(state.sequence + 1, self.now_ms(step), record)
        assert outcomes is not None
        return outcomes

    def expire(self, step: int) -> None:
        """Remove what has ended."""
        over = self.state.maps.due(self.now_ms(step), 10)
        if over:
            self.apply(MEMBERS[0], step, *over)

    def restart(self) -> None:
        """Begin with a snapshot, as it is written and read."""
        target = State()
        for part in snapshot.parts(self.state.snapshot()):
            target.load(codec.decode_parts(codec.encode_parts([part])))
        self.state = target

    def changes(self, step: int) -> list[Change]:
        """Return the last change of each key, and the last clear."""
        wan = self.state.wan
        found = [
            change
            for key in KEYS
            if (change := wan.change(MAP, key, self.now_ms(step))) is not None
        ]
        cleared = wan.clear_change(MAP)
        return [cleared, *found] if cleared.stamp else found

    def content(self) -> tuple[dict[str, object], dict[str, int], int]:
        """Return entries with their stamps, tombstones that count, and the stamp of the clear."""
        found = self.state.wan.maps.get(MAP)
        if found is None:
            return {}, {}, 0
        of_map = self.state.maps.by_name.get(MAP)
        entries = {} if of_map is None else of_map.entries
        stamped: dict[str, object] = {key: (of, found.stamp(key)) for key, of in entries.items()}
        return stamped, dict(found.tombstones), found.cleared


class Flight(NamedTuple):
    """A batch of a queue that is under way."""

    number: int
    member: bytes
    place: int
    """Of its last change."""


class Batch(NamedTuple):
    """What is on the wire; the target writes it as a record and reads that."""

    member: bytes
    """Of the target, which takes it in."""
    merges: tuple[WanMerge, ...]


class Link:
    """A sender: what is under way from one cluster to another."""

    gap_matters = True
    """Whether it acknowledges a place only as far as all before it are."""
    runs_compares = True
    """Whether it compares maps whose queue was full."""
    looks_at_passed = True
    """Whether it leaves out what the target has made or sent on itself."""
    waits_for_commit = True
    """Whether the target answers only when it has stored a batch."""

    def __init__(self, source: Cluster, target: Cluster, policy: MergePolicy) -> None:
        self.source = source
        self.target = target
        self.policy = policy
        self.publisher = PublisherName("r", target.name)
        self.flights: dict[bytes, list[Flight]] = {member: [] for member in MEMBERS}
        self.arrived: set[int] = set()
        self.number = 0
        self.job: int | None = None
        """The batch of the compare that is under way."""
        self.jobs: set[int] = set()
        """The batches of all compares: one that was given up may arrive nevertheless."""

    def send(self, step: int, limit: int, *, compares: bool) -> Iterator[tuple[int, Batch]]:
        """Yield a batch of each member's queue, or of a compare that begins."""
        wan = self.source.state.wan
        for member in MEMBERS:
            flights = self.flights[member]
            state = wan.member_state(self.publisher, member)
            if len(flights) >= FLIGHTS or state is not PublisherState.REPLICATING:
                continue
            after = flights[-1].place if flights else 0
            queued = wan.read_queue(
                self.publisher, MAP, member, after, limit, 1000, self.source.now_ms(step)
            )
            if queued:
                self.number += 1
                flights.append(Flight(self.number, member, queued[-1].place))
                yield self.number, self._batch([one.change for one in queued])
        unsynced = wan.unsynced(self.publisher) if compares else wan.comparing(self.publisher)
        if unsynced and self.job is None and self.runs_compares:
            self.number += 1
            self.job = self.number
            self.jobs.add(self.job)
            self.source.apply(MEMBERS[0], step, self._compare(self.number, begin=True))
            yield self.number, self._batch(self.source.changes(step))

    def _batch(self, changes: list[Change]) -> Batch:
        merges = tuple(
            WanMerge(change, self.policy, None)
            for change in changes
            if not (self.looks_at_passed and self.target.cluster_id in change.passed)
        )
        return Batch(MEMBERS[self.number % 2], merges)

    def give_up(self) -> None:
        """Send again what has no answer."""
        for flights in self.flights.values():
            flights.clear()
        self.arrived.clear()
        self.job = None

    def acknowledge(self, number: int, step: int) -> None:
        """Hear that the target has a batch."""
        if number in self.jobs:
            self.jobs.remove(number)
            self.job = None if number == self.job else self.job
            self.source.apply(MEMBERS[0], step, self._compare(number, begin=False))
            return
        self.arrived.add(number)
        for member, flights in self.flights.items():
            place = 0
            while flights and self._next_is_there(flights):
                place = flights.pop(0).place
            if place:
                places = ((MAP, member, place),)
                self.source.apply(MEMBERS[1], step, WanAcknowledge(self.publisher, places))

    def _compare(self, number: int, *, begin: bool) -> WanCompare:
        return WanCompare(self.publisher, MAP, number.to_bytes(16, "big"), begin=begin)

    def _next_is_there(self, flights: list[Flight]) -> bool:
        if not self.gap_matters:
            return any(flight.number in self.arrived for flight in flights)
        return flights[0].number in self.arrived


class Run:
    """One story."""

    def __init__(self, seed: int, topology: Topology, *, purges: bool = False) -> None:
        self.chance = random.Random(seed)
        self.topology = topology
        self.clusters = {name: Cluster(name, topology, self.chance) for name in topology.names}
        self.links = {
            edge: Link(self.clusters[edge[0]], self.clusters[edge[1]], topology.policy)
            for edge in topology.edges
        }
        self.purges = purges
        self.busy = self.chance.choice([0.15, 1.0, 1.0])
        """How often anything happens: what is written seldom shows what old entries become."""
        self.wire: list[tuple[Path, int, Batch]] = []
        self.sent: list[tuple[Path, Batch]] = []
        self.problems: list[str] = []
        self.down: dict[Path, int] = {}
        self.history: list[Change] = []

    def play(self) -> list[str]:
        """Play the story, and return what is wrong at its end."""
        for cluster in self.clusters.values():
            self._begin(cluster)
        for step in range(1, STEPS):
            self._write(step)
            if self.chance.random() < 0.2:
                self._write(step)  # in the same millisecond, where clocks are equal
            for edge, link in self.links.items():
                self._disturb(edge, link, step)
            self._deliver_one(step)
            for cluster in self.clusters.values():
                cluster.expire(step)
        end = STEPS + 200 + FAR_MS
        quiet = self._quiesce(end)
        self.problems += ["not quiet"] * (not quiet) + self._differences()
        if not self.purges:
            self._repeat(end)
        return self.problems

    @property
    def ambiguous(self) -> int:
        """Entries that were counted as ambiguous."""
        return sum(
            found.ambiguous
            for one in self.clusters.values()
            if (found := one.state.wan.maps.get(MAP)) is not None
        )

    def _begin(self, cluster: Cluster) -> None:
        """Let some clusters have entries before their map is replicated."""
        writes = cluster.name in (self.topology.writers or self.topology.names)
        for key in self.chance.sample(KEYS, self.chance.choice([0, 0, 1, 3])) if writes else ():
            cluster.apply(MEMBERS[0], 0, MapPut(MAP, key, b"old" + cluster.cluster_id, None, 0))
        cluster.apply(MEMBERS[0], 0, WanAgree(cluster.agreement))
        if MAP in cluster.state.wan.maps:
            self.history += cluster.changes(0)

    def _write(self, step: int) -> None:
        """Let a client of one cluster change something, or befall the cluster something."""
        chance, names = self.chance, self.topology.names
        member, key, lot = chance.choice(MEMBERS), chance.choice(KEYS), chance.random()
        is_client = lot < 0.52
        if is_client and chance.random() > self.busy:
            return
        cluster = self.clusters[
            chance.choice((self.topology.writers if is_client else "") or names)
        ]
        if lot < 0.35:
            value = b"%d" % chance.randrange(1000)
            ttl_ms = chance.choice([0, 0, 0, TTL_MS])
            self._change(cluster, member, step, MapPut(MAP, key, value, None, ttl_ms))
        elif lot < 0.5:
            self._change(cluster, member, step, MapRemove(MAP, key))
        elif lot < 0.52:
            self._change(cluster, member, step, MapClear(MAP))
        elif lot < 0.55:
            cluster.restart()
        elif lot < 0.57:
            cluster.skew_ms += chance.randrange(-60, 60)
        elif lot < 0.5705:
            cluster.skew_ms = FAR_MS
        elif lot < 0.6 and cluster.agreement.publishers:
            publisher = chance.choice(cluster.agreement.publishers).name
            state = chance.choice(list(PublisherState))
            cluster.apply(member, step, WanMemberState(publisher, member, state))
        elif lot < 0.65 and self.purges:
            through = last_stamp(cluster.now_ms(step) - 10)
            cluster.apply(member, step, WanPurge(MAP, through, chance.randrange(4)))

    def _change(
        self, cluster: Cluster, member: bytes, step: int, change: MapPut | MapRemove | MapClear
    ) -> None:
        """Apply a client's change, and note it with the stamp that it must have."""
        now_ms = cluster.now_ms(step)
        clock = cluster.state.wan.clock + 1
        (outcome,) = cluster.apply(member, step, change)
        if isinstance(outcome, Refused):
            return
        stamp = max(clock, (now_ms - EPOCH_MS) << COUNTER_BITS)
        made = Change(MAP, ChangeKind.CLEAR, "", stamp, b"", None, 0, 0, ())
        if isinstance(change, MapRemove):
            made = made._replace(kind=ChangeKind.REMOVAL, key=change.key)
        elif isinstance(change, MapPut):
            deadline_ms = now_ms + change.ttl_ms if change.ttl_ms else 0
            made = Change(
                *(MAP, ChangeKind.PUT, change.key, stamp, change.value, None, deadline_ms, 0, ())
            )
        self.history.append(made)

    def _disturb(self, edge: Path, link: Link, step: int) -> None:
        chance = self.chance
        lot = chance.random()
        if lot < 0.01:
            self.down[edge] = step + chance.randrange(20, 60)
        elif lot < 0.5:
            self._send(edge, step, chance.randrange(1, 5))
        elif lot < 0.52:
            link.give_up()

    def _send(self, edge: Path, step: int, limit: int, *, compares: bool = False) -> None:
        for number, batch in self.links[edge].send(step, limit, compares=compares):
            self.wire.append((edge, number, batch))
            self.sent.append((edge, batch))

    def _deliver_one(self, step: int) -> None:
        """Deliver any batch, or lose it, double it or leave it for later."""
        if not self.wire:
            return
        chance, place = self.chance, self.chance.randrange(len(self.wire))
        edge = self.wire[place][0]
        if self.down.get(edge, 0) > step or chance.random() < 0.2:
            if chance.random() < 0.5:
                self.wire.pop(place)
            return
        if chance.random() < 0.03:
            self._lose_at_target(place, step)
            return
        if chance.random() < 0.2:
            self.wire.append(self.wire[place])  # doubled, and late
        self._deliver(place, step, answered=chance.random() < 0.8)

    def _lose_at_target(self, place: int, step: int) -> None:
        """Let the target die before it has stored a batch."""
        edge, number, _ = self.wire.pop(place)
        if not self.links[edge].waits_for_commit:
            self.links[edge].acknowledge(number, step)

    def _deliver(self, place: int, step: int, *, answered: bool = True) -> None:
        edge, number, batch = self.wire.pop(place)
        outcomes = self._take(self.clusters[edge[1]], batch, step)
        if answered and not any(isinstance(outcome, Refused) for outcome in outcomes):
            self.links[edge].acknowledge(number, step)

    def _take(self, target: Cluster, batch: Batch, step: int) -> list[Outcome]:
        """Let a cluster merge a batch, which must not turn its clock too far."""
        latest_ms = target.now_ms(step) + target.agreement.max_clock_ahead_ms
        limit = max(target.state.wan.clock, last_stamp(latest_ms))
        outcomes = target.apply(batch.member, step, *batch.merges)
        if target.state.wan.clock > limit:
            self.problems.append(f"{target.name} has taken a change from too far ahead")
        return outcomes

    def _repeat(self, step: int) -> None:
        """Let some batches arrive once more, which must change nothing."""
        for edge, batch in self.chance.sample(self.sent, min(REPEATED, len(self.sent))):
            outcomes = self._take(self.clusters[edge[1]], batch, step)
            if MergeResult.TAKEN in outcomes:
                self.problems.append(f"{edge[1]} takes a batch of {edge[0]} twice")

    def _quiesce(self, step: int) -> bool:
        """Let everything arrive; tell whether nothing waits at last.

        What is still under way arrives late, in between.
        """
        for cluster in self.clusters.values():
            for agreed in cluster.agreement.publishers:
                for member in MEMBERS:
                    state = WanMemberState(agreed.name, member, PublisherState.REPLICATING)
                    cluster.apply(member, step, state)
        for round_number in range(ROUNDS):
            for cluster in self.clusters.values():
                cluster.expire(step)
            for edge, link in self.links.items():
                if not round_number:
                    link.give_up()
                self._send(edge, step, 100, compares=True)
            if not self.wire and not any(self._waits(link) for link in self.links.values()):
                return True
            while self.wire:
                self._deliver(self.chance.randrange(len(self.wire)), step)
        return False

    def _waits(self, link: Link) -> bool:
        wan = link.source.state.wan
        return bool(wan.queue_sizes(link.publisher) or wan.unsynced(link.publisher))

    def _differences(self) -> list[str]:
        wanted = winners(self.history)
        found = {name: cluster.content() for name, cluster in self.clusters.items()}
        problems = [
            f"{name}: {sorted(entries.items())} is not {sorted(wanted.items())}"
            for name, (entries, _, _) in found.items()
            if entries != wanted
        ]
        if self.purges:
            return problems
        first = next(iter(found.values()))
        return problems + [f"{name} differs" for name, one in found.items() if one != first]


def winners(history: list[Change]) -> dict[str, object]:
    """Return the entries that are left of all changes, once all that has a time to live is over."""
    cleared = max([one.stamp for one in history if one.kind is ChangeKind.CLEAR], default=0)
    best: dict[str, Change] = {}
    for change in history:
        if change.kind is not ChangeKind.CLEAR:
            best[change.key] = max(best.get(change.key, change), change, key=_order)
    return {
        key: (change.value, change.stamp)
        for key, change in best.items()
        if change.kind is ChangeKind.PUT and change.stamp > cleared and not change.deadline_ms
    }


def _order(change: Change) -> tuple[int, int, bytes]:
    """Order changes by stamp, then by the earliest end, then by value."""
    end = 0 if change.kind is ChangeKind.REMOVAL else change.deadline_ms or 1 << 70
    return change.stamp, -end, change.value


def problems_of(seeds: Iterable[int], topology: str) -> list[str]:
    """Return what is wrong in the first run that is not right."""
    for seed in seeds:
        found = Run(seed, TOPOLOGIES[topology]).play()
        if found:
            return [f"{topology}, seed {seed}", *found]
    return []
