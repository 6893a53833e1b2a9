"""Who reads on any member is never shown less than was answered before, whatever is cut off."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import Entry, Refused
from grid_member.engine.jetstream.publisher import GIVE_UP_S
from grid_member.engine.local.engine import LocalEngine
from grid_member.engine.replicated.engine import ClusterEngine
from tests.unit.engine.cluster.clusters import Cluster
from tests.unit.engine.drive import condition

if TYPE_CHECKING:
    from pathlib import Path

    from grid_member.engine.api import Done

MAP = "m"
KEY = "k"
HEALED_S = 5.0
"""How long all members are read from when the line is whole again, whoever is current."""
CUT_OFF_S = GIVE_UP_S + 2
"""Longer than an old leader believes in itself, and than its member waits for a quorum."""


class Register:
    """One key that one writer counts up and everybody reads."""

    def __init__(self) -> None:
        self.answered = 0
        self.stale: list[str] = []
        self.reads: Counter[int] = Counter()
        """Answered, by member; as are those refused."""
        self.refused: Counter[int] = Counter()
        self.refused_in_cut = 0
        """By the one that was cut off, while it was."""
        self.leader = -1
        """The one that is cut off."""
        self.ended = False

    async def write(self, cluster: Cluster, through: list[int]) -> None:
        """Write through one of the members after the other, as long as nothing ends it."""
        number = 0
        while not self.ended:
            number += 1
            for member in through:
                if await cluster.drivers[member].put(MAP, KEY, b"%d" % number) is None:
                    self.answered = number
                    break
            await asyncio.sleep(0.001)

    async def read(self, cluster: Cluster, member: int) -> None:
        while not self.ended:
            least = self.answered
            outcome = await cluster.drivers[member].get(MAP, KEY)
            if isinstance(outcome, Entry):
                self.reads[member] += 1
                if int(outcome.value) < least:
                    self.stale.append(f"member {member}: {outcome.value!r} after {least}")
            else:
                self.refused[member] += isinstance(outcome, Refused)
            await asyncio.sleep(0.001)


async def played(cluster: Cluster) -> Register:
    """Cut the leader of the map's stream off and heal it; return what was seen."""
    register = Register()
    leader = register.leader = await cluster.leader_of(MAP)
    StaleLeader.leader = cluster.engines[leader]
    others = [member for member in range(cluster.size) if member != leader]
    async with asyncio.TaskGroup() as group:
        group.create_task(register.write(cluster, [*others, leader]))
        for member in range(cluster.size):
            group.create_task(register.read(cluster, member))
        await condition(lambda: register.answered >= 50)
        cluster.isolate(leader)
        at_cut, cut_s, refused = register.answered, time.monotonic(), register.refused[leader]
        await condition(lambda: register.answered > at_cut + 100)
        await condition(lambda: time.monotonic() - cut_s > CUT_OFF_S)
        register.refused_in_cut = register.refused[leader] - refused
        cluster.heal()
        at_heal, heal_s = register.answered, time.monotonic()
        await condition(lambda: register.answered > at_heal + 100)
        await condition(lambda: time.monotonic() - heal_s > HEALED_S)
        register.ended = True
    return register


@pytest.mark.timeout(120)
async def test_no_member_reads_what_is_older_than_an_answered_write(tmp_path: Path) -> None:
    async with Cluster(3, tmp_path) as cluster:
        register = await played(cluster)
        assert register.stale == []
        assert register.refused_in_cut > 0, "the member that was cut off never said so"


class StaleLeader(ClusterEngine):
    """Reads what is there beside the leader, as a design would that trusts it to be current."""

    leader: ClusterEngine | None = None

    def map_get(self, name: str, key: str, done: Done[Entry | None]) -> None:
        reader = LocalEngine if self is StaleLeader.leader else ClusterEngine
        reader.map_get(self, name, key, done)


@pytest.mark.timeout(120)
async def test_the_check_catches_an_engine_that_believes_the_leader(tmp_path: Path) -> None:
    async with Cluster(3, tmp_path, engine=StaleLeader) as cluster:
        register = await played(cluster)
        former = f"member {register.leader}:"
        assert register.stale
        assert all(told.startswith(former) for told in register.stale)
