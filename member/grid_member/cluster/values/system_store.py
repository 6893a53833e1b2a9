"""The system store as the management calls see it: small values that every member agrees on.

What is proposed in one tick of the event loop travels in one record and is applied together. So an
effect and the outcome that is remembered of it are either both there or neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from grid_member.engine.api import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.api import Done
    from grid_member.engine.state.system import SystemStore

T = TypeVar("T")
Begin: TypeAlias = Callable[[Callable[[object], None]], object]
"""Proposes one operation; what it is given is called with the outcome, a `Refused` among them."""


@dataclass(frozen=True, slots=True)
class Put:
    """One change of the system store, to be proposed."""

    key: str
    value: bytes | None
    time_to_live_s: int = 0

    def begin(self, store: SystemStore) -> Begin:
        """Return what proposes it."""
        return lambda done: store.system_put(
            self.key, self.value, done, time_to_live_s=self.time_to_live_s
        )

    def send(self, store: SystemStore) -> None:
        """Propose it now, where it does no harm that the log refuses it."""
        self.begin(store)(_ignore)


def start(begin: Callable[[Done[T]], object]) -> asyncio.Future[T | Refused]:
    """Begin an engine operation now; return the future of what its callback is given."""
    future: asyncio.Future[T | Refused] = asyncio.get_running_loop().create_future()

    def done(result: T | Refused) -> None:
        # The caller may have been cancelled; the operation went on without it.
        if not future.done():
            future.set_result(result)

    begin(done)
    return future


async def carry_out(*begins: Begin) -> list[Refused | None]:
    """Propose all in this tick; return when all are done, with what refused each, None for done.

    What follows a proposal that is refused at once is not proposed and not in the result.
    """
    outcomes: list[asyncio.Future[object]] = []
    for begin in begins:
        outcome = start(begin)
        outcomes.append(outcome)
        if outcome.done() and isinstance(outcome.result(), Refused):
            break
    results = await asyncio.gather(*outcomes)
    return [result if isinstance(result, Refused) else None for result in results]


async def put_all(store: SystemStore, puts: Iterable[Put]) -> Refused | None:
    """Propose all in this tick; return when all are done, with the first refusal, if any."""
    outcomes = await carry_out(*(put.begin(store) for put in puts))
    return next(filter(None, outcomes), None)


def _ignore(outcome: object) -> None:
    pass
