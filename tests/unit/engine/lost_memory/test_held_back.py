"""When a server that lost its memory may keep streams again, and when one may lead alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast
from unittest import mock

import pytest

from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.lost_memory import recovery
from grid_member.engine.lost_memory.recovery import LostMemory
from grid_member.engine.lost_memory.roundup import Roundup
from grid_member.engine.nats.client.errors import NatsError
from grid_member.engine.server.held_back import ServerHold
from tests.unit.engine.lost_memory.test_survivors import report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.engine.nats.client.client import NatsClient

SETTINGS = ClusterSettings(
    cluster_name="dev",
    member_name="m1",
    port=1,
    members=(("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)),
    user="grid",
    password="shown-to-the-others",
)


class Unheard:
    """A connection over which nobody answers."""

    def subscribe(self, _: bytes, __: Callable[..., None]) -> Unheard:
        return self

    def unsubscribe(self) -> None:
        pass

    def publish(self, *_: bytes) -> None:
        pass

    def unused_inbox(self) -> bytes:
        return b"_INBOX.1"

    async def request(self, *_: object, **__: object) -> None:
        raise NatsError("nobody leads the servers")


async def test_a_member_that_has_stopped_lets_its_server_keep_no_streams() -> None:
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    assert memory.holding is not None
    memory.begin(client, client, "m1-1")
    await memory.end()
    held = asyncio.ensure_future(memory.holding())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not held.done()
    held.cancel()


async def test_a_server_of_a_member_that_has_not_begun_may_keep_streams() -> None:
    memory = LostMemory(SETTINGS)
    assert memory.holding is not None
    assert await memory.holding() is False


@pytest.mark.parametrize(
    ("there", "left", "forgets"),
    [("a b2 c2", True, True), ("a b2 c2", False, False), ("a b2", True, False)],
    ids=["all-are-there", "its-log-goes-on", "one-stays-away"],
)
async def test_a_server_forgets_who_votes_when_all_are_there_and_no_log_goes_on(
    there: str, left: bool, forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "LOOK_S", 0.0)
    monkeypatch.setattr(recovery, "COLLECT_S", 0.01)
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    memory.begin(client, client, "m1-1")
    own = {"a": report("a", 7, left=left, gone="b c")}
    told = {name: own.get(name) or report(name) for name in there.split()}
    assert memory.holding is not None
    with (
        mock.patch.object(Roundup, "ask", return_value=told),
        mock.patch.object(memory, "_sound", return_value=True),
    ):
        assert await memory.holding() is forgets
    await memory.end()


async def test_a_server_waits_for_others_when_most_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "LOOK_S", 0.0)
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    memory.begin(client, client, "m1-1")
    told = {"a": report("a", 7, gone="b c")}
    assert memory.holding is not None
    with (
        mock.patch.object(Roundup, "ask", return_value=told),
        mock.patch.object(memory, "_sound", return_value=True),
    ):
        held = asyncio.ensure_future(memory.holding())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not held.done(), "it would elect none alone"
        told |= {name: report(name) for name in ("b2", "c2")}
        assert await held is True
    await memory.end()


async def test_a_server_that_forgets_who_votes_begins_with_an_empty_store(tmp_path: Path) -> None:
    held, config, store = ServerHold(), tmp_path / "nats.conf", tmp_path / "jetstream"
    config.write_text("jetstream {\n  store_dir: x\n}\n", encoding="ascii")
    kept = store / "meta"
    kept.mkdir(parents=True)
    for forgets in (False, True):
        allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        allowed.set_result(forgets)
        held.allowed = mock.Mock(return_value=allowed)
        held.prepare(config, store, again=True)
        assert "enabled: false" in config.read_text(encoding="ascii")
        assert kept.exists(), "a server that is held back may go on with what it knows"
        ended = mock.Mock()
        await held.await_release(ended)
        ended.assert_called_once()
        held.prepare(config, store, again=True)
        assert "enabled" not in config.read_text(encoding="ascii")
        assert store.exists() is not forgets
    held.prepare(config, store, again=True)  # with no store


async def test_servers_lead_without_most_others_only_for_most_members_of_the_list() -> None:
    memory, client = LostMemory(SETTINGS), cast("NatsClient", Unheard())
    memory.begin(client, client, "m1-1")
    alone = [report("a", 7, gone="b c")]
    for reports, rescues in ((alone, 0), ([*alone, report("b2")], 1)):
        with mock.patch.object(recovery, "lead_without_lost") as rescue:
            await memory._rescue({one.server: one for one in reports})
        assert rescue.call_count == rescues, "members out of sight may have begun another cluster"
    await memory.end()


async def test_a_server_whose_store_cannot_be_removed_is_held_back_again(tmp_path: Path) -> None:
    held, config, store = ServerHold(), tmp_path / "nats.conf", tmp_path / "jetstream"
    config.write_text("jetstream {\n  store_dir: x\n}\n", encoding="ascii")
    store.mkdir()
    allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    allowed.set_result(True)
    held.allowed = mock.Mock(return_value=allowed)
    held.prepare(config, store, again=True)
    await held.await_release(mock.Mock())
    failing = mock.patch("shutil.rmtree", side_effect=PermissionError)
    with failing, pytest.raises(PermissionError):
        held.prepare(config, store, again=True)
    assert not held.released, "it would be started again and again without a pause"
    held.prepare(config, store, again=True)
    assert "enabled: false" in config.read_text(encoding="ascii")
