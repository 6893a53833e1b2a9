"""Promise: whatever befalls one watch, it is begun again by itself, and no other watch is touched.

Each case lets something befall the watch of GridClusters in the namespace `b` while that of `a`
goes on; then the cause ends, and what happened in `b` meanwhile is heard, as is what comes later.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.operator.handlers.listening import PACE, B, Heard, put, started, watching
from tests.unit.operator.watch_api import (
    HANG_S,
    aborting,
    answering,
    hanging,
    telling,
    trickling,
    watches_only,
)
from tests.unit.waiting import SOON_S, eventually, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_operator.handlers.hearing import Hearing
    from tests.unit.operator.watch_api import Fault

REQUEST_S = 1.0
GONE = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}\n'
BROKEN = b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "broken"}}\n'
BOOKMARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}\n'
FOREIGN = '{"kind": "GridClusterList", "metadata": {"resourceVersion": "1"}, "items": [7]}'
WAYS: dict[str, Fault] = {
    "the RoleBinding is removed": answering(403),
    "the CustomResourceDefinition is deleted": answering(404),
    "the token has expired": answering(401),
    "too many requests": answering(429, **{"Retry-After": "1"}),
    "too many requests, and a page of HTML": answering(429, "<html>", **{"Retry-After": "soon"}),
    "the API server fails": answering(500),
    "the API server is away behind a proxy": answering(503, "<html>"),
    "the version is gone": answering(410),
    "the method is not known": answering(405),
    "a redirect in a circle": answering(302, Location=B),
    "an empty answer": answering(200, " "),
    "a list that is no JSON": answering(200, "no"),
    "a list that is no object": answering(200, "[]"),
    "a list without metadata": answering(200, '{"items": []}'),
    "a list of something else": answering(200, FOREIGN),
    "a list that hangs": hanging,
    "a list that trickles": trickling,
    "connections are reset": aborting,
    "a watch that hangs": watches_only(hanging),
    "a watch that is silent": watches_only(telling(then_s=HANG_S)),
    "a watch that trickles": watches_only(trickling),
    "a watch that is refused": watches_only(answering(403)),
    "a watch that ends at once": watches_only(telling()),
    "a watch that breaks at once": watches_only(aborting),
    "a watch whose version is gone": watches_only(answering(410)),
    "an ERROR event": watches_only(telling(BROKEN, then_s=HANG_S)),
    "an ERROR event of an expired version": watches_only(telling(GONE, then_s=HANG_S)),
    "an ERROR event without a code": watches_only(telling(b'{"type": "ERROR", "object": {}}\n')),
    "bad JSON in the stream": watches_only(telling(b"{no\n", then_s=HANG_S)),
    "no UTF-8 in the stream": watches_only(telling(b"\xff\xfe\n", then_s=HANG_S)),
    "a line that is no object": watches_only(telling(b"7\n", then_s=HANG_S)),
    "an event without an object": watches_only(telling(b'{"type": "ADDED"}\n', then_s=HANG_S)),
    "an event of no metadata": watches_only(telling(b'{"type": "ADDED", "object": {}}\n')),
    "half a line": watches_only(telling(b'{"type": "ADD')),
}


def fails(hearing: Hearing) -> Callable[[], Any]:
    """Return whether just the watch of GridClusters in `b` fails, and says why."""

    async def shown() -> bool:
        failing = hearing.failing()
        found = {(state.target.plural, state.target.namespace) for state in failing}
        return found == {("gridclusters", "b")} and all(state.error for state in failing)

    return shown


async def keeps_failing(hearing: Hearing) -> None:
    """Return after one more failure, before which the watch was never said to work.

    The one before it is the first that is not the cut of the connection.
    """
    (state,) = [state for state in hearing.failing() if state.target.namespace == "b"]
    first = state.restarts + 1
    await until(lambda: state.restarts >= first)
    while state.restarts < first + 1:
        assert state.failing_since_s is not None
        await asyncio.sleep(SOON_S)


def works(hearing: Hearing) -> Callable[[], Any]:
    async def shown() -> bool:
        return not hearing.failing()

    return shown


@pytest.mark.parametrize("way", WAYS)
async def test_what_befalls_one_watch_ends_and_touches_no_other(way: str) -> None:
    heard = Heard()
    pace = replace(PACE, request_s=REQUEST_S) if "hang" in way or "trickle" in way else PACE
    async with started() as api, watching(api, heard, pace) as (hearing, _):
        put(api, "a", "first")
        put(api, "b", "first")
        await heard.name("a", "first")
        await heard.name("b", "first")
        api.befall[B] = WAYS[way]
        api.cut(B)
        await eventually(fails(hearing))
        await keeps_failing(hearing)
        put(api, "b", "meanwhile")
        put(api, "a", "meanwhile")
        await heard.name("a", "meanwhile")
        assert hearing.hears()
        del api.befall[B]
        await heard.name("b", "meanwhile")
        await eventually(works(hearing))
        put(api, "b", "later")
        await heard.name("b", "later")
    assert heard.names.count(("gridclusters", "b", "first")) == 1


async def test_a_watch_that_breaks_after_it_has_worked_does_not_wait_longer_each_time() -> None:
    breaks = watches_only(telling(b'{"type": "ADD', then_s=0.15))
    pace = replace(PACE, proven_s=0.1, retry_max_s=HANG_S)
    async with started() as api, watching(api, Heard(), pace) as (hearing, _):
        api.befall[B] = breaks
        api.cut(B)
        await eventually(fails(hearing))
        (state,) = hearing.failing()
        # With a delay that doubles each time, this many would take a minute and a half.
        await until(lambda: state.restarts >= 12)
