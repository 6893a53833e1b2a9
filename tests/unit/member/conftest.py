from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import MemberProcess, RunningMember

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


@pytest.fixture
async def start_member() -> AsyncIterator[Callable[..., RunningMember]]:
    """Give a function that makes members inside this process; `await member.start()` runs one."""
    running: list[RunningMember] = []

    def make(text: str = "", **options: str) -> RunningMember:
        member = RunningMember(text, options)
        running.append(member)
        return member

    yield make
    for member in running:
        await member.stop()


@pytest.fixture
async def member(start_member: Callable[..., RunningMember]) -> RunningMember:
    """A running member with every group enabled."""
    return await start_member().start()


@pytest.fixture
def member_process(tmp_path: Path) -> Iterator[Callable[..., MemberProcess]]:
    """Give a function that starts `grid-member` processes; they end with the test."""
    started: list[MemberProcess] = []

    def start(
        text: str,
        environment: dict[str, str] | None = None,
        open_files: int | None = None,
        before: tuple[str, ...] = (),
    ) -> MemberProcess:
        directory = tmp_path / f"member-{len(started)}"
        process = MemberProcess(text, directory, environment, open_files, before)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
