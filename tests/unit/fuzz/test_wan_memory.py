"""Promise: what other clusters and callers send takes no memory beyond a bound."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from grid_member.wan.agreement.added_json import MAX_JSON_BYTES, AddedJsonError, read_added
from grid_member.wan.comparison import messages
from grid_member.wan.hello import MAX_HELLO_BYTES, HelloError, read_hello, read_welcome
from grid_member.wan.protocol import (
    CHANGES,
    MAX_CHANGES,
    ProtocolError,
    read_batch,
    seal,
    seal_compressed,
)
from tests.fuzz.drive import CaughtError, drive
from tests.fuzz.target import FindingError, seeds
from tests.fuzz.targets import target
from tests.unit.member.wan.batches import body, put

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tests.fuzz.target import Target

MIB: Final = 1 << 20
MAX_BYTES: Final = MIB
"""Of a batch."""
FACTOR: Final = 32
"""How many bytes of memory a byte of a message may take: an empty list of JSON takes that."""
SMALL_INPUTS: Final = 400
MAX_SMALL_BYTES: Final = 3 * MIB
"""Of an input of the targets, whose messages have 64 KiB."""


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken_by(read: Callable[[], object]) -> int:
    """Return how much memory a call has taken at its peak."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    read()
    return tracemalloc.get_traced_memory()[1] - before


def framed(content: bytes, size: int, flags: int = 1) -> bytes:
    """Return a batch of a right checksum whose head says any size."""
    data = struct.pack(">4sBBI", CHANGES, 1, flags, size) + content
    return data + struct.pack(">I", zlib.crc32(data))


def deflated(content: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflating.compress(content) + deflating.flush()


def counted(*counts: int) -> bytes:
    """Return a batch that claims to have so many maps, types, lists and changes."""
    return seal(body()[:-8] + struct.pack(">HHHH", *counts))


BATCHES: Final[dict[str, Callable[[], bytes]]] = {
    "inflates to 64 MiB": lambda: framed(deflated(bytes(64 * MIB)), 64 * MIB),
    "inflates to more than it says": lambda: framed(deflated(bytes(64 * MIB)), MAX_BYTES),
    "counts that are not true": lambda: counted(0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF),
    "as many changes as there may be": lambda: counted(0, 0, 0, MAX_CHANGES),
    "many small changes": lambda: seal_compressed(
        body(*(put("m", str(n), n + 1, b"") for n in range(MAX_CHANGES)))
    ),
    "many maps": lambda: seal_compressed(
        body(*(put(f"m{n}", "", n + 1, b"") for n in range(MAX_CHANGES)))
    ),
    "a large one that is no batch": lambda: b"GWAN" + bytes(2 * MAX_BYTES),
}


@pytest.mark.parametrize("batch", BATCHES)
def test_a_batch_has_a_bound(batch: str) -> None:
    data = BATCHES[batch]()
    questions: Any = messages.read_digests_question, messages.read_keys_question
    answers: Any = messages.read_digests_answer, messages.read_keys_answer

    def read() -> None:
        for one in (*questions, *answers):
            with pytest.raises(ProtocolError):
                one(data)
        if batch.startswith("many"):
            read_batch(data, MAX_BYTES)
        else:
            with pytest.raises(ProtocolError):
                read_batch(data, MAX_BYTES)

    assert taken_by(read) < 8 * MAX_BYTES


def text_of(begin: str, part: str, end: str, size: int) -> str:
    return begin + part * ((size - len(begin) - len(end)) // len(part)) + end


JSON: Final[dict[str, tuple[str, str, str]]] = {
    "deep lists": ("", "[", ""),
    "deep objects": ("", '{"a":', ""),
    "many lists": ("[", "[],", "[]]"),
    "many objects in publishers": ('{"name":"r","batchPublishers":[', "{},", "{}]}"),
    "one key many times": ("{", '"a":1,', '"b":1}'),
    "a long number": ('{"name":', "9", "}"),
    "a long text": ('{"name":"', "a", '"}'),
    "escapes": ('{"name":"', "\\ud800", '"}'),
    "spaces": ("", " ", "1"),
    "many endpoints": (
        '{"name":"r","batchPublishers":[{"clusterName":"c","targetEndpoints":"',
        "a,",
        'a"}]}',
    ),
}


@pytest.mark.parametrize("shape", JSON)
@pytest.mark.parametrize("size", [MAX_JSON_BYTES, MAX_JSON_BYTES + 1])
def test_the_json_of_a_call_has_a_bound(shape: str, size: int) -> None:
    text = text_of(*JSON[shape], size)

    def read() -> None:
        with pytest.raises(AddedJsonError) as caught:
            read_added(text)
        assert len(str(caught.value)) < 500

    assert taken_by(read) < FACTOR * MAX_JSON_BYTES


@pytest.mark.parametrize("shape", JSON)
@pytest.mark.parametrize("size", [MAX_HELLO_BYTES, MAX_HELLO_BYTES + 1])
def test_a_hello_has_a_bound(shape: str, size: int) -> None:
    data = text_of(*JSON[shape], size).encode()

    def read() -> None:
        for one in (read_hello, read_welcome):
            with pytest.raises(HelloError):
                one(data)

    assert taken_by(read) < FACTOR * MAX_HELLO_BYTES


class Measured:
    """A target that finds something where an input takes too much memory."""

    def __init__(self, chosen: Target, most_bytes: int) -> None:
        self.name, self.words, self.max_bytes = chosen.name, chosen.words, chosen.max_bytes
        self._chosen = chosen
        self._most_bytes = most_bytes

    def run(self, data: bytes) -> Hashable:
        found: list[Hashable] = []
        if taken_by(lambda: found.append(self._chosen.run(data))) > self._most_bytes:
            raise FindingError("it takes too much memory")
        return found[0]


@pytest.mark.parametrize("name", ["wan", "wanjson"])
def test_new_inputs_have_a_bound(name: str) -> None:
    chosen = target(name)
    measured = Measured(chosen, MAX_SMALL_BYTES)
    assert drive(measured, seeds(chosen), 11, SMALL_INPUTS).inputs == SMALL_INPUTS


def test_an_input_beyond_the_bound_is_found() -> None:
    chosen = target("wan")
    with pytest.raises(CaughtError):
        drive(Measured(chosen, 1 << 10), seeds(chosen), 11, SMALL_INPUTS)
