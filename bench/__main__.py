"""Measures what the project promises of speed, and writes bench/RESULTS.md.

    make bench                                      everything
    make bench ARGS="--only fast-path,queues --seconds 2 --rounds 1"
    make bench ARGS="--only wan"                    all of WAN replication

A run of parts writes to build/bench-results.md, or where --output says.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Section
from bench.load.install import install_tools
from bench.machine import machine, tools
from bench.options import Options
from bench.parts import (
    cleaner,
    cluster,
    cluster_start,
    crowd,
    fast_path,
    growth,
    open_loop,
    persistence,
    replaced,
    shapes,
    start,
    timer_slack,
    workers,
)
from bench.parts.wan import clients, flow, latency, memory, quiet, several, sync
from bench.processes import ROOT, BenchError, raise_open_files
from bench.results import Page, figure_table, page, short
from grid_member.compiled import NotCompiledError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_OPEN_LOOP: Final = "open-loop"
PARTS: Final[dict[str, Callable[[Options], list[Section]]]] = {
    "fast-path": fast_path.measured,
    "persistence": persistence.measured,
    "queues": shapes.queues,
    "values": shapes.values,
    "mebibytes": shapes.mebibytes,
    "pipelined": shapes.pipelined,
    "start": start.measured,
    "crowd": crowd.measured,
    "entries": growth.entries,
    "connections": growth.connections,
    _OPEN_LOOP: open_loop.measured,
    "workers": workers.measured,
    "cluster": cluster.memory,
    "cluster-disk": cluster.disk,
    "cluster-cleaner": cleaner.measured,
    "cluster-timers": timer_slack.measured,
    "cluster-start": cluster_start.forming,
    "cluster-million": cluster_start.million,
    "replaced": replaced.measured,
    "wan-clients": clients.measured,
    "wan-disk": clients.disk,
    "wan-members": several.measured,
    "wan-latency": latency.measured,
    "wan-flow": flow.measured,
    "wan-members-flow": several.flow,
    "wan-sync": sync.measured,
    "wan-memory": memory.measured,
    "wan-quiet": quiet.measured,
}
GROUPS: Final = {"wan": tuple(name for name in PARTS if name.startswith("wan-"))}
"""Names that stand for several parts."""
_SPARE_FILES: Final = 1000
"""Of the open files of this process, for all but the connections of a crowd."""


def main() -> None:
    given = sys.argv[1:]
    chosen = _parser().parse_args(given)
    # An end that is asked for ends the servers too: they are ended by what unwinds.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    open_files = raise_open_files()
    names = chosen.only or list(PARTS)
    try:
        install_tools(open_loop=_OPEN_LOOP in names)
        measured_on = machine()
    except (BenchError, NotCompiledError) as problem:
        raise SystemExit(str(problem)) from None
    with _data_directory(chosen.data_directory) as directory:
        options = _options(chosen, Path(directory), open_files - _SPARE_FILES)
        sections, failed = _measure(names, options)
    output = chosen.output or (
        ROOT / "build" / "bench-results.md" if chosen.only else ROOT / "bench" / "RESULTS.md"
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        page(
            Page(
                date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                machine=measured_on,
                tools=tools(),
                command=repeat_command(given),
                rounds=options.rounds,
                seconds=options.seconds,
                sections=sections,
            )
        ),
        encoding="utf-8",
    )
    verdicts = [v for section in sections for v in section.verdicts]
    print(short(verdicts))
    if failed or any(v.outcome == "FAILED" for v in verdicts):
        raise SystemExit(f"Some could not be measured: {', '.join(failed) or 'see FAILED above'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ",".join((*PARTS, *GROUPS))
    parser.add_argument("--only", type=part_names, help=f"of {names}")
    parser.add_argument("--seconds", type=int, default=3, help="of each run of the load generator")
    parser.add_argument("--rounds", type=int, default=3, help="each figure is their median")
    parser.add_argument("--data-directory", type=Path, help="on the disk to measure")
    parser.add_argument("--entries", type=int, default=10_000_000, help="of the largest map")
    parser.add_argument("--load-limit", type=int, default=240, help="seconds to fill that map")
    parser.add_argument("--crowd", type=int, default=10_000, help="connections at once")
    parser.add_argument("--starts", type=int, default=7, help="of a member")
    parser.add_argument("--output", type=Path, help="where to write the results")
    return parser


def part_names(text: str) -> list[str]:
    """Read the parts to measure, separated by commas; a group stands for all of its parts."""
    names = [name for word in text.split(",") for name in GROUPS.get(word, (word,))]
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}")
    return names


def _options(chosen: argparse.Namespace, directory: Path, most_connections: int) -> Options:
    if chosen.crowd > most_connections:
        print(f"Only {most_connections} connections: raise the limit of open files (ulimit -n).")
    crowd_size = min(chosen.crowd, most_connections)
    return Options(
        seconds=chosen.seconds,
        rounds=chosen.rounds,
        data_directory=directory,
        entries=tuple(n for n in (10_000, 1_000_000, 10_000_000) if n <= chosen.entries),
        load_limit_s=chosen.load_limit,
        connections=tuple(n for n in (64, 1_000, 10_000) if n <= crowd_size),
        crowd=crowd_size,
        starts=chosen.starts,
    )


def _data_directory(chosen: Path | None) -> AbstractContextManager[str | Path]:
    if chosen is not None:
        return nullcontext(chosen)
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=build, prefix="bench-")


def _measure(names: Sequence[str], options: Options) -> tuple[list[Section], list[str]]:
    """Return the sections, and the names of the parts that could not be measured."""
    sections: list[Section] = []
    failed = []
    for name in names:
        began = time.monotonic()
        try:
            new = PARTS[name](options)
        except (BenchError, OSError, ValueError, ArithmeticError) as problem:
            failed.append(name)
            new = [Section(name, "Could not be measured.", notes=[f"FAILED: {problem}"])]
        sections += new
        for section in new:
            print(f"== {section.title} ({time.monotonic() - began:.0f} s)")
            print(figure_table(section.figures) if section.figures else "")
            print("\n".join([*section.notes, ""]), flush=True)
    return sections, failed


def repeat_command(given: Sequence[str]) -> str:
    """Return the command of this run, without a directory of this machine."""
    parts = []
    hidden = False
    for word in given:
        option, _, value = word.partition("=")
        is_path = option in ("--data-directory", "--output")
        parts.append(
            "DIRECTORY" if hidden else f"{option}=DIRECTORY" if is_path and value else word
        )
        hidden = is_path and not value
    return f'make bench ARGS="{shlex.join(parts)}"' if parts else "make bench"


if __name__ == "__main__":
    main()
