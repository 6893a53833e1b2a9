"""Promise: the rank that is told of an entry orders entries of one stamp as merging does."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from grid_member.engine.wan.digests import RANK_BYTES, Held, rank_of
from grid_member.engine.wan.merging import rank_of_entry

ENTRIES = st.builds(
    Held,
    st.just(1),
    st.binary(max_size=2) | st.binary(min_size=15, max_size=18),
    st.none() | st.just("text/plain"),
    st.sampled_from([0, 1, 2**40, 2**63 - 1]),
)


@given(ENTRIES, ENTRIES)
@example(Held(1, b"a", None, 0), Held(1, b"a\0", None, 0))
@example(Held(1, b"b", None, 0), Held(1, b"a", None, 5))
def test_ranks_order_entries_as_merging_does(one: Held, other: Held) -> None:
    told, counts = [], []
    for held in (one, other):
        assert held.value is not None
        told.append(rank_of(held))
        counts.append(rank_of_entry(held.value, held.content_type, held.deadline_ms))
        assert len(told[-1]) == RANK_BYTES
    if told[0] != told[1]:
        assert (told[0] > told[1]) == (counts[0] > counts[1])
