"""What the tests of durable member processes share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.unit.member.running import configuration
from tests.unit.member.wire import Reply, Wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.member.running import MemberProcess

    Start = Callable[..., MemberProcess]

MAP = "/grid/rest/maps/default"
QUEUE = "/grid/rest/queues/default"
READY = "/grid/health/ready"


def durable(base_dir: Path, timeout_s: int = 120) -> str:
    settings = f"enabled: true, base-dir: {base_dir}, validation-timeout-seconds: {timeout_s}"
    return configuration(extra=f"  persistence: {{{settings}}}\n")


class DurableMember:
    """A member process that is killed and started again, and a client that remembers answers."""

    def __init__(
        self, start: Start, base_dir: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.text = durable(base_dir)
        self.environment = environment
        self.entries: dict[str, bytes | None] = {}
        """What was answered of each key."""
        self.items: list[bytes] = []
        """What was answered of the queue."""
        self._start = start
        self.process = self._started()
        self._wire: Wire | None = None

    async def __aenter__(self) -> DurableMember:
        self._wire = await Wire.connect(self.process.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._wire is not None:
            await self._wire.close()

    def _started(self) -> MemberProcess:
        process = self._start(self.text, self.environment)
        process.wait_for("ready")
        return process

    async def crash(self) -> None:
        """Kill the process, start another and check that it has everything."""
        # Behind this the confirmations of polled items are in the log.
        assert (await self.call("DELETE", f"{MAP}/nothing")).status == 200
        self.process.kill()
        await self.__aexit__()
        self.process = self._started()
        await self.__aenter__()
        await self.check()

    async def says(self, message: str) -> None:
        """Wait until the process has written this to its log."""
        try:
            await asyncio.wait_for(asyncio.to_thread(self.process.wait_for, message), 20)
        except TimeoutError:
            self.process.process.kill()  # else the thread would read on
            raise

    async def call(self, method: str, path: str, body: bytes | None = None) -> Reply:
        assert self._wire is not None
        return await self._wire.call(method, path, body)

    async def put(self, key: str, value: bytes) -> Reply:
        reply = await self.call("POST", f"{MAP}/{key}", value)
        if reply.status == 200:
            self.entries[key] = value
        return reply

    async def remove(self, key: str) -> None:
        assert (await self.call("DELETE", f"{MAP}/{key}")).status == 200
        self.entries[key] = None

    async def offer(self, value: bytes) -> Reply:
        reply = await self.call("POST", QUEUE, value)
        if reply.status == 200:
            self.items.append(value)
        return reply

    async def poll(self) -> None:
        """Take the head, which must be what was offered first."""
        reply = await self.call("DELETE", f"{QUEUE}/0")
        assert (reply.status, reply.body) == (200, self.items.pop(0))

    async def poll_all(self) -> None:
        while self.items:
            await self.poll()

    async def fill(self, name: str, value: bytes, limit: int = 2000) -> Reply:
        """Put entries until one is refused; return the refusal."""
        for number in range(limit):
            reply = await self.put(f"{name}{number}", value)
            if reply.status != 200:
                self.entries.setdefault(f"{name}{number}", None)
                return reply
        raise AssertionError("every write was taken")

    async def recover(self, value: bytes) -> None:
        """Put an entry over and over until that is taken again."""
        async with asyncio.timeout(15):
            while (await self.put("again", value)).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def check(self) -> None:
        """Compare every entry, and how many items there are, with what was answered."""
        for key, value in self.entries.items():
            reply = await self.call("GET", f"{MAP}/{key}")
            assert (reply.status, reply.body) == ((204, b"") if value is None else (200, value))
        assert (await self.call("GET", f"{QUEUE}/size")).body == b"%d" % len(self.items)


def is_refusal(reply: Reply) -> bool:
    """Tell whether the reply says that writing is not possible now, and when to try again."""
    message = reply.header("X-Grid-Error") or ""
    return (
        (reply.status, reply.body) == (503, b"")
        and (reply.header("Retry-After") or "").isdigit()
        and message.startswith("the log cannot take writes now")
    )
