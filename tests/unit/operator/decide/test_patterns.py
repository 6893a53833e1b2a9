from __future__ import annotations

import itertools
import time

import pytest

from grid_operator.decide.patterns import Patterns


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (["m"], "m", True),
        (["m"], "mm", False),
        ([], "m", False),
        (["default"], "whatever", True),
        (["*"], "", True),
        (["a*"], "a", True),
        (["a*"], "ba", False),
        (["*b"], "ab", True),
        (["a*b"], "ab", True),
        (["ab*ba"], "aba", False),
        (["ab*ba"], "abba", True),
        (["x*", "a*c", "a*b"], "a-b", True),
        (["x*", "a*c", "a*b"], "a-d", False),
    ],
)
def test_what_a_pattern_matches(patterns: list[str], name: str, matches: bool) -> None:
    assert Patterns(patterns).match(name) is matches


def test_as_many_as_there_may_be_delay_nobody() -> None:
    heads = ("".join(pair) for pair in itertools.product("abcdefghijklmnop", repeat=2))
    patterns = Patterns([f"name-{head * 3}-*-end" for head in heads])
    names = [f"name-{number}-" + "x" * 400 for number in range(2000)]

    began = time.process_time()
    found = sum(map(patterns.match, names))

    assert found == 0
    assert time.process_time() - began < 0.1
