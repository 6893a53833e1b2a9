from __future__ import annotations

import random

import pytest

from grid_operator.ports.members import breaker as rules
from grid_operator.ports.members.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tripped(clock: Clock, seed: int = 1) -> Breaker:
    breaker = Breaker(clock, random.Random(seed))
    for _ in range(rules.TRIPPED_AFTER):
        assert breaker.allows("a")
        breaker.timed_out("a")
    return breaker


def pause(breaker: Breaker, clock: Clock) -> float:
    began = clock.now
    while not breaker.allows("a"):
        clock.now += 0.01
    return clock.now - began


def test_a_silent_process_is_left_alone_for_growing_pauses_up_to_half_a_minute() -> None:
    clock = Clock()
    breaker = tripped(clock)
    pauses = []
    for _ in range(8):
        pauses.append(pause(breaker, clock))
        breaker.timed_out("a")
    assert pauses[0] > 2
    assert pauses[1] > pauses[0]
    assert pauses[2] > pauses[1]
    assert max(pauses) <= rules.PAUSE_MAX_S + 0.02
    assert min(pauses[4:]) >= rules.PAUSE_MAX_S * (1 - rules.PAUSE_JITTER) - 0.02


def test_pauses_are_jittered() -> None:
    clocks = [Clock() for _ in range(20)]
    found = {round(pause(tripped(c, seed), c), 1) for seed, c in enumerate(clocks)}
    assert len(found) > 5


def test_others_are_asked_and_a_later_process_starts_anew() -> None:
    breaker = tripped(Clock())
    assert not breaker.allows("a")
    assert breaker.allows("b")


@pytest.mark.parametrize("timeouts", range(rules.TRIPPED_AFTER))
def test_an_answer_ends_it_and_timeouts_have_to_be_in_a_row(timeouts: int) -> None:
    clock = Clock()
    breaker = tripped(clock)
    clock.now += 60
    breaker.answered("a")
    for _ in range(timeouts):
        breaker.timed_out("a")
    assert breaker.allows("a")


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_PROCESSES", 1)
    breaker = tripped(Clock())
    for _ in range(rules.TRIPPED_AFTER):
        breaker.timed_out("b")
    assert breaker.allows("a")
    assert not breaker.allows("b")
