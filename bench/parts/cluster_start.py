"""How long three members take to become a cluster, and to come back to a million entries."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.figures import Section, absolute_at_most
from bench.load.fill import fill_map
from bench.load.spread import shares
from bench.load.wrk import VALUE_BYTES
from bench.processes import BenchError, ask, rss_bytes
from bench.servers.cluster import SIZE, Members, three_members
from bench.servers.members import get_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.options import Options
    from bench.servers.cluster import ClusterMember

FORM_BAR_S: Final = 5.0
STORED: Final = 1_000_000
_SETTLE_S: Final = 1.0
_ALL: Final = tuple(range(SIZE))


def forming(options: Options) -> list[Section]:
    """Time how three members that know nothing become a cluster, and weigh them idle."""
    times_s, weights = [], ""
    for _ in range(options.rounds):
        with (
            tempfile.TemporaryDirectory() as directory,
            Members(Path(directory), durable=False) as members,
        ):
            times_s.append(members.start(*_ALL))
            time.sleep(_SETTLE_S)
            weights = _weights(members.all)
    name = f"{SIZE} members from nothing to the last one's first answer"
    verdict = absolute_at_most(name, median(times_s), FORM_BAR_S, "s")
    notes = [
        f"{len(times_s)} starts: {min(times_s):.2f} to {max(times_s):.2f} s.",
        f"Memory (RSS) when idle: {weights}.",
    ]
    meaning = (
        "In memory, all processes started at one moment; until each of them has answered a GET."
    )
    return [Section("Forming a cluster", meaning, (), [verdict], notes)]


def million(options: Options) -> list[Section]:
    """Weigh three members with a million entries; end them in several ways and time their return.

    Raises:
        BenchError: an entry was not there again.
    """
    notes = []
    with three_members() as in_memory:
        notes.append(
            f"In memory, filled in {_filled_s(in_memory):.1f} s: {_weights(in_memory.all)}."
        )
    with three_members(options.data_directory) as members:
        few_s = _restarted_s(members, 0)
        filled_s = _filled_s(members)
        notes.append(f"Persistent, filled in {filled_s:.1f} s: {_weights(members.all)}.")
        lines = [
            "| what happened | until it answers, s |",
            "|---|---:|",
            f"| one member restarted, no entries | {few_s:.2f} |",
            f"| one member restarted | {_restarted_s(members, 0):.2f} |",
            f"| one member killed (SIGKILL) | {_killed_s(members, 1):.2f} |",
            f"| all members restarted | {_restarted_s(members, *_ALL):.2f} |",
            f"| all members killed (SIGKILL) | {_killed_s(members, *_ALL):.2f} |",
        ]
        notes.insert(0, "\n".join(lines))
        notes.append(f"After that: {_weights(members.all)}.")
    meaning = (
        f"{STORED:,} entries of {VALUE_BYTES}-byte values, given to all three at the same time. "
        "From the start of the process to its first answer to a GET, with all members to that of "
        "the last one; what the first row has less is mostly the replay."
    )
    return [Section("A million entries in three members", meaning, (), (), notes)]


def _filled_s(members: Members) -> float:
    began = time.monotonic()
    counts = shares(STORED, SIZE)
    with ThreadPoolExecutor(SIZE) as pool:
        fills = [
            pool.submit(fill_map, member.server.port, sum(counts[:place]), count, VALUE_BYTES)
            for place, (member, count) in enumerate(zip(members.all, counts, strict=True))
        ]
        for fill in fills:
            fill.result()
    return time.monotonic() - began


def _restarted_s(members: Members, *numbers: int) -> float:
    members.settle()
    members.stop(*numbers)
    return members.start(*numbers)


def _killed_s(members: Members, *numbers: int) -> float:
    members.settle()
    members.kill(*numbers)
    seconds = members.start(*numbers)
    for number in numbers:
        answer = ask(members.all[number].server.port, get_request(str(STORED - 1)))
        if not answer.endswith(b"%0*d" % (VALUE_BYTES, STORED - 1)):
            raise BenchError("the last entry is not there after the kill")
    return seconds


def _weights(members: Sequence[ClusterMember]) -> str:
    own = ", ".join(_mib(member.server.pids) for member in members)
    logs = ", ".join(_mib((member.log_pid,)) for member in members)
    return f"members {own} MiB, their nats-servers {logs} MiB"


def _mib(pids: Sequence[int]) -> str:
    return f"{rss_bytes(pids) / (1 << 20):,.0f}"
