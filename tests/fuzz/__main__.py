"""Long runs of the fuzz targets, and what they found once more.

python -m tests.fuzz run [--target NAME ...] [--inputs N] [--minutes M] [--seed S]
python -m tests.fuzz replay TARGET FILE
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.compiled import form
from grid_member.compiled import NotCompiledError
from tests.fuzz.drive import smaller
from tests.fuzz.jobs import MAX_STILL_S, ROOT, Order, Outcome, guided_here, run
from tests.fuzz.targets import TARGETS, target

INPUTS: Final = {
    "fast-path": 10_000_000,
    "yaml": 150_000,
    "xml": 250_000,
    "overrides": 60_000,
    "python": 150_000,
    "parameters": 2_000_000,
    "path": 1_000_000,
    "wan": 1_000_000,
    "wanjson": 500_000,
}
PART_INPUTS: Final = 2_500_000
"""A longer run is divided into processes, each with a seed of its own: more cores help."""
MINUTES: Final = 120
FINDINGS: Final = ROOT / ".fuzz"
_MEANING: Final = (
    "RSS after the corpus / a tenth / at the end, when garbage is collected and what is free given "
    "back; the peak without that; how many objects more than after the corpus are left"
)


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="many inputs for each target")
    running.add_argument("--target", action="append", choices=TARGETS, help="all without")
    running.add_argument("--inputs", type=int, help="for each target, in place of its own number")
    running.add_argument("--minutes", type=float, default=MINUTES, help="for each target at most")
    running.add_argument("--seed", type=int, default=1)
    replaying = commands.add_parser("replay", help="one input, with the traceback")
    replaying.add_argument("target", choices=TARGETS)
    replaying.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "replay":
        # What ended a process ends this one, too, or never ends: it says where.
        faulthandler.enable()
        faulthandler.dump_traceback_later(MAX_STILL_S, repeat=True)
        return replay(arguments.target, arguments.file)
    names = arguments.target or list(TARGETS)
    wanted = {name: arguments.inputs or INPUTS[name] for name in names}
    return _run(orders_for(wanted, arguments.minutes * 60, arguments.seed))


def orders_for(wanted: dict[str, int], max_s: float, seed: int) -> list[tuple[str, Order]]:
    """Return what to run, in this order: first a part of each, so that findings come early."""
    first: list[tuple[str, Order]] = []
    further: list[tuple[str, Order]] = []
    for name, inputs in wanted.items():
        for part, done in enumerate(range(0, inputs, PART_INPUTS)):
            order = Order(min(PART_INPUTS, inputs - done), max_s, seed + part)
            (further if part else first).append((name, order))
    return first + further


def replay(name: str, file: Path) -> int:
    """Try an input once more, without what it does not need; a finding is raised."""
    chosen, data = target(name), file.read_bytes()
    print(f"{len(data)} bytes", flush=True)
    shorter = smaller(chosen, data)
    print(f"{len(shorter)} of them needed: {shorter!r}", flush=True)
    print("nothing found:", chosen.run(shorter))
    return 0


def _run(orders: list[tuple[str, Order]]) -> int:
    _say("guided by atheris" if guided_here() else "atheris is not installed: unguided")
    try:
        _say(f"the member's modules: interpreted where guided, unguided {form()}")
    except NotCompiledError as error:
        _say(str(error))
        return 1
    began_s = time.monotonic()

    def one(named: tuple[str, Order]) -> Outcome:
        name, order = named
        outcome = run(target(name), order, FINDINGS, _say)
        _say(str(outcome))
        return outcome

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        outcomes = list(pool.map(one, orders))
    _say(f"\nin {time.monotonic() - began_s:,.0f} s ({_MEANING}):")
    for outcome in outcomes:
        _say(str(outcome))
    for name in dict.fromkeys(name for name, _ in orders):
        total = sum(outcome.inputs for outcome in outcomes if outcome.name == name)
        _say(f"{name:<11} {total:>12,} inputs in all")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
