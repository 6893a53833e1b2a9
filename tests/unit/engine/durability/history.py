"""Judges what a restarted member holds against the journal of the process that died."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grid_member.engine import open_engine
from grid_member.engine.api import ClusterState
from tests.unit.engine.drive import Driver, FixedStructures
from tests.unit.engine.durability.workload import KEYS, MAP, QUEUE, SYSTEM

if TYPE_CHECKING:
    from pathlib import Path


Line = dict[str, str | int | None]


@dataclass
class Expectation:
    """What may and what must be there, worked out line by line."""

    values: dict[str, set[str | None]] = field(default_factory=dict)
    offered: list[str] = field(default_factory=list)
    certain: set[str] = field(default_factory=set)
    """Items whose offer was answered and whose confirm was not begun."""
    gone: set[str] = field(default_factory=set)
    """Items whose confirm was followed by an operation that was answered."""
    _begun: dict[int, Line] = field(default_factory=dict)
    _confirmed: list[tuple[int, str]] = field(default_factory=list)

    def read(self, line: Line) -> None:
        if "begin" in line:
            self._begin(int(line["begin"] or 0), line)
        else:
            self._answer(int(line["answered"] or 0))

    def _begin(self, number: int, line: Line) -> None:
        self._begun[number] = line
        what, value = str(line["what"]), line["value"]
        match line["kind"]:
            case "put" | "remove":
                self.values.setdefault(what, {None}).add(None if value is None else str(value))
            case "offer":
                self.offered.append(str(value))
            case "confirm":
                self.certain.discard(str(value))
                self._confirmed.append((number, str(value)))

    def _answer(self, number: int) -> None:
        line = self._begun[number]
        if line["kind"] in {"put", "remove"}:
            value = line["value"]
            self.values[str(line["what"])] = {None if value is None else str(value)}
        else:
            self.certain.add(str(line["value"]))
        self.gone.update(item for begun, item in self._confirmed if begun < number)


def expectation(journal: bytes) -> Expectation:
    """Read a journal whose last line may be cut short."""
    expected = Expectation()
    for line in journal.split(b"\n")[:-1]:
        expected.read(json.loads(line))
    return expected


async def violations(directory: Path, journal: bytes) -> list[str]:
    """Start a member on what is left and return every broken promise."""
    expected = expectation(journal)
    engine = open_engine(FixedStructures(), directory)
    await engine.start()
    try:
        driver = Driver(engine)
        found = await _map_violations(driver, expected)
        found += await _queue_violations(driver, expected)
        found += _system_violations(driver, expected)
    finally:
        await engine.stop()
    return found


async def _map_violations(driver: Driver, expected: Expectation) -> list[str]:
    found: list[str] = []
    for number in range(KEYS):
        key = f"key-{number}"
        value = await driver.value(MAP, key)
        text = None if value is None else value.decode()
        if text not in expected.values.get(key, {None}):
            found.append(f"{key} is {text!r:.40}")
    return found


async def _queue_violations(driver: Driver, expected: Expectation) -> list[str]:
    items: list[str] = []
    while (value := await driver.take(QUEUE)) is not None:
        items.append(value.decode())
    found = [f"{item} is lost" for item in expected.certain - set(items)]
    found += [f"{item} came twice" for item in expected.gone & set(items)]
    if items != [item for item in expected.offered if item in set(items)]:
        found.append(f"wrong order: {items}")
    return found


def _system_violations(driver: Driver, expected: Expectation) -> list[str]:
    """Return what is wrong with the cluster state and the values that were put with it."""
    engine = driver.engine
    values = [value.decode() for _, value in engine.system_items(f"{SYSTEM}/")]
    kept = values[0] if values else None
    state = kept.split()[0] if kept else ClusterState.ACTIVE.value
    found = []
    if kept not in expected.values.get(SYSTEM, {None}):
        found.append(f"the system value is {kept}")
    if engine.cluster_state.value != state or len(values) == 1 or len(set(values)) > 1:
        found.append(f"state {engine.cluster_state.value} is there with {values}")
    return found
