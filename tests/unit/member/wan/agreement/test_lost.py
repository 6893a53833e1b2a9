"""Which maps need a synchronisation when a shard was lost, and that it is noted first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.values.system_store import Put, put_all
from grid_member.config.load import config_from
from grid_member.engine.api import Reason, Refused
from grid_member.wan.agreement.lost import LostShards
from grid_member.wan.agreement.sections import section_of
from grid_member.wan.agreement.store import StoredConfig, WanStore, lost_put
from grid_member.wan.jobs.records import NOTHING, Job, JobKind, MapResult, Share, ended_job
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
        self.lost = LostShards(self.stored, JobStore(self.store), lambda: self.config, self._keep)

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


def job(cluster: Cluster, kind: JobKind = JobKind.SYNC, *maps: str, uuid: str = "u") -> Job:
    return Job(uuid, kind, cluster.publisher, maps, 1, 1, full=False)


async def begin(cluster: Cluster, begun: Job) -> Job:
    await put_all(cluster.store, JobStore(cluster.store).begin_puts(begun))
    return begun


async def end(cluster: Cluster, job: Job, *done: str, error: str = "") -> None:
    """Carry a job out that does these maps."""
    jobs = JobStore(cluster.store)
    results = tuple(MapResult(name, NOTHING, error) for name in done)
    share = Share(1, 1, results=results, ended=True, error=error)
    await put_all(cluster.store, [jobs.share_put(job, 0, share)])
    ended = ended_job(job, jobs.shares(job), "", 2)
    await put_all(cluster.store, jobs.end_puts(ended))


async def lose(cluster: Cluster) -> None:
    await cluster.lost.note_told(cluster.agreement)
    await cluster.note(Shard())
    assert cluster.marked == ("cache", "tmp-*")


@pytest.mark.parametrize(
    ("maps", "done", "left"),
    [
        (("cache",), ("cache",), ("tmp-*",)),
        (("disk",), ("disk",), ("cache", "tmp-*")),
        ((), ("cache", "disk", "tmp-1"), ()),
        ((), ("disk", "tmp-1", "tmp-2"), ("cache",)),
        ((), ("disk",), ("cache", "tmp-*")),
        ((), ("tmp-kept",), ("cache", "tmp-*")),
        (("cache",), (), ("cache", "tmp-*")),
    ],
)
async def test_a_synchronisation_takes_the_marks_of_what_it_has_synchronised_away(
    maps: tuple[str, ...], done: tuple[str, ...], left: tuple[str, ...]
) -> None:
    cluster = Cluster()
    section = section_of(cluster.config)
    section.maps["tmp-kept"] = section.maps["disk"]
    await put_all(cluster.store, [StoredConfig(1, section).put()])
    await lose(cluster)
    await end(cluster, await begin(cluster, job(cluster, JobKind.SYNC, *maps)), *done)
    assert cluster.marked == left


async def test_a_job_that_failed_or_only_compares_leaves_the_marks() -> None:
    cluster = Cluster()
    await lose(cluster)
    await end(cluster, await begin(cluster, job(cluster)), "cache", error="cut")
    await end(cluster, await begin(cluster, job(cluster, JobKind.CHECK)), "cache", "tmp-1")
    assert cluster.marked == ("cache", "tmp-*")


async def test_a_job_that_began_before_the_loss_leaves_the_marks() -> None:
    cluster = Cluster()
    before = await begin(cluster, job(cluster))
    await lose(cluster)
    await end(cluster, before, "cache", "tmp-1")
    assert cluster.marked == ("cache", "tmp-*")
    await end(cluster, await begin(cluster, job(cluster, uuid="later")), "cache", "tmp-1")
    assert not cluster.marked


async def test_data_that_was_lost_again_needs_a_job_that_began_later() -> None:
    cluster = Cluster()
    await lose(cluster)
    between = await begin(cluster, job(cluster))
    await cluster.note(Shard())
    await end(cluster, between, "cache", "tmp-1")
    assert cluster.marked == ("cache", "tmp-*")


async def test_a_synchronisation_of_all_without_anything_to_do_leaves_the_marks() -> None:
    cluster = Cluster()
    await lose(cluster)
    await begin(cluster, replace(job(cluster), finished_ms=1))
    assert cluster.marked == ("cache", "tmp-*")


@pytest.mark.parametrize("name", ["cache", "tmp-*"])
async def test_a_name_of_which_no_shard_holds_anything_is_taken_away_by_name(name: str) -> None:
    """Else it would stay for as long as nobody puts anything there."""
    cluster = Cluster()
    await lose(cluster)
    await begin(cluster, replace(job(cluster, JobKind.SYNC, name), finished_ms=1))
    assert {*cluster.marked} == {"cache", "tmp-*"} - {name}


async def test_marks_of_an_earlier_version_are_read() -> None:
    cluster = Cluster()
    key = lost_put(cluster.publisher, {}).key
    await put_all(cluster.store, [Put(key, b'["cache","tmp-*"]')])
    assert cluster.marked == ("cache", "tmp-*")
    await end(cluster, await begin(cluster, job(cluster)), "cache")
    assert {*cluster.marked} == {"tmp-*"}


async def test_a_publisher_that_is_removed_takes_its_mark_along() -> None:
    cluster = Cluster()
    await cluster.lost.note_told(cluster.agreement)
    await cluster.note(Shard())
    await put_all(cluster.store, cluster.stored.forgetting_puts(cluster.publisher))
    assert cluster.marked == ()
