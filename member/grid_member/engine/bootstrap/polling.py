"""Who is at the addresses of the list of members, looked at again and again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from grid_member.engine.io.ending import end_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.cluster_settings import ClusterSettings

T = TypeVar("T")
ABSENT_LOOK_S: Final = 0.05
"""Between two looks at an address where nobody is, of who waits for that to change."""
EAGER_S: Final = 5.0
"""How long that is hurried so. Later on somebody is as rarely looked for as looked at."""
LOOK_S: Final = 1.0
"""Between two looks at somebody."""


class AddressPolling(Generic[T]):
    """Looks for as long as its block lasts.

    Args:
        settings: the list.
        look: returns who is at a host and port, None when nobody is.
        absent_s: seconds between two looks at an address where nobody is, at first.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        look: Callable[[str, int], Awaitable[T | None]],
        absent_s: float = ABSENT_LOOK_S,
    ) -> None:
        self.occupants: dict[str, T | None] = {}
        """What was found last, by address; none before the first look at it is over."""
        self._members = settings.members
        self._look = look
        self._absent_s = absent_s
        self._news = asyncio.Event()
        self._looking: list[asyncio.Task[None]] = []

    @property
    def is_complete(self) -> bool:
        """Whether every address was looked at."""
        return len(self.occupants) == len(set(self._members))

    async def await_change(self, within_s: float) -> None:
        """Return when somebody else is found somewhere, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()
        self._news.clear()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._looking = [loop.create_task(self._run(*one)) for one in set(self._members)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._looking)

    async def _run(self, host: str, port: int) -> None:
        address, clock = f"{host}:{port}", asyncio.get_running_loop().time
        eager_until_s = clock() + EAGER_S
        while True:
            found = await self._look(host, port)
            if address not in self.occupants or self.occupants[address] != found:
                self.occupants[address] = found
                self._news.set()
            eager = not found and clock() < eager_until_s
            await asyncio.sleep(self._absent_s if eager else LOOK_S)
