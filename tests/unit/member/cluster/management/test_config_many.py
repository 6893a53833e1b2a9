"""Uploads with many blocks, and many uploads, keep the member at work."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from grid_member.cluster.management import config_changes
from grid_member.cluster.management.config_changes import ConfigSource
from grid_member.cluster.member.member import Phase
from grid_member.config.load import read_document
from grid_member.config.names import find
from grid_member.engine.local.usage import StructureUsage
from grid_member.http.routes.configuration import config_reload, config_upload
from grid_member.http.routes.management import change_state
from tests.unit.member.cluster.managed import CONFIGURATION, content, reason
from tests.unit.member.cluster.management.test_config_changes import PERSISTENT, block, result
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from grid_member.config.tree import Document
    from tests.unit.member.cluster.managed import Managed


async def test_a_text_with_more_blocks_than_can_be_added_is_refused_unread(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("each block was looked at")

    monkeypatch.setattr(config_changes, "MAX_ADDED_BLOCKS", 3)
    monkeypatch.setattr(config_changes, "collect", unwanted)
    before = managed.everything()
    count = managed.management.config_changes.block_count + 4
    maps = ", ".join(f"'m{number}-*': {{}}" for number in range(count - 1))
    answer = await managed.call(config_upload, f"grid: {{map: {{{maps}}}, queue: {{q9: }}}}")
    assert answer.status == 409
    assert "blocks would have been added" in content(answer)["message"]
    assert managed.everything() == before


async def test_blocks_that_are_there_already_count_for_nothing(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_changes, "MAX_ADDED_BLOCKS", 1)
    extended = CONFIGURATION.replace("{default: {},", "{default: {}, one-more: {},", 1)
    answer = await managed.call(config_upload, extended)
    assert result(answer)["addedConfigs"] == [block("map", "one-more")]
    assert result(answer)["ignoredConfigs"]


async def test_texts_that_come_together_are_read_one_after_the_other(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading: list[str] = []
    at_once: list[int] = []
    read = config_changes.read_blocks

    def watched(text: str, *rest: Any) -> Any:
        reading.append(text)
        at_once.append(len(reading))
        try:
            return read(text, *rest)
        finally:
            reading.remove(text)

    monkeypatch.setattr("grid_member.http.routes.configuration.read_blocks", watched)
    texts = [f"grid: {{map: {{together{number}: {{}}}}}}" for number in range(5)]
    answers = await asyncio.gather(*(managed.call(config_upload, text) for text in texts))
    assert [answer.status for answer in answers] == [200] * 5
    assert at_once == [1] * 5


async def test_only_what_a_new_block_matches_is_looked_up(
    make: Callable[..., Managed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = make(PERSISTENT % tmp_path)
    managed.member.phase = Phase.RUNNING
    managed.store.usage = [StructureUsage("map", f"held{number}", 1, 1) for number in range(100)]
    sizes: list[int] = []

    def noted(configured: Any, name: str) -> Any:
        sizes.append(len(configured))
        return find(configured, name)

    monkeypatch.setattr(config_changes, "find", noted)
    answer = await managed.call(config_upload, "grid: {map: {apart: {}}}")
    assert answer.status == 200
    assert sizes == [1] * 100
    managed.member.phase = Phase.STARTING


async def test_a_file_that_is_a_pipe_is_not_waited_for(
    make: Callable[..., Managed], tmp_path: Path
) -> None:
    pipe = tmp_path / "grid.yaml"
    os.mkfifo(pipe)
    managed = make(source=ConfigSource(pipe, {}))
    managed.member.phase = Phase.RUNNING
    answer = await asyncio.wait_for(managed.call(config_reload), 5)
    assert (answer.status, reason(answer)) == (400, f"{pipe}: is no file any more")
    managed.member.phase = Phase.STARTING


async def test_a_file_on_a_stuck_volume_holds_up_no_upload(
    make: Callable[..., Managed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(CONFIGURATION)
    answered = threading.Event()

    def stuck(path: Path) -> str:
        answered.wait(30)
        return path.read_text()

    monkeypatch.setattr(config_changes, "read_text", stuck)
    managed = make(source=ConfigSource(file, {}))
    managed.member.phase = Phase.RUNNING
    reload = asyncio.create_task(managed.call(config_reload))
    try:
        await until(managed.management.reload_lock.locked)
        answer = await managed.call(config_upload, "grid: {map: {meanwhile: {}}}")
        assert result(answer)["addedConfigs"] == [block("map", "meanwhile")]
        assert not reload.done()
    finally:
        answered.set()
    assert (await reload).status == 200
    managed.member.phase = Phase.STARTING


async def test_while_a_text_is_read_the_member_goes_on(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = threading.Event()

    def slow(text: str, name: str) -> Document:
        assert meanwhile.wait(30)
        return read_document(text, name)

    monkeypatch.setattr(config_changes, "read_document", slow)
    upload = asyncio.create_task(managed.call(config_upload, "grid: {map: {large: {}}}"))
    try:
        await until(managed.management.upload_lock.locked)
        assert (await managed.call(change_state, "frozen")).status == 200
        assert not upload.done()
    finally:
        meanwhile.set()
    assert result(await upload)["addedConfigs"] == [block("map", "large")]
