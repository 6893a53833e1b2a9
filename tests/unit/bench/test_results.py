"""The page that is kept, the command that repeats it, and the disk that it speaks of."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest

from bench.__main__ import PARTS, part_names, repeat_command
from bench.figures import Figure, Section, Verdict
from bench.machine import filesystem_in, machine
from bench.results import Page, figure_table, page, short, verdict_table

FAST = Figure("GET, fast path", 81_234.4, 5.25, 6.0, 91.2, 0.71, 1.5, 0)
SLOW = Figure("GET, aiohttp", 15_800.0, 57.0, 10.0, 30.0, 4.0, math.nan, 3)
MET = Verdict("GET: fast path ÷ aiohttp, rate", 5.14, 3.5, True, "met", remark="limited by wrk")
MISSED = Verdict("start", 0.61, 0.5, False, "NOT MET", "s")


def test_the_table_of_figures() -> None:
    lines = figure_table([FAST, SLOW]).splitlines()
    assert lines[2] == "| GET, fast path | 81,234 † | 11.2 | 5.2 + 6.0 | 91 % | 0.71 | 1.50 | 0 |"
    assert lines[3] == (
        "| GET, aiohttp | 15,800 | 67.0 | 57.0 + 10.0 | 30 % | 4.00 | - | 3 FAILED |"
    )
    assert {line.count("|") for line in lines} == {9}


def test_the_table_of_bars() -> None:
    lines = verdict_table([MET, MISSED]).splitlines()
    assert (
        lines[2] == "| GET: fast path ÷ aiohttp, rate | 5.14 x | ≥ 3.5 x | met | limited by wrk |"
    )
    assert lines[3] == "| start | 0.61 s | ≤ 0.5 s | NOT MET |  |"


def test_the_lines_for_a_terminal_are_aligned() -> None:
    first, second = short([MET, MISSED]).splitlines()
    assert first.index("≥") == second.index("≤")
    assert first.endswith("met (limited by wrk)")
    assert short([]) == ""


def test_the_page_holds_all_of_it() -> None:
    section = Section(
        "The fast path", "What it means.", [FAST], [MET], ["A note.", "| a | table |"]
    )
    text = page(
        Page("2026-01-02", ["Processor: some, 2 cores"], "wrk 4.1", "make bench", 3, 5, [section])
    )
    expected = [
        "- Date: 2026-01-02",
        "- Processor: some, 2 cores",
        "- Tools: wrk 4.1",
        "- Repeat: `make bench`",
        "median of 3 rounds of 5 s",
        "## Bars",
        MET.name,
        "## The fast path",
        "What it means.",
        "| GET, fast path |",
        "- A note.",
        "\n| a | table |\n",
    ]
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ([], "make bench"),
        (["--only", "fast-path,queues"], 'make bench ARGS="--only fast-path,queues"'),
        (
            ["--data-directory", "/srv/secret", "--rounds", "1"],
            'make bench ARGS="--data-directory DIRECTORY --rounds 1"',
        ),
        (["--data-directory=/srv/secret"], 'make bench ARGS="--data-directory=DIRECTORY"'),
    ],
)
def test_the_command_to_repeat_names_no_directory(given: list[str], command: str) -> None:
    assert repeat_command(given) == command


def test_parts_are_chosen_by_name() -> None:
    assert part_names("fast-path,queues") == ["fast-path", "queues"]
    assert part_names("queues,wan") == ["queues", *(name for name in PARTS if "wan-" in name)]
    with pytest.raises(argparse.ArgumentTypeError, match="no such part: fast-paths"):
        part_names("fast-paths,queues")


MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/with\\040space xfs rw 0 0
tmpfs /srv tmpfs rw 0 0
/dev/vdc /srv ext4 rw 0 0
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/work", "ext4"),
        ("/tmp/deeper", "tmpfs"),
        ("/tmp/with space/deeper", "xfs"),
        ("/tmpother", "ext4"),
        ("/srv/data", "ext4"),
    ],
)
def test_the_file_system_of_a_directory(directory: str, kind: str) -> None:
    assert filesystem_in(MOUNTS, Path(directory)) == kind


def test_the_machine_is_described() -> None:
    assert [line.split(":")[0] for line in machine()] == [
        "Processor",
        "Memory",
        "Kernel",
        "Python",
        "Members",
        "Load before",
    ]
