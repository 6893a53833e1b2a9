"""Runs a target without guidance: changed inputs, the same ones for the same seed."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tests.fuzz.memory import Held, held
from tests.fuzz.mutate import Mutator
from tests.fuzz.target import FindingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from tests.fuzz.target import Target

MAX_INPUT_S: Final = 5.0
"""CPU time of one input, about, until it is taken for one that never ends."""
MAX_OUTCOMES: Final = 20_000
"""Outcomes that are remembered: memory must not grow with the number of inputs."""
STEADY_SHARE: Final = 0.1
"""Of a run, until memory should have its size."""
_LOOKS: Final = 1 << 10
"""Inputs between two looks at the clock."""


class CaughtError(Exception):
    """An input that found something; the cause says what."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"{len(data)} bytes")
        self.data = data


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run did."""

    inputs: int
    seconds: float
    outcomes: int
    begin: Held
    """After the pool, which is tried first: it imports what is imported late."""
    steady: Held
    """After the first tenth."""
    end: Held
    """When what was remembered of the inputs is forgotten: what is left is the target's."""


def drive(
    target: Target,
    pool: Sequence[bytes],
    seed: int,
    inputs: int,
    max_s: float = float("inf"),
    report: Callable[[int], None] = lambda _: None,
) -> Figures:
    """Try the pool and then inputs made of it.

    Args:
        target: what to try.
        pool: what to begin with.
        seed: of chance.
        inputs: how many.
        max_s: when to stop all the same.
        report: is told the number now and then.

    Raises:
        CaughtError: one found something.
    """
    mutator = Mutator(Random(seed), pool, target.words, target.max_bytes)
    outcomes: set[int] = set()
    looks: dict[int, Held] = {}
    began, steady = min(len(pool), inputs), int(inputs * STEADY_SHARE)
    began_s = time.monotonic()
    done = 0
    with _bounded() as beat:
        while done < inputs and (done % _LOOKS or time.monotonic() - began_s < max_s):
            data = pool[done] if done < len(pool) else mutator.next()
            beat()
            # A number is all that is remembered of an outcome, which may be a long text.
            outcome = hash(_outcome(target, data))
            if outcome not in outcomes and len(outcomes) < MAX_OUTCOMES:
                outcomes.add(outcome)
                mutator.keep(data)
            done += 1
            if done in (began, steady):
                looks[done] = held()
            if done % _LOOKS == 0:
                report(done)
    seconds, different = time.monotonic() - began_s, len(outcomes)
    del mutator, outcomes
    end = held()
    begin = looks.get(began, end)
    return Figures(done, seconds, different, begin, looks.get(steady, begin), end)


def _outcome(target: Target, data: bytes) -> object:
    try:
        return target.run(data)
    except Exception as error:
        raise CaughtError(data) from error


@contextmanager
def _bounded() -> Iterator[Callable[[], None]]:
    """End an input that does not end, wherever it is; the heart beats once for each."""
    beats = seen = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen == beats:
            raise FindingError(f"an input takes more than {MAX_INPUT_S:.0f} s of CPU time")
        seen = beats

    former = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, MAX_INPUT_S, MAX_INPUT_S)
    try:
        yield beat
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def smaller(target: Target, data: bytes) -> bytes:
    """Return a part of an input that still finds something, of the same kind."""
    wanted = _kind(target, data)
    size = len(data)
    while size:
        size = (size + 1) // 2 if size > 1 else 0
        start = 0
        while size and start < len(data):
            shorter = data[:start] + data[start + size :]
            if wanted is not None and _kind(target, shorter) == wanted:
                data = shorter
            else:
                start += size
    return data


def _kind(target: Target, data: bytes) -> str | None:
    try:
        target.run(data)
    except Exception as error:
        return f"{type(error).__name__} {error}"[:40]
    return None
