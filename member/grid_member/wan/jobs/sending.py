"""Sends the changes that a synchronisation has chosen, beside the queues.

An entry is read when it is sent. The stamps make it safe in any order with what the queues send: a
job needs no place of its own among the changes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.wan.answers import REASONS, TOO_LARGE_ALONE, MapAnswer, reason_of
from grid_member.wan.jobs.lane import YIELD_S
from grid_member.wan.limits import is_too_large
from grid_member.wan.link import CHANGES_PATH
from grid_member.wan.pacing import SLICE
from grid_member.wan.ports import TooLargeError, UnreachableError
from grid_member.wan.protocol import BatchHeader, BatchWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.wan.agreement import MergePolicy
    from grid_member.engine.wan.changes import Change
    from grid_member.wan.hello import Welcome
    from grid_member.wan.jobs.lane import Lane, Patience


class MapRefusedError(Exception):
    """The target does not take the map; the message says why."""


class MapSending:
    """Sends changes of one map."""

    def __init__(
        self, lane: Lane, patience: Patience, welcome: Welcome, policy: MergePolicy
    ) -> None:
        self._lane = lane
        self._patience = patience
        self._welcome = welcome
        self._policy = policy
        self._writers: list[BatchWriter] = []
        self.too_large = 0
        """Changes that the target's limits do not allow."""
        self._refused_alone: list[int] = []
        """The bytes of entries that a request cannot bring to the target."""

    async def send(self, changes: Iterable[Change | None]) -> int:
        """Send changes, None is none; return how many the target has now.

        Raises:
            TargetError: the target does not have all of them.
            MapRefusedError: it does not take the map.
        """
        sent = 0
        await self._wait_while_held()
        self._lane.pacer.begin()
        for place, change in enumerate(changes):
            if place % SLICE == SLICE - 1:
                await self._lane.pacer.turn()
                await self._wait_while_held()
            if change is None or self._welcome.cluster_id in change.passed:
                continue
            if is_too_large(change, self._welcome.limits):
                self.too_large += 1
                continue
            if not self._has_room(change):
                sent += await self._fly()
                await self._wait_while_held()
            self._writers[-1].add(change, self._policy)
        return sent + await self._fly()

    async def _wait_while_held(self) -> None:
        """Wait before the next change is read."""
        while self._lane.shard.held:
            await self._lane.sleep(YIELD_S)

    def _has_room(self, change: Change) -> bool:
        """Have a batch with room for a change; False when as many are full as may be under way."""
        settings, writers = self._lane.settings, self._writers
        size_bytes = len(change.key) + len(change.value)
        if writers:
            last = writers[-1]
            full = last.size_bytes + size_bytes > self._most_bytes()
            if not full and len(last) < settings.batch_size:
                return True
        writers.append(BatchWriter(self._header()))
        return len(writers) <= settings.at_once

    def _most_bytes(self) -> int:
        """Return how many bytes of changes a batch may have; one change is always allowed."""
        # The ends of entries are not counted in the size of a batch: half leaves room for them.
        return min(self._lane.link.batch_bytes(), self._welcome.limits.batch_bytes // 2)

    async def _fly(self) -> int:
        """Carry the batches there that are complete; return how many changes arrived."""
        settings = self._lane.settings
        flying, self._writers = self._writers[: settings.at_once], self._writers[settings.at_once :]
        if not flying:
            return 0
        if self._lane.shard.busy(settings.name):
            await self._lane.sleep(YIELD_S)
        outcomes = await asyncio.gather(*map(self._carry, flying), return_exceptions=True)
        arrived = 0
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            arrived += outcome
        return arrived

    async def _carry(self, writer: BatchWriter) -> int:
        """Carry one batch there; return how many of its changes arrived."""
        body = writer.body()
        batch = await self._lane.seal(body)
        try:
            answer = await self._patience.post(CHANGES_PATH, batch)
        except TooLargeError:
            if len(writer) > 1:
                self._lane.link.note_too_large(len(body))
                raise  # the next try has smaller batches
            self._refused_alone.append(writer.first_entry_bytes)
            return 0
        if len(answer) != len(writer.maps):
            raise UnreachableError("the target's answer is not that of a batch")
        if answer[0] != MapAnswer.TAKEN:
            raise MapRefusedError(reason_of(answer[0]))
        return len(writer)

    def _header(self) -> BatchHeader:
        settings = self._lane.settings
        return BatchHeader(settings.cluster_id, self._welcome.cluster_id, settings.name)

    @property
    def problem(self) -> str:
        """Why not everything could be sent; empty when it was."""
        problems: list[str] = []
        if self.too_large:
            problems.append(
                f"{self.too_large} changes were left out: {REASONS[MapAnswer.TOO_LARGE]}"
            )
        if self._refused_alone:
            problem = TOO_LARGE_ALONE % max(self._refused_alone)
            problems.append(f"{problem}; entries that were left out: {len(self._refused_alone)}")
        return "; ".join(problems)
