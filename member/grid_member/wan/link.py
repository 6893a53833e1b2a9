"""The connection of a publisher to its target, shared by the senders of all shards.

    disconnected ──hello answered──▶ connected ──failure, refusal──▶ disconnected

Nothing travels before a hello was answered: it tells which cluster is there, and what it takes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from grid_member.telemetry.logs import event, failure
from grid_member.wan.answers import COMPARING
from grid_member.wan.batch_limit import MAX_BATCH_BYTES, BatchLimit
from grid_member.wan.hello import HelloError, read_welcome, write_hello
from grid_member.wan.ports import OverloadedError, TargetError, TooLargeError, UnreachableError
from grid_member.wan.protocol import CONTENT_TYPE, PROTOCOL, ProtocolError, checked_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.wan.endpoints import Address, Endpoints
    from grid_member.wan.figures import PublisherFigures
    from grid_member.wan.hello import Hello, Welcome
    from grid_member.wan.ports import Transport

T = TypeVar("T")
HELLO_PATH: Final = "/grid/wan/hello"
CHANGES_PATH: Final = f"/grid/wan/{PROTOCOL}/changes"
DIGESTS_PATH: Final = f"/grid/wan/{PROTOCOL}/digests"
KEYS_PATH: Final = f"/grid/wan/{PROTOCOL}/keys"
JSON: Final = "application/json"
ANOTHER_CLUSTER: Final = "another cluster answers than before"
NO_ADDRESS: Final = "no name in target-endpoints has an address now"
FAILURE_REST_S: Final = 1.0
"""After an unexpected error."""
MIN_WAIT_S: Final = 0.05
"""Between two looks for an address that may be used."""
_SIZE_PROBLEM: Final = (
    "the target or a proxy before it refuses larger requests (413): batches have at most %s bytes"
)
_log: Final = logging.getLogger("grid.wan")


@dataclass(frozen=True, slots=True)
class LinkParts:
    """What a link is made of."""

    transport: Transport
    endpoints: Endpoints
    hello: Callable[[], Hello]
    figures: PublisherFigures
    clock: Callable[[], float]
    """Seconds."""


class Link:
    """Says hello until a target answers, and again whenever something went wrong."""

    def __init__(self, parts: LinkParts) -> None:
        self._transport = parts.transport
        self._endpoints = parts.endpoints
        self._hello = parts.hello
        self._figures = parts.figures
        self._limit = BatchLimit(parts.clock)
        self._told_bytes = MAX_BATCH_BYTES
        self._target = b""
        """The id of the cluster that answered last; empty before one has."""
        self._connected: asyncio.Future[Welcome] | None = None
        self._connecting: asyncio.Task[None] | None = None

    async def welcome(self) -> Welcome:
        """Return what the target said, once it has."""
        if self._connected is None or self._connected.cancelled():
            self._connected = asyncio.get_running_loop().create_future()
            self._connecting = asyncio.create_task(self._connect(self._connected))
        return await asyncio.shield(self._connected)

    async def send(self, batch: bytes) -> bytes:
        """Return the answer to a batch: a byte for each map.

        Raises:
            TargetError: it was not taken; unless the target only takes nothing now, the next
                `welcome` is a new one.
        """
        try:
            return await self.ask(CHANGES_PATH, batch)
        except OverloadedError as problem:
            self._note_problem("the target takes nothing now", str(problem))
            raise

    async def ask(self, path: str, message: bytes, again_at: Address | None = None) -> bytes:
        """Return the answer to a message, asked at an address if it does not rest.

        Raises:
            TargetError: as of `send`; an `OverloadedError` tells where to ask again.
        """

        async def post(address: Address) -> bytes:
            answer = await self._transport.post(address, path, message, CONTENT_TYPE)
            return _checked(answer, message)

        return await self._reach(post, again_at)

    async def greet(self, target: bytes) -> Welcome:
        """Say hello again, and return what the cluster of an id says now; raises as `send` does."""

        async def greet(address: Address) -> Welcome:
            welcome = await self._greet(address)
            if welcome.cluster_id != target:
                raise UnreachableError(ANOTHER_CLUSTER)
            return welcome

        return await self._reach(greet)

    async def _reach(
        self, request: Callable[[Address], Awaitable[T]], again_at: Address | None = None
    ) -> T:
        """Return what becomes of a request to the target, and note whether it answers."""
        address = await self._choose(again_at)
        if address is None:
            self._lose(NO_ADDRESS)
            raise UnreachableError(NO_ADDRESS)
        try:
            answer = await request(address)
        except OverloadedError as problem:
            if str(problem) == COMPARING:
                problem.again_at = address
            raise
        except TooLargeError:
            raise  # something answers there
        except TargetError as problem:
            self._endpoints.note_failure(address)
            self._lose(str(problem))
            raise
        self._endpoints.note_success(address)
        self._figures.endpoint = address.shown
        self._figures.problem = ""
        return answer

    def batch_bytes(self) -> int:
        """Return how many bytes of changes a batch may have now; one change is always allowed."""
        most_bytes = self._limit.most_bytes()
        self._tell_size(most_bytes)
        return most_bytes

    def note_too_large(self, size_bytes: int) -> None:
        """Have smaller batches sent: one of several changes and so many bytes was too large."""
        self._limit.note_refusal(size_bytes)
        self._tell_size(self._limit.most_bytes())

    @property
    def problem(self) -> str:
        """Why the target does not answer; empty when it does, or nothing is known."""
        return self._figures.problem

    def close(self) -> None:
        """Say no more."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connected is not None:
            self._connected.cancel()
        self._endpoints.close()

    async def _connect(self, connected: asyncio.Future[Welcome]) -> None:
        while not connected.done():
            try:
                await self._try(connected)
            except Exception as problem:
                failure(_log, "saying hello failed", problem)
                await asyncio.sleep(FAILURE_REST_S)

    async def _try(self, connected: asyncio.Future[Welcome]) -> None:
        """Say hello at one address; wait when there is none now."""
        address = await self._choose()
        if address is None:
            if not self._figures.problem:
                self._note_problem("disconnected", NO_ADDRESS)
            await asyncio.sleep(max(MIN_WAIT_S, self._endpoints.wait_s()))
            return
        try:
            welcome = await self._greet(address)
        except TargetError as problem:
            self._endpoints.note_failure(address)
            self._note_problem("disconnected", str(problem), endpoint=address.shown)
            return
        self._begin(address, welcome)
        connected.set_result(welcome)

    async def _choose(self, again: Address | None = None) -> Address | None:
        """Return an address that does not rest, and tell of names that have none."""
        address = await self._endpoints.choose(again)
        why = self._endpoints.problem
        if why != self._figures.names_problem:
            self._figures.names_problem = why
            if why:
                event(_log, logging.WARNING, "no address", **self._named(), why=why)
            else:
                event(_log, logging.INFO, "all names have addresses again", **self._named())
        return address

    async def _greet(self, address: Address) -> Welcome:
        hello = write_hello(self._hello())
        answer = await self._transport.post(address, HELLO_PATH, hello, JSON)
        try:
            welcome = read_welcome(answer)
        except HelloError as problem:
            raise UnreachableError(f"no WAN listener answers there: {problem}") from None
        if welcome.protocol != PROTOCOL:
            raise UnreachableError("the target speaks another protocol than it was offered")
        return welcome

    def _begin(self, address: Address, welcome: Welcome) -> None:
        self._endpoints.note_success(address)
        figures = self._figures
        figures.connected, figures.endpoint, figures.problem = True, address.shown, ""
        event(
            _log,
            logging.INFO,
            "connected",
            **self._named(),
            endpoint=address.shown,
            target=welcome.cluster_name,
            target_version=welcome.version,
        )
        if self._target not in (b"", welcome.cluster_id):
            # It began anew or as a backup: no queue has what the one before had acknowledged.
            event(
                _log,
                logging.WARNING,
                "another cluster answers",
                **self._named(),
                endpoint=address.shown,
                why="it may lack what the one before had: call sync/allmaps",
            )
        self._target = welcome.cluster_id

    def _lose(self, why: str) -> None:
        """Have the next sender say hello again."""
        if self._connected is None or not self._connected.done():
            return
        self._connected = None
        self._figures.connected = False
        self._note_problem("disconnected", why)

    def _tell_size(self, most_bytes: int) -> None:
        """Show the limit of batches in the status as long as there is one.

        The log has a line when it becomes smaller than ever, and when it is over.
        """
        limited = most_bytes < MAX_BATCH_BYTES
        self._figures.size_problem = why = _SIZE_PROBLEM % most_bytes if limited else ""
        if limited and most_bytes < self._told_bytes:
            self._told_bytes = most_bytes
            what = "the target takes only smaller batches"
            event(_log, logging.WARNING, what, **self._named(), why=why)
        elif not limited and self._told_bytes < MAX_BATCH_BYTES:
            self._told_bytes = MAX_BATCH_BYTES
            what = "the target may take batches of any size again"
            event(_log, logging.INFO, what, **self._named())

    def _note_problem(self, what: str, why: str, **more: str) -> None:
        """Tell a problem once, until another one or none takes its place."""
        if why != self._figures.problem:
            self._figures.problem = why
            event(_log, logging.WARNING, what, **self._named(), why=why, **more)

    def _named(self) -> dict[str, str]:
        hello = self._hello()
        return {"replication": hello.replication, "publisher": hello.publisher}


def _checked(data: bytes, message: bytes) -> bytes:
    """Return the answer to a message; another one would acknowledge what the target lacks."""
    try:
        return checked_answer(data, message)
    except ProtocolError as problem:
        raise UnreachableError(f"no usable answer: {problem}") from None
