"""States that went through the bytes of a snapshot."""

from __future__ import annotations

from grid_member.engine.state import codec, snapshot
from grid_member.engine.state.machine import State


def through_a_snapshot(source: State) -> State:
    """Return what a restart makes of the state's snapshot, loaded part by part."""
    target = State()
    for part in snapshot.parts(source.snapshot()):
        target.load(codec.decode_parts(codec.encode_parts([part])))
    assert target.dump() == source.dump()
    return target
