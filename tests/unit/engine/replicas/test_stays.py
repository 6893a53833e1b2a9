"""A member that was to leave, and stays after all, when its copies were moved already."""

from __future__ import annotations

import pytest

from grid_member.engine.nats.admin.peers import evacuate_server, peer_id
from grid_member.engine.nats.admin.streams import all_copies, ask_successfully
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.replicas.departure import Departure
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.waiting import eventually

MEMBER = 2


async def _held(cluster: Cluster, *, held: bool) -> bool:
    """Tell whether a member has whole copies of all streams, or none of any."""
    own = peer_id(str(cluster.engines[MEMBER].server_name))
    try:
        copies = await all_copies(cluster.engines[0].client, ["shard-0"])
    except NatsError:
        return False
    found = [own in (one.current if held else one.servers) for one in copies.values()]
    return not any(one.moving for one in copies.values()) and set(found) == {held}


async def _feeders(cluster: Cluster) -> list[str]:
    """Return the servers that feed a member the streams; fewer when nobody tells of some."""
    engine, found = cluster.engines[0], []
    member = cluster.engines[MEMBER].member_uuid.replace("-", "")
    for stream in engine._cluster.streams:
        try:
            listed = await ask_successfully(engine.client, f"CONSUMER.LIST.{stream.name}")
        except NatsError:
            continue
        found += [
            str(one["cluster"]["leader"])
            for one in listed["consumers"] or ()
            if one["name"].startswith(f"{member}-") and one.get("push_bound")
        ]
    return found


async def _fed(cluster: Cluster, *, by_own: bool) -> bool:
    """Tell whether a member's own server feeds it all streams, or others do."""
    found = await _feeders(cluster)
    own = cluster.engines[MEMBER].server_name
    all_streams = len(cluster.engines[0]._cluster.streams)
    return len(found) == all_streams and {one == own for one in found} == {by_own}


@pytest.mark.timeout(120)
async def test_it_is_given_its_copies_again() -> None:
    async with Cluster(3) as cluster:
        await eventually(lambda: _held(cluster, held=True))
        own = peer_id(str(cluster.engines[MEMBER].server_name))
        # As the member does that leaves, and is killed before it asks for fewer copies.
        await evacuate_server(cluster.engines[0]._cluster.system, own)
        assert await eventually(lambda: _held(cluster, held=False))
        assert await eventually(lambda: _fed(cluster, by_own=False))
        assert await eventually(lambda: _held(cluster, held=True))
        assert await eventually(lambda: _fed(cluster, by_own=True))


async def test_it_is_a_member_like_the_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(3) as cluster:
        engine = cluster.engines[MEMBER]
        seen: list[bool] = []

        async def fails(_: Departure) -> None:
            seen.append(engine._cluster.leaving)
            raise ZeroDivisionError

        monkeypatch.setattr(Departure, "step", fails)
        with pytest.raises(ZeroDivisionError):
            await engine.evacuate(lambda _: None)
        assert seen == [True]
        assert not engine._cluster.leaving, "its own server feeds it again"
