"""Jobs of members in this process: begun, waited for, and what they found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from grid_member.cluster.values.system_store import put_all
from grid_member.engine.wan.agreement import PublisherName
from grid_member.wan.agreement.added_json import read_added
from grid_member.wan.agreement.part import WanReplication
from grid_member.wan.jobs.records import Counts, Job, JobKind
from tests.unit.member.wan.pairs import until

if TYPE_CHECKING:
    from grid_member.cluster.values.system_store import Put
    from grid_member.wan.agreement.calls import WanCalls
    from grid_member.wan.jobs.store import JobStore
    from tests.unit.member.wan.pairs import Site

PEER: Final = PublisherName("peer-rep", "peer")
SYNC, CHECK = JobKind.SYNC, JobKind.CHECK


def calls(site: Site) -> WanCalls:
    assert site.handle is not None
    part = site.handle._member.management.wan
    assert isinstance(part, WanReplication)
    return part.calls


def store(site: Site) -> JobStore:
    return calls(site).jobs.store


async def change(site: Site, *puts: Put) -> None:
    """Carry out what a call changes, and let the shards go by it."""
    assert await put_all(store(site).system, puts) is None
    await calls(site).go_by_agreement()


async def add_peer(site: Site, cluster_name: str, port: int, **more: object) -> None:
    """Add the publisher as `addWanConfig` does."""
    block = {
        "publisherId": "peer",
        "clusterName": cluster_name,
        "targetEndpoints": f"127.0.0.1:{port}",
        "properties": {"realm": "to-peer"},
    }
    content = {"name": "peer-rep", "batchPublishers": [block | more]}
    await change(site, *calls(site).add(read_added(json.dumps(content))).changes)


async def begin(site: Site, kind: JobKind, map_name: str = "orders") -> str:
    uuid, puts = await calls(site).begin_job(kind, PEER, map_name)
    assert await put_all(store(site).system, puts) is None
    return uuid


async def ended(site: Site, uuid: str) -> Job:
    """Return a job once it has ended."""

    def has_ended() -> bool:
        job = store(site).find(uuid)
        return job is not None and job.ended

    await until(has_ended, f"the job {uuid} has ended")
    found = store(site).find(uuid)
    assert found is not None
    return found


async def done(site: Site, kind: JobKind, map_name: str = "orders") -> Counts:
    """Carry a job out and return what it found in the map."""
    job = await ended(site, await begin(site, kind, map_name))
    assert job.error == ""
    assert calls(site).progress(job.uuid)["result"]["progress"] == 100
    return next(each.counts for each in job.results if each.map == map_name)


def shown(site: Site) -> dict[str, Any]:
    """Return what the status shows of the publisher."""
    found: Any = calls(site).status("")["replications"][0]["publishers"][0]
    return dict(found)
