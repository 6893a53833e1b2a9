"""Who asks a lite member for a backup gets one: a member that holds data makes it.

A maker begins when it is told to go. Whoever told it asks another only when that incarnation of the
maker has ended, and the operation has not begun when all can see that nobody waits; the maker
writes nothing when it sees that as its operation has begun. So of one call there is never more than
one backup. Who asked removes the keys when it knows, in one record with the next request, so that
an interrupt always meets one; what it leaves when it dies ends by itself.
"""

from __future__ import annotations

import base64
import json
import logging
import uuid
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from grid_member.cluster.membership.failure_detector import STEADY_GAP_S
from grid_member.cluster.persistence.backup_keys import (
    GONE_ON_S,
    REQUEST,
    REQUEST_S,
    WITHDRAWN_S,
    BackupRequest,
)
from grid_member.cluster.persistence.backups import (
    AGAIN_S,
    INTERRUPTED,
    KIND,
    NOT_NOTED,
    RUNNING,
    UNSET,
    UNWANTED,
    Backups,
)
from grid_member.cluster.persistence.store_recovery import OFF
from grid_member.cluster.values.operations import OperationStage
from grid_member.cluster.values.system_store import Put, put_all
from grid_member.engine.api import EngineError, Reason, Refused
from grid_member.telemetry.logs import event, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grid_member.cluster.membership.member_table import MemberRecord
    from grid_member.cluster.membership.membership import Membership

TAKE_S: Final = 5.0
"""How long a member has for saying that it makes the backup: one of an earlier version never does,
and one that hangs is asked in vain."""
LOST_S: Final = 600
"""How long a maker that was told to go has until all can see that it has begun, should its word be
lost: the moment is a matter of seconds, but for a volume that hangs."""
STOPPING: Final = "the member is stopping"
NOBODY: Final = "no member that holds data is there to make a backup"
WITHDRAW_S: Final = 20.0
"""How long a call waits until all can see that it waits no more; that goes on being tried."""
NEXT: Final = "the next one is asked"
LATE: Final = "it was told to too late"
NO_PLACE: Final = frozenset({OFF, UNSET})
"""Why a member makes none that another one may make: it has no place for it."""
_OPERATION: Final = "operation"
_REFUSED: Final = "refused"
_REASON: Final = "reason"
_log: Final = logging.getLogger("grid.persistence")
_Result: TypeAlias = "dict[str, str | None]"


class NoPlaceError(EngineError):
    """The member that was asked makes no backups at all: another one may."""


