"""What the tests of backups, restores and salvages share."""

from __future__ import annotations

import os
import random
import re
import struct
import sys
import uuid
from typing import TYPE_CHECKING

from grid_member.engine.api import Eviction, EvictionPolicy, MapSettings
from grid_member.engine.backup.backup import open_draft
from grid_member.engine.lmdb.replay import Replay
from grid_member.engine.lmdb.tables import MAP_SIZE_BYTES, open_environment, open_tables
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Committed
from tests.unit.engine.drive import Driver, FixedStructures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import FrameType

    from grid_member.engine.state.snapshot import Snapshot

CREATED_MS = 1_700_000_000_000
MEMBER = uuid.UUID(int=7)
KILLED = 9

STRUCTURES = FixedStructures(
    maps={
        "ttl": MapSettings(time_to_live_s=500),
        "idle": MapSettings(max_idle_s=400),
        "lru": MapSettings(eviction=Eviction(EvictionPolicy.LRU, max_entries=5)),
        "lfu": MapSettings(eviction=Eviction(EvictionPolicy.LFU, max_entries=5)),
    }
)


async def fill(driver: Driver, seed: int = 1, rounds: int = 40) -> None:
    """Leave something of every kind behind."""
    chance = random.Random(seed)
    for number in range(rounds):
        for name in ("plain", "ttl", "idle", "lru", "lfu"):
            key = f"k{chance.randrange(8)}"
            value = chance.randbytes(chance.choice([3, 30, 5000]))
            assert await driver.put(name, key, value, "text/plain") is None
            await driver.get(name, f"k{chance.randrange(8)}")
        await driver.remove("plain", f"k{chance.randrange(8)}")
        assert await driver.offer("q", b"item %d" % number) is True
        assert await driver.offer(f"q{number % 3}", b"%d" % number, "a/b") is True
        if number % 5 == 0:
            await driver.poll("q")  # stays in flight
            await driver.take(f"q{number % 3}")
    assert await driver.system("license", b"key") is None
    assert await driver.system("operation/1", b"x", 600) is None


def dumps(snapshots: Sequence[Snapshot]) -> list[bytes]:
    """Return the canonical bytes of the states that snapshots were taken of."""
    return [b"".join(codec_part(snapshot)) for snapshot in snapshots]


def codec_part(snapshot: Snapshot) -> list[bytes]:
    from grid_member.engine.state import codec
    from grid_member.engine.state.snapshot import parts

    return [codec.encode_part(part) for part in parts(snapshot, ordered=True)]


def stored(place: Path, shard: int = 0, until: int | None = None) -> State:
    """Return the state that the log of a store or backup holds, as of a sequence."""
    path = place / f"shard-{shard}"
    tables = open_tables(path, shard, MAP_SIZE_BYTES, open_environment)
    state = State()
    try:
        for step in Replay(tables, path).steps():
            if not isinstance(step, Committed):
                state.load(step)
            elif until is None or step.sequence <= until:
                state.apply(*step)
    finally:
        tables.environment.close()
    return state


def stored_dumps(place: Path, shards: int) -> list[bytes]:
    return [stored(place, shard).dump() for shard in range(shards)]


def back_up(driver: Driver, backup_dir: Path, base_dir: Path) -> Path:
    draft = open_draft(backup_dir, base_dir)
    return draft.write(driver.engine.snapshot(), MEMBER, CREATED_MS, lambda _: None)


def lines_of(work: Callable[[], object]) -> int:
    """Count the lines that `killed_at` may stop at."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> object:
        nonlocal count
        if not _is_traced(frame):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def killed_at(line: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that dies before its line so and so; False when it got through."""
    pid = os.fork()
    if pid == 0:
        left = line

        def trace(frame: FrameType, event: str, _argument: object) -> object:
            nonlocal left
            if not _is_traced(frame):
                return None
            left -= event == "line"
            if left <= 0:
                os._exit(KILLED)
            return trace

        try:
            sys.settrace(trace)  # type: ignore[arg-type]
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return code == KILLED


def _is_traced(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    # What reads values has many lines and changes nothing.
    quiet = module.endswith((".codec", ".fields", ".lmdb_values", ".lmdb_pages", ".image"))
    return (module.startswith("grid_member.engine.") and not quiet) or module == "shutil"


def flipped_everywhere(data: bytes, what: bytes) -> bytes:
    """Flip a bit of every copy: pages that are free by now hold some, too."""
    at = data.find(what)
    assert at >= 0
    while at >= 0:
        data = flipped(data, (at + len(what) // 2) * 8)
        at = data.find(what)
    return data


def damage_log(directory: Path, what: bytes) -> None:
    """Flip a bit of every copy in a log, in LMDB's pages and in its tail."""
    found = 0
    for name in ("data.mdb", "tail"):
        data = (directory / name).read_bytes()
        if what in data:
            (directory / name).write_bytes(flipped_everywhere(data, what))
            found += 1
    assert found


def wild_value(data: bytes) -> tuple[bytes, int]:
    """Make a value, which has pages of its own, end far behind the file; return its sequence."""
    nodes = re.findall(struct.pack("=HH", 1, 8) + b"(\0{6}..)", data, re.DOTALL)
    key: bytes = nodes[len(nodes) // 2]
    node = struct.pack("=HH", 1, 8) + key
    at = data.find(node)
    while at >= 0:
        data = flipped(data, (at - 1) * 8)
        at = data.find(node, at + 1)
    return data, int.from_bytes(key, "big")


def flipped(data: bytes, bit: int) -> bytes:
    at = bit // 8
    return data[:at] + bytes([data[at] ^ (1 << bit % 8)]) + data[at + 1 :]
