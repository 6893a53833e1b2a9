"""What a lite member and its host say survives the way, and nothing else is taken for it."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from grid_member.engine.api import Entry, Item, Reason, Refused
from grid_member.engine.forward.messages import (
    MAX_MESSAGE_BYTES,
    Flag,
    ForwardMessage,
    Frame,
    FrameKind,
    decode_message,
    encode_message,
    frame_groups,
    frame_outcome,
    outcome_frame,
)
from grid_member.engine.state.fields import CodecError

INCARNATION = bytes(range(16))
NUMBERS = st.integers(0, 2**64 - 1)
TEXTS = st.text(st.characters(), max_size=9)
WORDS = st.builds(
    Frame, st.sampled_from(FrameKind), NUMBERS, TEXTS, TEXTS, st.binary(max_size=9),
    st.none() | TEXTS, NUMBERS, NUMBERS,
)  # fmt: skip
FLAGS = st.integers(0, 63).map(Flag)
ALL_SAID = st.builds(
    ForwardMessage, st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1), NUMBERS, FLAGS,
    st.lists(WORDS, max_size=4), NUMBERS,
)  # fmt: skip


@given(ALL_SAID)
def test_a_message_comes_back_as_it_was(said: ForwardMessage) -> None:
    assert decode_message(encode_message(said)) == said


@given(ALL_SAID, st.data())
def test_a_message_that_is_cut_off_is_none(said: ForwardMessage, data: st.DataObject) -> None:
    whole = encode_message(said)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CodecError):
        decode_message(whole[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(junk: bytes) -> None:
    try:
        said = decode_message(junk)
    except CodecError:
        return
    assert encode_message(said) == junk


@pytest.mark.parametrize(
    "outcome",
    [None, True, False, 0, 7, Entry(b"", None), Entry(b"v", "text/plain"),
     Item(b"v", "", "q", 5, 2**63), Refused(Reason.PASSIVE, "why")],
)  # fmt: skip
def test_an_outcome_comes_back_as_it_was(outcome: object) -> None:
    found = frame_outcome(outcome_frame(3, outcome))
    assert found == outcome
    assert type(found) is type(outcome)


def test_large_words_travel_alone_and_small_ones_together() -> None:
    large = Frame(FrameKind.MAP_PUT, 1, "m", "k", bytes(MAX_MESSAGE_BYTES + 1))
    small = Frame(FrameKind.MAP_GET, 2, "m", "k")
    groups = list(frame_groups([small, small, large, large, small]))
    assert [len(group) for group in groups] == [2, 1, 1, 1]
