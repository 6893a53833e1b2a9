"""Promise: a backup is made while the member goes on; a wrong moment is told as such."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.persistence.persistence import make_persistence
from grid_member.config.model.member import PersistenceConfig
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.engine.backup.backup import Draft
from grid_member.engine.backup.restore import restore_backup
from grid_member.engine.storage.manifest import read_manifest
from grid_member.http.routes.persistence import (
    backup,
    backup_interrupt,
    force_start,
    hot_backup,
    hot_backup_interrupt,
    partial_start,
)
from tests.unit.engine.drive import Driver, condition
from tests.unit.member.cluster.managed import content

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.cluster.managed import Managed

SUCCESS = {"status": "success"}
DEPRECATION = ("Deprecation", "true")


async def opened() -> None:
    """Stands for the start of the engine, which was started already."""


async def never() -> None:
    """Stands for a stop that nobody wants."""
    await asyncio.Event().wait()


def persisted(managed: Managed, base: Path | None, backups: Path | None) -> Managed:
    """Let the member's engine, which is in memory, count as one over a store in base."""
    managed.management.persistence = make_persistence(
        replace(
            managed.member.config,
            data_directory=base,
            persistence=PersistenceConfig(backup_directory=backups),
        ),
        managed.engine,
        managed.store,
        managed.management.operations,
        lambda: managed.clock_ms,
        opened,
    )
    return managed


@pytest.fixture
def durable(managed: Managed, tmp_path: Path) -> Managed:
    return persisted(managed, tmp_path / "base", tmp_path / "backups")


def stages(managed: Managed) -> list[tuple[str, str, int]]:
    found = managed.management.operations.documents()
    return [(o["kind"], o["stage"], o["progress"]) for o in found]


async def finished(managed: Managed) -> None:
    await condition(lambda: managed.management.persistence.backups.refusal() is None)


