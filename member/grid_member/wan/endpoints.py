"""The addresses of a target: names looked up again and again, and rests after failures.

    address failed ──▶ rests 1 s ──▶ failed again: 2, 4 … 30 s          answered ──▶ no rest
    name looked up ──▶ its addresses take the place of the former ones
                   └─▶ it has none, or no DNS server answers: the former ones stay

A look-up is under way beside what is sent: with an address known, no sender waits for it for long.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

FIRST_REST_S: Final = 1.0
MAX_REST_S: Final = 30.0
MAX_ADDRESSES: Final = 256
"""Of one target; what names lead to beyond that is left out."""
PATIENCE_S: Final = 0.5
"""How long a sender that has an address waits for a look-up, which may take many times as long."""
MAX_UNRESOLVED_S: Final = 30.0
"""Until a name without an address is looked up again."""
NO_ADDRESS: Final = "it has none"
_MAX_EXPONENT: Final = 10


class UnresolvedError(Exception):
    """A name has no address now; the message says why, for people."""


class Address(NamedTuple):
    """Where a WAN listener of the target is reached."""

    host: str
    """As configured: certificates are checked against it."""
    ip: str
    port: int

    @property
    def shown(self) -> str:
        """The address for people; an IP address without a name once."""
        where = self.host if self.host == self.ip else f"{self.host} ({self.ip})"
        return f"{where} port {self.port}"


@dataclass(slots=True)
class _Rest:
    failures: int
    until_s: float


def rest_after(failures: int) -> float:
    """Return the seconds that an address rests after so many failures in a row."""
    return min(MAX_REST_S, FIRST_REST_S * 2.0 ** min(failures - 1, _MAX_EXPONENT))


async def look_up(host: str, port: int) -> list[str]:
    """Return the IP addresses of a name.

    Raises:
        UnresolvedError: it has none now.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise UnresolvedError("it is no DNS name") from None
    except OSError as problem:
        raise UnresolvedError(problem.strerror or type(problem).__name__) from None
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class Endpoints:
    """The addresses of one target."""

    def __init__(
        self,
        configured: Sequence[tuple[str, int]],
        clock: Callable[[], float],
        period_s: float,
        most: int,
        resolve: Callable[[str, int], Awaitable[list[str]]] = look_up,
    ) -> None:
        """Take what was configured; nothing is looked up yet.

        Args:
            configured: hosts and ports.
            clock: seconds, for rests and the period.
            period_s: how long what was looked up is believed.
            most: addresses that are used at once.
            resolve: looks up a name.
        """
        self._configured = tuple(configured)
        self._clock = clock
        self._period_s = period_s
        self._most = min(most, MAX_ADDRESSES)
        self._resolve = resolve
        self._known: dict[tuple[str, int], list[str]] = {}
        """The last addresses of each name."""
        self._unresolved: dict[tuple[str, int], str] = {}
        """Why names have no address now."""
        self._found: list[Address] = []
        self._fresh_until_s: float | None = None
        self._looking: asyncio.Task[None] | None = None
        self._rests: dict[Address, _Rest] = {}
        self._turn = 0

    @property
    def problem(self) -> str:
        """Which name has no address now, and why; empty when all have one."""
        if not self._unresolved:
            return ""
        (name, why), others = next(iter(self._unresolved.items())), len(self._unresolved) - 1
        text = f"the name {name[0]} has no address ({why})"
        if name in self._known:
            text = f"the name {name[0]} has no address now ({why}): the addresses that it had "
            text += "before are used"
        if others:
            text += f"; {others} other {'name has' if others == 1 else 'names have'} none either"
        return text

    async def choose(self, again: Address | None = None) -> Address | None:
        """Return the next address that does not rest; None when all do or there is none.

        Args:
            again: is returned rather than the next one, as long as it does not rest.
        """
        await self._look_up()
        free = self._free()
        if again in free:
            return again
        if not free:
            return None
        self._turn += 1
        return free[self._turn % len(free)]

    def close(self) -> None:
        """Look nothing up any more."""
        if self._looking is not None:
            self._looking.cancel()

    def wait_s(self) -> float:
        """Return the seconds until `choose` may know more than now."""
        now_s = self._clock()
        moments = [self._rests_until(address) for address in self._found]
        moments.append(now_s if self._fresh_until_s is None else self._fresh_until_s)
        return max(0.0, min(moments) - now_s)

    def note_failure(self, address: Address) -> None:
        """Let an address rest that did not answer; names are looked up again."""
        rest = self._rests.get(address)
        failures = 1 if rest is None else rest.failures + 1
        self._rests[address] = _Rest(failures, self._clock() + rest_after(failures))
        self._fresh_until_s = None

    def note_success(self, address: Address) -> None:
        """Forget the failures of an address that answered."""
        self._rests.pop(address, None)

    def _rests_until(self, address: Address) -> float:
        rest = self._rests.get(address)
        return 0.0 if rest is None else rest.until_s

    def _free(self) -> list[Address]:
        now_s = self._clock()
        return [address for address in self._found if self._rests_until(address) <= now_s]

    async def _look_up(self) -> None:
        """Look names up if that is due; wait for it as long as there is nothing else to do."""
        looking = self._looking
        if looking is None or looking.done():
            now_s = self._clock()
            if self._fresh_until_s is not None and now_s < self._fresh_until_s:
                return
            self._fresh_until_s = now_s + FIRST_REST_S
            looking = self._looking = asyncio.create_task(self._look_up_all())
        elif self._free():
            return
        await asyncio.wait({looking}, timeout=PATIENCE_S if self._found else None)
        if looking.done():
            looking.result()

    async def _look_up_all(self) -> None:
        for name in self._configured:
            try:
                ips = await self._resolve(*name)
            except UnresolvedError as problem:
                self._unresolved[name] = str(problem)
                continue
            if ips:
                self._known[name] = ips
                self._unresolved.pop(name, None)
            else:
                self._unresolved[name] = NO_ADDRESS
        found = dict.fromkeys(
            Address(host, ip, port)
            for host, port in self._configured
            for ip in self._known.get((host, port), ())
        )
        self._found = list(found)[: self._most]
        self._rests = {each: rest for each, rest in self._rests.items() if each in found}
        self._fresh_until_s = self._clock() + self._believed_s()

    def _believed_s(self) -> float:
        """Return how long it takes until names are looked up again."""
        if not self._found:
            return FIRST_REST_S
        return min(self._period_s, MAX_UNRESOLVED_S) if self._unresolved else self._period_s