class LiteBackups(Backups):
    """The backups of a lite member, which others make for it."""

    @property
    def _others(self) -> Membership:
        """The membership, without which no member is a lite one."""
        return cast("Membership", self._membership)

    def refusal(self) -> str | None:
        """Return why nobody is asked for a backup now, None when somebody can be."""
        return RUNNING if self._makers() else None

    async def make(self, remember: Callable[[str], Put] | None = None) -> str | Refused:
        """Let a member that holds data begin a backup; return the operation that makes it.

        The oldest is asked first of those that hold all of the data and are in contact. One that
        does not say in time that it makes it, is gone before it is made, or has no place for
        backups is followed by the next one.

        Args:
            remember: given the operation returns what keeps the caller's answer, if anything: the
                maker does it, as this member may be gone by then.

        Raises:
            EngineError: it can make none now, and why; or nobody is there.
        """
        refused, membership = self.refusal(), self._others
        if refused is not None:
            raise EngineError(refused)
        asked: list[MemberRecord] = []
        requests: list[BackupRequest] = []
        placeless: dict[str, str] = {}
        while (maker := _next_maker(membership, asked)) is not None:
            asked.append(maker)
            requests.append(BackupRequest(f"{REQUEST}{maker.uuid}/{uuid.uuid4()}"))
            kept = None if remember is None else remember(requests[-1].operation)
            told: str | Refused | None = None
            try:
                told = await self._ask(maker, requests, kept)
            except NoPlaceError as error:
                placeless[maker.uuid] = str(error)
            if not isinstance(told, str) and self._is_interrupted(requests):
                return await self._give_up()
            if told is not None:
                return told
            follows = "no other is there" if _next_maker(membership, asked) is None else NEXT
            event(_log, logging.WARNING, f"a member makes no backup: {follows}",
                  member=maker.address)  # fmt: skip
        silent = [
            maker.address
            for maker in asked
            if maker.uuid not in placeless and membership.member_table.lease(maker.uuid) is not None
        ]
        if silent:
            return Refused(Reason.UNAVAILABLE, _no_answer(silent))
        raise EngineError("; ".join(placeless.values()) or NOBODY)

    async def _give_up(self) -> str | Refused:
        """Return the operation of an interrupted backup, which any member has that makes one."""
        operation, begun = self._operations.begin(KIND)
        puts = (*begun, self._operations.fail(operation, INTERRUPTED))
        refused = await put_all(self._store, puts)
        if refused is None:
            return operation
        self._operations.forget(operation)
        return refused

    def _is_interrupted(self, requests: list[BackupRequest]) -> bool:
        """Tell whether the call is interrupted that made the requests, one after the other."""
        return any(self._has_key(request.interrupt) for request in requests)

    def _has_key(self, key: str) -> bool:
        return self._store.system_get(key) is not None

    async def _ask(
        self, maker: MemberRecord, requests: list[BackupRequest], kept: Put | None
    ) -> str | Refused | None:
        """Return what came of the last request; None when nothing will any more."""
        store, conditions, request = self._store, self._others.conditions, requests[-1]
        member_table = self._others.member_table
        refused = await put_all(store, [Put(request.key, _pack(kept), REQUEST_S)])
        if refused is not None:
            return refused

        def is_gone() -> bool:
            incarnation = store.system_get(request.acceptance)
            if incarnation is None:
                return member_table.lease(maker.uuid) is None
            return not member_table.has_lease(maker.uuid, incarnation.decode())

        def is_in_vain() -> bool:
            return is_gone() or self._is_interrupted(requests)

        try:
            await conditions.until(
                lambda: self._has_key(request.acceptance) or is_in_vain(), TAKE_S
            )
            if conditions.ended:
                return Refused(Reason.CLOSING, STOPPING)
            incarnation = store.system_get(request.acceptance)
            if incarnation is None or is_in_vain():
                return None
            refused = await put_all(store, [Put(request.order, b"1", GONE_ON_S)])
            if refused is not None:
                # The log may take it later, and the maker begin until it sees that nobody waits.
                return await self._withdraw(maker, request) or refused
            return await self._await_result(maker, request, incarnation.decode())
        finally:
            for key, _ in store.system_items(request.key):
                if key not in request.lasting_keys:
                    Put(key, None).send(store)  # what is left ends by itself

    async def _await_result(
        self, maker: MemberRecord, request: BackupRequest, incarnation: str
    ) -> str | Refused | None:
        """Return what the order to the maker came to, for as long as that incarnation lasts."""
        conditions, member_table = self._others.conditions, self._others.member_table

        def is_gone() -> bool:
            return not member_table.has_lease(maker.uuid, incarnation)

        await conditions.until(lambda: self._result(request) is not None or is_gone(), LOST_S)
        told = self._result(request)
        if told is not None:
            return _outcome(maker, told)
        if conditions.ended:
            # For as long as the log takes something of this member.
            Put(request.withdrawal, b"1", WITHDRAWN_S).send(self._store)
            return Refused(Reason.CLOSING, f"{STOPPING}: {_unknown_result(maker)}")
        begun = await self._withdraw(maker, request)
        if begun is not None or is_gone():
            return begun
        return Refused(Reason.UNAVAILABLE, _unknown_result(maker))

    def _result(self, request: BackupRequest) -> _Result | None:
        """Return what the maker tells, or what its operation does: what it told may be gone."""
        told = self._store.system_get(request.result)
        if told is not None:
            return cast("_Result", json.loads(told))
        found = self._operations.find(request.operation)
        if found is None or found["stage"] == OperationStage.STARTED.value:
            return None  # it may be given up yet
        if found["error"] in {NOT_NOTED, UNWANTED}:
            return {_REFUSED: found["error"], _REASON: Reason.UNAVAILABLE.name}
        return {_OPERATION: request.operation}

    async def _withdraw(self, maker: MemberRecord, request: BackupRequest) -> str | Refused | None:
        """Let all see that nobody waits; return the operation that has begun by then, if any."""
        others, withdrawal = self._others, request.withdrawal
        others.keep(_insist(others, [Put(withdrawal, b"1", WITHDRAWN_S)]))
        if not await others.conditions.until(lambda: self._has_key(withdrawal), WITHDRAW_S):
            return Refused(Reason.UNAVAILABLE, _unknown_result(maker))
        begun = self._operations.find(request.operation)
        # Begun is what any member answers for; the operation tells what became of it.
        made = begun is not None and begun["error"] not in {NOT_NOTED, UNWANTED}
        return request.operation if made else None


def serve_requests(membership: Membership, backups: Backups) -> None:
    """Let a member that holds data make the backups that it is asked for, also before."""
    engine, serving = membership.engine, set[str]()

    async def serve(request: BackupRequest) -> None:
        try:
            await _serve(membership, backups, request)
        finally:
            serving.discard(request.key)

    def look() -> None:
        own = f"{REQUEST}{engine.member_uuid}/"
        for key, _ in engine.system_items(own):
            request = BackupRequest(key)
            if "/" in key.removeprefix(own) or key in serving:
                continue
            # Else this process has served it, or another one took it, which has ended.
            if engine.system_get(request.acceptance) is None:
                serving.add(key)
                membership.keep(serve(request))

    membership.on_change[REQUEST] = look
    look()


