"""What writes at a fixed rate are, and what is told of them."""

from __future__ import annotations

import random

from bench.load.paced import Paced, request


def paced(*lengths: int) -> Paced:
    """Return what was seen of a queue that had these lengths in turn."""
    return Paced(600, 2.0, tuple(enumerate(lengths)))


def test_a_rate_is_what_was_answered() -> None:
    assert paced(1).rate == 300


def test_a_write_is_whole_and_its_value_another_each_time() -> None:
    chance = random.Random(1)
    first, second = (request(7, chance) for _ in range(2))
    head, _, value = first.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /grid/rest/maps/bench/7 HTTP/1.1\r\n")
    assert len(value) == 22
    assert value not in second
