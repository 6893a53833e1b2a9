"""Clusters that replicate to each other hold the same at last, whatever the wire does."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.wan.model import TOPOLOGIES, Run, problems_of
from tests.unit.engine.wan.planted import BY_MODEL, SNAPSHOTS, purged_is_not_counted

if TYPE_CHECKING:
    from collections.abc import Callable

SEED: Final = int(os.environ.get("GRID_SEED", "0"))
SOAK_S: Final = int(os.environ.get("GRID_SOAK_SECONDS", "0"))
RUNS: Final = {
    "pair": 4000,
    "star": 1250,
    "mesh": 1500,
    "ring": 2000,
    "chain": 1250,
    "fan": 400,
    "loop": 400,
}
"""Ten thousand, and those of clusters of which one alone writes."""
KEPT: Final[dict[str, tuple[int, ...]]] = {}
"""Seeds of runs that found a fault once, by topology; they are played first."""
PURGING_RUNS: Final = 200
RUNS_PER_FAULT: Final = 400
"""Of each topology, until one of them catches a planted fault."""
PLANTED: Final = {fault.__name__: fault for fault in BY_MODEL} | SNAPSHOTS

pytestmark = pytest.mark.timeout(240 + 2 * SOAK_S)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_clusters_agree_at_last(topology: str) -> None:
    first = SEED
    end_s = time.monotonic() + SOAK_S / len(TOPOLOGIES)
    assert problems_of(KEPT.get(topology, ()), topology) == []
    while True:
        seeds = range(first, first + RUNS[topology])
        assert problems_of(seeds, topology) == []
        first = seeds.stop
        if time.monotonic() >= end_s:
            break


def purging(seed: int) -> tuple[bool, int]:
    """Play a story in which tombstones are purged too early; tell what differs and is counted."""
    run = Run(SEED + seed, TOPOLOGIES["mesh" if seed % 2 else "ring"], purges=True)
    return bool(run.play()), run.ambiguous


def test_what_a_purged_tombstone_brings_back_is_counted() -> None:
    found = [purging(seed) for seed in range(PURGING_RUNS)]
    assert any(ambiguous for _, ambiguous in found)
    assert [one for one in found if one[0] and not one[1]] == []


def test_purged_tombstones_that_are_not_counted_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    purged_is_not_counted(monkeypatch)
    assert any(
        differs and not ambiguous for differs, ambiguous in map(purging, range(PURGING_RUNS))
    )


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant: Callable[[pytest.MonkeyPatch], None] = PLANTED[fault]
    plant(monkeypatch)
    assert any(
        Run(seed, topology).play()
        for seed in range(RUNS_PER_FAULT)
        for topology in TOPOLOGIES.values()
    )
