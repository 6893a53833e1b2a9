"""Who asks a lite member for a backup gets one: a member that holds data makes it.

    backup-request/<who is to make it>/<id>    empty: asked; else what came of it, as JSON

Who asked removes it when it knows. What it leaves when it dies ends by itself.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Final

from grid_member.cluster.backups import RUNNING, Backups
from grid_member.cluster.logs import event, failure
from grid_member.cluster.system_store import Put, carry_out
from grid_member.engine.api import EngineError, Reason, Refused

if TYPE_CHECKING:
    from grid_member.cluster.membership import Membership
    from grid_member.cluster.roll import MemberRecord

REQUEST: Final = "backup-request/"
REQUEST_S: Final = 60
"""After that a request that nobody took away is none any more."""
PATIENCE_S: Final = 30.0
"""How long a member that lives is waited for; it tries some fifteen seconds for a common moment."""
NOBODY: Final = "no member that holds data is there to make a backup"
_OPERATION: Final = "operation"
_REFUSED: Final = "refused"
_log: Final = logging.getLogger("grid.persistence")


class LiteBackups(Backups):
    """The backups of a lite member, which others make for it."""

    def refusal(self) -> str | None:
        """Return why nobody is asked for a backup now, None when somebody can be."""
        return RUNNING if self._makers() else None

    async def make(self) -> str | Refused:
        """Let the oldest member that holds data begin a backup; return the operation that makes it.

        One that is gone before it answers is not waited for, and the next one is asked.

        Raises:
            EngineError: it can make none now, and why; or nobody is there.
        """
        refused = self.refusal()
        if refused is not None or self._membership is None:
            raise EngineError(refused or NOBODY)
        asked: set[str] = set()
        while (maker := _oldest(self._membership, asked)) is not None:
            asked.add(maker.uuid)
            told = await self._asked(self._membership, maker)
            if told is not None:
                return told
        raise EngineError(NOBODY)

    async def _asked(self, membership: Membership, maker: MemberRecord) -> str | Refused | None:
        """Return what came of it; None when that member is gone."""
        key, store = f"{REQUEST}{maker.uuid}/{uuid.uuid4().hex}", membership.engine
        refused = (await carry_out(Put(key, b"", REQUEST_S).begin(store)))[0]
        if refused is not None:
            return refused

        def gone() -> bool:
            return membership.roll.lease(maker.uuid) is None

        try:
            await membership.conditions.until(
                lambda: bool(store.system_get(key)) or gone(), PATIENCE_S
            )
            told = store.system_get(key)
        finally:
            Put(key, None).begin(store)(_ignore)
        if told:
            return _outcome(maker, json.loads(told))
        return None if gone() else Refused(Reason.UNAVAILABLE, _silent(maker))


def serve_requests(membership: Membership, backups: Backups) -> None:
    """Let a member that holds data make the backups that it is asked for from now on."""
    engine, under_way = membership.engine, set[str]()

    async def carried_out(key: str) -> None:
        event(_log, logging.INFO, "a lite member was asked for a backup, which is made here")
        try:
            told = json.dumps(await _made(backups)).encode()
            await carry_out(Put(key, told, REQUEST_S).begin(engine))
        finally:
            under_way.discard(key)

    def look() -> None:
        # What this member is called is not known before its start.
        for key, told in engine.system_items(f"{REQUEST}{engine.member_uuid}/"):
            if not told and key not in under_way:
                under_way.add(key)
                membership.keep(carried_out(key))

    membership.on_change[REQUEST] = look


async def _made(backups: Backups) -> dict[str, str]:
    try:
        made = await backups.make()
    except EngineError as error:
        return {_REFUSED: str(error)}
    except Exception as error:
        failure(_log, "a backup could not be begun", error)
        return {_REFUSED: "unexpected error: see the log"}
    return {_REFUSED: made.message} if isinstance(made, Refused) else {_OPERATION: made}


def _oldest(membership: Membership, but: set[str]) -> MemberRecord | None:
    leases = membership.roll.leases()
    for member in membership.members():
        if not member.lite and member.uuid in leases and member.uuid not in but:
            return member
    return None


def _outcome(maker: MemberRecord, told: dict[str, str]) -> str:
    if _OPERATION not in told:
        raise EngineError(f"the member {maker.address} makes none: {told[_REFUSED]}")
    operation = told[_OPERATION]
    event(_log, logging.INFO, "another member makes the backup", member=maker.address,
          operation=operation)  # fmt: skip
    return operation


def _silent(maker: MemberRecord) -> str:
    return (
        f"the member {maker.address} was asked for the backup and does not answer: look at the "
        "operations before you ask again"
    )


def _ignore(outcome: object) -> None:
    """What was not removed now ends by itself."""
