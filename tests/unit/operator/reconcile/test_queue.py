from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from typing import TYPE_CHECKING

from grid_operator.ports.errors import Conflict, Deposed, NotReady, Unavailable
from grid_operator.ports.metrics import OperatorMetrics
from grid_operator.reconcile.queue import QueueLimits, WorkQueue
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import pytest

QUICK = QueueLimits(concurrency=4, backoff_first_s=0.01, backoff_max_s=0.04, rest_s=0.0, jitter=0.0)


@contextlib.asynccontextmanager
async def running(
    work: Callable[[str], Awaitable[float | None]], limits: QueueLimits = QUICK
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue(work, random.Random(1), limits)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_burst_of_adds_runs_once_and_adds_during_the_run_once_more() -> None:
    runs: list[str] = []
    gate = asyncio.Event()

    async def work(key: str) -> None:
        runs.append(key)
        await gate.wait()

    async with running(work) as queue:
        for _ in range(100):
            queue.add("a")
        await until(lambda: len(runs) == 1)
        for _ in range(100):
            queue.add("a")
        assert queue.running == 1
        gate.set()
        await until(lambda: len(queue) == 0)
    assert runs == ["a", "a"]


async def test_a_key_whose_work_is_cancelled_from_within_runs_again() -> None:
    """As when a connection that several requests wait for is given up."""
    runs: list[str] = []

    async def work(key: str) -> float:
        runs.append(key)
        if len(runs) == 1:
            raise asyncio.CancelledError
        return 60.0

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: len(runs) == 2)
        assert len(queue) == 1


async def test_a_key_never_runs_twice_at_a_time() -> None:
    active = most = runs = 0

    async def work(key: str) -> float:
        nonlocal active, most, runs
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        queue.add(key)
        await asyncio.sleep(0)
        active -= 1
        runs += 1
        return 0.0

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: runs >= 20)
    assert most == 1


async def test_a_hung_key_delays_no_other_and_ends_at_its_deadline() -> None:
    done: list[str] = []

    async def work(key: str) -> None:
        if key == "hung":
            await asyncio.Event().wait()
        done.append(key)

    limits = QueueLimits(run_deadline_s=0.05, backoff_first_s=60.0)
    async with running(work, limits) as queue:
        queue.add("hung")
        await until(lambda: queue.running == 1)
        for number in range(50):
            queue.add(str(number))
        await until(lambda: len(done) == 50)
        await until(lambda: queue.running == 0)
        assert len(queue) == 1  # it waits for its next attempt


async def test_concurrency_is_bounded() -> None:
    most = 0
    finished = 0

    async def work(_key: str) -> None:
        nonlocal most, finished
        most = max(most, queue.running)
        await asyncio.sleep(0.001)
        finished += 1

    async with running(work) as queue:
        for number in range(40):
            queue.add(str(number))
        await until(lambda: finished == 40)
    assert most == QUICK.concurrency


async def test_failures_back_off_and_success_resets() -> None:
    starts: list[float] = []

    async def work(_key: str) -> float | None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) < 5:
            raise Unavailable("503")
        return None

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: len(queue) == 0)
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert [gap >= least for gap, least in zip(gaps, (0.01, 0.02, 0.04, 0.04), strict=True)] == [
        True
    ] * 4


async def test_retry_after_and_not_ready_give_the_delay(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[str] = []

    async def work(key: str) -> None:
        attempts.append(key)
        raise NotReady("no", 60.0) if key == "a" else Unavailable("429", retry_after_s=60.0)

    async with running(work) as queue:
        queue.add("a")
        queue.add("b")
        await until(lambda: len(attempts) == 2 and queue.running == 0)
        assert len(queue) == 2
    assert attempts == ["a", "b"]


async def test_a_defect_in_one_key_is_logged_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempts = 0

    async def work(_key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise KeyError("boom")

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: attempts == 2)
    assert "reconcile failed" in caplog.text


async def test_requeue_runs_again_and_none_forgets() -> None:
    runs = 0

    async def work(_key: str) -> float | None:
        nonlocal runs
        runs += 1
        return 0.001 if runs < 3 else None

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: len(queue) == 0)
    assert runs == 3


async def test_an_event_comes_before_a_planned_look() -> None:
    runs = 0

    async def work(_key: str) -> float:
        nonlocal runs
        runs += 1
        return 3600.0

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: runs == 1 and queue.running == 0)
        queue.add("a")
        await until(lambda: runs > 1)
    assert runs == 2


async def test_a_key_rests_between_runs() -> None:
    starts: list[float] = []

    async def work(key: str) -> float:
        starts.append(asyncio.get_running_loop().time())
        queue.add(key)  # an event of its own write
        return 3600.0

    async with running(work, QueueLimits(rest_s=0.05, jitter=0.0)) as queue:
        queue.add("a")
        await until(lambda: len(starts) == 3)
    assert starts[2] - starts[0] >= 0.1


async def test_a_full_queue_refuses_new_keys_only() -> None:
    async def work(_key: str) -> float:
        return 3600.0

    async with running(work, QueueLimits(max_keys=1)) as queue:
        assert queue.add("a")
        assert not queue.add("b")
        assert queue.add("a")


async def test_cancelling_the_queue_cancels_its_runs() -> None:
    cancelled = asyncio.Event()

    async def work(_key: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with running(work) as queue:
        queue.add("a")
        await until(lambda: queue.running == 1)
    assert cancelled.is_set()


async def test_a_cancellation_that_comes_together_with_an_event_is_not_forgotten() -> None:
    async def work(_key: str) -> None:
        await asyncio.sleep(0)

    queue = WorkQueue(work, random.Random(1), QUICK)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.add("a")  # wakes it …
    task.cancel()  # … in the same turn of the loop
    async with asyncio.timeout(5):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert queue.running == 0


async def test_the_queue_tells_what_waits_and_how_runs_ended() -> None:
    metrics = OperatorMetrics()
    endings: dict[str, Exception | None] = {
        "done": None,
        "conflict": Conflict("409"),
        "deposed": Deposed("no Lease"),
        "defect": KeyError("boom"),
    }

    async def work(key: str) -> float:
        error = endings[key]
        if error is not None:
            raise error
        return 3600.0

    queue = WorkQueue(work, random.Random(1), QueueLimits(backoff_first_s=60.0), metrics)
    for key in endings:
        queue.add(key)
    assert queue.waiting == len(endings)
    task = asyncio.create_task(queue.run())

    def count(result: str) -> float:
        name = "grid_operator_reconcile_duration_seconds_count"
        return metrics.registry.get_sample_value(name, {"result": result}) or 0.0

    try:
        await until(lambda: all(count(result) == 1 for result in endings))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert queue.waiting == 0
    waits = metrics.registry.get_sample_value("grid_operator_queue_wait_seconds_count")
    assert waits == len(endings)
