"""A member process under load for the tests that kill it.

`python -m tests.unit.engine.durability.workload` runs it.

Writes what it begins and what was answered to a journal, one JSON line each, unbuffered.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grid_member.engine import open_engine
from grid_member.engine.api import ClusterState, Item
from grid_member.engine.lmdb import log
from grid_member.engine.lmdb.log import LmdbLog
from grid_member.engine.lmdb.tables import open_environment
from grid_member.engine.lmdb.wal import WAL_FILE, Wal
from tests.unit.engine.drive import Driver, FixedStructures

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lmdb

    from grid_member.engine.lmdb.tables import Environments, Tables
    from grid_member.engine.log.log import Clock, Log

KEYS = 12
QUEUE = "queue"
MAP = "map"
SYSTEM = "system"
STATES = [ClusterState.ACTIVE, ClusterState.FROZEN, ClusterState.NO_MIGRATION]
COMPACTION_SLACK_BYTES = 20_000
RESERVE_BYTES = 16_384
WAL_BYTES = 32_768


def unsynced_environment(path: Path, map_size_bytes: int, create: bool) -> lmdb.Environment:
    import lmdb

    return lmdb.Environment(
        str(path), map_size=map_size_bytes, create=create, max_dbs=3, lock=False, sync=False
    )


def metaunsynced_environment(path: Path, map_size_bytes: int, create: bool) -> lmdb.Environment:
    import lmdb

    return lmdb.Environment(
        str(path), map_size=map_size_bytes, create=create, max_dbs=3, lock=False, metasync=False
    )


class Left(Wal):
    """A tail that stays as a dead process leaves it."""

    def end(self, tables: Tables | None, sequence: int) -> None:
        pass


class Hasty(Left):
    """A tail whose writes are not synced."""

    def append(self, first: int, values: Sequence[bytes], size_bytes: int) -> bool:
        if self._file >= 0:
            os.close(self._file)
            self._file = os.open(self._path / WAL_FILE, os.O_WRONLY | os.O_CLOEXEC)
        return super().append(first, values, size_bytes)


class Unnoted(Left):
    """A tail whose salt LMDB does not note."""

    @property
    def note(self) -> bytes | None:
        return None


BUILDS: dict[str, tuple[Environments, type[Wal]]] = {
    "real": (open_environment, Left),
    "no-sync": (unsynced_environment, Left),
    "no-meta-sync": (metaunsynced_environment, Left),
    "no-tail-sync": (open_environment, Hasty),
    "no-tail-note": (open_environment, Unnoted),
}


class Journal:
    """Begun and answered operations, in order, in a file that survives this process."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._number = 0

    def begin(self, kind: str, what: str, value: str | None = None) -> int:
        self._number += 1
        self._write({"begin": self._number, "kind": kind, "what": what, "value": value})
        return self._number

    def answered(self, number: int, value: str | None = None) -> None:
        self._write({"answered": number, "value": value})

    def _write(self, line: dict[str, object]) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")


async def change_maps(driver: Driver, journal: Journal, key: str, chance: random.Random) -> None:
    kind = chance.choice(["put", "put", "put", "remove"])
    if kind == "remove":
        number = journal.begin("remove", key)
        assert await driver.remove(MAP, key) is None
    else:
        value = f"{key}-{chance.random()}".ljust(chance.choice([10, 100, 3000, 9000]), "x")
        number = journal.begin("put", key, value)
        assert await driver.put(MAP, key, value.encode()) is None
    journal.answered(number)


async def change_queue(driver: Driver, journal: Journal, chance: random.Random) -> None:
    if chance.random() < 0.6:
        value = f"item-{chance.random()}"
        number = journal.begin("offer", QUEUE, value)
        assert await driver.offer(QUEUE, value.encode()) is True
        journal.answered(number)
        return
    item = await driver.poll(QUEUE)
    if isinstance(item, Item):
        journal.begin("confirm", QUEUE, item.value.decode())
        driver.engine.queue_confirm(item)


async def change_system(driver: Driver, journal: Journal, chance: random.Random) -> None:
    """Change the cluster state and, in the same tick, two values that tell of it."""
    state = chance.choice(STATES)
    value = f"{state.value} {chance.random()}"
    number = journal.begin("put", SYSTEM, value)
    loop = asyncio.get_running_loop()
    changed: asyncio.Future[object] = loop.create_future()
    kept: list[asyncio.Future[object]] = [loop.create_future() for _ in range(2)]
    driver.engine.system_put(f"{SYSTEM}/0", value.encode(), kept[0].set_result)
    driver.engine.change_cluster_state(state, changed.set_result)
    driver.engine.system_put(f"{SYSTEM}/1", value.encode(), kept[1].set_result)
    assert await asyncio.gather(*kept) == [None, None]
    assert isinstance(await changed, bool)
    journal.answered(number)


async def run(directory: Path, journal: Journal, build: str, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    environments, tail = BUILDS[build]
    setattr(log, "Wal", tail)  # noqa: B010 - it takes no other one

    def open_log(path: Path, shard: int, clock: Clock) -> Log:
        return LmdbLog(
            path,
            shard,
            clock,
            compaction_slack_bytes=COMPACTION_SLACK_BYTES,
            reserve_bytes=RESERVE_BYTES,
            environments=environments,
            wal_bytes=WAL_BYTES,
        )

    engine = open_engine(FixedStructures(), directory, open_log=open_log)
    await engine.start()
    driver = Driver(engine)
    done = 0
    while done < rounds or rounds == 0:
        done += 1
        keys = chance.sample(range(KEYS), chance.randint(1, 5))
        await asyncio.gather(
            change_queue(driver, journal, chance),
            change_system(driver, journal, chance),
            *(change_maps(driver, journal, f"key-{key}", chance) for key in keys),
        )
    # No graceful stop: the test looks at what a dead process leaves. Only the writers end first:
    # what one wrote as the process died would be on the disk and not in the trace.
    for shard in engine.shards:
        await shard.close()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(
        run(
            Path(sys.argv[1]), Journal(Path(sys.argv[2])), sys.argv[3], int(sys.argv[4]),
            int(sys.argv[5]),
        )
    )  # fmt: skip