class Gate:
    """Holds the writing of backups until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        real = Draft._write

        def held(draft: Draft, *arguments: object) -> None:
            self.reached.set()
            while not self.open.wait(0.002):
                if draft._interruption.is_set():
                    break
            real(draft, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Draft, "_write", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def test_a_backup(durable: Managed, tmp_path: Path) -> None:
    await Driver(durable.engine).put("m", "k", b"v")
    durable.clock_ms = 77_000
    answer = await durable.call(backup)
    (operation,) = durable.management.operations.documents()
    begun = (("X-Grid-Operation", operation["id"]),)
    assert (answer.status, content(answer), answer.headers) == (200, SUCCESS, begun)
    await finished(durable)
    place = tmp_path / "backups" / "backup-1"
    manifest = read_manifest(place)
    assert (manifest.created_ms, manifest.member) == (77_000, durable.engine.member_uuid)
    assert stages(durable) == [("backup", "FINISHED", 100)]
    restore_backup(place, tmp_path / "other")


async def test_one_at_a_time(durable: Managed, gate: Gate, tmp_path: Path) -> None:
    assert (await durable.call(backup)).status == 200
    for again in (backup, hot_backup):
        answer = await durable.call(again)
        assert answer.status == 409
        assert content(answer) == {"status": "fail", "message": "a backup is running already"}
    assert stages(durable)[0][1] in ("STARTED", "IN_PROGRESS")
    gate.open.set()
    await finished(durable)
    assert stages(durable) == [("backup", "FINISHED", 100)]
    assert (await durable.call(backup)).status == 200
    await finished(durable)
    assert sorted(os.listdir(tmp_path / "backups")) == ["backup-1", "backup-2"]


async def test_two_at_once(durable: Managed, tmp_path: Path) -> None:
    answers = await asyncio.gather(*(durable.call(backup) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]
    await finished(durable)
    assert os.listdir(tmp_path / "backups") == ["backup-1"]


@pytest.mark.parametrize("interrupt", [backup_interrupt, hot_backup_interrupt])
async def test_an_interrupt(
    durable: Managed, gate: Gate, tmp_path: Path, interrupt: Callable[..., object]
) -> None:
    assert content(await durable.call(interrupt)) == SUCCESS  # type: ignore[arg-type]
    assert (await durable.call(backup)).status == 200
    await asyncio.to_thread(gate.reached.wait)
    answer = await durable.call(interrupt)  # type: ignore[arg-type]
    assert (answer.status, content(answer)) == (200, SUCCESS)
    assert os.listdir(tmp_path / "backups") == []
    ((kind, stage, _),) = stages(durable)
    assert (kind, stage) == ("backup", "FAILED")
    (operation,) = durable.management.operations.documents()
    assert operation["error"] == "the backup was interrupted"
    assert durable.management.persistence.backups.refusal() is None


async def test_the_old_names(durable: Managed) -> None:
    first = await durable.call(hot_backup, keys=("k",))
    (operation,) = durable.management.operations.documents()
    headers = (DEPRECATION, ("X-Grid-Operation", operation["id"]))
    assert (first.status, content(first), first.headers) == (200, SUCCESS, headers)
    await finished(durable)
    again = await durable.call(hot_backup, keys=("k",))
    assert (again.status, again.body, again.headers) == (200, first.body, headers)
    assert len(stages(durable)) == 1
    refused = await durable.call(hot_backup_interrupt)
    assert (refused.status, refused.headers) == (200, (DEPRECATION,))


async def test_the_outcome_and_the_operation_are_noted_together(durable: Managed) -> None:
    assert (await durable.call(backup, keys=("k",))).status == 200
    operation = durable.management.operations.documents()[0]["id"]
    assert sorted(durable.store.applied[0]) == ["idempotency/k", f"operation/{operation}"]
    await finished(durable)


async def test_no_backup(make: Callable[..., Managed], tmp_path: Path) -> None:
    starting = persisted(make(), tmp_path / "base", tmp_path / "backups")
    answer = await starting.call(backup)
    assert (answer.status, "has not joined" in str(content(answer))) == (409, True)
    joined = await make().join()
    before = joined.everything()
    for base, backups, problem in (
        (None, tmp_path / "backups", "persistence is off: set persistence.enabled"),
        (tmp_path, None, "persistence.backup-dir is not set"),
    ):
        persisted(joined, base, backups)
        for operation in (backup, hot_backup):
            answer = await joined.call(operation)
            assert (answer.status, content(answer)["message"]) == (409, problem)
        for operation in (backup_interrupt, hot_backup_interrupt):
            assert content(await joined.call(operation)) == SUCCESS
    persisted(joined, tmp_path / "base", tmp_path / "base" / "backups")
    answer = await joined.call(backup)
    assert answer.status == 409
    assert "inside of persistence.base-dir" in content(answer)["message"]
    assert joined.everything() == before
    assert os.listdir(tmp_path) == []


async def test_a_beginning_that_cannot_be_noted(durable: Managed, tmp_path: Path) -> None:
    durable.store.refusal = Refused(Reason.UNAVAILABLE, "the disk is full")
    assert (await durable.call(backup)).status == 503
    assert os.listdir(tmp_path / "backups") == []
    assert stages(durable) == []
    durable.store.refusal = None
    assert (await durable.call(backup)).status == 200
    await finished(durable)


async def test_a_backup_that_fails(
    durable: Managed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(draft: Draft, *arguments: object) -> None:
        raise EngineError("No space left on device")

    monkeypatch.setattr(Draft, "_write", failing)
    assert (await durable.call(backup)).status == 200
    await finished(durable)
    assert stages(durable) == [("backup", "FAILED", 0)]
    (operation,) = durable.management.operations.documents()
    assert operation["error"] == "No space left on device"
    assert os.listdir(tmp_path / "backups") == []


async def test_a_client_that_leaves_does_not_stop_it(
    durable: Managed, gate: Gate, tmp_path: Path
) -> None:
    durable.store.paused = True
    asking = asyncio.create_task(durable.call(backup))
    await condition(lambda: bool(durable.store._pending))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    gate.open.set()
    durable.store.paused = False
    durable.store.commit()
    await finished(durable)
    assert (tmp_path / "backups" / "backup-1").is_dir()


async def test_no_recovery(durable: Managed, make: Callable[..., Managed]) -> None:
    for operation in (force_start, partial_start):
        answer = await durable.call(operation)
        assert answer.status == 200
        assert content(answer)["status"] == "fail"
        assert "is being loaded" in content(answer)["message"]
    await durable.management.persistence.recovery.start(never)
    volatile = persisted(await make().join(), None, None)
    for member, problem in ((durable, "healthy and in use"), (volatile, "persistence is off")):
        for operation in (force_start, partial_start):
            answer = await member.call(operation)
            assert (answer.status, content(answer)["status"]) == (200, "fail")
            assert problem in content(answer)["message"]
