"""The event loop of a member's process: which one, and what is said when it is not there."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pytest
import uvloop

from grid_member.command import EXIT_START
from grid_member.command.event_loop import EventLoopError, loop_maker
from tests.unit.member.running import configuration, loaded
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

GONE = "raise ImportError('it was taken away')"


def wanting(loop: str) -> str:
    return configuration(extra=f"  http: {{event-loop: {loop}}}\n")


def without_uvloop(directory: Path) -> dict[str, str]:
    """Return an environment in which it cannot be loaded."""
    (directory / "uvloop.py").write_text(GONE)
    paths = [str(directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


async def runs_on_uvloop(member: MemberProcess) -> bool:
    """Tell it of a process that answers."""
    member.wait_for("ready")
    assert (await once(member.port, "POST", "/grid/rest/maps/default/k", b"v")).status == 200
    return "uvloop/loop" in loaded(member.process.pid)


@pytest.mark.parametrize("wanted", ["auto", "uvloop", "asyncio"])
async def test_a_process_runs_on_the_loop_that_is_wanted(
    member_process: Callable[[str], MemberProcess], wanted: str
) -> None:
    assert await runs_on_uvloop(member_process(wanting(wanted))) is (wanted != "asyncio")


async def test_without_uvloop_a_member_runs_on_asyncio(
    member_process: Callable[..., MemberProcess], tmp_path: Path
) -> None:
    assert not await runs_on_uvloop(member_process(wanting("auto"), without_uvloop(tmp_path)))


def test_uvloop_that_is_wanted_and_not_there(
    member_process: Callable[..., MemberProcess], tmp_path: Path
) -> None:
    member = member_process(wanting("uvloop"), without_uvloop(tmp_path))
    assert member.end() == EXIT_START
    (said,) = [entry["message"] for entry in member.log if "cannot start" in entry["message"]]
    assert "it was taken away" in said
    assert "the extra `speed`, or set http.event-loop to auto or asyncio" in said


def test_what_makes_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop_maker("asyncio") is asyncio.new_event_loop
    assert loop_maker("auto") is loop_maker("uvloop") is uvloop.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_maker("auto") is asyncio.new_event_loop
    with pytest.raises(EventLoopError, match="which cannot be loaded"):
        loop_maker("uvloop")
