"""What a map counts of its bytes is what it holds, whichever way an entry came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.state.maps import ENTRY_OVERHEAD_BYTES, Maps, key_bytes
from grid_member.engine.state.operations import MapPut, MapPutBounded, MapRemove
from grid_member.engine.state.snapshot import EntryPart
from grid_member.engine.state.stored import value_bytes
from grid_member.engine.wan.registry import Registry

KEYS = st.sampled_from(["a", "bc", "ü", "long key"])
VALUES = st.binary(max_size=5)
TYPES = st.sampled_from([None, "text/plain"])


@given(st.lists(st.tuples(st.integers(0, 4), KEYS, VALUES, TYPES), max_size=40))
def test_sizes_are_those_of_what_is_there(steps: list[tuple[int, str, bytes, str | None]]) -> None:
    maps = Maps(Registry())
    for way, key, value, content_type in steps:
        match way:
            case 0:
                maps.put(MapPut("m", key, value, content_type, 0), b"", 1, 1)
            case 1:
                maps.put(MapPut("m", key, value, content_type, 1000), b"", 1, 1)
            case 2:
                bounded = MapPutBounded("m", key, value, content_type, 0, 1000, None)
                maps.put_bounded(bounded, b"", 1, 1)
            case 3:
                maps.remove(MapRemove("m", key), b"", 1, 1)
            case _:
                maps.load(EntryPart("m", key, value, content_type, 0))
        found = maps.by_name.get("m")
        entries = {} if found is None else found.entries
        sizes = {key: value_bytes(stored) for key, stored in entries.items()}
        in_log = sum(len(key) + size + ENTRY_OVERHEAD_BYTES for key, size in sizes.items())
        assert maps.live_bytes == in_log
        held = sum(key_bytes(key) + size for key, size in sizes.items())
        assert found is None or found.size_bytes == held
