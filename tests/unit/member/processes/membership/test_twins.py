"""Two processes with the data, and so the identity, of one member."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member.command import EXIT_START
from tests.unit.member.processes.bad_days import Days, eventually, goes_on, three

if TYPE_CHECKING:
    from tests.unit.member.processes.bad_days import Member, Written

pytestmark = pytest.mark.timeout(400)
NUMBER = 20


def durable(place: Path) -> list[Written]:
    return [replace(one, base_dir=place / f"{one.name}-data") for one in three()]


def copied(source: Written, target: Written) -> None:
    """Let a member have the data of another one, as a cloned disk has it."""
    assert source.base_dir is not None
    assert target.base_dir is not None
    shutil.rmtree(target.base_dir)
    shutil.copytree(source.base_dir, target.base_dir)


def refused(twin: Member, of: Written, place: Written) -> str:
    """Wait until a process ended because it was a copy; return what it said."""
    assert twin.end() == EXIT_START
    said = twin.said("another process runs as this member")
    assert all(part in said for part in (of.name, str(of.port), str(of.base_dir)))
    assert str(place.base_dir) in said
    return said


def has_server(member: Member) -> bool:
    pid = member.process.pid
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())


def test_a_copy_of_a_member_that_runs_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    with Days(tmp_path) as days:
        written = durable(tmp_path)
        members = days.formed(written)
        assert members[1].stop() == 0
        copied(written[0], written[1])
        with goes_on(members[0], members[2]):
            twin = days.start(written[1])
            refused(twin, written[0], written[1])
            assert not [entry for entry in twin.log if entry["message"] == "ready"]
            assert members[0].ask("GET", "/grid/health/ready").status == 200
            unsafe = members[0].ask("GET", "/grid/health/cluster-safe")
            assert unsafe.status == 503
            assert f"{written[1].port}" in unsafe.error
            assert "copy of the data" in unsafe.error
        assert written[1].base_dir is not None
        shutil.rmtree(written[1].base_dir)
        members[1] = days.start(written[1])
        members[1].ready()
        eventually(lambda: all(each.safe() for each in members))
        # A process that is dead is in the way of none, however short the time.
        members[0].kill()
        members[0] = days.start(written[0])
        members[0].ready()
        eventually(lambda: [each.members() for each in members] == [3, 3, 3])


def test_of_two_that_meet_later_the_younger_one_ends(tmp_path: Path) -> None:
    with Days(tmp_path) as days:
        written = durable(tmp_path)
        members = days.formed(written)
        for number in range(NUMBER):
            assert members[number % 3].put(f"k{number}", f"{number}").status == 200
        assert members[1].stop() == 0
        copied(written[0], written[1])
        # It cannot tell that it lives: as if its machine could not be reached.
        members[0].process.send_signal(signal.SIGSTOP)
        twin = days.start(written[1])
        eventually(lambda: has_server(twin))
        members[0].process.send_signal(signal.SIGCONT)
        refused(twin, written[0], written[1])
        with goes_on(members[0], members[2]):
            for number in range(NUMBER):
                assert members[number % 2 * 2].get(f"k{number}").body == f"{number}"
