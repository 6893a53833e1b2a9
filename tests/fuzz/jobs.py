"""Long runs: a process for each target, watched from outside."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.compiled import form_said
from tests.fuzz.memory import Held, read
from tests.fuzz.present import Present
from tests.fuzz.target import CORPUS, Target, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
MAX_GROWN_OBJECTS: Final = 10_000
"""How many objects a process may have more at its end than when it had tried the corpus.

However many inputs it tried: caches fill up, and then nothing of an input may stay.
"""
MAX_GROWN_BYTES: Final = 8 << 20
"""How much larger than after its first tenth a process may be at its end.

The allocator's fragments, and of a guided process libFuzzer's corpus and tables.
"""
GUIDED_SHARE: Final = 0.2
"""Of the inputs: guidance finds the ways, without it three times as many inputs go there."""
MAX_RESIDENT_MIB: Final = 1024
MAX_INPUT_S: Final = 20
MAX_START_S: Final = 120.0
"""Until a process begins its first input."""
MAX_STILL_S: Final = 120.0
"""How long a process may begin no other input until it is killed.

It ends an input after less by itself, but not in machine code that never returns, where no handler
of Python's runs, or where signals are blocked. The rest is for machines with much other work.
"""
REPORT_S: Final = 60.0
_LOOK_S: Final = 0.5
_ASKED: Final = (-signal.SIGINT, -signal.SIGTERM)
"""Statuses of a process that somebody ended: its input did nothing."""
_LOOKS: Final = 3
_INTERPRETED: Final = "interpreted"
"""What a process is that says nothing of it: a guided one."""
_WORD_BYTES: Final = 64
"""libFuzzer's dictionaries take no longer words."""
_DONE: Final = re.compile(r"^Done (\d+) runs", re.MULTILINE)
_COUNT: Final = re.compile(r"^#(\d+)\t", re.MULTILINE)
_TAIL_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Order:
    """How long to run a target."""

    inputs: int
    max_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; problem says why it does not count, what to do included."""

    name: str
    inputs: int
    seconds: float
    memory: tuple[Memory, ...]
    """Of each process."""
    problem: str | None

    def __str__(self) -> str:
        rate = self.inputs / max(self.seconds, 1e-3)
        done = (
            f"{self.name:<11} {self.inputs:>12,} inputs  {rate:>9,.0f}/s  {self.seconds:>7,.0f} s"
        )
        return "\n    ".join((f"{done}  {self.problem or 'nothing found'}", *map(str, self.memory)))


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process said that it held."""

    guided: bool
    looks: tuple[Held, ...]
    """After the corpus, after the first tenth, at the end."""
    form: str = _INTERPRETED
    """Of the member's modules in it, as it said."""

    def __str__(self) -> str:
        kind = "guided" if self.guided else "unguided"
        sizes = " / ".join(_mib(look.resident_bytes) for look in self.looks)
        peak = _mib(max((look.peak_bytes for look in self.looks), default=0))
        size = f"RSS {sizes} MiB, peak {peak} MiB"
        return f"{kind}, {self.form}: {size}, objects {self.grown_objects:+,}"

    @property
    def grown_objects(self) -> int:
        """How many objects more there are at the end than after the corpus."""
        return self.looks[-1].objects - self.looks[0].objects if self.looks else 0

    @property
    def problem(self) -> str | None:
        """Say what is wrong with it."""
        if len(self.looks) < _LOOKS:
            return "it ended without having said what it holds"
        _, steady, end = self.looks
        if self.grown_objects > MAX_GROWN_OBJECTS:
            return f"memory grew: {self.grown_objects:,} objects are left of the inputs"
        grown_bytes = end.resident_bytes - steady.resident_bytes
        if grown_bytes > MAX_GROWN_BYTES:
            return f"memory grew by {_mib(grown_bytes)} MiB after the first tenth"
        return None


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.0f}"


