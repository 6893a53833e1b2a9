from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.member.membership.several import Several

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
async def several() -> AsyncIterator[Several]:
    """A cluster without members yet; they end with the test."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
    made = Several()
    yield made
    await made.close()
