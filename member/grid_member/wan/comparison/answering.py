"""The side of a cluster that is asked: it walks through its map and tells digests or keys.

    question ──▶ a walk ──▶ answer        takes longer ──▶ 503, and the question joins its walk

A walk of a large map beside many requests takes longer than a source waits for an answer. Its
result waits a while for the question to come again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_member.engine.wan.agreement import MapReference, MergePolicy
from grid_member.engine.wan.digests import Digests
from grid_member.engine.wan.key_filter import KeyFilter
from grid_member.wan.answers import COMPARING, MapAnswer
from grid_member.wan.comparison.buckets import Walk
from grid_member.wan.comparison.messages import (
    DigestsAnswer,
    KeysAnswer,
    read_digests_question,
    read_keys_question,
    write_digests_answer,
    write_keys_answer,
)
from grid_member.wan.ports import BusyError, ComparingError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from grid_member.wan.comparison.buckets import ComparedMap
    from grid_member.wan.comparison.messages import KeysQuestion, MapQuestion
    from grid_member.wan.pacing import Pacer

MAX_WALKS: Final = 4
"""Walks at a time, those whose result waits among them."""
PATIENCE_S: Final = 0.9
"""How long a question waits for its walk: less than the shortest time-out of a source."""
KEPT_S: Final = 60.0
"""How long a result waits for its question."""


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[bytes]
    asked_s: float


class Answering:
    """Answers questions about maps."""

    def __init__(
        self,
        compared: Callable[[str], ComparedMap],
        is_configured: Callable[[str], bool],
        pacer: Pacer,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Answer nothing yet.

        Args:
            compared: returns a map.
            is_configured: tells whether a map has a configuration.
            pacer: gives up the loop; it has the clock.
            patience_s: how long a question waits for its walk.
        """
        self._compared = compared
        self._is_configured = is_configured
        self._pacer = pacer
        self._clock = pacer.clock
        self._patience_s = patience_s
        self._walks: dict[bytes, _Running] = {}

    async def digests(self, data: bytes, check: Callable[[bytes, bytes], None]) -> bytes:
        """Return the answer to a question for digests; `check` looks at source and target.

        Raises:
            ProtocolError: the bytes are no such question.
            BusyError: to be asked again.
        """
        question = read_digests_question(data)
        check(question.source, question.target)
        return await self._shared(data, lambda: self._digests(question))

    async def keys(self, data: bytes, check: Callable[[bytes, bytes], None]) -> bytes:
        """Return the answer to a question for keys, as `digests` does."""
        question = read_keys_question(data)
        check(question.about.source, question.about.target)
        return await self._shared(data, lambda: self._keys(question))

    async def close(self) -> None:
        """End all walks."""
        tasks = [running.task for running in self._walks.values()]
        self._walks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _shared(self, data: bytes, walk: Callable[[], Coroutine[None, None, bytes]]) -> bytes:
        self._forget_old()
        running = self._walks.get(data)
        if running is None:
            if len(self._walks) >= MAX_WALKS:
                raise BusyError("too many maps are compared at once")
            running = self._walks[data] = _Running(asyncio.create_task(walk()), self._clock())
        running.asked_s = self._clock()
        await asyncio.wait({running.task}, timeout=self._patience_s)
        if not running.task.done():
            raise ComparingError(COMPARING)
        # The same question later is about the map as it is then.
        self._walks.pop(data, None)
        return running.task.result()

    def _forget_old(self) -> None:
        now_s = self._clock()
        for data, running in list(self._walks.items()):
            if now_s > running.asked_s + KEPT_S:
                running.task.cancel()
                del self._walks[data]

    async def _digests(self, question: MapQuestion) -> bytes:
        if not self._is_configured(question.map_name):
            return write_digests_answer(DigestsAnswer(MapAnswer.NOT_CONFIGURED, 0, Digests(0)))
        # Before the walk: what a later clear removes is missing in the digests already.
        cleared = self._compared(question.map_name).cleared
        digests = await self._walk(question).digests()
        return write_digests_answer(DigestsAnswer(MapAnswer.TAKEN, cleared, digests))

    async def _keys(self, question: KeysQuestion) -> bytes:
        if not self._is_configured(question.about.map_name):
            return write_keys_answer(KeysAnswer(MapAnswer.NOT_CONFIGURED, False, []))
        rows, more = await self._walk(question.about).page(question.buckets, question.after)
        return write_keys_answer(KeysAnswer(MapAnswer.TAKEN, more, rows))

    def _walk(self, question: MapQuestion) -> Walk:
        found = self._compared(question.map_name)
        patterns = question.include, question.exclude
        reference = MapReference("", MergePolicy.LATEST_UPDATE, False, *patterns)
        return Walk(found, KeyFilter(reference), question.job, question.bits, self._pacer.another())
