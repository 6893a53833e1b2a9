"""Load on several members: what is shared out, counted together and told apart."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from bench.figures import figure
from bench.load import spread
from bench.load.loads import MIX
from bench.load.wrk import Sample
from bench.processes import Server, ask, children
from bench.servers.cluster import ClusterMember, Members, three_engines
from bench.servers.members import get_request, post_request

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def sample(requests: int, wrk_s: float = 0.0, log_s: float = 0.0) -> Sample:
    return Sample(requests, 1.0, 0.5, 0.5, 10.0, 1.0, 2.0, 0, wrk_s, log_s)


def test_connections_are_shared_out_evenly_and_none_is_lost() -> None:
    assert spread.shares(64, 3) == [22, 21, 21]
    assert spread.shares(512, 3) == [171, 171, 170]
    assert spread.shares(2, 3) == [1, 1, 0]


def test_what_a_request_costs_is_told_apart() -> None:
    table = spread.cost_table([figure("GET", [sample(100_000, wrk_s=0.2, log_s=0.4)])])
    assert table.splitlines()[-1] == "| GET | 6.0 | 4.0 | 2.0 |"


def test_members_are_driven_together_and_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driven: list[tuple[int, int]] = []

    def measured(server: Server, load: object, seconds: int) -> Sample:
        assert len(server.pids) == 2
        driven.append((server.port, load.connections))  # type: ignore[attr-defined]
        return sample(1000 * seconds, wrk_s=0.1)

    monkeypatch.setattr(spread, "measure", measured)
    own = os.getpid()
    members = [ClusterMember(Server((own,), port), own) for port in (1, 2, 3)]
    seen = spread.measure_spread(members, MIX, 2)
    assert sorted(driven) == [(1, 22), (2, 21), (3, 21)]
    assert seen.requests == 6000
    assert math.isclose(seen.wrk_s, 0.3)


def test_children_are_found_while_they_live() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.pid in children(os.getpid())
        process.communicate(b"\n")
    assert process.pid not in children(os.getpid())


def test_bare_engines_keep_operations_in_flight() -> None:
    with three_engines() as engines:
        put = spread.measure_bare(engines, "POST", 8, 1)
        got = spread.measure_bare(engines, "GET", 8, 1)
    assert put.requests > 8
    assert got.requests > 8
    assert put.bad == got.bad == 0
    assert put.log_s > 0


def test_members_come_back_with_what_they_had(tmp_path: Path) -> None:
    with Members(tmp_path, durable=True) as members:
        assert members.start(0, 1, 2) > 0
        members.settle()
        ports = [member.server.port for member in members.all]
        assert ask(ports[0], post_request("1", b"one")).startswith(b"HTTP/1.1 200")
        members.kill(1)
        members.start(1)
        assert ask(ports[1], get_request("1")).endswith(b"one")
