"""Ports of tests: nobody else's, also while nobody listens on them."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from tests.unit import ports as module
from tests.unit.ports import HOST, PortsOfAll

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FEW = (14_000, 14_004)
OTHER = """
import sys
from pathlib import Path
from tests.unit.ports import PortsOfAll
print(*PortsOfAll(Path(sys.argv[1]), (14_000, 14_004)).take(2), flush=True)
sys.stdin.read()
"""


def test_two_processes_share_no_port(tmp_path: Path) -> None:
    places = tmp_path / "ports"
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(places)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other, closing(PortsOfAll(places, FEW)) as own:
        assert other.stdout is not None
        theirs = {int(port) for port in other.stdout.readline().split()}
        mine = set(own.take(2))
        assert len(theirs) == len(mine) == 2
        assert mine | theirs == set(range(*FEW))
        assert other.stdin is not None
        other.stdin.close()
        other.wait(10)
        assert set(own.take(2)) == theirs  # they went with their process


def test_who_listens_keeps_a_port(tmp_path: Path) -> None:
    with closing(PortsOfAll(tmp_path / "ports", FEW)) as own, socket.socket() as listens:
        listens.bind((HOST, 14_001))
        listens.listen()
        assert set(own.take(3)) == {14_000, 14_002, 14_003}


def test_the_oldest_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 4)
    with closing(PortsOfAll(tmp_path / "ports", FEW)) as own:
        first, *_ = own.take(4)
        assert own.take(1) == [first]