async def _serve(membership: Membership, backups: Backups, request: BackupRequest) -> None:
    """Say that this member makes the backup, and do so when it is told to."""
    incarnation, conditions = membership.heartbeat.incarnation, membership.conditions
    kept = _unpack(membership.engine.system_get(request.key))
    # With an outcome the same call was carried out elsewhere: who asked first has died.
    unwanted = request.lasting_keys if kept is None else request.lasting_keys | {kept.key}

    def has(*keys: str) -> bool:
        return any(membership.engine.system_get(key) is not None for key in keys)

    def is_wanted() -> bool:
        return not has(*unwanted)

    def is_waiting() -> bool:
        return has(request.key) and is_wanted()

    acceptance = Put(request.acceptance, incarnation.encode(), REQUEST_S)
    await _insist(membership, [acceptance], is_waiting)
    await conditions.until(lambda: has(request.order, request.withdrawal), REQUEST_S)
    if not has(request.order):
        return
    if is_waiting():
        event(_log, logging.INFO, "a lite member was asked for a backup, which is made here")
        told = await _make(backups, request.operation, is_wanted)
    else:
        # Whoever said so still waits to be told.
        told = {_REFUSED: LATE, _REASON: Reason.UNAVAILABLE.name}
    puts = [Put(request.result, json.dumps(told).encode(), GONE_ON_S)]
    if kept is not None and _OPERATION in told:
        # The same call, sent to another member when its own is gone, is to find this one.
        puts.append(kept)
    await _insist(membership, puts)


async def _insist(
    membership: Membership, puts: Sequence[Put], is_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Put something until the log takes it, it is not wanted any more, or this member ends."""
    conditions, told = membership.conditions, False
    while is_wanted():
        refused = await put_all(membership.engine, puts)
        if refused is None:
            return
        if not told:
            event(_log, logging.WARNING, "what a backup goes by is not taken: it is tried again",
                  reason=refused.message)  # fmt: skip
        told = True
        await conditions.until(lambda: False, AGAIN_S)
        if conditions.ended:
            return


async def _make(backups: Backups, operation: str, is_wanted: Callable[[], bool]) -> _Result:
    try:
        made = await backups.make_as(operation, is_wanted)
    except EngineError as error:
        return {_REFUSED: str(error), _REASON: None}
    except Exception as error:
        failure(_log, "a backup could not be begun", error)
        return {_REFUSED: "unexpected error: see the log", _REASON: None}
    if isinstance(made, Refused):
        return {_REFUSED: made.message, _REASON: made.reason.name}
    return {_OPERATION: made}


def _pack(kept: Put | None) -> bytes:
    if kept is None:
        return b""
    value = base64.b64encode(kept.value or b"").decode()
    return json.dumps([kept.key, value, kept.time_to_live_s]).encode()


def _unpack(asked: bytes | None) -> Put | None:
    """Return what is to be kept of a request's answer."""
    if not asked:
        return None
    key, value, time_to_live_s = json.loads(asked)
    return Put(key, base64.b64decode(value), time_to_live_s)


def _next_maker(membership: Membership, but: list[MemberRecord]) -> MemberRecord | None:
    """Return who is asked next."""
    # No start asks for a backup.
    from grid_member.engine.replicated.full_replicas import SEAT_PREFIX

    leases, asked = membership.member_table.leases(), {member.uuid for member in but}
    hosts = {
        key.removeprefix(SEAT_PREFIX) for key, _ in membership.engine.system_items(SEAT_PREFIX)
    }

    silence_s = membership.heartbeat.failure_detector.silence_s

    def last(member: MemberRecord) -> tuple[bool, bool]:
        holds = not hosts or member.uuid in hosts
        return silence_s(member.uuid) >= STEADY_GAP_S, not holds

    found = [
        member
        for member in membership.members()
        if not member.lite and member.uuid in leases and member.uuid not in asked
    ]
    return min(found, key=last, default=None)


def _outcome(maker: MemberRecord, told: _Result) -> str | Refused:
    operation = told.get(_OPERATION)
    if operation is None:
        message = f"the member {maker.address} makes none: {told[_REFUSED]}"
        reason = told.get(_REASON)
        if reason is None:
            raise (NoPlaceError if told[_REFUSED] in NO_PLACE else EngineError)(message)
        return Refused(Reason[reason], message)
    event(_log, logging.INFO, "another member makes the backup", member=maker.address,
          operation=operation)  # fmt: skip
    return operation


def _unknown_result(maker: MemberRecord) -> str:
    return (
        f"the member {maker.address} was told to make the backup, and nothing is known of it: look "
        "at the operations before you ask again"
    )


def _no_answer(addresses: list[str]) -> str:
    return (
        f"no member took the backup that was asked for: no answer from {', '.join(addresses)}; "
        "if those are of an earlier version, upgrade them: members with data go before lite ones"
    )
