"""Writes what was measured: a page to keep, and a short table to look at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.figures import Figure, Section, Verdict

_HOW = """\
Unless said otherwise every figure is the median of {rounds} rounds of {seconds} s, in which what is
compared takes turns (A B A B …), and wrk drives with 1 thread, 64 connections, 22-byte values and
10,000 keys. CPU is the server's, of all its threads, per request. Where wrk itself used 90 % of a
core or more the rate is marked `†`: the load generator limited it, CPU per request still holds.
p50 and p99 are wrk's, which corrects them for what slow answers held back (coordinated omission).
Ratios carry over to another machine, rates do not.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """All that is said about one run of the bench.

    Attributes:
        command: how to repeat it; names no directory of this machine.
    """

    date: str
    machine: Sequence[str]
    tools: str
    command: str
    rounds: int
    seconds: int
    sections: Sequence[Section]


def page(of: Page) -> str:
    """Return the page as Markdown."""
    bars = [v for section in of.sections for v in section.verdicts]
    parts = [
        "# What `make bench` measured\n",
        "\n".join(
            [f"- Date: {of.date}", *(f"- {line}" for line in of.machine), f"- Tools: {of.tools}"]
        )
        + f"\n- Repeat: `{of.command}`\n",
        _HOW.format(rounds=of.rounds, seconds=of.seconds),
        *(["## Bars\n\n" + verdict_table(bars)] if bars else []),
        *(_section(section) for section in of.sections),
    ]
    return "\n".join(parts)


def _section(section: Section) -> str:
    parts = [f"## {section.title}\n\n{section.meaning}\n"]
    if section.figures:
        parts.append(figure_table(section.figures))
    tables = [note for note in section.notes if note.startswith("|")]
    lines = [f"- {note}" for note in section.notes if note not in tables]
    return "\n".join(
        [*parts, *(f"{table}\n" for table in tables), *lines, *([""] if lines else [])]
    )


def figure_table(figures: Iterable[Figure]) -> str:
    """Return rates and what they cost, as a table in Markdown."""
    lines = [
        "| what | requests/s | CPU µs | user + system | wrk CPU | p50 ms | p99 ms | not 2xx |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *map(_row, figures)]) + "\n"


def _row(of: Figure) -> str:
    cells = (
        of.name,
        f"{of.rate:,.0f}{' †' if of.limited else ''}",
        f"{of.cpu_us:.1f}",
        f"{of.user_us:.1f} + {of.system_us:.1f}",
        f"{of.wrk_percent:.0f} %",
        _ms(of.p50_ms),
        _ms(of.p99_ms),
        f"{of.bad} FAILED" if of.bad else "0",
    )
    return f"| {' | '.join(cells)} |"


def _ms(milliseconds: float) -> str:
    return "-" if math.isnan(milliseconds) else f"{milliseconds:.2f}"


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Return the bars as a table in Markdown."""
    lines = ["| bar | measured | asked for | verdict | |", "|---|---:|---:|---|---|"]
    lines += [
        f"| {v.name} | {measured(v)} | {asked(v)} | {v.outcome} | {v.remark} |" for v in verdicts
    ]
    return "\n".join(lines) + "\n"


def measured(verdict: Verdict) -> str:
    """Return what was measured with its unit."""
    digits = 0 if verdict.unit == "MiB" else 2
    return f"{verdict.measured:.{digits}f} {verdict.unit}"


def asked(verdict: Verdict) -> str:
    """Return the bar with its direction and unit."""
    return f"{'≥' if verdict.at_least else '≤'} {verdict.bar:g} {verdict.unit}"


def short(verdicts: Sequence[Verdict]) -> str:
    """Return the bars as aligned lines for a terminal."""
    width = max((len(v.name) for v in verdicts), default=0)
    return "\n".join(
        f"{v.name:{width}}  {measured(v):>10}  {asked(v):>9}  {v.outcome}"
        + (f" ({v.remark})" if v.remark else "")
        for v in verdicts
    )
