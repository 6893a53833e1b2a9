"""Promise: what two clusters hold at last is the same, and nothing is lost or comes back.

The members are processes in network namespaces, with a disk each. Nothing is started anew between
two stories but what a story has killed.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.volume import needs_volumes
from tests.unit.member.processes.namespaces import needs_namespaces
from tests.unit.member.processes.wan.apart import apart
from tests.unit.member.processes.wan.ledger import Ledger
from tests.unit.member.processes.wan.stories import FAULTS, LONG_S, SHORT_S, S, Story

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.wan.stories import Faults

SEED: Final = int(os.environ.get("GRID_SEED", "0"))
SOAK_S: Final = int(os.environ.get("GRID_SOAK_SECONDS", "0"))
DURATIONS_S: Final = LONG_S if SOAK_S else SHORT_S
STORIES: Final = 300 if SOAK_S else 2 * len(FAULTS)
KEPT: Final[tuple[int, ...]] = ()
"""Seeds of stories that found a fault once; they are played first."""

pytestmark = [
    needs_namespaces,
    needs_volumes,
    pytest.mark.timeout(600 + (6000 + 2 * SOAK_S if SOAK_S else 0)),
]


async def test_nothing_diverges_is_lost_or_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with apart(tmp_path) as sites:
        await played(sites, FAULTS, STORIES, capsys)


async def played(
    sites: tuple[S, S], faults: Faults[S], stories: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Play so many stories, and more for as long as a soak lasts."""
    ledger, end_s = Ledger(), time.monotonic() + SOAK_S
    for number, seed in enumerate(itertools.chain(KEPT, itertools.count(SEED))):
        if number >= stories and time.monotonic() >= end_s:
            break
        story = Story(seed, sites, faults, ledger, DURATIONS_S)
        if SOAK_S:
            with capsys.disabled():
                sys.stdout.write(f"seed {seed}: {story}\n")
        assert (seed, str(story), await story.play()) == (seed, str(story), [])
    assert await story.compare(ledger.all) == []
