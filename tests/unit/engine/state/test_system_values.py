"""The system store's section of a state, against a plain dict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.engine.state import system
from grid_member.engine.state.machine import State
from grid_member.engine.state.operations import (
    ClusterStateChange,
    Operation,
    Record,
    SystemExpire,
    SystemPut,
    SystemRemove,
)
from tests.unit.engine.images import through_a_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

MEMBER = b"M" * 16
KEYS = ["", "a", "a/1", "a/10", "a/2", "a0", "b/1", "ä/😀"]
PREFIXES = ["", "a", "a/", "a/1", "b", "c", "ä"]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.one_of(
            st.builds(
                SystemPut,
                st.sampled_from(KEYS),
                st.binary(max_size=3),
                st.sampled_from([0, 0, 5, 20]),
            ),
            st.builds(SystemRemove, st.sampled_from(KEYS)),
            st.builds(SystemExpire),
            st.builds(ClusterStateChange, st.sampled_from(ClusterState)),
        ),
    ),
    max_size=60,
)
"""Milliseconds since the operation before, and the operation."""


class Model:
    """Values and when they end, looked at one by one."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[bytes, int | None]] = {}

    def apply(self, operation: Operation, now_ms: int) -> None:
        if isinstance(operation, SystemPut):
            ends_ms = now_ms + operation.ttl_ms if operation.ttl_ms else None
            self.found[operation.key] = (operation.value, ends_ms)
        elif isinstance(operation, SystemRemove):
            self.found.pop(operation.key, None)

    def items(self, prefix: str, now_ms: int) -> list[tuple[str, bytes]]:
        return [
            (key, value)
            for key, (value, ends_ms) in sorted(self.found.items())
            if key.startswith(prefix) and (ends_ms is None or now_ms < ends_ms)
        ]


def applied(steps: list[tuple[int, Operation]], state: State) -> Iterator[tuple[Operation, int]]:
    """Apply the operations one by one, each as a record; yield each with its time afterwards."""
    now_ms = 0
    for sequence, (later_ms, operation) in enumerate(steps, state.sequence + 1):
        now_ms += later_ms
        outcomes = state.apply(sequence, now_ms, Record(MEMBER, 1, sequence, (operation,)))
        assert outcomes is not None
        assert not isinstance(outcomes[0], Refused)
        yield operation, now_ms


@given(STEPS)
@settings(max_examples=300)
def test_system_values_are_a_dict_whose_values_end(steps: list[tuple[int, Operation]]) -> None:
    state, model = State(), Model()
    for operation, now_ms in applied(steps, state):
        model.apply(operation, now_ms)
        for later_ms in (0, 1, 6, 30):
            for prefix in PREFIXES:
                found = state.system.items(prefix, now_ms + later_ms)
                assert found == model.items(prefix, now_ms + later_ms)
            for key in KEYS:
                value = state.system.get(key, now_ms + later_ms)
                assert value == dict(model.items("", now_ms + later_ms)).get(key)


@given(STEPS)
def test_what_is_over_is_gone_with_the_next_operation(steps: list[tuple[int, Operation]]) -> None:
    state, model = State(), Model()
    for operation, now_ms in applied(steps, state):
        model.apply(operation, now_ms)
        if isinstance(operation, (SystemPut, SystemRemove, SystemExpire)):
            assert sorted(state.system.by_key) == [key for key, _ in model.items("", now_ms)]
            assert not state.system.overdue(now_ms)
    assert through_a_snapshot(state).live_bytes == state.live_bytes
    for key in list(state.system.by_key):
        state.system.remove(SystemRemove(key), MEMBER, 0, 0)
    assert state.live_bytes == 0


def test_what_is_too_much_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "MAX_SYSTEM_BYTES", 1000)
    state = State()
    sequence = 0

    def outcome(operation: Operation, now_ms: int = 0) -> object:
        nonlocal sequence
        sequence += 1
        outcomes = state.apply(sequence, now_ms, Record(MEMBER, 1, sequence, (operation,)))
        assert outcomes is not None
        return outcomes[0]

    assert outcome(SystemPut("a", b"x" * 500, 0)) is None
    assert outcome(SystemPut("b", b"x" * 400, 50)) is None
    before = state.system.snapshot()
    refused = outcome(SystemPut("c", b"x" * 50, 0))
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.OVERLOADED
    assert state.system.snapshot() == before
    # A value in place of another counts alone.
    assert outcome(SystemPut("a", b"y" * 500, 0)) is None
    assert isinstance(outcome(SystemPut("a", b"y" * 600, 0)), Refused)
    # What is over gives its room back.
    assert outcome(SystemPut("c", b"x" * 50, 0), now_ms=50) is None
    assert outcome(SystemRemove("a")) is None
    assert outcome(SystemPut("d", b"x" * 800, 0)) is None


def test_the_index_of_ends_does_not_grow_with_rewrites() -> None:
    state = State()
    for sequence in range(1, 5000):
        put = SystemPut("k", b"v", 10_000_000 + sequence)
        state.apply(sequence, 0, Record(MEMBER, 1, sequence, (put,)))
    assert len(state.system._ends) < 2000
    assert state.system.get("k", 10_004_998) == b"v"
    assert state.system.get("k", 10_004_999) is None
