"""When a queue is said to grow."""

from __future__ import annotations

from bench.parts.wan.carried import growth
from tests.unit.bench.load.test_paced import paced


def test_a_queue_grows_when_it_ends_longer_than_it_began() -> None:
    assert growth(paced(5, 7, 60, 5, 7, 5)) == 0
    assert growth(paced(5, 5, 50, 60, 500, 500)) == 495
