"""Which state counts of a log that servers lost, and when it is known: a table of what may be."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.lost_memory.survivors import (
    LogAction,
    LogDecision,
    LogHolding,
    MemoryReport,
    decide,
    decode_report,
    describe_decisions,
    incomplete,
    is_everything_lost,
    is_lost_for_good,
    is_majority_gone,
    missing,
    names_of,
    start_obstacle,
)
from grid_member.engine.nats.admin.server_records import ServerRecord

LOG: Final = "shard-1"
PLACES: Final = {
    name: ServerRecord(f"host-{name}", f"m-{name}", 5701, (), False) for name in "abcdef"
}


def place(server: str) -> ServerRecord:
    """Return where a server is: `a`, and `a2` which came in its place, are at the same."""
    return PLACES[server[0]]


def report(server: str, sequence: int | None = None, *, generation: int = 0, left: bool = True,
           noted: str = "a b c", gone: str = "", whole: bool = True) -> MemoryReport:  # fmt: skip
    held = {} if sequence is None else {LOG: LogHolding("then", generation, sequence, left)}
    servers = {name: place(name) for name in noted.split()}
    return MemoryReport(server, place(server), whole, held, servers, frozenset(gone.split()))


WAITS_FOR_C: Final = LogDecision(LogAction.WAIT, ("m-c (members' port 5701 of host-c)",))
CASES: Final = {
    "the highest writes": ([report("a", 7), report("b", 9), report("c", 8)], "RWR"),
    "of equal ones the highest id": ([report("a", 9), report("b", 9), report("c", 8)], "RWR"),
    "one has not left it": ([report("a", 7), report("b", 9, left=False), report("c", 8)], "AAA"),
    "one is missing": ([report("a", 7), report("b", 9)], "MM"),
    "the one that is missing is replaced": ([report("a", 7), report("b", 9), report("c2")], "RWR"),
    "all but one are replaced": ([report("a", 7), report("b2"), report("c2")], "WRR"),
    "the missing one told that it stops": ([report("a", 7), report("b", 9, gone="c")], "RW"),
    "only one has a note of the missing one": (
        [report("a", 7, noted="a b"), report("b", 9, noted="a b c")],
        "MM",
    ),
    "one that is noted nowhere counts as well": (
        [report("a", 7, noted="a b"), report("b", 8, noted="a b"), report("c", 9, noted="a b")],
        "RRW",
    ),
    "it is written back already": (
        [report("a", 7), report("b", 9), report("c", 9, generation=1, left=False)],
        "RRA",
    ),
    "it was lost again since": (
        [report("a", 7), report("b", 9), report("c", 8, generation=1)],
        "RRW",
    ),
    "one holds nothing of it": ([report("a", 7), report("b", 9), report("c")], "RWR"),
    "more than five hold a part": (
        [report(name, 3 if name in "bd" else None, noted="a b c d e f") for name in "abcdef"],
        "RRRWRR",
    ),
}  # fmt: skip
ACTS: Final = {"R": LogAction.READ, "W": LogAction.WRITE, "A": LogAction.ASK, "M": LogAction.WAIT}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_each_member_does_about_a_log_that_it_has_left(case: str) -> None:
    reports, acts = CASES[case]
    for told in permutations(reports) if len(reports) < 4 else [reports]:
        found = {one.server: decide(LOG, one.server, told).act for one in reports}
        assert found == {one.server: ACTS[act] for one, act in zip(reports, acts, strict=True)}, (
            case
        )


def test_one_that_is_missing_is_named_with_what_to_do() -> None:
    verdict = decide(LOG, "a", [report("a", 7), report("b", 9)])
    assert verdict == WAITS_FOR_C
    told = describe_decisions({LOG: verdict})
    assert "m-c (members' port 5701 of host-c)" in told
    assert "start another one in its place" in told
    assert "is written back" in describe_decisions({LOG: LogDecision(LogAction.READ)})
    assert names_of({"id": None}) == ("the server id of a member of another version",)


def test_a_note_of_another_version_names_one_that_may_live() -> None:
    own = replace(report("a", 7), servers={"a": place("a"), "x": None})
    assert missing([own]) == {"x": None}


HELD = st.builds(LogHolding, st.just("then"), st.integers(0, 2), st.integers(0, 4), st.booleans())
SERVERS = st.sampled_from(["a", "b", "c", "a2", "b2", "d"])
REPORTS = st.dictionaries(SERVERS, st.none() | HELD, min_size=1).map(
    lambda held: [
        replace(report(server, noted="a b c d"), holdings={} if one is None else {LOG: one})
        for server, one in held.items()
    ]
)


@given(REPORTS)
def test_at_most_one_writes_and_it_has_all_that_any_of_the_latest_log_has(
    reports: list[MemoryReport],
) -> None:
    writers = [one for one in reports if decide(LOG, one.server, reports).act is LogAction.WRITE]
    assert len(writers) <= 1
    for writer in writers:
        own = writer.holdings[LOG]
        assert not missing(reports)
        for one in reports:
            other = one.holdings.get(LOG)
            assert other is None or own.generation >= other.generation
            if other is not None and own.generation == other.generation:
                assert other.left
                assert own.sequence >= other.sequence


@given(REPORTS)
def test_a_report_is_what_was_sent(reports: list[MemoryReport]) -> None:
    for one in reports:
        assert decode_report(one.encode()) == one


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"place": "", "holdings": {}}', b"\xff"])
def test_what_is_no_report_is_refused(payload: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decode_report(payload)


def test_servers_count_as_lost_until_they_are_complete_again() -> None:
    whole = [report("a", 7), report("b", 9), report("c", 8)]
    assert incomplete(whole) == 0
    assert incomplete([*whole[:2], replace(whole[2], whole=False)]) == 1
    assert incomplete(whole[:2]) == 0, "what is missing may be complete"
    assert incomplete([*whole[:2], report("c2", whole=False)]) == 1, "which is noted nowhere yet"
    assert incomplete([whole[0], report("b2"), report("c2")]) == 2


def test_most_copies_have_ended_only_when_every_member_that_may_live_has_told() -> None:
    assert is_lost_for_good([report("a", 7), report("b2"), report("c2")], 3, 3)
    assert is_lost_for_good([report("a", 7, gone="b"), report("c2")], 3, 3)
    assert not is_lost_for_good([report("a", 7), report("c2")], 3, 3), "the other one may live"
    assert not is_lost_for_good([report("a", 7), report("b", 9), report("c2")], 3, 3)
    assert not is_lost_for_good([report("a", 7, gone="b c")], 3, 3), "others may begin out of sight"


def test_servers_cannot_lead_when_most_are_those_of_members_that_are_gone() -> None:
    assert not is_majority_gone([report("a", 7), report("b", 9)], 3), "the third one may live"
    assert not is_majority_gone([report("a", 7), report("b", 9), report("c2")], 3)
    assert is_majority_gone([report("a", 7), report("b2"), report("c2")], 3)
    assert is_majority_gone([report("a", 7, noted="a b"), report("b2", noted="")], 2)
    assert not is_majority_gone([report("a", 7, gone="b c")], 3), "others may begin out of sight"


def test_a_server_had_better_forget_who_votes_when_no_log_goes_on() -> None:
    replaced = [report("b2"), report("c2")]
    assert is_everything_lost([report("a", 7), *replaced])
    assert is_everything_lost([report("a", 7, gone="b c")])
    assert not is_everything_lost([report("a", 7), report("b", 7), report("c2")]), "most are there"
    assert not is_everything_lost([report("a", 7, left=False), *replaced])
    assert not is_everything_lost([report("a"), *replaced]), "it knows of no log"
    five = [report("a", 7, noted="a b c d e"), report("b", 7, left=False), *replaced, report("d2")]
    assert not is_everything_lost([*five, report("e2")]), "another member goes on with it"


FOLLOWS: Final = report("a", 7, left=False)
STARTS: Final = {
    "nobody holds it": ([report("a"), report("b")], 0, True, None),
    "members may hold it that have not told": ([report("a")], 0, False, "do not tell yet"),
    "a member follows it": ([FOLLOWS], 7, False, None),
    "a member has applied more": ([FOLLOWS], 6, False, "lacks"),
    "a member has left it": ([FOLLOWS, report("b", 3)], 7, True, "lacks"),
    "all have left it": ([report("a", 7)], 9, True, "lacks"),
    "it was written back since": ([report("a", 7, generation=2)], 9, True, "meanwhile"),
}


@pytest.mark.parametrize("case", STARTS, ids=str)
def test_a_start_goes_on_with_a_log_only_if_no_member_has_more(case: str) -> None:
    reports, last, all_told, obstacle = STARTS[case]
    found = start_obstacle(LOG, ("then", 0), last, reports, all_told=all_told)
    assert (found is None) == (obstacle is None)
    assert obstacle is None or obstacle in (found or "")


def test_a_start_takes_a_log_that_was_written_back_a_moment_ago() -> None:
    former = [report("a", 7), report("b", 9)]
    assert start_obstacle(LOG, ("later", 1), 9, former, all_told=False) is None
    made_anew = start_obstacle(LOG, ("later", 0), 9, former, all_told=True)
    assert made_anew is not None
    assert "lacks" in made_anew


def test_a_member_without_which_others_began_a_log_says_what_to_do() -> None:
    anew = {LOG: LogHolding("later", 0, 3, left=False)}
    others = [replace(report("b2"), holdings=anew), replace(report("c2"), holdings=anew)]
    verdict = decide(LOG, "a", [report("a", 7), *others])
    assert verdict.act is LogAction.ASK
    told = describe_decisions({LOG: verdict})
    assert "m-b (members' port 5701 of host-b) and m-c" in told
    assert "restart this member" in told
    moment = decide(LOG, "a", [report("a", 7), report("b", 9, left=False), report("c", 8)])
    assert "restart" not in describe_decisions({LOG: moment})
