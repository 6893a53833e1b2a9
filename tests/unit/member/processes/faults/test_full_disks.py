"""Disks that are really full, of one member and of all."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.engine.volume import MIB, needs_volumes, volume
from tests.unit.member.processes.bad_days import Days, eventually, goes_on, three

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)
VOLUME_BYTES: Final = 96 * MIB
VALUE: Final = "v" * (32 << 10)
FEW: Final = 40
FULL: Final = "is full: make room on it"
OTHERS: Final = ("m1", "m2")


def take_all(ballast: Path) -> None:
    """Write until the disk takes not one byte more, whoever else writes meanwhile."""
    with ballast.open("ab", buffering=0) as file:
        for size_bytes in (MIB, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size_bytes)


@needs_volumes
def test_the_others_go_on_while_the_disk_of_one_is_full(tmp_path: Path) -> None:
    with volume(tmp_path / "disk", VOLUME_BYTES) as disk, Days(tmp_path) as days:
        places = [tmp_path / "d0", tmp_path / "d1", disk / "d2"]
        members = days.formed(
            [replace(one, base_dir=place) for one, place in zip(three(), places, strict=True)]
        )
        with goes_on(*members[:2]):
            take_all(disk / "ballast")
            for number in range(FEW):
                assert members[0].put(f"k{number}", VALUE).status == 200
            members[2].said("nats-server ended", FULL)
            refused = members[2].put("refused", "1")
            assert (refused.status, bool(refused.retry_after)) == (503, True)
            assert FULL in refused.error
            ready = members[2].ask("GET", "/grid/health/ready")
            assert (ready.status, FULL in ready.error) == (503, True)
        (disk / "ballast").unlink()
        eventually(lambda: members[2].put("again", "1").status == 200)
        for number in range(FEW):
            assert members[2].get(f"k{number}").body == VALUE
        eventually(lambda: all(member.safe() for member in members))


@needs_volumes
def test_a_member_with_room_knows_whose_disks_are_full(tmp_path: Path) -> None:
    with volume(tmp_path / "disk", VOLUME_BYTES) as disk, Days(tmp_path) as days:
        places = [tmp_path / "d0", disk / "d1", disk / "d2"]
        members = days.formed(
            [replace(one, base_dir=place) for one, place in zip(three(), places, strict=True)]
        )
        take_all(disk / "ballast")

        def refused() -> bool:
            answer = members[0].put("refused", VALUE)
            named = all(f"member {name} says: the disk of" in answer.error for name in OTHERS)
            return named and (answer.status, bool(answer.retry_after)) == (503, True)

        eventually(refused)
        assert str(disk) in members[0].put("refused", VALUE).error
        ready = members[0].ask("GET", "/grid/health/ready")
        assert (ready.status, FULL in ready.error) == (503, True)
        for name in OTHERS:
            members[0].said(f"the member {name} says", FULL)
        (disk / "ballast").unlink()
        for member in members:
            eventually(lambda member=member: member.put("again", "1").status == 200)  # type: ignore[misc]
        eventually(lambda: all(member.safe() for member in members))


@needs_volumes
def test_nothing_answered_is_lost_when_all_disks_are_full(tmp_path: Path) -> None:
    with volume(tmp_path / "disk", VOLUME_BYTES) as disk, Days(tmp_path) as days:
        members = days.formed([replace(one, base_dir=disk / one.name) for one in three()])
        for number in range(FEW):
            assert members[number % 3].put(f"k{number}", VALUE).status == 200
        taken = list(range(FEW))
        take_all(disk / "ballast")
        for number in itertools.count(FEW):
            answer = members[0].put(f"k{number}", VALUE)
            if answer.status != 200:
                break
            taken.append(number)
        assert (answer.status, bool(answer.retry_after)) == (503, True)
        for member in members:
            member.said("nats-server ended", FULL)
            eventually(lambda member=member: FULL in member.put("refused", "1").error)  # type: ignore[misc]
            ready = member.ask("GET", "/grid/health/ready")
            assert (ready.status, FULL in ready.error) == (503, True)
        (disk / "ballast").unlink()
        for member in members:
            eventually(lambda member=member: member.put("again", "1").status == 200)  # type: ignore[misc]
            for number in taken:
                assert member.get(f"k{number}").body == VALUE
        eventually(lambda: all(member.safe() for member in members))
