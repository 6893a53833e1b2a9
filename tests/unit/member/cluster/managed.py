"""A member whose management calls are made directly, over a system store in memory."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from grid_member.cluster.management.management import Management
from grid_member.cluster.management.structures import ConfiguredStructures
from grid_member.cluster.member.member import Member, Phase
from grid_member.cluster.persistence.persistence import make_persistence
from grid_member.config import MemberConfig, parse_config
from grid_member.engine import open_engine
from grid_member.http.routes.calls import ConnectionCounts, HttpCall
from grid_member.http.routes.idempotent import HEADER, carry_out_once
from grid_member.http.server.service import BackgroundCalls
from grid_member.http.table import Route
from grid_member.http.wire.paths import split_target
from grid_member.telemetry.levels import LogLevels

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from grid_member.cluster.management.config_changes import ConfigSource
    from grid_member.engine.api import Done, Refused
    from grid_member.engine.local.usage import StructureKind, StructureUsage
    from grid_member.http.wire.answers import Answer

CONFIGURATION = """
grid:
  network: {rest-api: {enabled: true}}
  map: {default: {}, m1: {time-to-live-seconds: 5}}
  queue: {default: {}, q1: {max-size: 3}}
"""


class FakeStore:
    """A system store that applies together what was put in one tick of the event loop."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.ends_s: dict[str, float] = {}
        self.now_s = 0.0
        self.applied: list[list[str]] = []
        """The keys of each record."""
        self.refusal: Refused | None = None
        self.refused_prefix = ""
        self.paused = False
        self.usage: list[StructureUsage] = []
        self.on_disk: int | None = None
        self._pending: list[tuple[str, bytes | None, Done[None], int]] = []

    def system_get(self, key: str) -> bytes | None:
        if self.ends_s.get(key, self.now_s + 1) <= self.now_s:
            return None
        return self.values.get(key)

    def system_items(self, prefix: str) -> list[tuple[str, bytes]]:
        found = [(key, self.system_get(key)) for key in sorted(self.values)]
        return [(k, v) for k, v in found if k.startswith(prefix) and v is not None]

    def system_put(
        self, key: str, value: bytes | None, done: Done[None], *, time_to_live_s: int = 0
    ) -> None:
        if self.refusal is not None and key.startswith(self.refused_prefix):
            done(self.refusal)
            return
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._tick_ended)
        self._pending.append((key, value, done, time_to_live_s))

    @property
    def waiting(self) -> bool:
        """Whether something was put that is not applied yet."""
        return bool(self._pending)

    def _tick_ended(self) -> None:
        if not self.paused and self._pending:
            self.commit()

    def commit(self) -> None:
        """Apply what waits; nothing may."""
        pending, self._pending = self._pending, []
        self.applied.append([key for key, *_ in pending])
        for key, value, _, time_to_live_s in pending:
            self.values.pop(key, None)
            self.ends_s.pop(key, None)
            if value is not None:
                self.values[key] = value
            if time_to_live_s:
                self.ends_s[key] = self.now_s + time_to_live_s
        for *_, done, _ in pending:
            done(None)

    def structure_usage(self) -> list[StructureUsage]:
        return self.usage

    async def cluster_usage(self) -> list[StructureUsage]:
        return self.usage

    def held_structures(self) -> Iterable[tuple[StructureKind, str]]:
        return [(found.kind, found.name) for found in self.usage]

    def store_bytes(self) -> int | None:
        return self.on_disk

    def poll_waiters(self) -> int:
        return 0


class Managed:
    """One member, its store, and calls to it."""

    def __init__(
        self,
        text: str = CONFIGURATION,
        *,
        version: str = "1.2.3",
        join_members: tuple[str, ...] | None = ("a:5701", "b"),
        cp: bool = True,
        source: ConfigSource | None = None,
        log_base: str = "grid-of-a-test",
    ) -> None:
        config = parse_config(text, "grid.yaml", {})
        self.store = FakeStore()
        self.clock_ms = 1_000
        self.engine = open_engine(ConfiguredStructures(config))
        self.member = Member(config, self.engine, "tester", version)
        self.member.address = "10.0.0.7:5701"
        self.extended: list[MemberConfig] = []
        self._unattended = BackgroundCalls()
        self.management = Management(
            self.member,
            self.store,
            self._extend,
            source=source,
            join_members=join_members,
            cp=cp,
            clock_ms=lambda: self.clock_ms,
            log_levels=LogLevels(log_base),
        )
        self.member.management = self.management
        self.management.persistence = make_persistence(
            config,
            self.engine,
            self.store,
            self.management.operations,
            lambda: self.clock_ms,
            lambda: self.engine.start(self.management.restore),
        )

    def _extend(self, config: MemberConfig) -> None:
        self.member.config = config
        self.extended.append(config)

    def restarted(self) -> Managed:
        """Return the next life of this member: the same store and file."""
        other = Managed(source=self.management.config_changes.source)
        other.store.values = dict(self.store.values)
        return other

    async def join(self) -> Managed:
        await self.member.join()
        # The tests look at what is stored later.
        self.store.commit()
        self.store.values.clear()
        self.store.applied.clear()
        return self

    async def stop(self) -> None:
        if self.member.phase is not Phase.STARTING:
            await self.engine.stop()

    async def call(
        self,
        operation: Callable[[HttpCall], Awaitable[Answer]],
        *parameters: str,
        names: dict[str, str] | None = None,
        keys: tuple[str, ...] = (),
        user: str = "dev",
    ) -> Answer:
        """Call an operation as the service does, after it checked credentials."""
        headers = CIMultiDict([(HEADER, key) for key in keys])
        request = make_mocked_request("POST", "/", headers=headers)
        route = Route(("POST",), "/", frozenset(), operation.__name__)
        call = HttpCall(
            request,
            route,
            names or {},
            self.member,
            ConnectionCounts(0, 0),
            split_target("/"),
            parameters=(user, "", *parameters),
        )
        return await self._unattended.run(carry_out_once(call, operation))

    def everything(self) -> tuple[object, ...]:
        """Return what a refused call must not change."""
        return (
            dict(self.store.values),
            self.member.config,
            self.member.cluster_state,
            self.member.phase,
            self.management.log_levels.level,
        )


def content(answer: Answer) -> Any:
    """Return the JSON of an answer."""
    assert answer.content_type == "application/json"
    return json.loads(answer.body)


def reason(answer: Answer) -> str:
    """Return why an answer is empty, as its header tells."""
    assert answer.body == b""
    return dict(answer.headers)["X-Grid-Error"]


def short(value: object) -> str | None:
    """Return a test's name for a text that is too long or too odd to be one."""
    return ascii(value)[1:24] if isinstance(value, str) else None
