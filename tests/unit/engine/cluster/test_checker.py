"""The checker of histories finds planted faults, and none where there is none."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from tests.unit.engine.cluster.checker import (
    CRASH_WINDOW_S,
    NOTHING,
    Delivery,
    History,
    Offer,
    Read,
    Span,
    Write,
)

UNKNOWN = math.inf


def read(value: str, begun_s: float, ended_s: float, member: int = 0) -> Read:
    return Read("k", value, begun_s, ended_s, member)


def write(value: str, begun_s: float, ended_s: float) -> Write:
    return Write("k", value, begun_s, ended_s)


REGISTERS = {
    "an older value after a newer one was answered": (
        [write("a", 0, 1), write("b", 2, 3)],
        [read("a", 4, 5)],
    ),
    "an answered write that is gone": ([write("a", 0, 1)], [read(NOTHING, 2, 3)]),
    "an older value after a newer one was read": (
        [write("a", 0, 1), write("b", 2, UNKNOWN)],
        [read("b", 3, 4), read("a", 5, 6)],
    ),
    "two orders of two writes": (
        [write("a", 0, 9), write("b", 0, 9)],
        [read("a", 10, 11), read("b", 12, 13)],
    ),
    "an older value between two reads of a newer one": (
        [write("a", 0, 2), write("b", 0, 2)],
        [read("b", 3, 4), read("a", 5, 6), read("b", 7, 8)],
    ),
    "an answered write between two reads that do not show it": (
        [write("a", 0, 1), write("b", 4, 5)],
        [read("a", 2, 3), read("a", 6, 7)],
    ),
    "a value that nobody wrote": ([], [read("x", 0, 1)]),
    "a value before it was written": ([write("a", 2, 3)], [read("a", 0, 1)]),
}
SOUND_REGISTERS = {
    "a write that is under way may be seen or not": (
        [write("a", 0, 9)],
        [read(NOTHING, 1, 2), read("a", 3, 4)],
    ),
    "a write without an answer may come late": (
        [write("a", 0, UNKNOWN), write("b", 2, 3)],
        [read("b", 4, 5), read("a", 6, 7)],
    ),
    "a write without an answer may never come": (
        [write("a", 0, UNKNOWN)],
        [read(NOTHING, 5, 6)],
    ),
    "two writes at once in either order": (
        [write("a", 0, 9), write("b", 0, 9)],
        [read("b", 1, 2), read("a", 3, 4)],
    ),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_register_that_breaks_its_promise_is_found(name: str) -> None:
    writes, reads = REGISTERS[name]
    assert History(writes=writes, reads=reads).faults() != []


@pytest.mark.parametrize("name", SOUND_REGISTERS)
def test_a_register_that_keeps_its_promise_is_left_alone(name: str) -> None:
    writes, reads = SOUND_REGISTERS[name]
    assert History(writes=writes, reads=reads).faults() == []


def played(seed: int) -> History:
    """Return a history of one register and one queue that really were ones."""
    dice = random.Random(seed)
    history, now_s, value, queue = History(), 0.0, NOTHING, list[int]()
    for number in range(120):
        # Each takes effect somewhere inside its time; times of neighbours overlap.
        begun_s, now_s, ended_s = now_s - dice.random(), now_s + 0.1, now_s + 0.1 + dice.random()
        match dice.randrange(4):
            case 0:
                value = f"v{number}"
                history.writes.append(write(value, begun_s, ended_s))
            case 1:
                history.reads.append(read(value, begun_s, ended_s))
            case 2:
                queue.append(number)
                # One producer has its answer before it offers the next.
                history.offers.append(Offer("p", number, now_s - 0.01, now_s))
            case _ if queue:
                history.deliveries.append(Delivery("p", queue.pop(0), begun_s, ended_s, 0))
    for number in queue:
        now_s += 1
        history.deliveries.append(Delivery("p", number, now_s, now_s + 1, 0))
    return history


@pytest.mark.parametrize("seed", range(30))
def test_what_really_happened_is_no_fault(seed: int) -> None:
    assert played(seed).faults() == []


def without_a_delivery(history: History) -> None:
    del history.deliveries[len(history.deliveries) // 2]


def with_one_more_delivery(history: History) -> None:
    first = history.deliveries[0]
    history.deliveries.append(first._replace(begun_s=900, ended_s=901, member=1))


def with_a_delivery_too_early(history: History) -> None:
    last = history.deliveries[-1]
    history.deliveries[-1] = last._replace(begun_s=-2, ended_s=-1)


def with_a_stale_read(history: History) -> None:
    history.reads.append(read(history.writes[0].value, 900, 901))


def with_a_silence(history: History) -> None:
    history.unanswered.append("put k")


FAULTS = {
    "lost": without_a_delivery,
    "twice": with_one_more_delivery,
    "out of order": with_a_delivery_too_early,
    "stale": with_a_stale_read,
    "never answered": with_a_silence,
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("seed", range(10))
def test_a_planted_fault_is_found(kind: str, seed: int) -> None:
    history = played(seed)
    FAULTS[kind](history)
    found = history.faults()
    assert found != []
    assert all(kind in fault for fault in found), found


def twice(crash: Span) -> History:
    return History(
        offers=[Offer("p", 1, 0, 1)],
        deliveries=[Delivery("p", 1, 2, 3, 0), Delivery("p", 1, 20, 21, 1)],
        crashes=[crash],
    )


def test_an_item_may_come_again_when_its_first_member_crashed_in_the_window() -> None:
    assert twice(Span(0, 3.5, 9)).faults() == []
    assert twice(Span(0, 2.5, 2.6)).faults() == []


@pytest.mark.parametrize(
    "crash",
    [Span(1, 3.5, 9), Span(0, 0, 1.5), Span(0, 3 + CRASH_WINDOW_S + 1, 99)],
    ids=["another member", "before it was taken", "long after it was confirmed"],
)
def test_another_crash_excuses_no_second_delivery(crash: Span) -> None:
    assert len(twice(crash).faults()) == 1


def test_an_item_that_was_given_back_may_be_late() -> None:
    history = History(
        offers=[Offer("p", 1, 0, 1), Offer("p", 2, 2, 3)],
        deliveries=[Delivery("p", 2, 4, 5, 0), Delivery("p", 1, 6, 7, 0)],
    )
    assert len(history.faults()) == 1
    excused = dataclasses.replace(history, lost_polls=[Span(1, 3, 5)])
    assert excused.faults() == []
