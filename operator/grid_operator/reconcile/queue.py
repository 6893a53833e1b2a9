"""A bounded work queue that runs each key at most once at a time.

Every trigger only adds a key. A key that is added twice before it runs, runs once; a key that is
added while it runs, runs once more afterwards. A run says when to look again; a failed run is
repeated with a growing, jittered delay of its own key, so that one broken cluster delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from grid_operator.ports.errors import (
    Conflict,
    Deposed,
    NotReady,
    OperatorError,
    Rejected,
    Unavailable,
)
from grid_operator.ports.metrics import DEFECT, OperatorMetrics

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

LOG: Final = logging.getLogger(__name__)

_RESULTS: Final = {
    NotReady: "not_ready",
    Conflict: "conflict",
    Rejected: "rejected",
    Deposed: "deposed",
    Unavailable: "unavailable",
}
"""What metrics call a run that ended with an error."""

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds and delays of a work queue. Delays are in seconds."""

    concurrency: int = 16
    max_keys: int = 10_000
    run_deadline_s: float = 60.0
    backoff_first_s: float = 0.5
    backoff_max_s: float = 60.0
    rest_s: float = 0.25
    """A key rests this long between two of its runs, so that events of its own writes, or a fight
    with another controller, cannot make it run hot."""
    jitter: float = 0.2
    """Every delay is multiplied by a random factor in 1 ± this."""


@dataclass(slots=True)
class _Entry:
    due: float
    running: bool = False
    failures: int = 0
    not_before: float = 0.0


class WorkQueue(Generic[KeyT]):
    """Runs `work(key)` for added keys.

    `work` returns the seconds until the key should run again, or None to forget the key. What it
    raises is logged and retried: `NotReady` after its delay, anything else with backoff.
    """

    def __init__(
        self,
        work: Callable[[KeyT], Awaitable[float | None]],
        rng: random.Random,
        limits: QueueLimits | None = None,
        metrics: OperatorMetrics | None = None,
    ) -> None:
        self._work = work
        self._rng = rng
        self._limits = limits or QueueLimits()
        self._metrics = metrics or OperatorMetrics()
        self._entries: dict[KeyT, _Entry] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._sequence = itertools.count()
        self._wake = asyncio.Event()
        self._runs: set[asyncio.Task[None]] = set()

    def __contains__(self, key: KeyT) -> bool:
        """Return whether the key is known: it runs, or will."""
        return key in self._entries

    def __len__(self) -> int:
        """Return the number of known keys, running, due or waiting for their time."""
        return len(self._entries)

    @property
    def running(self) -> int:
        """Return the number of keys that run now."""
        return len(self._runs)

    @property
    def waiting(self) -> int:
        """Return the number of keys that are due and have no worker yet."""
        now = self._now()
        return sum(not e.running and e.due <= now for e in self._entries.values())

    def add(self, key: KeyT, delay_s: float = 0.0) -> bool:
        """Make the key run after the delay, or earlier if it is due earlier already.

        Returns:
            False when the queue is full and the key unknown: it was not added.
        """
        due = self._now() + delay_s
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= self._limits.max_keys:
                LOG.warning("work queue is full (%d keys): %s was not added", len(self), key)
                return False
            self._schedule(key, _Entry(due), due)
        elif (due := max(due, entry.not_before)) < entry.due:
            self._schedule(key, entry, due)
        return True

    async def run(self) -> None:
        """Run due keys until cancelled; then cancel the runs under way and wait for them."""
        try:
            while True:
                self._wake.clear()
                pause_s = self._start_due()
                # Not wait_for: until Python 3.12 that forgets a cancellation that comes with the
                # event, and the queue would go on.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
        finally:
            for task in self._runs:
                task.cancel()
            await asyncio.gather(*self._runs, return_exceptions=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _schedule(self, key: KeyT, entry: _Entry, due: float) -> None:
        entry.due = due
        self._entries[key] = entry
        heapq.heappush(self._heap, (due, next(self._sequence), key))
        self._wake.set()

    def _start_due(self) -> float | None:
        """Start what is due and return the seconds until something else is, None for never."""
        while self._heap and len(self._runs) < self._limits.concurrency:
            due, _, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is None or entry.running or entry.due != due:
                heapq.heappop(self._heap)  # superseded; a running key is scheduled when it ends
                continue
            if due > self._now():
                return due - self._now()
            heapq.heappop(self._heap)
            self._start(key, entry)
        return None

    def _start(self, key: KeyT, entry: _Entry) -> None:
        self._metrics.waited(max(self._now() - entry.due, 0.0))
        entry.running = True
        entry.due = float("inf")
        task = asyncio.create_task(self._run_one(key, entry), name=f"reconcile {key}")
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        task.add_done_callback(lambda _: self._wake.set())

    async def _run_one(self, key: KeyT, entry: _Entry) -> None:
        began = self._now()
        delay_s, result = await self._delay_after_run(key, entry)
        self._metrics.reconciled(result, self._now() - began)
        entry.running = False
        if delay_s is None and entry.due == float("inf"):
            del self._entries[key]
            return
        entry.not_before = self._now() + self._limits.rest_s
        due = self._now() + (float("inf") if delay_s is None else self._jittered(delay_s))
        self._schedule(key, entry, max(min(due, entry.due), entry.not_before))

    async def _delay_after_run(self, key: KeyT, entry: _Entry) -> tuple[float | None, str]:
        """Run the work; return the seconds until its next run, and how it went."""
        try:
            async with asyncio.timeout(self._limits.run_deadline_s):
                delay_s = await self._work(key)
        except OperatorError as error:
            return self._delay_after_error(key, entry, error), _RESULTS.get(type(error), "failed")
        except TimeoutError:
            LOG.warning("%s: not done within %g s", key, self._limits.run_deadline_s)
            return self._next_backoff_s(entry), "timeout"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Cancelled was something that it waited for, not the run: the key must not be lost.
            LOG.warning("%s: what it waited for was cancelled", key)
            return self._next_backoff_s(entry), DEFECT
        except Exception:  # a defect in one cluster's reconcile must not stop the others
            LOG.exception("%s: reconcile failed", key)
            return self._next_backoff_s(entry), DEFECT
        entry.failures = 0
        return delay_s, "gone" if delay_s is None else "done"

    def _delay_after_error(self, key: KeyT, entry: _Entry, error: OperatorError) -> float:
        if isinstance(error, NotReady):
            LOG.info("%s: %s", key, error)
            return error.delay_s
        level = logging.INFO if isinstance(error, Conflict) else logging.WARNING
        LOG.log(level, "%s: %s: %s", key, type(error).__name__, error)
        patience_s = error.retry_after_s if isinstance(error, Unavailable) else 0.0
        return max(self._next_backoff_s(entry), patience_s)

    def _next_backoff_s(self, entry: _Entry) -> float:
        delay_s = self._limits.backoff_first_s * 2.0 ** min(entry.failures, 32)
        entry.failures += 1
        return min(delay_s, self._limits.backoff_max_s)

    def _jittered(self, delay_s: float) -> float:
        return delay_s * self._rng.uniform(1 - self._limits.jitter, 1 + self._limits.jitter)