def guided_here() -> bool:
    """Tell whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def run(target: Target, order: Order, findings: Path, report: Callable[[str], None]) -> Outcome:
    """Run a target in processes of its own; an input that finds something goes to findings."""
    findings.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="grid-fuzz-") as scratch:
        grown = Path(scratch) / "corpus"
        grown.mkdir()
        guided = int(order.inputs * GUIDED_SHARE) if guided_here() else 0
        for inputs, begin in ((guided, _guided), (order.inputs - guided, _unguided)):
            part = replace(order, inputs=inputs)
            if inputs and not any(outcome.problem for outcome in outcomes):
                outcomes.append(_watched(target, part, begin, Path(scratch), findings, report))
    return _together(target, outcomes)


def _together(target: Target, outcomes: list[Outcome]) -> Outcome:
    return Outcome(
        target.name,
        sum(outcome.inputs for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
        tuple(memory for outcome in outcomes for memory in outcome.memory),
        outcomes[-1].problem,
    )


def _watched(
    target: Target,
    order: Order,
    begin: Callable[[Target, Order, Path, Path], list[str]],
    scratch: Path,
    findings: Path,
    report: Callable[[str], None],
) -> Outcome:
    log = scratch / "log"
    present = Present.create(_present(scratch), _room(target))
    known = _found(target, order, findings)
    began_s = time.monotonic()
    with log.open("wb") as into:
        process = subprocess.Popen(
            begin(target, order, scratch, findings), cwd=ROOT, stdout=into, stderr=subprocess.STDOUT
        )
        try:
            ended = _wait(process, present, lambda: report(_progress(target, log)))
        finally:
            process.kill()  # nobody else would end it
            process.wait()
    seconds, text = time.monotonic() - began_s, _tail(log)
    done = max([_count(text), *(int(match[1]) for match in _DONE.finditer(text))])
    new = sorted(path for path, _ in _found(target, order, findings) - known)
    if not new and present.data is not None and process.returncode not in _ASKED:
        new = [findings / f"{_prefix(target, order)}present"]
        new[0].write_bytes(present.data)
    whole = log.read_text(encoding="utf-8", errors="replace")
    looks, form = read(whole), form_said(whole) or _INTERPRETED
    memory = Memory(begin is _guided, (*looks[:2], *looks[2:][-1:]), form)
    problem = _problem(target, order, done, ended, new, text) or memory.problem
    return Outcome(target.name, done, seconds, (memory,), problem)


def _prefix(target: Target, order: Order) -> str:
    return f"{target.name}-{order.seed}-"


def _room(target: Target) -> int:
    return max(target.max_bytes, *map(len, seeds(target)))


def _present(scratch: Path) -> Path:
    return scratch / "present"


def _found(target: Target, order: Order, findings: Path) -> set[tuple[Path, int]]:
    """Return files and when they were written: what is found again has the same name."""
    files = findings.glob(f"{_prefix(target, order)}*")
    return {(file, file.stat().st_mtime_ns) for file in files}


def _guided(target: Target, order: Order, scratch: Path, findings: Path) -> list[str]:
    words = scratch / "words"
    words.write_text("".join(map(_quoted, target.words)), encoding="ascii")
    return [
        *(sys.executable, "-m", "tests.fuzz.guided", target.name, str(order.inputs)),
        str(_present(scratch)),
        *(f"-runs={order.inputs}", f"-max_total_time={int(order.max_s)}", f"-seed={order.seed}"),
        *(f"-max_len={target.max_bytes}", f"-timeout={MAX_INPUT_S}", "-print_final_stats=1"),
        *(f"-rss_limit_mb={MAX_RESIDENT_MIB}", f"-dict={words}"),
        f"-artifact_prefix={findings / _prefix(target, order)}",
        *(str(scratch / "corpus"), str(CORPUS / target.name)),
    ]


def _unguided(target: Target, order: Order, scratch: Path, findings: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "bench.compiled", "tests.fuzz.unguided", target.name),
        *(str(order.inputs), str(order.max_s), str(order.seed), str(scratch / "corpus")),
        *(str(_present(scratch)), f"{findings / _prefix(target, order)}found"),
    ]


def _quoted(word: bytes) -> str:
    if not 0 < len(word) <= _WORD_BYTES:
        return ""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _wait(process: subprocess.Popen[bytes], present: Present, report: Callable[[], None]) -> str:
    """Wait until a process has ended, or kill it when it stands still; return how it ended."""
    number = looks = still = 0
    # Looks are counted, not seconds: those pass as well when all of this is stopped for a while.
    while still * _LOOK_S < (max_s := MAX_STILL_S if number else MAX_START_S):
        try:
            return ending(process.wait(_LOOK_S))
        except subprocess.TimeoutExpired:
            looks += 1
        still = still + 1 if present.number == number else 0
        number = present.number
        if looks * _LOOK_S % REPORT_S == 0:
            report()
    process.kill()
    process.wait()
    return f"did nothing new for {max_s:.0f} s and was killed"


def ending(status: int) -> str:
    """Say how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # a signal without a name
        return f"ended by signal {-status}"


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _count(text: str) -> int:
    return max((int(match[1]) for match in _COUNT.finditer(text)), default=0)


def _progress(target: Target, log: Path) -> str:
    return f"{target.name}: {_count(_tail(log)):,} inputs"


def _problem(
    target: Target, order: Order, done: int, ended: str, new: list[Path], text: str
) -> str | None:
    if new:
        again = f"python -m tests.fuzz replay {target.name} {new[0]}"
        return f"FOUND SOMETHING: {new[0]}; the process {ended}; see it again with `{again}`"
    if ended != ending(0):
        return f"the process {ended} and left no input behind; it said: {text[-2000:]}"
    if done < order.inputs:
        return f"stopped early: {order.inputs:,} inputs were wanted"
    return None
