"""The operations of group DATA: maps and queues."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import start
from grid_member.config.names import find
from grid_member.engine.api import Entry, Item, Reason, Refused
from grid_member.http.table import MAX_POLL_S
from grid_member.http.wire.answers import EMPTY, NOTHING, TEXT, Answer, error
from grid_member.http.wire.watch import PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_member.engine.api import Done, Engine
    from grid_member.http.routes.calls import HttpCall

_MAPS: Final = "/grid/rest/maps/"
BINARY: Final = "application/octet-stream"
_SECONDS: Final = re.compile(r"0*([0-9]{1,10})", re.ASCII)
_STATUS: Final = {Reason.NOT_CONFIGURED: 404, Reason.FAILED: 500}
_RETRY: Final = frozenset({Reason.UNAVAILABLE, Reason.OVERLOADED, Reason.CLOSING})


async def settle(begin: Callable[[Done[None]], object]) -> Answer:
    """Begin a write and return its answer."""
    result = await start(begin)
    return EMPTY if result is None else refusal(result)


def refusal(refused: Refused) -> Answer:
    """Return the answer for an operation that the engine did not carry out."""
    status = _STATUS.get(refused.reason, 503)
    return error(status, refused.message, retry=refused.reason in _RETRY)


def name_problem(call: HttpCall) -> Answer | None:
    """Return the answer for an empty or too long name or key, None when both are fine."""
    limits = call.member.config.limits
    name, key = call.names.get("name"), call.names.get("key")
    if not name or key == "":
        return error(400, "missing name" if not name else "missing key")
    if len(name.encode()) > limits.name_bytes:
        return error(414, "the name is too long")
    if key is not None and len(key.encode()) > limits.key_bytes:
        return error(414, "the key is too long")
    return None


def problem(call: HttpCall) -> Answer | None:
    """Return the answer that needs no body: nobody is invited to send one in vain."""
    found = name_problem(call)
    if found is None and "Expect" in call.request.headers and not _is_configured(call):
        return error(404, "no configuration matches the name")
    return found


def _is_configured(call: HttpCall) -> bool:
    config = call.member.config
    structures: Mapping[str, object] = (
        config.maps if call.route.path.startswith(_MAPS) else config.queues
    )
    # A member that is not ready says so instead.
    return not call.member.ready or find(structures, call.names["name"]) is not None


async def no_name(call: HttpCall) -> Answer:
    """Refuse a path that ends before the name."""
    return error(400, "missing name")


async def map_put(call: HttpCall) -> Answer:
    """Create or replace an entry."""
    names, engine = call.names, call.member.engine
    return await settle(
        lambda done: engine.map_put(names["name"], names["key"], call.body, call.content_type, done)
    )


async def map_get(call: HttpCall) -> Answer:
    """Read an entry."""
    names, engine = call.names, call.member.engine
    result: Entry | Refused | None = await start(
        lambda done: engine.map_get(names["name"], names["key"], done)
    )
    if isinstance(result, Refused):
        return refusal(result)
    return NOTHING if result is None else Answer(200, result.value, result.content_type)


async def map_remove(call: HttpCall) -> Answer:
    """Remove an entry."""
    names, engine = call.names, call.member.engine
    return await settle(lambda done: engine.map_remove(names["name"], names["key"], done))


async def map_clear(call: HttpCall) -> Answer:
    """Remove all entries.

    A query is a key in the wrong place and a trailing slash an empty key, most likely bugs of the
    client, which does not mean to clear the map.
    """
    if call.target.has_query:
        return error(400, "a clear takes no query: a key is a part of the path, its ? sent as %3F")
    if call.target.trailing_slash:
        return error(400, "missing key")
    engine = call.member.engine
    return await settle(lambda done: engine.map_clear(call.names["name"], done))


async def queue_offer(call: HttpCall) -> Answer:
    """Append an item."""
    engine = call.member.engine
    result: bool | Refused = await start(
        lambda done: engine.queue_offer(call.names["name"], call.body, call.content_type, done)
    )
    if isinstance(result, Refused):
        return refusal(result)
    return EMPTY if result else error(503, "the queue is full")


async def queue_size(call: HttpCall) -> Answer:
    """Count the items."""
    engine = call.member.engine
    result: int | Refused = await start(lambda done: engine.queue_size(call.names["name"], done))
    return refusal(result) if isinstance(result, Refused) else Answer(200, b"%d" % result, TEXT)


async def queue_poll(call: HttpCall) -> Answer:
    """Take the head of the queue, waiting for one; it is gone once the client has it."""
    seconds = _SECONDS.fullmatch(call.names["seconds"])
    if seconds is None or int(seconds[1]) > MAX_POLL_S:
        return error(400, f"seconds must be from 0 to {MAX_POLL_S}")
    call.need_client()
    engine, loop = call.member.engine, asyncio.get_running_loop()
    began_s = loop.time()
    result = await _poll(engine, call.names["name"], float(seconds[1]))
    if isinstance(result, Refused):
        return refusal(result)
    if result is None:
        return NOTHING
    item = result
    # As on the fast path: who has just asked is there, who has waited may have gone without a word.
    waited = loop.time() - began_s >= PERIOD_S
    return Answer(
        200,
        item.value,
        item.content_type or default_type(item.value),
        on_delivery=lambda: call.deliver(item) if waited else engine.queue_confirm(item),
        on_loss=lambda: engine.queue_return(item),
        until_s=item.until_s,
    )


async def _poll(engine: Engine, name: str, timeout_s: float) -> Item | Refused | None:
    future: asyncio.Future[Item | Refused | None] = asyncio.get_running_loop().create_future()

    def done(result: Item | Refused | None) -> None:
        if not future.done():
            future.set_result(result)
        elif isinstance(result, Item):
            engine.queue_return(result)

    poll = engine.queue_poll(name, timeout_s, done)
    try:
        return await future
    except asyncio.CancelledError:
        # The client left. The item may have arrived in the same tick, unseen by this task.
        poll.cancel()
        if not future.cancelled() and isinstance(future.result(), Item):
            engine.queue_return(future.result())  # type: ignore[arg-type]
        raise


def default_type(value: bytes) -> str:
    """Return the content type of an item that was offered without one."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return BINARY
    return TEXT
