"""Changes may come in any order, in any company and more than once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import Record, WanAgree, WanMerge
from grid_member.engine.wan.agreement import MergePolicy
from grid_member.engine.wan.changes import Change, ChangeKind
from tests.unit.engine.wan.agreements import agreement

AGREEMENT = agreement(publishers=())
KEYED = st.builds(
    Change,
    st.just("m"),
    st.sampled_from([ChangeKind.PUT, ChangeKind.PUT, ChangeKind.REMOVAL]),
    st.sampled_from("kl"),
    st.integers(10, 14),
    st.binary(max_size=1),
    st.sampled_from([None, "", "t"]),
    st.sampled_from([0, 40, 50, 1000]),
    st.just(0),
    st.just((b"1" * 16,)),
)
CHANGES = KEYED.map(
    lambda one: one._replace(value=b"", content_type=None, deadline_ms=0)
    if one.kind is ChangeKind.REMOVAL
    else one
) | st.builds(
    Change, st.just("m"), st.just(ChangeKind.CLEAR), st.just(""), st.integers(9, 13),
    st.just(b""), st.none(), st.just(0), st.just(0), st.just((b"1" * 16,)),
)  # fmt: skip


def content(changes: list[Change]) -> object:
    """Merge changes, one each millisecond, and let what has ended expire."""
    state = State()
    state.apply(1, 1, Record(b"M" * 16, 1, 1, (WanAgree(AGREEMENT),)))
    for number, change in enumerate(changes, 2):
        merge = WanMerge(change, MergePolicy.LATEST_UPDATE, None)
        state.apply(number, 30 + number, Record(b"M" * 16, 1, number, (merge,)))
    over = state.maps.due(500, 100)
    state.apply(1000, 500, Record(b"M" * 16, 1, 1000, tuple(over)))
    found, of_map = state.wan.maps["m"], state.maps.by_name.get("m")
    entries = {} if of_map is None else of_map.entries
    deadlines = {} if of_map is None else of_map.deadlines
    return entries, deadlines, found.stamps, found.tombstones, found.cleared


@given(st.lists(CHANGES, min_size=1, max_size=8).flatmap(lambda all_of: st.tuples(
    st.just(all_of),
    st.permutations(all_of),
    st.lists(st.sampled_from(all_of), max_size=4),
)))  # fmt: skip
def test_changes_commute_associate_and_repeat(
    changes: tuple[list[Change], list[Change], list[Change]],
) -> None:
    once, shuffled, again = changes
    assert content(shuffled) == content(once)
    assert content([*again, *shuffled]) == content(once)
    assert content([*shuffled, *again]) == content(once)
