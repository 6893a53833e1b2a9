"""A member that was cut off with the leader of a stream is current soon after it is back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import pytest

from grid_member.engine.nats.admin.streams import ask_successfully
from grid_member.engine.nats.client.errors import NatsError
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition
from tests.unit.engine.replicated.faults.test_never_stale import MAP, Register

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CURRENT_S: Final = 30.0
"""Some three to ten seconds on a machine that is not crowded."""


class Healing:
    """What a member that was cut off knows of its stream, and since when."""

    def __init__(self, cluster: Cluster, member: int, shard: int) -> None:
        self._client = cluster.engines[member].client
        self._number = shard
        self._shard = cluster.engines[member]._cluster.replicated_shards[shard]
        self._begun_s = 0.0
        self._sequence = 0
        self.phases: dict[str, float] = {}

    @property
    def refused(self) -> bool:
        return self._shard._log.refusal is not None

    def begin(self) -> None:
        self._begun_s = asyncio.get_running_loop().time()
        self._sequence = self._shard.state.sequence

    async def watch(self, current: Callable[[], bool]) -> None:
        """Note when what has to happen did; end when all did."""
        looks: dict[str, Callable[[], bool]] = {
            "records of the others arrive": lambda: self._shard.state.sequence > self._sequence,
            "own records come back": lambda: not self.refused,
            "reads are answered": current,
        }
        while len(self.phases) <= len(looks):
            await self._ask()
            for phase, holds in looks.items():
                if holds():
                    self._note(phase)
            await asyncio.sleep(0.01)

    async def _ask(self) -> None:
        phase = "a leader with a quorum answers"
        if phase in self.phases:
            return
        with contextlib.suppress(NatsError):
            info = await ask_successfully(self._client, f"STREAM.INFO.shard-{self._number}")
            replicas = info["cluster"].get("replicas") or []
            if info["cluster"].get("leader") and any(one["active"] < 10**9 for one in replicas):
                self._note(phase)

    def _note(self, phase: str) -> None:
        self.phases.setdefault(phase, asyncio.get_running_loop().time() - self._begun_s)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("durable", [False, True])
async def test_who_was_cut_off_with_the_leader_is_current_soon_after(
    tmp_path: Path, durable: bool
) -> None:
    async with Cluster(3, tmp_path if durable else None) as cluster:
        register = Register()
        leader = await cluster.leader_of(MAP)
        others = [member for member in range(cluster.size) if member != leader]
        healing = Healing(cluster, leader, cluster.shard_of(MAP))
        async with asyncio.TaskGroup() as group:
            group.create_task(register.write(cluster, others))
            for member in range(cluster.size):
                group.create_task(register.read(cluster, member))
            await condition(lambda: register.answered >= 50)
            cluster.isolate(leader)
            at_cut = register.answered
            await condition(lambda: healing.refused and register.answered > at_cut, 40)
            seen = register.reads[leader]
            cluster.heal()
            healing.begin()
            try:
                async with asyncio.timeout(CURRENT_S):
                    await healing.watch(lambda: register.reads[leader] > seen)
            except TimeoutError:
                pytest.fail(f"not current within {CURRENT_S:g} s: {healing.phases}")
            finally:
                register.ended = True
        assert register.stale == []
