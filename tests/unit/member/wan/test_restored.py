"""A cluster that began as the backup of one that replicates: another one, which sends nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grid_member import Config
from grid_member.cluster.persistence.backups import LEFT_OUT
from grid_member.engine.backup.restore import restore_once
from grid_member.engine.wan.agreement import PublisherState
from grid_member.start.handle import MemberHandle
from grid_member.wan.agreement import store
from grid_member.wan.agreement.calls import UNSYNCED
from grid_member.wan.hello import Began
from tests.unit.member.wan.pairs import Site, until, until_value
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path


def publisher_status(site: Site) -> dict[str, Any]:
    assert site.handle is not None
    part: Any = site.handle._member.management.wan
    found: dict[str, Any] = part.calls.status("")["replications"][0]["publishers"][0]
    return found


async def backed_up(site: Site, place: Path) -> Path:
    """Make a backup; return where it is."""
    assert site.handle is not None
    await site.handle._member.management.persistence.backups.make()
    backup = place / "backup-1"
    await until(backup.exists, "the backup is complete")
    return backup


async def test_a_cluster_that_began_as_a_backup_is_another_one_and_paused(tmp_path: Path) -> None:
    ports = free_ports(2)
    places: dict[str, Any] = {
        "persistence": {
            "enabled": True,
            "base-dir": str(tmp_path / "tokyo"),
            "backup-dir": str(tmp_path / "backups"),
        }
    }
    tokyo = Site("tokyo", ports[0], "london", ports[1], more=places)
    london = Site("london", ports[1], "tokyo", ports[0], publishes=False)
    try:
        await tokyo.start()
        await london.start()
        await tokyo.put("orders", "a", b"1")
        await until_value(london, "orders", "a", b"1")
        before = tokyo.cluster_id
        assert london.handle is not None
        part: Any = london.handle._member.management.wan
        assert part.calls.status("")["sources"] == [
            {"clusterName": "tokyo", "received": 1, "refused": 0, "ambiguous": 0}
        ]
        backup = await backed_up(tokyo, tmp_path / "backups")
        await tokyo.stop()
        restored = tmp_path / "restored"
        await asyncio.to_thread(restore_once, backup, restored)
        places["persistence"]["base-dir"] = str(restored)
        await tokyo.start()

        assert tokyo.cluster_id != before
        assert await tokyo.get("orders", "a") == b"1"
        await tokyo.put("orders", "b", b"2")
        found = publisher_status(tokyo)
        assert [each["state"] for each in found["members"]] == ["PAUSED"]
        assert "until resumePublisher is called" in found["needsSyncReason"]
        assert found["needsSync"] == ["orders"]
        assert tokyo.queued() == 1
        await until(lambda: tokyo.figures.connected, "the target is reached")
        assert await london.get("orders", "b") is None

        await tokyo.set_state(PublisherState.REPLICATING)
        await until_value(london, "orders", "b", b"2")
        found = publisher_status(tokyo)
        assert (found["connected"], found["endpoint"]) == (True, f"127.0.0.1 port {ports[1]}")
        assert (found["problem"], found["blocked"]) == ("", [])
        assert found["needsSyncReason"] == UNSYNCED
    finally:
        await tokyo.stop()
        await london.stop()


async def test_a_backup_from_before_wan_replication_begins_paused(tmp_path: Path) -> None:
    """Such a backup has no agreement, which would tell that another cluster made it."""
    ports = free_ports(2)
    places: dict[str, Any] = {
        "persistence": {
            "enabled": True,
            "base-dir": str(tmp_path / "tokyo"),
            "backup-dir": str(tmp_path / "backups"),
        }
    }
    tokyo = Site("tokyo", ports[0], "london", ports[1], more=places)
    tree = tokyo.tree()
    del tree["network"]["wan"], tree["wan-replication"]
    tree["map"] = {"orders": {}}
    tokyo.handle = MemberHandle(Config(tree, environment={}))
    await tokyo.handle.start()
    try:
        await tokyo.put("orders", "a", b"1")
        backup = await backed_up(tokyo, tmp_path / "backups")
        await tokyo.stop()
        places["persistence"]["base-dir"] = str(tmp_path / "restored")
        await asyncio.to_thread(restore_once, backup, tmp_path / "restored")
        await tokyo.start()
        found = publisher_status(tokyo)
        assert [each["state"] for each in found["members"]] == ["PAUSED"]
        assert "began as a backup" in found["needsSyncReason"]
        assert tokyo.wan._began() is Began.RESTORED

        await tokyo.set_state(PublisherState.REPLICATING)
        await tokyo.stop()
        await tokyo.start()
        found = publisher_status(tokyo)
        assert [each["state"] for each in found["members"]] == ["REPLICATING"]
    finally:
        await tokyo.stop()


def test_the_keys_of_this_cluster_are_left_out_of_backups() -> None:
    for prefix in (
        store.CLUSTER_ID,
        store.LOST,
        store.MEMBER,
        store.PAUSED,
        store.STATE,
        store.TOLD,
    ):
        assert prefix in LEFT_OUT
    assert store.CONFIG not in LEFT_OUT
