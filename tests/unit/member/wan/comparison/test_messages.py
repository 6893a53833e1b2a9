"""Promise: questions and answers of a comparison are read as written; other bytes are an error."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.engine.wan.digests import RANK_BYTES, Digests, Held, Row, bucket_of, digest_of
from grid_member.wan.answers import MapAnswer
from grid_member.wan.comparison.messages import (
    DIGESTS_ANSWER,
    DIGESTS_QUESTION,
    KEYS_ANSWER,
    KEYS_QUESTION,
    DigestsAnswer,
    KeysAnswer,
    KeysQuestion,
    MapQuestion,
    read_digests_answer,
    read_digests_question,
    read_keys_answer,
    read_keys_question,
    write_digests_answer,
    write_digests_question,
    write_keys_answer,
    write_keys_question,
)
from grid_member.wan.protocol import ProtocolError, opened, read_batch, seal
from tests.unit.member.wan.batches import NAME, SOURCE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

JOB: Final = bytes(range(48, 64))
ABOUT: Final = MapQuestion(SOURCE, TARGET, NAME, JOB, "orders", ("a*",), ("*-tmp", "x"), 2)
RANK: Final = bytes(range(RANK_BYTES))
ROWS: Final = [
    Row("ada", 2**40, 2**63, False, RANK),
    Row("a\udce9", 1, 0, True, bytes(RANK_BYTES)),
]


def digests(bits: int) -> Digests:
    made = Digests(bits)
    for number in range(3):
        made.add(number % (1 << bits), 2**64 - 1 - number)
    made.removed = 9
    return made


def shown(answer: DigestsAnswer) -> tuple[MapAnswer, int, int, list[int], list[int]]:
    found = answer.digests
    return answer.code, answer.cleared, found.removed, [*found.counts], [*found.sums]


DIGESTS: Final = DigestsAnswer(MapAnswer.TAKEN, 2**58, digests(1))
MESSAGES: Final[dict[str, tuple[bytes, bytes, Callable[[bytes], object]]]] = {
    "digests question": (write_digests_question(ABOUT), DIGESTS_QUESTION, read_digests_question),
    "keys question": (
        write_keys_question(KeysQuestion(ABOUT, (0, 3), "a\udce9")),
        KEYS_QUESTION,
        read_keys_question,
    ),
    "digests answer": (write_digests_answer(DIGESTS), DIGESTS_ANSWER, read_digests_answer),
    "keys answer": (
        write_keys_answer(KeysAnswer(MapAnswer.TAKEN, True, ROWS)),
        KEYS_ANSWER,
        read_keys_answer,
    ),
}
WRITTEN: Final = {
    "digests question": (
        "4757445101000000005f000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f30"
        "3132333435363738393a3b3c3d3e3f02000a6c6f6e646f6e2d72657000066c6f6e646f6e00066f72646572"
        "73000100020002612a00052a2d746d70000178f6403856"
    ),
    "keys question": (
        "47574b5101000000006e000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f30"
        "3132333435363738393a3b3c3d3e3f02000a6c6f6e646f6e2d72657000066c6f6e646f6e00066f72646572"
        "73000100020002612a00052a2d746d7000017801000461edb3a90000000200000003e1b0ac71"
    ),
    "digests answer": (
        "4757444101000000002600040000000000000000000009010000000200000001fffffffffffffffcffffff"
        "fffffffffeb0aa15d8"
    ),
    "keys answer": (
        "47574b41010000000063000100000002000003000001000000000080000000000000000001020304050607"
        "08090a0b0c0d0e0f1011121314151617010004000000000000000100000000000000000000000000000000"
        "0000000000000000000000000000000061646161edb3a9b731cee6"
    ),
}
"""Messages of version 1, as they were once written."""


def test_messages_are_read_as_they_were_written() -> None:
    assert read_digests_question(write_digests_question(ABOUT)) == ABOUT
    for after in (None, "", "ada"):
        question = KeysQuestion(ABOUT, (0, 1, 3), after)
        assert read_keys_question(write_keys_question(question)) == question
    for bits in (0, 1, 16):
        answer = DigestsAnswer(MapAnswer.NOT_CONFIGURED, 0, digests(bits))
        assert shown(read_digests_answer(write_digests_answer(answer))) == shown(answer)
    for page in (KeysAnswer(MapAnswer.TAKEN, True, ROWS), KeysAnswer(MapAnswer.TAKEN, False, [])):
        assert read_keys_answer(write_keys_answer(page)) == page


def test_the_bytes_of_version_1_are_read_for_ever() -> None:
    assert {name: message.hex() for name, (message, _, _) in MESSAGES.items()} == WRITTEN


@pytest.mark.parametrize("name", MESSAGES)
def test_every_beginning_and_every_flipped_bit_is_an_error(name: str) -> None:
    message, kind, read = MESSAGES[name]
    for end in range(len(message)):
        with pytest.raises(ProtocolError):
            read(message[:end])
    flipped = bytearray(message)
    for place in range(len(message) * 8):
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(ProtocolError):
            read(bytes(flipped))
        flipped[place // 8] ^= 1 << place % 8
    whole = opened(message, 1 << 20, kind)
    for end in range(len(whole)):
        with pytest.raises(ProtocolError):
            read(seal(whole[:end], kind))
    with pytest.raises(ProtocolError, match="left over"):
        read(seal(whole + b"\x00", kind))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_another_kind_is_an_error(name: str) -> None:
    message, _, read = MESSAGES[name]
    with pytest.raises(ProtocolError, match="belongs here"):
        read_batch(message, 1 << 20)
    for other, (theirs, _, _) in MESSAGES.items():
        if other != name:
            with pytest.raises(ProtocolError, match="belongs here"):
                read(theirs)


@pytest.mark.parametrize(
    "question",
    [
        KeysQuestion(ABOUT, (), None),
        KeysQuestion(ABOUT, (4,), None),
        KeysQuestion(ABOUT, (1, 1), None),
        KeysQuestion(ABOUT, (2, 1), None),
        KeysQuestion(ABOUT._replace(bits=17), (0,), None),
        KeysQuestion(ABOUT._replace(map_name=""), (0,), None),
        KeysQuestion(ABOUT._replace(include=("a",) * 1025), (0,), None),
    ],
)
def test_a_question_that_means_nothing_is_an_error(question: KeysQuestion) -> None:
    with pytest.raises(ProtocolError):
        read_keys_question(write_keys_question(question))


@pytest.mark.parametrize(
    "answer",
    [
        KeysAnswer(MapAnswer.TAKEN, True, []),
        KeysAnswer(MapAnswer.TAKEN, False, [Row("a", 0, 1, False, RANK)]),
        KeysAnswer(MapAnswer.TAKEN, False, [Row("a", 2**59, 1, False, RANK)]),
    ],
)
def test_an_answer_that_means_nothing_is_an_error(answer: KeysAnswer) -> None:
    with pytest.raises(ProtocolError):
        read_keys_answer(write_keys_answer(answer))


def test_a_hostile_count_makes_nothing_large() -> None:
    for body in (b"\x00\x00\xff\xff\xff\xff", b"\x00\x01\x00\x00\x00\x09"):
        with pytest.raises(ProtocolError):
            read_keys_answer(seal(body, KEYS_ANSWER))
    with pytest.raises(ProtocolError):
        read_digests_answer(seal(struct.pack(">BQIB", 0, 0, 0, 40), DIGESTS_ANSWER))


def test_a_reason_that_is_not_known_yet_is_a_refusal() -> None:
    answer = write_keys_answer(KeysAnswer(MapAnswer.TAKEN, False, []))
    unknown = seal(b"\x63" + opened(answer, 1 << 20, KEYS_ANSWER)[1:], KEYS_ANSWER)
    assert read_keys_answer(unknown).code is not MapAnswer.TAKEN


HELD: Final = Held(5, b"value", "a/b", 9)


@pytest.mark.parametrize(
    "other",
    [
        HELD._replace(stamp=6),
        HELD._replace(value=b"other"),
        HELD._replace(content_type=None),
        HELD._replace(content_type=""),
        HELD._replace(deadline_ms=0),
        # What one field loses the next must not win.
        HELD._replace(content_type="a/bv", value=b"alue"),
    ],
)
def test_whatever_travels_is_in_the_digest(other: Held) -> None:
    assert digest_of(JOB, b"key", HELD) != digest_of(JOB, b"key", other)
    assert digest_of(JOB, b"key", HELD) != digest_of(JOB, b"yek", HELD)
    assert digest_of(JOB, b"key", HELD) != digest_of(SOURCE, b"key", HELD)
    assert digest_of(JOB, b"key", HELD._replace(value=None)) == 0


@given(st.binary(max_size=20), st.integers(0, 16))
def test_a_bucket_is_the_beginning_of_the_checksum(key: bytes, bits: int) -> None:
    assert bucket_of(key, bits) == int(f"{zlib.crc32(key):032b}"[:bits] or "0", 2)
