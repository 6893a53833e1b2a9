"""Promise: a recovery touches nothing that a member did not write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.backup.salvage import salvage_store, wipe_store
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.storage.identity import read_identity
from grid_member.engine.storage.store import open_store

LOG = Path("store/shard-0/data.mdb")


def test_a_linked_store_is_left_alone(plain: Path, memory: Path) -> None:
    volume = memory / "volume"
    (plain / "store").rename(volume)
    (plain / "store").symlink_to(volume)
    (volume / "store.json").write_bytes(b"")
    before = sorted(os.listdir(plain))
    for recover in (salvage_store, wipe_store):
        with pytest.raises(EngineError, match="is a symbolic link"):
            recover(plain, 1)
    assert sorted(os.listdir(plain)) == before
    assert (volume / "shard-0" / "data.mdb").stat().st_size > 0
    with pytest.raises(DamagedStoreError):
        open_store(plain, 1)  # it waits as before


@pytest.mark.parametrize("name", ["wiping", ".exchanging", "salvaged", "emptied"])
@pytest.mark.parametrize("form", ["notes", "link", "file", "other"])
def test_what_somebody_else_put_beside_a_store(
    plain: Path, memory: Path, name: str, form: str
) -> None:
    foreign = memory / "foreign"
    (foreign / "notes").mkdir(parents=True)
    there = plain / name
    if form == "link":
        there.symlink_to(foreign)
    elif form == "file":
        there.write_bytes(b"mine")
    else:
        shutil.copytree(plain / "store" if form == "other" else foreign, there)
        (there / "mine").write_bytes(b"mine")
    (plain / LOG).write_bytes(b"x" * 9000)
    before = sorted(plain.rglob("*"))
    for touch in (open_store, salvage_store, wipe_store):
        with pytest.raises(EngineError, match="was not written by a grid-member"):
            touch(plain, 1)
        assert sorted(plain.rglob("*")) == before
        assert (foreign / "notes").is_dir()


@pytest.mark.parametrize("name", ["salvaged", "emptied"])
def test_an_empty_directory_never_becomes_the_store(plain: Path, name: str) -> None:
    before = read_identity(plain / "store/store.json").member
    (plain / name).mkdir()
    with pytest.raises(EngineError, match="was not written by a grid-member"):
        open_store(plain, 1)
    assert read_identity(plain / "store/store.json").member == before


def test_a_wipe_deletes_nothing_of_others(plain: Path) -> None:
    (plain / LOG).write_bytes(b"x" * 9000)
    (plain / "store" / "notes").write_bytes(b"mine")
    with pytest.raises(EngineError, match="notes was not written by a grid-member"):
        wipe_store(plain, 1)
    assert (plain / "store" / "notes").read_bytes() == b"mine"
    assert sorted(os.listdir(plain)) == ["lock", "store"]
