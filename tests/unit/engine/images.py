"""States that went through the bytes of an image."""

from __future__ import annotations

from grid_member.engine import codec, image
from grid_member.engine.state import State


def through_an_image(source: State) -> State:
    """Return what a restart makes of the state's image, loaded part by part."""
    target = State()
    for part in image.parts(source.snapshot()):
        target.load(codec.decode_parts(codec.encode_parts([part])))
    assert target.dump() == source.dump()
    return target
