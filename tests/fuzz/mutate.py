"""New inputs from old ones, by chance: bytes, words of the dictionary, pieces of other inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

MAX_KEPT_INPUTS: Final = 4096
MAX_STEPS: Final = 5
MAX_PIECE_BYTES: Final = 64
_NUMBER: Final = re.compile(rb"[0-9]{1,20}")
_NUMBERS: Final = (
    *(b"0", b"1", b"00", b"-1", b"+1", b"1e3", b"0x10", b"1_0", b"4096", b"4097", b"8192"),
    *(b"65535", b"65536", b"2147483647", b"2147483648", b"9223372036854775808", b"9" * 30),
)


class Mutator:
    """Makes inputs for as long as one asks; the same ones for the same seed."""

    def __init__(
        self, random: Random, pool: Sequence[bytes], words: Sequence[bytes], max_bytes: int
    ) -> None:
        self._random = random
        self._pool = list(pool)
        self._words = words or (b"",)
        self._max_bytes = max_bytes
        self._ways = (
            self._word,
            self._word,
            self._piece,
            self._cut,
            self._again,
            self._byte,
            self._bit,
            self._number,
            self._swap,
        )

    def next(self) -> bytes:
        """Return one more input."""
        random = self._random
        data = bytearray(random.choice(self._pool))
        for _ in range(1 + int(random.random() ** 2 * MAX_STEPS)):
            random.choice(self._ways)(data)
        del data[self._max_bytes :]
        return bytes(data)

    def keep(self, data: bytes) -> None:
        """Make further inputs of this one, too: something new became of it."""
        if len(self._pool) < MAX_KEPT_INPUTS:
            self._pool.append(data)
        else:
            self._pool[self._random.randrange(MAX_KEPT_INPUTS)] = data

    def _at(self, data: bytearray) -> int:
        return int(self._random.random() * (len(data) + 1))

    def _span(self, data: bytearray) -> slice:
        start = self._at(data)
        return slice(start, start + 1 + int(self._random.random() ** 3 * MAX_PIECE_BYTES))

    def _word(self, data: bytearray) -> None:
        at, word = self._at(data), self._random.choice(self._words)
        data[at : at + len(word) if self._random.random() < 0.3 else at] = word

    def _piece(self, data: bytearray) -> None:
        other = bytearray(self._random.choice(self._pool))
        at = self._at(data)
        data[at:at] = other if self._random.random() < 0.3 else other[self._span(other)]

    def _cut(self, data: bytearray) -> None:
        del data[self._span(data)]

    def _again(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = data[self._span(data)] * self._random.choice((1, 1, 2, 9))

    def _byte(self, data: bytearray) -> None:
        at = self._at(data)
        data[at : at + self._random.randrange(2)] = bytes((self._random.randrange(256),))

    def _bit(self, data: bytearray) -> None:
        at = self._at(data)
        if at < len(data):
            data[at] ^= 1 << self._random.randrange(8)

    def _number(self, data: bytearray) -> None:
        found = list(_NUMBER.finditer(data))
        if found:
            match = self._random.choice(found)
            start, end = match.span()
            near = b"%d" % max(0, int(match[0]) + self._random.choice((-1, 1)))
            data[start:end] = self._random.choice((near, self._random.choice(_NUMBERS)))

    def _swap(self, data: bytearray) -> None:
        one, other = self._span(data), self._span(data)
        data[one], data[other] = data[other], data[one]
