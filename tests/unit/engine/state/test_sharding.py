from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import MapPut, QueueOffer, Record, SystemPut
from grid_member.engine.state.sharding import merge, shard_of, split, without_values
from grid_member.engine.state.snapshot import MemberMark, Snapshot
from tests.unit.engine.backed_up import dumps

NAMES = st.text(max_size=3)
OPERATIONS = st.lists(
    st.one_of(
        st.builds(MapPut, NAMES, NAMES, st.binary(), st.none(), st.sampled_from([0, 60_000])),
        st.builds(QueueOffer, NAMES, st.binary(), st.just("a/b"), st.just(0)),
        st.builds(SystemPut, NAMES, st.binary(), st.just(0)),
    )
)


def in_snapshot(operations: list[MapPut | QueueOffer | SystemPut]) -> Snapshot:
    state = State()
    for sequence, operation in enumerate(operations, 1):
        state.apply(sequence, 1_000, Record(b"m" * 16, 1, sequence, (operation,)))
    return state.snapshot()


@given(OPERATIONS, st.integers(1, 5))
def test_what_is_split_and_merged_is_what_it_was_but_for_the_members(
    operations: list[MapPut | QueueOffer | SystemPut], shards: int
) -> None:
    snapshot = in_snapshot(operations)
    parts = split(snapshot, shards)
    for shard, part in enumerate(parts):
        assert {shard_of(name, shards) for name in (*part.maps, *part.queues)} <= {shard}
    assert dumps([merge(parts)]) == dumps([replace(snapshot, members={})])


def test_of_images_that_are_merged_the_highest_life_of_a_member_counts() -> None:
    first, second = in_snapshot([]), in_snapshot([])
    one, two = replace(first, sequence=9), replace(second, sequence=4)
    one.members[b"a"], two.members[b"a"] = MemberMark(2, 9, 1), MemberMark(3, 1, 1)
    two.members[b"b"] = MemberMark(1, 1, 1)
    whole = merge([one, two])
    assert whole.sequence == 9
    assert {member: mark.incarnation for member, mark in whole.members.items()} == {
        b"a": 3,
        b"b": 1,
    }


def test_values_are_left_out_by_what_their_keys_begin_with() -> None:
    operations = [SystemPut(key, b"", 0) for key in ("lease/1", "license", "lock/a", "x/lock/")]
    left = without_values(in_snapshot(list(operations)), ("lease/", "lock/"))
    assert sorted(left.system) == ["license", "x/lock/"]
