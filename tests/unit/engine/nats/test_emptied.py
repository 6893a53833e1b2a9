"""Which logs in memory nobody holds any more, by what servers tell of them, and when that is so."""

from __future__ import annotations

from typing import Any, Final

import pytest

from grid_member.engine.nats.emptied import LEADS, LOOKS, PERIOD_S, Count, Group, emptied
from grid_member.engine.nats.streams import Stream

LOG: Final = Stream("volatile", durable=False)
GROUPS: Final = {"volatile": "S-R3M-a", "volatile-image": "S-R3M-b"}
BOTH: Final = {Group(*each) for each in GROUPS.items()}
EMPTY: Final = {"size": 3, "quorum_needed": 2, "pindex": 0, "ever_had_leader": False}
LED: Final = {"leader": "x", "pindex": 1, "ever_had_leader": True}
PATIENCE: Final = 40
"""Looks."""
GONE: Final = frozenset({"c"})
NOBODY: Final = frozenset[str]()


def told(
    name: str,
    servers: int = 2,
    *,
    last_seq: int = 0,
    storage: str = "memory",
    group: str | None = None,
) -> list[dict[str, Any]]:
    detail = {
        "name": name,
        "stream_raft_group": GROUPS[name] if group is None else group,
        "state": {"last_seq": last_seq},
        "config": {"storage": storage},
    }
    return [{"data": {"account_details": [{"stream_detail": [detail]}]}}] * servers


def copies(name: str, *states: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"data": {"GRID": {GROUPS[name]: {**EMPTY, **state}}}} for state in states]


STREAMS: Final = [*told("volatile"), *told("volatile-image")]
IMAGES: Final = copies("volatile-image", {}, {})


def test_a_log_that_most_have_nothing_of_is_emptied_with_its_images() -> None:
    assert emptied([LOG], STREAMS, [*copies("volatile", {}, {}), *IMAGES]) == BOTH


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([{}, {}, {}], id="all are there, and will elect"),
        pytest.param([{}], id="those that are missing may be a quorum"),
        pytest.param([{}, {"pindex": 1}], id="one has its log"),
        pytest.param([{}, {"ever_had_leader": True}], id="one has seen a leader"),
        pytest.param([{}, {"observer": True}], id="one is to have a copy and never had"),
        pytest.param([{}, {"size": 5, "quorum_needed": 3}], id="copies are being added"),
        pytest.param([{"size": 5, "quorum_needed": 3}] * 2, id="fewer than most of five"),
        pytest.param([{"size": 5, "quorum_needed": 2}] * 2, id="fewer than most, told otherwise"),
    ],
)
def test_what_somebody_may_have_is_not(states: list[dict[str, Any]]) -> None:
    assert emptied([LOG], STREAMS, [*copies("volatile", *states), *IMAGES]) == set()


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(told("volatile", last_seq=7), id="a record"),
        pytest.param([*told("volatile"), *told("volatile", 1, last_seq=7)], id="one has a record"),
        pytest.param(told("volatile", storage="file"), id="on disks"),
        pytest.param([*told("volatile", 1), *told("volatile", 1, group="S-c")], id="two groups"),
        pytest.param(told("volatile", group=""), id="one copy only, and no group"),
        pytest.param([], id="nobody tells of it"),
    ],
)
def test_what_is_stored_on_disks_or_unknown_is_not(streams: list[dict[str, Any]]) -> None:
    found = emptied(
        [LOG], [*streams, *told("volatile-image")], [*copies("volatile", {}, {}), *IMAGES]
    )
    assert found == set()


def test_what_does_not_tell_whether_it_ever_was_led_is_an_error() -> None:
    silent = [{"data": {"GRID": {"S-R3M-a": {"size": 3, "quorum_needed": 2}}}}] * 2
    with pytest.raises(KeyError):
        emptied([LOG], STREAMS, [*silent, *IMAGES])


@pytest.mark.parametrize(
    ("images", "told_of_images"),
    [
        pytest.param([], told("volatile-image"), id="whoever has images is missing"),
        pytest.param([LED, LED], told("volatile-image", last_seq=1), id="there is an image"),
        pytest.param([LED], told("volatile-image", 1), id="others may have an image"),
    ],
)
def test_a_log_is_kept_as_long_as_its_images_may_be_there(
    images: list[dict[str, Any]], told_of_images: list[dict[str, Any]]
) -> None:
    groups = [*copies("volatile", {}, {}), *copies("volatile-image", *images)]
    assert emptied([LOG], [*told("volatile"), *told_of_images], groups) == set()


@pytest.mark.parametrize(
    ("anew", "left"), [("volatile", "volatile-image"), ("volatile-image", "volatile")]
)
def test_what_is_left_of_a_log_goes_when_its_other_half_began_anew(anew: str, left: str) -> None:
    groups = [*copies(left, {}, {}), *copies(anew, LED, LED)]
    assert emptied([LOG], STREAMS, groups) == {Group(left, GROUPS[left])}


def looks(
    count: Count,
    number: int,
    *,
    leads: bool = True,
    missing: frozenset[str] = GONE,
    silent: frozenset[str] = GONE,
) -> list[str]:
    found: list[str] = []
    for _ in range(number):
        found = count.after(BOTH, leads=leads, missing=missing, silent=silent)
    return found


def patient() -> Count:
    return Count(PATIENCE * PERIOD_S)


def test_who_is_missing_and_may_have_it_is_waited_for() -> None:
    count = patient()
    assert looks(count, PATIENCE - 1) == []
    assert count.left_s == PERIOD_S
    assert looks(count, 1) == sorted(GROUPS)


def test_who_is_heard_again_when_the_time_is_over_is_not_left_behind() -> None:
    count = patient()
    assert looks(count, PATIENCE + 1, silent=NOBODY) == []  # it did not answer yet
    count.after(frozenset(), leads=True, missing=NOBODY, silent=NOBODY)  # it has it
    assert count.left_s is None
    assert looks(count, PATIENCE - 1) == []


def test_who_was_taken_off_is_missed_by_nobody() -> None:
    assert looks(patient(), PATIENCE, missing=NOBODY, silent=NOBODY) == sorted(GROUPS)


def test_a_stream_made_anew_is_another_one() -> None:
    count = patient()
    looks(count, PATIENCE - 1)
    anew = frozenset({Group("volatile", "S-R3M-c")})
    assert count.after(anew, leads=True, missing=GONE, silent=GONE) == []


def test_who_has_just_begun_to_lead_deletes_nothing() -> None:
    count = patient()
    assert looks(count, PATIENCE, leads=False) == []
    assert looks(count, LEADS - 1) == []
    assert looks(count, 1) == sorted(GROUPS)


def test_without_patience_it_takes_as_long_as_elections() -> None:
    count = Count(0)
    assert looks(count, LOOKS - 1) == []
    assert looks(count, 1) == sorted(GROUPS)
