"""`gridctl up` of several members: their backups, what begins as one, and members that leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.gridctl import running
from tests.unit.gridctl.running import Up
from tests.unit.gridctl.test_up_several import members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 100.0
SOON = {"drainSeconds": 1}
"""Two clusters are formed, or members leave, come and restart one after the other."""
KEPT: dict[str, Any] = {"enabled": True, "backup": {"claimName": "backups"}}
KEYS = 20
SOURCE = {"claimName": "backups", "member": "demo-0"}


def until(condition: Callable[[], object], what: str) -> None:
    running.until(condition, what, PATIENCE_S)


def started(up: Up) -> None:
    up.patience_s = PATIENCE_S
    up.start()


def answer(up: Up, method: str, path: str, member: int, body: bytes | None = None) -> bytes:
    """Return what a member answers; a leader that is missed for a moment is waited for."""
    found: list[bytes] = []

    def answered() -> bool:
        status, said = up.call(method, path, body, member=member)
        found.append(said)
        return status == 200

    until(answered, f"{method} {path} of member {member} is not answered")
    return found[-1]


def put(up: Up, value: bytes, size: int) -> None:
    for key in range(KEYS):
        answer(up, "POST", f"maps/default/{key}", key % size, value)


def read(up: Up, size: int) -> set[bytes]:
    """Return what the members show of all keys."""
    return {
        answer(up, "GET", f"maps/default/{key}", member)
        for key in range(KEYS)
        for member in range(size)
    }


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_a_backup_becomes_a_cluster_of_any_size(
    up: Up, tmp_path: Path, before: int, after: int
) -> None:
    up.write(size=before, persistence=KEPT)
    started(up)
    put(up, b"kept", before)
    up.annotate(backup="first")
    until(lambda: up.ended("Backup"), "no backup")
    over = up.ended("Backup")
    assert over is not None
    assert (over["outcome"], over["request"]) == ("Succeeded", "first")
    put(up, b"later", before)
    assert up.stop() == 0
    place = tmp_path / "data" / "default" / ".claims" / "backups"
    assert [str(path.relative_to(place)) for path in place.glob("*/*")] == ["demo-0/backup-1"]

    copy = Up(tmp_path, "copy")
    copy.write(size=after, persistence=KEPT, restoreFrom=SOURCE)
    try:
        started(copy)
        assert read(copy, after) == {b"kept"}
        restored = {c["type"]: c["status"] for c in copy.state()["conditions"]}
        assert restored["Restored"] == "True"
        put(copy, b"own", after)
        assert copy.stop() == 0
        started(copy)
        assert read(copy, after) == {b"own"}, "restored once only"
        assert copy.stop() == 0
    finally:
        copy.kill()


def test_a_member_leaves_for_good_and_another_takes_its_place(up: Up, tmp_path: Path) -> None:
    up.write(size=3, shutdown=SOON)
    started(up)
    put(up, b"1", 3)
    before = members(up)
    data = tmp_path / "data" / "default" / "demo"

    up.write(size=2, shutdown=SOON)
    until(lambda: sorted(members(up)) == ["demo-0", "demo-1"], "nobody left")
    until(lambda: (up.ended("Shrink") or {}).get("outcome") == "Succeeded", "not written down")
    assert {path.name for path in data.glob("demo-*")} == {"demo-0", "demo-1"}
    until(
        lambda: (
            not set(members(up).values()) & set(before.values())
            and (up.ended("Restart") or {}).get("outcome") == "Succeeded"
        ),
        "the others did not get the shorter list",
    )
    assert read(up, 2) == {b"1"}
    put(up, b"2", 2)

    up.write(size=3, shutdown=SOON)
    until(lambda: up.state().get("readyMembers") == 3, "nobody came")
    assert read(up, 3) == {b"2"}
    assert up.stop() == 0
