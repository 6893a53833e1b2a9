from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.member.cluster.managed import Managed
from tests.unit.member.cluster.several import Several

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class AtOnce(ThreadPoolExecutor):
    """Does what is for a thread at once: the time of these tests waits for no thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(fn(*args, **kwargs))
        except Exception as problem:
            outcome.set_exception(problem)
        return outcome


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


@pytest.fixture
async def several() -> AsyncIterator[Several]:
    """A cluster without members yet; they end with the test."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
    made = Several()
    yield made
    await made.close()
