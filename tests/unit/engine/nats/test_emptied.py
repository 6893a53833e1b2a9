"""Which streams in memory nobody holds any more, by what servers tell of them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from grid_member.engine.nats.emptied import emptied

NAME, GROUP, OTHER = "volatile", "S-R3M-a", "S-R3M-b"
EMPTY: Final = {"size": 3, "quorum_needed": 2, "pindex": 0, "ever_had_leader": False}


def told(group: str = GROUP, name: str = NAME, last_seq: int = 0) -> dict[str, Any]:
    detail = {"name": name, "stream_raft_group": group, "state": {"last_seq": last_seq}}
    return {"data": {"account_details": [{"name": "GRID", "stream_detail": [detail]}]}}


def copies(*states: dict[str, Any], group: str = GROUP) -> list[dict[str, Any]]:
    return [{"data": {"GRID": {group: {**EMPTY, **state}}}} for state in states]


def test_a_stream_that_most_have_nothing_of_is_emptied() -> None:
    assert emptied({NAME}, [told(), told()], copies({}, {})) == {NAME}


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([{}, {}, {}], id="all are there, and will elect"),
        pytest.param([{}], id="those that are missing may be a quorum"),
        pytest.param([{}, {"pindex": 1}], id="one has its log"),
        pytest.param([{}, {"leader": "x"}], id="one sees a leader"),
        pytest.param([{}, {"ever_had_leader": True}], id="one has seen a leader"),
        pytest.param([{"size": 5, "quorum_needed": 3}] * 2, id="fewer than most of five"),
    ],
)
def test_what_somebody_may_have_is_not(states: list[dict[str, Any]]) -> None:
    assert emptied({NAME}, [told()], copies(*states)) == set()


def test_what_is_stored_or_another_stream_is_not() -> None:
    assert emptied({NAME}, [told(), told(last_seq=7)], copies({}, {})) == set()
    assert emptied({NAME}, [told(name="shard-0")], copies({}, {})) == set()
    assert emptied({NAME}, [told()], copies({}, {}, group=OTHER)) == set()
