"""Logs whose streams were made anew: deleted by somebody, or forgotten by servers."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import open_identity
from grid_member.engine.cluster_settings import ClusterSettings
from grid_member.engine.integrity.read_progress import Watermark, encode_marks, read_watermarks
from grid_member.engine.integrity.watermarks import Watermarks
from grid_member.engine.nats.admin.peers import peer_id
from grid_member.engine.nats.client.errors import ShortError
from grid_member.engine.replicated.replicated_shards import ReplicatedShards
from grid_member.engine.server.process import NatsServer
from tests.unit.engine.integrity.notes import (
    FILE,
    FIRST,
    LOG,
    MEMBER,
    OTHER,
    OWN,
    SECOND,
    SELF,
    SERVER_FILES,
    STRANGER,
    Servers,
    add,
    begin,
    check,
    found,
    lived,
    log_of,
    note_streams,
    noted,
)
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_a_log_of_the_same_name_is_another_one(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of(), log_of())
    servers.created["shard-1"] = "later"
    servers.silent = servers.ids
    one, state = Watermarks(directory), log_of()
    begin(one, servers)
    await check(one, servers, state)
    await check(one, servers, state)  # it is read again
    servers.created["shard-2"] = "later"
    await check(one, servers, log_of((STRANGER, SECOND, 1)), OTHER)
    (said,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert said.startswith("shard-1 is not the log that this member has read up to record 1")
    one.forget(OTHER)
    add(state, MEMBER, SECOND, 1)
    await until(lambda: noted(directory)["shard-1"]["created"] == "later")
    servers.created["shard-1"] = "later still"  # also under a member that runs
    await check(one, servers, log_of((STRANGER, SECOND, 1)))
    await one.end()


async def test_what_a_server_that_is_alone_has_not_noted_about_streams_is_not_gone(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of(), log_of())
    servers.created["shard-1"] = "later"
    shutil.rmtree(directory / SERVER_FILES)  # no group decides about streams where one votes
    one = Watermarks(directory, alone=True)
    begin(one, servers)
    await check(one, servers, log_of())
    await one.end()
    assert "shard-1 is not the log that this member has read up to record 1" in caplog.text
    assert "are gone" not in caplog.text


def remove_all(files: Path) -> None:
    shutil.rmtree(files)


def empty_all(files: Path) -> None:
    shutil.rmtree(files)
    files.mkdir()


def remove_notes(files: Path) -> None:
    shutil.rmtree(files / "SYS" / "_js_" / "_meta_")


def empty_notes(files: Path) -> None:
    (files / "SYS" / "_js_" / "_meta_" / "meta.inf").unlink()


HARMS = [remove_all, empty_all, remove_notes, empty_notes]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_log_of_the_same_name_is_none_when_the_servers_lost_what_they_noted(
    servers: Servers,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    harm: Callable[[Path], None],
) -> None:
    servers.ids = servers.silent = frozenset({"s0", peer_id(OWN)})
    await lived(servers, directory, log_of(), log_of())
    servers.created = dict.fromkeys(servers.created, "later")
    files = directory / SERVER_FILES
    harm(files)
    lite = Watermarks(directory, lite=True)  # whose server has none
    begin(lite, servers)
    await check(lite, servers, log_of((STRANGER, FIRST, 1)))
    await lite.end()
    with pytest.raises(ShortError):
        await found(servers, directory, log_of())
    assert "the notes of this member's nats-server on the cluster's logs are gone" in caplog.text
    shutil.rmtree(files, ignore_errors=True)
    note_streams(directory)  # they were made anew, and the member is started again
    with pytest.raises(ShortError):
        await found(servers, directory, log_of((STRANGER, SECOND, 1), (STRANGER, SECOND, 2)))
    servers.ids = servers.silent = frozenset({"s0"})
    one, state = Watermarks(directory), log_of()
    begin(one, servers)
    await check(one, servers, state)
    add(state, MEMBER, SECOND, 1)
    await until(lambda: not noted(directory)["shard-1"]["bare"])
    await one.end()
    assert noted(directory)["shard-2"]["bare"]


async def test_a_member_that_was_lite_and_gets_data_misses_no_notes(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(directory / SERVER_FILES)
    lite, state = Watermarks(directory, lite=True), log_of()
    begin(lite, servers)
    await check(lite, servers, state)
    add(state, MEMBER, FIRST, 1)
    await until(lambda: lite._watermarks)
    await lite.end()
    await Watermarks(directory).prepare(SELF)
    assert noted(directory)["shard-1"]["bare"]
    assert caplog.text == ""


async def test_that_the_notes_are_gone_is_on_disk_before_the_server_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_identity(tmp_path, cluster_name="dev", member_name="m0")
    opened.close()
    mark = Watermark("then", (FIRST, 1), 1, frozenset({peer_id(opened.identity.server_name)}))
    file = tmp_path / FILE
    file.write_text(encode_marks({LOG.name: mark}, opened.identity.uuid), encoding="utf-8")

    async def killed(server: NatsServer) -> None:
        note_streams(tmp_path)
        raise EngineError("killed")

    monkeypatch.setattr(NatsServer, "start", killed)
    members = ("h", 1), ("h", 2)
    settings = ClusterSettings("dev", "m0", 1, members, "u", "p", directory=tmp_path)
    with pytest.raises(EngineError, match="killed"):
        await ReplicatedShards(settings).begin(lambda shard, names: None)
    assert read_watermarks(file, opened.identity.uuid) == {LOG.name: mark._replace(bare=True)}


async def test_a_log_that_was_kept_though_the_servers_lost_what_they_noted_is_the_same(
    servers: Servers, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(servers, directory, log_of((STRANGER, FIRST, 1)))
    servers.created["shard-1"] = "later"
    remove_notes(directory / SERVER_FILES)
    one, state = Watermarks(directory), log_of((STRANGER, FIRST, 1), (MEMBER, FIRST, 1))
    begin(one, servers)
    await check(one, servers, state)
    assert not [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    add(state, MEMBER, SECOND, 1)
    await until(lambda: noted(directory)["shard-1"]["created"] == "later")
    await one.end()
    assert not noted(directory)["shard-1"]["bare"]
