"""What engine tests share: settings, a clock that is set by hand, and operations to await."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from grid_member.engine.api import Entry, Item, MapSettings, QueueSettings, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine import LocalEngine
    from grid_member.engine.api import ClusterState, Done, Persistence

T = TypeVar("T")


@dataclass
class FixedStructures:
    """Settings by exact name, with a default for everything else."""

    maps: dict[str, MapSettings | None] = field(default_factory=dict)
    queues: dict[str, QueueSettings | None] = field(default_factory=dict)
    persistent: bool = True

    def persistence(self) -> Persistence:
        return {
            "map": _kept(self.maps, self.persistent),
            "queue": _kept(self.queues, self.persistent),
        }

    def map_settings(self, name: str) -> MapSettings | None:
        found = self.maps.get(name, MapSettings())
        return found and replace(found, persistent=found.persistent and self.persistent)

    def queue_settings(self, name: str) -> QueueSettings | None:
        found = self.queues.get(name, QueueSettings())
        return found and replace(found, persistent=found.persistent and self.persistent)


def _kept(
    found: Mapping[str, MapSettings | None] | Mapping[str, QueueSettings | None], persistent: bool
) -> dict[str, bool]:
    named = {name: one.persistent and persistent for name, one in found.items() if one is not None}
    return {**named, "default": persistent}


@dataclass
class HandClock:
    """A clock that stands still until a test moves it."""

    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


class Driver:
    """An engine with methods to await instead of callbacks."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    async def put(
        self, name: str, key: str, value: bytes, content_type: str | None = None
    ) -> Refused | None:
        return await awaited(lambda done: self.engine.map_put(name, key, value, content_type, done))

    async def get(self, name: str, key: str) -> Entry | Refused | None:
        return await awaited(lambda done: self.engine.map_get(name, key, done))

    async def value(self, name: str, key: str) -> bytes | None:
        entry = await self.get(name, key)
        assert not isinstance(entry, Refused)
        return None if entry is None else entry.value

    async def remove(self, name: str, key: str) -> Refused | None:
        return await awaited(lambda done: self.engine.map_remove(name, key, done))

    async def clear(self, name: str) -> Refused | None:
        return await awaited(lambda done: self.engine.map_clear(name, done))

    async def offer(
        self, name: str, value: bytes, content_type: str | None = None
    ) -> bool | Refused:
        return await awaited(lambda done: self.engine.queue_offer(name, value, content_type, done))

    async def poll(self, name: str, timeout_s: float = 0) -> Item | Refused | None:
        def send(done: Done[Item | None]) -> None:
            self.engine.queue_poll(name, timeout_s, done)

        return await awaited(send)

    async def take(self, name: str, timeout_s: float = 0) -> bytes | None:
        """Poll and confirm."""
        item = await self.poll(name, timeout_s)
        assert not isinstance(item, Refused)
        if item is None:
            return None
        self.engine.queue_confirm(item)
        return item.value

    async def size(self, name: str) -> int | Refused:
        return await awaited(lambda done: self.engine.queue_size(name, done))

    async def change_state(self, state: ClusterState, *, transient: bool = False) -> bool | Refused:
        return await awaited(
            lambda done: self.engine.change_cluster_state(state, done, transient=transient)
        )

    async def system(
        self, key: str, value: bytes | None, time_to_live_s: int = 0
    ) -> Refused | None:
        return await awaited(
            lambda done: self.engine.system_put(key, value, done, time_to_live_s=time_to_live_s)
        )


async def awaited(send: Callable[[Done[T]], None]) -> T | Refused:
    """Call send with a callback and wait for it; a second call of it is an error."""
    future: asyncio.Future[T | Refused] = asyncio.get_running_loop().create_future()
    send(future.set_result)
    return await future


async def condition(holds: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait until holds() is true, looking every few milliseconds."""
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 (what is looked at has no event)
            await asyncio.sleep(0.002)
