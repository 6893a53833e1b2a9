"""What is on the disks of `machines.py` when their power has failed, by real system calls."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.power.machines import Machines, machines_work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = 4096
SECTOR = 512


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with Machines([tmp_path / "a", tmp_path / "b"]) as made:
        yield made


@pytest.fixture
def disk(machines: Machines) -> Path:
    return machines.places[0]


def power_fails(machines: Machines, seed: int | None = None) -> None:
    machines.cut(0, 1, seed=seed)
    machines.lift(0, 1)
    machines.mount(0, 1)


def synced(path: Path, data: bytes) -> Path:
    with path.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    return path


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


if machines_work():

    def test_it_is_a_file_system(disk: Path) -> None:
        (disk / "d" / "e").mkdir(parents=True)
        file = disk / "d" / "f"
        file.write_bytes(b"abc" * 100_000)
        assert file.stat().st_size == 300_000
        with file.open("r+b") as opened:
            opened.seek(299_999)
            opened.write(b"xyz")
            opened.truncate(300_001)
        assert file.read_bytes() == b"abc" * 99_999 + b"abxy"
        with file.open("r+b") as opened:
            os.posix_fallocate(opened.fileno(), 0, 300_010)
        assert file.read_bytes()[-9:] == bytes(9)
        file.rename(disk / "d" / "e" / "g")
        assert sorted(os.walk(disk)) == [
            (str(disk), ["d"], []),
            (str(disk / "d"), ["e"], []),
            (str(disk / "d" / "e"), [], ["g"]),
        ]
        with pytest.raises(OSError, match="not empty"):
            (disk / "d" / "e").rmdir()
        (disk / "d" / "e" / "g").chmod(0o600)
        assert (disk / "d" / "e" / "g").stat().st_mode & 0o777 == 0o600
        (disk / "d" / "e" / "g").unlink()
        (disk / "d" / "e").rmdir()
        assert os.listdir(disk / "d") == []
        assert os.statvfs(disk).f_bavail > 0

    def test_many_names_are_listed_and_removed(disk: Path) -> None:
        for number in range(3000):
            (disk / f"a-name-that-is-a-bit-longer-{number}").touch()
        assert len(os.listdir(disk)) == 3000
        with os.scandir(disk) as entries:
            for entry in entries:
                os.unlink(entry)
        assert os.listdir(disk) == []

    def test_a_file_without_a_name_is_there_while_it_is_open(disk: Path) -> None:
        with (disk / "f").open("w+b") as file:
            (disk / "f").unlink()
            file.write(b"x" * PAGE)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            assert file.read() == b"x" * PAGE

    def test_what_was_synced_is_there(machines: Machines, disk: Path) -> None:
        (disk / "d").mkdir()
        synced(disk / "d" / "f", b"x" * 3 * PAGE)
        with (disk / "d" / "f").open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"y" * 10, PAGE - 5)
            os.fdatasync(file.fileno())
        power_fails(machines)
        expected = b"x" * (PAGE - 5) + b"y" * 10 + b"x" * (2 * PAGE - 5)
        assert (disk / "d" / "f").read_bytes() == expected
        power_fails(machines)
        assert (disk / "d" / "f").read_bytes() == expected

    def test_what_was_not_synced_is_not_there(machines: Machines, disk: Path) -> None:
        with synced(disk / "f", b"old").open("r+b", buffering=0) as file:
            file.write(b"newer")
        (disk / "g").write_bytes(b"x")
        power_fails(machines)
        assert (disk / "f").read_bytes() == b"old"
        assert os.listdir(disk) == ["f"]

    def test_a_sync_commits_all_names_and_no_other_data(machines: Machines, disk: Path) -> None:
        (disk / "made").write_bytes(b"x" * 100)
        synced(disk / "cut", b"x" * 100)
        synced(disk / "gone", b"x")
        os.truncate(disk / "cut", 10)
        (disk / "gone").unlink()
        synced(disk / "other", b"o")
        power_fails(machines)
        assert (disk / "made").read_bytes() == b""
        assert (disk / "cut").read_bytes() == b"x" * 10
        assert sorted(os.listdir(disk)) == ["cut", "made", "other"]

    def test_a_directory_is_synced(machines: Machines, disk: Path) -> None:
        (disk / "d").mkdir()
        synced(disk / "f", b"x").rename(disk / "d" / "g")
        sync_directory(disk)
        (disk / "d" / "g").rename(disk / "h")
        power_fails(machines)
        assert os.listdir(disk) == ["d"]
        assert (disk / "d" / "g").read_bytes() == b"x"

    @pytest.mark.parametrize("data_synced", [False, True])
    def test_a_rename_in_place_of_another_file(
        machines: Machines, disk: Path, data_synced: bool
    ) -> None:
        synced(disk / "f", b"old")
        if data_synced:
            synced(disk / "new", b"new")
        else:
            (disk / "new").write_bytes(b"new")
        (disk / "new").rename(disk / "f")
        sync_directory(disk)
        power_fails(machines)
        assert os.listdir(disk) == ["f"]
        assert (disk / "f").read_bytes() == (b"new" if data_synced else b"")

    @pytest.mark.parametrize("flag", [os.O_SYNC, os.O_DSYNC])
    def test_writes_of_a_synchronous_file_are_there(
        machines: Machines, disk: Path, flag: int
    ) -> None:
        fd = os.open(disk / "f", os.O_WRONLY | os.O_CREAT | flag, 0o644)
        os.write(fd, b"x" * 200_000)
        os.close(fd)
        power_fails(machines)
        assert (disk / "f").read_bytes() == b"x" * 200_000

    def test_a_mapped_file_is_there_when_it_was_synced(machines: Machines, disk: Path) -> None:
        with (
            synced(disk / "f", bytes(2 * PAGE)).open("r+b") as file,
            mmap.mmap(file.fileno(), 0) as mapped,
        ):
            mapped[:4] = b"past"
            mapped.flush()
            mapped[PAGE : PAGE + 4] = b"lost"
        power_fails(machines)
        assert (disk / "f").read_bytes() == b"past" + bytes(2 * PAGE - 4)

    def test_of_the_rest_any_part_may_be_there(machines: Machines, disk: Path) -> None:
        pages = 32
        seen, torn = set(), 0
        for seed in range(6):
            with synced(disk / "f", b"o" * pages * PAGE).open("r+b", buffering=0) as file:
                file.write(b"n" * pages * PAGE)
            (disk / f"g{seed}").touch()
            power_fails(machines, seed)
            left = (disk / "f").read_bytes()
            kinds = [left[page * PAGE : (page + 1) * PAGE] for page in range(pages)]
            sectors = {left[begin : begin + SECTOR] for begin in range(0, len(left), SECTOR)}
            assert sectors <= {b"o" * SECTOR, b"n" * SECTOR}
            torn += len({*kinds} - {b"o" * PAGE, b"n" * PAGE})
            seen.add((kinds.count(b"n" * PAGE), f"g{seed}" in os.listdir(disk)))
        assert len({count for count, _ in seen}) > 2
        assert {there for _, there in seen} == {False, True}
        assert torn

    def test_the_power_of_one_fails(machines: Machines) -> None:
        for place in machines.places:
            (place / "f").write_bytes(b"x")
        machines.cut(0)
        assert (machines.places[1] / "f").read_bytes() == b"x"
        machines.lift(0)
        machines.mount(0)
        assert [len(os.listdir(place)) for place in machines.places] == [0, 1]

    def test_nothing_is_answered_after_the_cut(machines: Machines, disk: Path) -> None:
        script = "import os, sys; os.write(1, b'.'); os.mkdir(sys.argv[1]); os.write(1, b'!')"
        lost = machines.cut(0)
        assert [(one.changes, one.pages) for one in lost] == [(0, 0)]
        command = [sys.executable, "-c", script, str(disk / "d")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"."
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
            process.kill()
            machines.lift(0)
            assert process.stdout.read() == b""
        machines.mount(0)
        assert os.listdir(disk) == []
