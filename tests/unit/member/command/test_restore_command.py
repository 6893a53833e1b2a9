"""`grid-member restore`: by name, the newest, once, and whatever is killed in the middle of it."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from grid_member.command.line import main
from grid_member.command.restore import restore
from grid_member.engine import open_engine
from grid_member.engine.local import deliveries
from grid_member.engine.storage.identity import read_identity
from grid_member.engine.storage.store import open_store
from tests.unit.engine.backed_up import back_up, fill, killed_at, lines_of, stored
from tests.unit.engine.drive import Driver, FixedStructures

if TYPE_CHECKING:
    from pathlib import Path

POINTS = 60
DEADLINE_S = 30.0
BIG = 8 << 20


async def made(tmp_path: Path, count: int, value: bytes = b"v") -> Path:
    """Make so many backups, each with one entry more than the one before."""
    engine = open_engine(FixedStructures(), tmp_path / "base")
    await engine.start()
    driver = Driver(engine)
    await fill(driver, rounds=3)
    for number in range(1, count + 1):
        assert await driver.put("m", f"k{number}", value) is None
        back_up(driver, tmp_path / "backups", tmp_path / "base")
    await engine.stop()
    return tmp_path / "backups"


@pytest.fixture
async def backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    return await made(tmp_path, 2)


def keys(directory: Path) -> set[str]:
    return set(stored(directory / "store").maps.by_name["m"].entries)


def command(*arguments: object) -> int:
    return main(["restore", *map(str, arguments)])


def test_a_line_names_the_backup_and_its_bytes(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    assert command(backups / "backup-1", "--into", target) == 0
    size = sum(p.stat().st_size for p in (backups / "backup-1").rglob("*") if p.is_file())
    size -= (backups / "backup-1" / "manifest").stat().st_size
    shown = capsys.readouterr()
    told = (
        rf"{target}: restored {backups}/backup-1 \({size} bytes\) as member [0-9a-f-]{{36}}, .*\n"
    )
    assert re.fullmatch(told, shown.out)
    assert shown.err == ""
    assert keys(target) == {"k1"}


async def test_the_newest_counts_numbers_and_passes_over_what_is_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backups = await made(tmp_path, 2)
    (backups / "backup-2").rename(backups / "backup-10")
    (backups / "backup-1").rename(backups / "backup-9")
    for name in ("backup-11", "backup-x", "other", ".creating-1"):
        (backups / name).mkdir()
    (backups / "backup-12").write_bytes(b"")
    assert command(backups, "--newest", "--into", tmp_path / "target") == 0
    shown = capsys.readouterr()
    assert f"restored {backups}/backup-10 (" in shown.out
    assert shown.err == f"passed over {backups}/backup-11: it is incomplete\n"
    assert keys(tmp_path / "target") == {"k1", "k2"}


def test_the_newest_is_not_passed_over_because_it_is_damaged(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (backups / "backup-2" / "manifest").write_bytes(b"x")
    assert command(backups, "--newest", "--into", tmp_path / "target") == 3
    assert f"cannot restore: the backup {backups}/backup-2 is damaged" in capsys.readouterr().err
    assert not (tmp_path / "target" / "store").exists()


@pytest.mark.parametrize("once", [False, True])
def test_no_backup_at_all(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], once: bool
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, words in (
        (empty, "holds no complete backup: name the directory that holds backup-1 or others"),
        (tmp_path / "none", "cannot use the directory of backups"),
        (backups / "backup-1", "is a backup itself: leave --newest out"),
    ):
        flags = ["--newest", *(["--once"] if once else [])]
        assert command(place, *flags, "--into", tmp_path / "target") == 3
        shown = capsys.readouterr()
        assert (words in shown.err, shown.out) == (True, ""), shown.err


def test_once_does_nothing_the_second_time(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    again = (backups / "backup-1", "--into", target)
    assert command(*again, "--once") == 0
    member = read_identity(target / "store/store.json").member
    assert command(*again, "--once") == 0
    assert "began as" in capsys.readouterr().out
    assert command(*again) == 3
    assert "is not empty" in capsys.readouterr().err
    assert command(backups / "backup-2", "--into", target, "--once") == 3
    assert "did not begin as the backup" in capsys.readouterr().err
    assert read_identity(target / "store/store.json").member == member


@pytest.mark.parametrize("moved", [False, True])
def test_once_the_newest_stays_what_it_was(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], moved: bool
) -> None:
    (backups / "backup-2").rename(tmp_path / "later")
    target = tmp_path / "target"
    assert command(backups, "--newest", "--once", "--into", target) == 0
    (tmp_path / "later").rename(backups / "backup-2")
    if moved:
        backups = backups.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert command(backups, "--newest", "--once", "--into", target) == 0
    assert capsys.readouterr().out == f"{target}: began as {backups}/backup-1 before, " \
        "nothing to do\n"  # fmt: skip
    assert keys(target) == {"k1"}


async def test_another_store_is_not_replaced(
    backups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_identity(tmp_path / "base/store/store.json")
    assert command(backups, "--newest", "--once", "--into", tmp_path / "base") == 3
    assert "did not begin as the backup" in capsys.readouterr().err
    assert read_identity(tmp_path / "base/store/store.json") == before


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["x"], ["--into", "x"], ["x", "--into", "y", "--oldest"]):
        with pytest.raises(SystemExit) as caught:
            command(*arguments)
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith("usage: ")


def test_killed_anywhere_a_repetition_succeeds(backups: Path, tmp_path: Path) -> None:
    def work(target: Path) -> int:
        return restore(backups, target, newest=True, once=True)

    count = lines_of(lambda: work(tmp_path / "counted"))
    chance = random.Random(3)
    target, whole = tmp_path / "target", 0
    for line in sorted({*chance.sample(range(1, count), POINTS), *range(count - 20, count + 1)}):
        shutil.rmtree(target, ignore_errors=True)
        killed_at(line, lambda: work(target))
        whole += (target / "store").exists()
        assert work(target) == 0
        assert work(target) == 0
        assert keys(target) == {"k1", "k2"}
        assert not (target / "creating").exists()
        open_store(target, 1).close()
    assert 0 < whole < POINTS


async def test_a_process_that_is_killed_while_it_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "DRAIN_TIMEOUT_S", 0.01)
    backups, target = await made(tmp_path, 1, bytes(BIG)), tmp_path / "target"
    done = await asyncio.to_thread(killed_and_repeated, backups, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{backups}/backup-1" in done.stdout
    assert keys(target) == {"k1"}


def killed_and_repeated(backups: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Kill a restore as soon as it copies, and restore again."""
    arguments = ["restore", str(backups), "--newest", "--once", "--into", str(target)]
    command = [sys.executable, "-m", "grid_member", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE_S
    while not (target / "creating").exists() and process.poll() is None:
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE_S)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
