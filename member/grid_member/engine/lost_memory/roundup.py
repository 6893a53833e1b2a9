"""Telling all members which logs in memory to leave, and hearing what each of them holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from grid_member.engine.lost_memory.survivors import decode_report
from grid_member.engine.nats.client.errors import NatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grid_member.engine.lost_memory.survivors import MemoryReport
    from grid_member.engine.nats.client.client import NatsClient
    from grid_member.engine.nats.client.wire import Message

SUBJECT: Final = b"grid.memory"
"""What members are asked with, in the account of the system."""
Reports: TypeAlias = "Mapping[str, MemoryReport]"
"""By the ids of the members' servers."""
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)


class Roundup:
    """The questions of one member to all, and its answers to theirs."""

    def __init__(
        self,
        system: NatsClient,
        leave: Callable[[str, str], None],
        report: Callable[[], MemoryReport | None],
    ) -> None:
        """Answer from now on.

        Args:
            system: a connection in the account of the system.
            leave: is told the name of a log that is to be left, and when its stream was made.
            report: returns what this member tells of itself, None before it can.
        """
        self.stopped_servers: set[str] = set()
        """The servers of members that told that they stop."""
        self._system = system
        self._leave = leave
        self._report = report
        self._subscription = system.subscribe(SUBJECT, self._answer)

    def end(self, server: str) -> None:
        """Answer no more, and tell that the member with that server stops."""
        self._subscription.unsubscribe()
        with contextlib.suppress(NatsError):
            self._system.publish(SUBJECT, json.dumps({"gone": server}).encode())

    async def ask(
        self,
        left: Mapping[str, Iterable[str]],
        within_s: float,
        enough: Callable[[Reports], bool] = lambda _: False,
    ) -> dict[str, MemoryReport]:
        """Return the reports of all that answer in time, by their servers.

        Args:
            left: when the streams were made that they are to leave, by the names of the logs.
            within_s: how long they are waited for.
            enough: tells whether no further reports are waited for.
        """
        complete, own = asyncio.Event(), self._report()
        reports = {} if own is None else {own.server: own}

        def take(messages: Sequence[Message]) -> None:
            for message in messages:
                with contextlib.suppress(*_MALFORMED):
                    told = decode_report(message.payload)
                    reports[told.server] = told
            if enough(reports):
                complete.set()

        inbox = self._system.unused_inbox()
        subscription = self._system.subscribe(inbox, take)
        try:
            said = {"leave": {name: sorted(made) for name, made in left.items()}}
            self._system.publish(SUBJECT, json.dumps(said).encode(), inbox)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(complete.wait(), within_s)
        finally:
            subscription.unsubscribe()
        return reports

    def _answer(self, messages: Sequence[Message]) -> None:
        """Leave what is to be left first, then report."""
        for message in messages:
            with contextlib.suppress(*_MALFORMED):
                told = json.loads(message.payload)
                if "gone" in told:
                    self.stopped_servers.add(str(told["gone"]))
                for name, made in told.get("leave", {}).items():
                    for created in made:
                        self._leave(str(name), str(created))
            own = self._report()
            if message.reply and own is not None:
                self._system.publish(message.reply, own.encode())


class Connections(NamedTuple):
    """What a member talks to the servers and to the other members over, once it has a server."""

    client: NatsClient
    """In the account of the data."""
    system: NatsClient
    """In the account of the system."""
    server: str
    """The name of the own server."""
    roundup: Roundup
