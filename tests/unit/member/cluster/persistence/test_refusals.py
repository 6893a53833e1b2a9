"""Promise: a directory that the member cannot use is a clear error and stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import lmdb
import pytest

from grid_member.engine.io.directory_lock import lock_directory
from grid_member.engine.lmdb.pages import Pages, open_file
from tests.unit.engine.drive import condition
from tests.unit.engine.volume import MIB, needs_volumes, privilege, volume
from tests.unit.member.durable import MAP, durable
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.durable import Start

RESTORE: Final = "put a backup in its place, or move the directory away to start empty"
NEWER: Final = "use the version that wrote it, or a newer one"
ALLOW: Final = "let the member's user read and write it"
LOG: Final = "store/shard-0/data.mdb"


def identity(**changes: object) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        file = data / "store/store.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def log_format(content: bytes) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with lmdb.Environment(str(data / LOG).removesuffix("/data.mdb"), max_dbs=3) as environment:
            meta = environment.open_db(b"meta", create=False)
            with environment.begin(write=True) as transaction:
                transaction.put(b"format", content, db=meta)

    return change


def content(name: str, value: bytes) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        (data / name).write_bytes(value)

    return change


def cut(length: int) -> Callable[[Path], None]:
    return lambda data: os.truncate(data / LOG, length)


def overwritten(data: Path) -> None:
    """Damage the middle of what was stored."""
    whole = (data / LOG).read_bytes()
    at = whole.rindex(b"v" * 1000)
    (data / LOG).write_bytes(whole[:at] + b"w" * 1000 + whole[at + 1000 :])


def of_another_product(data: Path) -> None:
    shutil.rmtree(data)
    (data / "store").mkdir(parents=True)
    (data / "store" / "data").write_bytes(b"not ours")


def half_made_by_another(data: Path) -> None:
    shutil.rmtree(data)
    (data / "creating").mkdir(parents=True)
    (data / "creating" / "notes").write_bytes(b"not ours")


def a_file(data: Path) -> None:
    shutil.rmtree(data)
    data.write_bytes(b"not ours")


def a_file_as_store(data: Path) -> None:
    shutil.rmtree(data / "store")
    (data / "store").write_bytes(b"not ours")


def foreign_lmdb(data: Path) -> None:
    (data / LOG).unlink()
    with lmdb.Environment(str(data / "store/shard-0"), max_dbs=1, lock=False) as environment:
        environment.open_db(b"something")


CASES: Final[dict[str, tuple[Callable[[Path], None], str, str]]] = {
    "newer store": (identity(format=2), "has format 2, this version reads 1", NEWER),
    "newer log": (log_format(b"grid-log\0\0\0\3\0\0\0\0"), "has format 3", NEWER),
    "foreign identity": (identity(kind="x"), "not written by a grid-member", "choose another"),
    "no member": (identity(member=7), "store.json is foreign or damaged", RESTORE),
    "torn identity": (content("store/store.json", b'{"kind"'), "store.json is foreign", RESTORE),
    "empty identity": (content("store/store.json", b""), "store.json is foreign", RESTORE),
    "more shards": (identity(shards=4), "has 4 shards", "use the version that wrote it"),
    "another shard": (log_format(b"grid-log\0\0\0\1\0\0\0\5"), "belongs to shard 5", RESTORE),
    "foreign log": (log_format(b"not-ours\0\0\0\1\0\0\0\0"), "is not a member's", RESTORE),
    "other LMDB file": (foreign_lmdb, "foreign or damaged", RESTORE),
    "empty log": (content(LOG, b""), "it is empty", RESTORE),
    "random log": (content(LOG, b"x" * 20_000), "foreign or damaged", RESTORE),
    "zeroed log": (content(LOG, bytes(20_000)), "foreign or damaged", RESTORE),
    "cut log": (cut(12_288), "the file is cut", RESTORE),
    "torn log": (cut(100), "foreign or damaged", RESTORE),
    "no log": (lambda data: (data / LOG).unlink(), "holds no log", RESTORE),
    "damaged value": (overwritten, "checksum mismatch", RESTORE),
    "other product": (of_another_product, "holds no store.json", RESTORE),
    "other half-made": (half_made_by_another, "was not written by a grid-member", "choose another"),
    "a file": (a_file, "Not a directory", "choose another directory"),
    "a file as store": (a_file_as_store, "is not a directory", "choose another"),
    "no right to the directory": (lambda data: data.chmod(0), "Permission denied", ALLOW),
    "no right to the log": (lambda data: (data / LOG).chmod(0), "Permission denied", ALLOW),
    "log read-only": (lambda data: (data / LOG).chmod(0o400), "Permission denied", ALLOW),
    "identity": (lambda data: (data / "store/store.json").chmod(0), "Permission denied", ALLOW),
}


def digest(place: Path) -> dict[str, tuple[int, str]]:
    """Return mode and content of everything below place; as its owner, whatever the modes say."""
    return {str(p): _digest(p) for p in [place, *sorted(place.rglob("*"))]}


def _digest(path: Path) -> tuple[int, str]:
    mode = path.stat().st_mode
    if path.is_dir():
        return mode, ""
    try:
        return mode, hashlib.sha256(path.read_bytes()).hexdigest()
    except PermissionError:
        return mode, "unreadable"


def refused(data: Path) -> str:
    """Run a member on the directory, bound to the modes of files, and return its one error."""
    file = data.parent / "grid.yaml"
    file.write_text(durable(data, timeout_s=0))
    rights = "--bounding-set=-dac_override,-dac_read_search"
    bound = ["setpriv", rights] if os.geteuid() == 0 else []
    command = [*bound, sys.executable, "-m", "grid_member", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 3, done.stderr
    errors = [
        line for line in map(json.loads, done.stderr.splitlines()) if line["level"] == "error"
    ]
    (line,) = errors
    return str(line["message"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a member wrote and left."""
    from tests.unit.member.running import MemberProcess

    place = tmp_path_factory.mktemp("made")
    process = MemberProcess(durable(place / "data"), place / "member")
    process.wait_for("ready")
    for number in range(3):
        url = f"http://127.0.0.1:{process.port}{MAP}/k{number}"
        command = [sys.executable, "-c", PUT, url]
        subprocess.run(command, check=True, timeout=20)
    process.process.terminate()
    assert process.end() == 0
    assert process.process.stderr is not None
    process.process.stderr.close()
    return place / "data"


