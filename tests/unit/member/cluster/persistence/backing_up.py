"""Members of one log that make backups, of data that is there when a test lets it be."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grid_member.cluster.persistence.backup_requests import LiteBackups, serve_requests
from grid_member.cluster.persistence.backups import Backups
from grid_member.engine.api import DataOrigin
from grid_member.engine.state.machine import State
from tests.unit.member.cluster.shared_log import UNAVAILABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grid_member.engine.api import Done
    from grid_member.engine.state.snapshot import Snapshot
    from tests.unit.member.cluster.several import OneOfSeveral, Several


FINISHED = ("backup", "FINISHED", None)
"""What `shown` returns of a backup that was made."""


class Source:
    """The data of a member, which is there when the gate is open."""

    origin = DataOrigin.OWN

    def __init__(self, member_uuid: str) -> None:
        self.member_uuid = member_uuid
        self.gate = asyncio.Event()

    async def moment(self) -> list[Snapshot]:
        await self.gate.wait()
        return [State().snapshot()]


def makes_backups(member: OneOfSeveral, place: Path) -> Source:
    """Let a member make backups in a directory that all share; return its data."""
    source = Source(member.uuid)
    backups = Backups(
        source,
        member.engine,
        member.management.operations,
        lambda: 1_000,
        directory=place / member.uuid,
        backup_dir=place / "backups",
        membership=member.membership,
    )
    persistence = member.management.persistence
    member.management.persistence = replace(persistence, backups=backups)
    if member.membership.joined:
        serve_requests(member.membership, backups)
    return source


def open_gates(sources: list[Source]) -> None:
    """Let the data be there."""
    for source in sources:
        source.gate.set()


async def started(several: Several, place: Path) -> tuple[list[OneOfSeveral], list[Source]]:
    """Return three members that make backups in a directory that they share."""
    members = await several.started(3)
    return members, [makes_backups(member, place) for member in members]


async def a_lite_one(several: Several) -> OneOfSeveral:
    """Return a lite member that has joined, without a directory for backups."""
    lite = several.add(lite=True)
    await several.run(lite.start())
    backups = LiteBackups(
        Source(lite.uuid),
        lite.engine,
        lite.management.operations,
        lambda: 1_000,
        directory=None,
        backup_dir=None,
        membership=lite.membership,
    )
    persistence = lite.management.persistence
    lite.management.persistence = replace(persistence, backups=backups)
    return lite


def refusing(member: OneOfSeveral, part: str, patch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Let the log refuse that a member puts keys with a part, a few times; return those keys."""
    put, refused, loop = member.engine.system_put, list[str](), asyncio.get_running_loop()

    def system_put(key: str, value: bytes | None, done: Done[None], **more: int) -> None:
        if part in key and value is not None and len(refused) < times:
            refused.append(key)
            loop.call_soon(done, UNAVAILABLE)
        else:
            put(key, value, done, **more)

    patch.setattr(member.engine, "system_put", system_put)
    return refused


def in_doubt(member: OneOfSeveral, part: str, patch: pytest.MonkeyPatch) -> None:
    """Let the log refuse that a member puts keys with a part, and take it all the same."""
    put, loop = member.engine.system_put, asyncio.get_running_loop()

    def system_put(key: str, value: bytes | None, done: Done[None], **more: int) -> None:
        if part not in key or value is None:
            put(key, value, done, **more)
            return
        put(key, value, lambda _: None, **more)
        loop.call_soon(done, UNAVAILABLE)

    patch.setattr(member.engine, "system_put", system_put)


async def shown(member: OneOfSeveral) -> list[tuple[str, str, str | None]]:
    """Return kind, stage and error of the operations that a member shows."""
    documents: list[dict[str, Any]] = json.loads((await member.call("operations")).body)
    return [(found["kind"], found["stage"], found["error"]) for found in documents]
