from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.api import EngineError
from grid_member.engine.bootstrap.identity import (
    MemberIdentity,
    of_cluster,
    open_identity,
    plain_name,
)
from grid_member.engine.io import directory_lock
from grid_member.engine.io.store_errors import DamagedStoreError
from grid_member.engine.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


def opened(directory: Path | None, cluster: str = "dev", member: str = "m1") -> MemberIdentity:
    identity = open_identity(directory, cluster_name=cluster, member_name=member)
    identity.close()
    return identity.identity


def identity_file(directory: Path) -> Path:
    return directory / "cluster" / "identity.json"


def test_without_a_directory_each_start_is_somebody_new() -> None:
    first, second = opened(None), opened(None)
    assert first.incarnation == second.incarnation == 1
    assert first.uuid != second.uuid
    assert first.server_name != second.server_name


def test_a_restart_keeps_uuid_and_server_and_counts_itself(tmp_path: Path) -> None:
    starts = [opened(tmp_path / "data", member=f"name {start}") for start in range(3)]
    assert [start.incarnation for start in starts] == [1, 2, 3]
    assert {(start.uuid, start.server_name) for start in starts} == {
        (starts[0].uuid, starts[0].server_name)
    }
    assert starts[0].server_name.startswith(f"name-0-{starts[0].uuid.hex[:8]}-")


def test_the_incarnation_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_lock, "LOCK_PATIENCE_S", 0.0)
    with_lock = open_identity(tmp_path, cluster_name="dev", member_name="m")
    assert json.loads(identity_file(tmp_path).read_bytes())["incarnation"] == 1
    assert with_lock.directory == tmp_path / "cluster" / "jetstream"
    assert with_lock.directory.is_dir()
    with pytest.raises(EngineError, match="is in use by another process"):
        opened(tmp_path)
    with_lock.close()
    assert opened(tmp_path).incarnation == 2


def test_the_id_of_the_cluster_stays_with_the_data(tmp_path: Path) -> None:
    first = open_identity(tmp_path, cluster_name="dev", member_name="m")
    assert first.identity.cluster == ""
    assert of_cluster(first, "dev", "0123456789abcdef").identity.cluster == "0123456789abcdef"
    first.close()
    again = opened(tmp_path)
    assert (again.cluster, again.incarnation) == ("0123456789abcdef", 2)
    assert again.uuid == first.identity.uuid


def test_without_a_directory_the_id_of_the_cluster_is_kept_nowhere() -> None:
    first = open_identity(None, cluster_name="dev", member_name="m")
    assert of_cluster(first, "dev", "0123456789abcdef").identity.cluster == "0123456789abcdef"
    assert opened(None).cluster == ""


def test_data_from_before_there_were_ids_has_none(tmp_path: Path) -> None:
    opened(tmp_path)
    content = json.loads(identity_file(tmp_path).read_bytes())
    del content["clusterId"]
    identity_file(tmp_path).write_text(json.dumps(content), encoding="utf-8")
    assert opened(tmp_path).cluster == ""


def test_files_are_the_members_own(tmp_path: Path) -> None:
    opened(tmp_path / "data")
    for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_data_of_a_member_alone_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    open_store(tmp_path, 1).close()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        EngineError, match=r"start it alone .* backup, .*restore-from.* empty base directories"
    ):
        opened(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    open_store(tmp_path, 1).close()


def test_another_cluster_is_refused_and_nothing_is_counted(tmp_path: Path) -> None:
    opened(tmp_path, "one")
    with pytest.raises(EngineError, match="belongs to the cluster 'one', this member to 'two'"):
        opened(tmp_path, "two")
    assert opened(tmp_path, "one").incarnation == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"{", b'{"kind": "grid-cluster-member"}'])
def test_a_damaged_one_is_refused(tmp_path: Path, content: bytes) -> None:
    opened(tmp_path)
    identity_file(tmp_path).write_bytes(content)
    with pytest.raises(DamagedStoreError):
        opened(tmp_path)
    assert identity_file(tmp_path).read_bytes() == content


def test_a_lost_one_is_not_made_anew_beside_its_data(tmp_path: Path) -> None:
    opened(tmp_path)
    identity_file(tmp_path).unlink()
    with pytest.raises(DamagedStoreError, match=r"it holds no identity\.json"):
        opened(tmp_path)
    assert not identity_file(tmp_path).exists()


def test_one_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    content = json.loads(identity_file(tmp_path).read_bytes())
    identity_file(tmp_path).write_text(json.dumps({**content, "format": 2}), encoding="utf-8")
    with pytest.raises(EngineError, match="has format 2, this version reads 1"):
        opened(tmp_path)


def test_a_start_that_died_while_it_wrote_is_no_harm(tmp_path: Path) -> None:
    first = opened(tmp_path)
    identity_file(tmp_path).with_suffix(".new").write_bytes(b"{ hal")
    assert opened(tmp_path) == MemberIdentity(first.uuid, 2, first.server_name)


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(EngineError, match="cannot use the directory"):
        opened(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "plain"),
    [("m-1", "m-1"), ("a b.c>*", "a-b-c"), ("…", "member"), ("", "member"), ("x" * 99, "x" * 40)],
)
def test_names_are_plain_in_the_servers_name(name: str, plain: str) -> None:
    assert plain_name(name, 40) == plain


def test_a_member_alone_leaves_the_data_of_one_of_several(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(EngineError, match="one of several members"):
        open_store(tmp_path, 1)
    assert identity_file(tmp_path).exists()
