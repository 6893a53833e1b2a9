from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.member.management.managed import Managed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Managed]]:
    """Give a function that makes members; `await member.join()` starts one."""
    made: list[Managed] = []

    def new(*args: object, **options: object) -> Managed:
        made.append(Managed(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for managed in made:
        await managed.stop()


@pytest.fixture
async def managed(make: Callable[..., Managed]) -> Managed:
    """A member that has joined, CP and TCP/IP join configured."""
    return await make().join()
