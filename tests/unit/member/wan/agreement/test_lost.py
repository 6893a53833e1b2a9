"""Which maps need a synchronisation when a shard was lost, and that it is noted first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.values.system_store import Put, put_all
from grid_member.config.load import config_from
from grid_member.engine.api import Reason, Refused
from grid_member.wan.agreement.lost import LostShards
from grid_member.wan.agreement.sections import section_of
from grid_member.wan.agreement.store import WanStore
from grid_member.wan.jobs.records import Job, JobKind
from grid_member.wan.jobs.store import JobStore
from tests.unit.member.wan.jobs.clusters import FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.model.member import MemberConfig
    from grid_member.engine.wan.agreement import Agreement, PublisherName

ID = bytes(range(16))
REFUSED = Refused(Reason.UNAVAILABLE, "a test refuses it")
MEMORY = {"data-persistence": {"enabled": False}}


def config(*, persistence: bool) -> MemberConfig:
    reference: dict[str, Any] = {"wan-replication-ref": {"r": {}}}
    target = {"cluster-name": "b", "target-endpoints": "b", "realm": "s"}
    shown = {"username-password": {"username": "u", "password": "p"}}
    return config_from(
        {
            "persistence": {"enabled": persistence},
            "security": {"realms": [{"name": "s", "identity": shown}]},
            "wan-replication": {"r": {"batch-publisher": {"b": target}}},
            "map": {
                "plain": MEMORY,
                "disk": reference,
                "cache": reference | MEMORY,
                "tmp-*": reference | MEMORY,
            },
        },
        {},
    )


class Shard:
    """A shard whose log may have more than it has read."""

    def __init__(self, unread: object = None, *, refuses: bool = False) -> None:
        self.state: Any = SimpleNamespace(wan=SimpleNamespace(agreement=None))
        self._unread = unread
        self._refuses = refuses

    def propose(self, operation: object, done: Callable[[object], None], size_bytes: int) -> None:
        self.state.wan.agreement = self._unread
        done(REFUSED if self._refuses else False)


class Cluster:
    def __init__(self, *, persistence: bool = True) -> None:
        self.store = FakeStore()
        self.stored = WanStore(self.store)
        self.config = config(persistence=persistence)
        self.agreement: Agreement = section_of(self.config).agreement(1, ID)
        self.refuses = False
        self.lost = LostShards(self.stored, lambda: self.config, self._keep)

    async def _keep(self, *puts: Put) -> Refused | None:
        return REFUSED if self.refuses else await put_all(self.store, puts)

    async def note(self, shard: Any) -> bool:
        return await self.lost.note_lost([shard], self.agreement)

    @property
    def publisher(self) -> PublisherName:
        return self.agreement.publishers[0].name

    @property
    def marked(self) -> tuple[str, ...]:
        return self.stored.lost(self.publisher)


@pytest.mark.parametrize(
    ("persistence", "marked"),
    [(True, ("cache", "tmp-*")), (False, ("cache", "disk", "tmp-*"))],
)
async def test_replicated_maps_in_memory_are_marked(
    persistence: bool, marked: tuple[str, ...]
) -> None:
    cluster = Cluster(persistence=persistence)
    assert await cluster.note(Shard())
    assert cluster.marked == (), "a shard that is new lost nothing"
    await cluster.lost.note_told(cluster.agreement)
    assert await cluster.note(Shard())
    assert cluster.marked == marked


async def test_a_shard_that_reads_its_log_is_not_lost() -> None:
    cluster = Cluster()
    await cluster.lost.note_told(cluster.agreement)
    assert await cluster.note(Shard(cluster.agreement))
    assert cluster.marked == ()
    assert not await cluster.note(Shard(refuses=True)), "that is not known yet"


async def test_no_shard_is_told_before_it_is_noted() -> None:
    cluster = Cluster()
    await cluster.lost.note_told(cluster.agreement)
    cluster.refuses = True
    assert not await cluster.note(Shard())
    cluster.refuses = False
    assert await cluster.note(Shard())
    assert cluster.marked == ("cache", "tmp-*")


@pytest.mark.parametrize(
    ("kind", "maps", "error", "left"),
    [
        (JobKind.SYNC, ("cache",), "", ("tmp-*",)),
        (JobKind.SYNC, ("disk",), "", ("cache", "tmp-*")),
        (JobKind.SYNC, (), "", ()),
        (JobKind.SYNC, (), "cut", ("cache", "tmp-*")),
        (JobKind.CHECK, (), "", ("cache", "tmp-*")),
    ],
)
async def test_a_synchronisation_that_ended_well_takes_the_mark_away(
    kind: JobKind, maps: tuple[str, ...], error: str, left: tuple[str, ...]
) -> None:
    cluster = Cluster()
    await cluster.lost.note_told(cluster.agreement)
    await cluster.note(Shard())
    ended = Job("u", kind, cluster.publisher, maps, 1, 1, full=False, finished_ms=2, error=error)
    await put_all(cluster.store, JobStore(cluster.store).end_puts(ended))
    assert cluster.marked == left


async def test_a_publisher_that_is_removed_takes_its_mark_along() -> None:
    cluster = Cluster()
    await cluster.lost.note_told(cluster.agreement)
    await cluster.note(Shard())
    await put_all(cluster.store, cluster.stored.forgetting_puts(cluster.publisher))
    assert cluster.marked == ()
