from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member import Config, MemberHandle, start_member
from tests.unit.member.http.metrics.scraped import Scraped, configured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Start = Callable[..., Awaitable[Scraped]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Give a function that starts a member whose metrics can be asked for."""
    started: list[MemberHandle] = []

    async def run(extra: str = "", metrics: str = "enabled: true") -> Scraped:
        text = configured(extra, metrics)
        started.append(await start_member(Config.from_text(text, environment={})))
        return Scraped(started[-1])

    yield run
    for member in started:
        await member.stop()
