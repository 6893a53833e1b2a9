"""Promise: whatever befalls the line or a member, both clusters hold the same at last."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.member.wan.faults.planted import PLANTED
from tests.unit.member.wan.faults.story import Story, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.wan.faults.clusters import Known

SEED: Final = int(os.environ.get("GRID_SEED", "0"))
SOAK_S: Final = int(os.environ.get("GRID_SOAK_SECONDS", "0"))
STORIES: Final = 120
STORIES_PER_FAULT: Final = 100
"""Until one of them finds a planted fault."""

pytestmark = pytest.mark.timeout(240 + 2 * SOAK_S)


def test_both_clusters_hold_the_same_at_last() -> None:
    seed, end_s = SEED, time.monotonic() + SOAK_S
    while seed < SEED + STORIES or time.monotonic() < end_s:
        assert (seed, play(seed)) == (seed, [])
        seed += 1


def told(seed: int) -> dict[tuple[str, str], Known]:
    """Return what the clients of a story have noted."""
    stories: list[Story] = []
    assert play(seed, stories.append) == []
    return stories[0].notes.least


def test_a_seed_has_the_same_story_each_time() -> None:
    assert told(SEED) == told(SEED) != told(SEED + 1)


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant: Callable[[pytest.MonkeyPatch], None] = PLANTED[fault]
    plant(monkeypatch)
    assert any(play(seed) for seed in range(STORIES_PER_FAULT))
