"""Long runs: a process for each target, watched from outside."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.fuzz.drive import STEADY_SHARE
from tests.fuzz.target import CORPUS, Target

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
MAX_GROWTH_BYTES: Final = 64 << 20
"""How much larger than after its first tenth a process may be at its end, when nothing guides it.

What instruments the code keeps 1 to 2 KiB of every input: the same inputs leave a process without
it at its size (133 to 142 MiB after each 25,000), and one with it grows (129, 168 MiB).
"""
GUIDED_SHARE: Final = 0.2
"""Of the inputs: guidance finds the ways, without it three times as many inputs go there."""
MAX_RESIDENT_MIB: Final = 1024
MAX_INPUT_S: Final = 20
LOOK_S: Final = 2.0
REPORT_S: Final = 60.0
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
    begin_bytes: int
    steady_bytes: int
    end_bytes: int
    problem: str | None

    def __str__(self) -> str:
        sizes = (self.begin_bytes, self.steady_bytes, self.end_bytes)
        memory = " / ".join(f"{size / (1 << 20):.0f}" for size in sizes)
        rate = self.inputs / max(self.seconds, 1e-3)
        return (
            f"{self.name:<11} {self.inputs:>12,} inputs  {rate:>9,.0f}/s  {self.seconds:>7,.0f} s  "
            f"RSS {memory} MiB  {self.problem or 'nothing found'}"
        )


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
    last = outcomes[-1]
    return Outcome(
        target.name,
        sum(outcome.inputs for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
        last.begin_bytes,
        last.steady_bytes,
        last.end_bytes,
        last.problem,
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
    known = set(_found(target, order, findings))
    began_s = time.monotonic()
    with log.open("wb") as into:
        process = subprocess.Popen(
            begin(target, order, scratch, findings), cwd=ROOT, stdout=into, stderr=subprocess.STDOUT
        )
        begun, steady, end = _watch(process, lambda: report(_progress(target, log)))
    seconds, text = time.monotonic() - began_s, _tail(log)
    done = max([_count(text), *(int(match[1]) for match in _DONE.finditer(text))])
    new = sorted(set(_found(target, order, findings)) - known)
    problem = _problem(target, order, done, process.returncode, new, text)
    if problem is None and begin is _unguided and end - steady > MAX_GROWTH_BYTES:
        problem = f"memory grew by {(end - steady) >> 20} MiB after the first tenth"
    return Outcome(target.name, done, seconds, begun, steady, end, problem)


def _prefix(target: Target, order: Order) -> str:
    return f"{target.name}-{order.seed}-"


def _found(target: Target, order: Order, findings: Path) -> list[Path]:
    return list(findings.glob(f"{_prefix(target, order)}*"))


def _guided(target: Target, order: Order, scratch: Path, findings: Path) -> list[str]:
    words = scratch / "words"
    words.write_text("".join(map(_quoted, target.words)), encoding="ascii")
    return [
        *(sys.executable, "-m", "tests.fuzz.guided", target.name),
        *(f"-runs={order.inputs}", f"-max_total_time={int(order.max_s)}", f"-seed={order.seed}"),
        *(f"-max_len={target.max_bytes}", f"-timeout={MAX_INPUT_S}", "-print_final_stats=1"),
        *(f"-rss_limit_mb={MAX_RESIDENT_MIB}", f"-dict={words}"),
        f"-artifact_prefix={findings / _prefix(target, order)}",
        *(str(scratch / "corpus"), str(CORPUS / target.name)),
    ]


def _unguided(target: Target, order: Order, scratch: Path, findings: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.fuzz.unguided", target.name),
        *(str(order.inputs), str(order.max_s), str(order.seed), str(scratch / "corpus")),
        f"{findings / _prefix(target, order)}found",
    ]


def _quoted(word: bytes) -> str:
    if not 0 < len(word) <= _WORD_BYTES:
        return ""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _watch(process: subprocess.Popen[bytes], report: Callable[[], None]) -> tuple[int, int, int]:
    """Wait for the process; return its size at the beginning, after the first tenth, at the end."""
    sizes: list[int] = []
    told_s = time.monotonic()
    while True:
        try:
            process.wait(LOOK_S if sizes else LOOK_S / 4)
            break
        except subprocess.TimeoutExpired:
            sizes.append(_resident_bytes(process.pid))
        if time.monotonic() - told_s >= REPORT_S:
            told_s = time.monotonic()
            report()
    sizes = [size for size in sizes if size] or [0]
    return sizes[0], sizes[min(len(sizes) - 1, int(len(sizes) * STEADY_SHARE) + 1)], sizes[-1]


def _resident_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(match[1]) << 10 if match else 0


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _count(text: str) -> int:
    return max((int(match[1]) for match in _COUNT.finditer(text)), default=0)


def _progress(target: Target, log: Path) -> str:
    return f"{target.name}: {_count(_tail(log)):,} inputs"


def _problem(
    target: Target, order: Order, done: int, status: int, new: list[Path], text: str
) -> str | None:
    if new:
        again = f"python -m tests.fuzz replay {target.name} {new[0]}"
        return f"FOUND SOMETHING: {new[0]}; see it again with `{again}`"
    if status != 0:
        return f"ended with status {status} and left no input behind; it said: {text[-2000:]}"
    if done < order.inputs:
        return f"stopped early: {order.inputs:,} inputs were wanted"
    return None