PUT: Final = """
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"v" * 20_000, method="POST")).close()
"""


@pytest.mark.parametrize("case", CASES)
def test_a_directory_that_cannot_be_used(made: Path, tmp_path: Path, case: str) -> None:
    change, problem, advice = CASES[case]
    data = tmp_path / "data"
    shutil.copytree(made, data)
    change(data)
    before = digest(data)
    message = refused(data)
    assert digest(data) == before
    data.chmod(0o700)  # for whoever removes it
    assert message.startswith("cannot start: ")
    assert problem in message
    assert advice in message
    assert str(data) in message
    assert "\n" not in message


@needs_volumes
def test_a_read_only_file_system(made: Path, tmp_path: Path) -> None:
    with volume(tmp_path / "disk", 16 * MIB) as disk:
        shutil.copytree(made, disk / "data")
        before = digest(disk / "data")
        remount(disk, "ro")
        config = tmp_path / "config"
        config.mkdir()
        (config / "data").symlink_to(disk / "data")
        message = refused(config / "data")
        assert "Read-only file system: mount it writable" in message
        assert digest(disk / "data") == before


def remount(disk: Path, option: str) -> None:
    command = [*privilege(), "mount", "-o", f"remount,{option}", str(disk)]
    subprocess.run(command, check=True)


def committed(log: Path, what: bytes) -> bool:
    """Tell whether LMDB's last commit has a record with these bytes in it."""
    with open_file(log) as file:
        pages = Pages(file)
        tree = pages.tree(pages.roots[0], b"log")
        return tree is not None and any(what in value for _, value in pages.items(tree))


async def test_a_second_process(member_process: Start, tmp_path: Path) -> None:
    first = member_process(durable(tmp_path / "data"))
    first.wait_for("ready")
    assert (await once(first.port, "POST", f"{MAP}/k", b"taken over")).status == 200
    # By LMDB, as nobody writes: then nothing changes any more.
    await condition(lambda: committed(tmp_path / "data/store/shard-0", b"taken over"))
    before = digest(tmp_path / "data")
    message = refused(tmp_path / "data")
    assert (
        f"is in use by another process (process {first.process.pid}): stop it, or give" in message
    )
    assert digest(tmp_path / "data") == before
    assert (await once(first.port, "GET", f"{MAP}/k")).body == b"taken over"


async def test_a_start_right_after_a_stop_waits_for_the_end_of_that(
    member_process: Start, tmp_path: Path
) -> None:
    text = durable(tmp_path / "data")
    former = member_process(text)
    former.wait_for("ready")
    assert (await once(former.port, "POST", f"{MAP}/k", b"v")).status == 200
    former.process.send_signal(signal.SIGTERM)
    assert former.end() == 0
    held = lock_directory(tmp_path / "data")  # in its place, as long as it is wanted
    again = member_process(text)
    again.wait_for(
        f"{tmp_path / 'data'} is in use (process {os.getpid()}): waiting for that to end"
    )
    os.close(held)
    again.wait_for("ready")
    assert (await once(again.port, "GET", f"{MAP}/k")).body == b"v"
