"""Which copies of a stream count."""

from __future__ import annotations

from typing import Any

import pytest

from grid_member.engine.nats.streams import NEARLY_CURRENT, is_current

LATELY_NS, LONG_AGO_NS = 20_000_000, 9_000_000_000


@pytest.mark.parametrize(
    "replica",
    [
        {"current": True, "active": LATELY_NS},
        # As it is told in the midst of writes.
        {"current": False, "active": LATELY_NS, "lag": 1},
        {"current": False, "active": LATELY_NS, "lag": NEARLY_CURRENT},
    ],
)
def test_a_copy_that_follows_is_current(replica: dict[str, Any]) -> None:
    assert is_current(replica)


@pytest.mark.parametrize(
    "replica",
    [
        {"current": True, "offline": True, "active": LATELY_NS},
        {"current": False, "active": LATELY_NS, "lag": NEARLY_CURRENT + 1},
        {"current": False, "active": LONG_AGO_NS, "lag": 1},
        # One of which the leader has not heard yet.
        {"current": False, "active": 0},
    ],
)
def test_a_copy_that_is_away_new_or_far_behind_is_not(replica: dict[str, Any]) -> None:
    assert not is_current(replica)
