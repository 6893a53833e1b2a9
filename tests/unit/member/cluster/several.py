"""Several members over one log in this process, and the time they go by."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from grid_member.cluster.cp.keeper import cp_of_several
from grid_member.cluster.management.management import Management
from grid_member.cluster.member.member import Member, Phase
from grid_member.cluster.membership.member_table import Description
from grid_member.cluster.membership.membership import TICK_S, Membership
from grid_member.cluster.persistence.persistence import make_persistence
from grid_member.config import MemberConfig, parse_config
from grid_member.http.routes.calls import ConnectionCounts, HttpCall
from grid_member.http.routes.handlers import HANDLERS
from grid_member.http.routes.idempotent import HEADER, carry_out_once
from grid_member.http.table import ROUTES
from grid_member.http.wire.paths import split_target
from grid_member.telemetry.levels import LogLevels
from tests.unit.member.cluster.shared_groups import SharedGroups
from tests.unit.member.cluster.shared_log import FakeEngine, SharedLog, Time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grid_member.engine.api import ClusterState
    from grid_member.http.wire.answers import Answer

CONFIGURATION = """
grid:
  network: {rest-api: {enabled: true}, join: {tcp-ip: {enabled: true, member-list: [a, b, c]}}}
  map: {default: {}}
  queue: {default: {}}
"""


class Several:
    """The members of one cluster."""

    def __init__(self) -> None:
        self.time = Time()
        self.log = SharedLog()
        self.groups = SharedGroups()
        self.all: list[OneOfSeveral] = []
        self._ids = itertools.count(1)
        self._uuids = itertools.count(1)

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def new_uuid(self) -> str:
        return f"00000000-0000-4000-9000-{next(self._ids):012d}"

    def add(self, **options: Any) -> OneOfSeveral:
        """Return a member that has not begun to start."""
        number = next(self._uuids)
        options.setdefault("uuid", f"00000000-0000-4000-8000-{number:012d}")
        options.setdefault("address", f"10.0.0.{number}:5701")
        self.all.append(OneOfSeveral(self, **options))
        return self.all[-1]

    async def started(self, count: int = 3, **options: Any) -> list[OneOfSeveral]:
        """Return members that have joined one after the other."""
        members = [self.add(**options) for _ in range(count)]
        for member in members:
            await self.run(member.start())
        return members

    async def run(self, work: Any, patience_s: float = 30.0) -> Any:
        """Return what comes of the work; time goes on meanwhile."""
        task = asyncio.ensure_future(work)
        await self.time.settle()
        spent_s = 0.0
        while not task.done() and spent_s < patience_s:
            await self.time.advance(TICK_S)
            spent_s += TICK_S
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise AssertionError("it does not end")
        return task.result()

    async def close(self) -> None:
        for member in self.all:
            await member.end()


class OneOfSeveral:
    """A member of a cluster, made as `start` makes it."""

    def __init__(
        self,
        several: Several,
        *,
        uuid: str,
        address: str,
        version: str = "1.2.3",
        lite: bool = False,
        cp_member_count: int = 0,
        clock_ms: Callable[[], int] | None = None,
        text: str = CONFIGURATION,
    ) -> None:
        self.several = several
        self.options = {
            "uuid": uuid,
            "address": address,
            "version": version,
            "lite": lite,
            "cp_member_count": cp_member_count,
        }
        config = parse_config(text, "grid.yaml", {})
        config = replace(config, cp_member_count=cp_member_count)
        self.engine = FakeEngine(several.log, uuid)
        self.membership = self._membership(
            address,
            Description(f"m-{address}", version, lite, cp_member_count),
            clock_ms or several.time.clock_ms,
        )
        self.engine.applied = self.membership.follow
        self.gone: list[str] = []
        self.membership.on_gone.append(self.gone.append)
        self.member = Member(config, self.engine, "tester", version, self.membership)  # type: ignore[arg-type]
        self.member.address = address
        self.management = self.member.management = self._management(config)
        if cp_member_count:
            self._add_cp(cp_member_count)

    def _membership(
        self, address: str, described: Description, clock_ms: Callable[[], int]
    ) -> Membership:
        return Membership(
            self.engine,
            described,
            server=lambda: f"s-{address}",
            clock_s=self.several.time.clock_s,
            clock_ms=clock_ms,
            new_id=self.several.new_id,
            sleep=self.several.time.sleep,
        )

    def _management(self, config: MemberConfig) -> Management:
        management = Management(
            self.member,
            self.engine,
            self._extend,
            join_members=config.join_members,
            clock_ms=lambda: 1_000,
            log_levels=LogLevels("grid-of-a-test"),
        )
        management.persistence = make_persistence(
            config,
            self.engine,  # type: ignore[arg-type]
            self.engine,
            management.operations,
            lambda: 1_000,
            lambda: self.engine.start(management.restore),
        )
        return management

    def _add_cp(self, count: int) -> None:
        time = self.several.time
        self.management.cp, self.management.cp_keeper = cp_of_several(
            self.membership,
            lambda: self.several.groups,
            count,
            new_uuid=self.several.new_uuid,
            clock_s=time.clock_s,
            clock_ms=time.clock_ms,
            sleep=time.sleep,
        )

    def _extend(self, config: MemberConfig) -> None:
        self.member.config = config

    async def start(self) -> OneOfSeveral:
        await self.member.join()
        return self

    async def stop(self) -> None:
        """Stop gracefully, as the handle does."""
        self.member.request_stop()
        await self.member.stop()
        await self.end()

    async def end(self) -> None:
        """End at once: nothing comes through any more, no task is left."""
        await self.membership.close()
        self.engine.ready = False
        self.engine.cut_off()
        self.member.phase = Phase.STOPPING

    def again(self) -> OneOfSeveral:
        """Return the member's next process."""
        member = OneOfSeveral(self.several, **self.options)  # type: ignore[arg-type]
        self.several.all.append(member)
        return member

    @property
    def uuid(self) -> str:
        return self.engine.member_uuid

    def state(self) -> ClusterState:
        """The cluster state that the member shows."""
        return self.member.cluster_state

    @property
    def phase(self) -> Phase:
        return self.member.phase

    def ready(self) -> bool:
        return self.member.ready

    @property
    def listed(self) -> list[str]:
        """The UUIDs in the cluster document."""
        return [member["uuid"] for member in self.member.members()]

    async def call(
        self,
        operation: str,
        *parameters: str,
        key: str | None = None,
        method: str = "POST",
        names: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Call an operation as the service does, after it checked credentials."""
        sent = CIMultiDict(headers or {})
        if key is not None:
            sent[HEADER] = key
        route = next(row for row in ROUTES if row.operation == operation)
        call = HttpCall(
            make_mocked_request(method, "/", headers=sent),
            route,
            names or {},
            self.member,
            ConnectionCounts(2, 3),
            split_target("/"),
            parameters=("dev", "", *parameters),
        )
        does = HANDLERS[operation]
        return await (does(call) if route.parameters is None else carry_out_once(call, does))


def uuids(members: Iterable[OneOfSeveral]) -> list[str]:
    return [member.uuid for member in members]
