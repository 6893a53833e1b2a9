"""The fake API server with watches, and with what can befall a list or a watch."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from tests.unit.operator.fake_api import PLURALS, FakeApi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_operator.api.objects import KubeObject

    Fault = Callable[["Asked"], Awaitable[web.StreamResponse | None]]

HANG_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A list or a watch that a client asks for."""

    request: web.Request
    path: str
    is_watch: bool


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    kind: str
    path: str
    obj: KubeObject


class WatchApi(FakeApi):
    """Lists and watches what there is; `befall` says what else becomes of a request."""

    def __init__(self) -> None:
        super().__init__()
        self.befall: dict[str, Fault] = {}
        """By the path of a collection: asked first; None: it is answered as usual."""
        self.watching: dict[str, int] = {}
        """Open watches by the path of their collection."""
        self.lists: dict[str, int] = {}
        """Lists so far, by the path of their collection."""
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        """In place of everything else."""
        self.lose_events = False
        self._befall_others: Fault | None = None
        self._changes: list[_Change] = []
        self._news = asyncio.Event()
        self._cut: dict[str, asyncio.Event] = {}

    def put(self, path: str, obj: KubeObject) -> KubeObject:
        known = path in self.objects
        before = self.objects.get(path)
        stored = super().put(path, obj)
        if stored is not before:
            self._tell("MODIFIED" if known else "ADDED", path, stored)
        return stored

    def remove(self, path: str) -> None:
        gone = self.objects.get(path)
        super().remove(path)
        if gone is not None:
            meta = {**gone["metadata"], "resourceVersion": str(next(self._versions))}
            self._tell("DELETED", path, {**gone, "metadata": meta})

    def cut(self, path: str) -> None:
        """Break the connections of the open watches of a collection."""
        self._cut.pop(path, asyncio.Event()).set()

    def befall_all(self, fault: Fault | None) -> None:
        """Let something befall all lists and watches, open watches included; None: no more."""
        self._befall_others = fault
        if fault is not None:
            for path in list(self._cut):
                self.cut(path)

    def refuse(self, namespace: str, status: int) -> None:
        """Refuse everything in a namespace, as after the end of its RoleBinding."""
        inside = f"/namespaces/{namespace}/"

        def refusal(_method: str, path: str) -> web.Response | None:
            return web.Response(status=status, text="{}") if inside in path else None

        self.fault = refusal
        for path in [path for path in self._cut if inside in path]:
            self.befall[path] = answering(status)
            self.cut(path)

    def permit(self) -> None:
        """Refuse nothing any more."""
        self.fault = lambda _method, _path: None
        self.befall.clear()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.answer is not None:
            return await self.answer(request)
        path = request.path.rstrip("/")
        if request.method != "GET" or path.rpartition("/")[2] not in PLURALS:
            return await super()._handle(request)
        is_watch = request.query.get("watch") == "true"
        if (fault := self.befall.get(path, self._befall_others)) is not None:
            answer = await fault(Asked(request, path, is_watch))
            if answer is not None:
                return answer
        if is_watch:
            return await self._watch(request, path)
        self.lists[path] = self.lists.get(path, 0) + 1
        return await super()._handle(request)

    def _get(self, path: str, status: bool, body: Any, request: web.Request) -> web.Response:
        if path.rpartition("/")[2] not in PLURALS:
            return super()._get(path, status, body, request)
        selector = request.query.get("labelSelector")
        if selector is not None and "=" in selector:
            return super()._get(path, status, body, request)
        items = [obj for name, obj in self.objects.items() if _selects(path, selector, name, obj)]
        meta = {"resourceVersion": str(self._latest())}
        return web.json_response({"metadata": meta, "items": items})

    def _latest(self) -> int:
        return self._changes[-1].version if self._changes else 0

    def _tell(self, kind: str, path: str, obj: KubeObject) -> None:
        version = int(obj["metadata"]["resourceVersion"])
        self._changes.append(_Change(version, kind, path, copy.deepcopy(obj)))
        self._news.set()
        self._news = asyncio.Event()

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query["resourceVersion"] or 0)
        selector = request.query.get("labelSelector")
        cut = self._cut.setdefault(path, asyncio.Event())
        self.watching[path] = self.watching.get(path, 0) + 1
        try:
            async with asyncio.timeout(int(request.query["timeoutSeconds"])):
                while not cut.is_set():
                    news = self._news
                    for change in [c for c in self._changes if c.version > since]:
                        since = change.version
                        if not self.lose_events and _selects(
                            path, selector, change.path, change.obj
                        ):
                            await send_event(response, change.kind, change.obj)
                    await _first_of(news, cut)
        except TimeoutError:
            bookmark = {"metadata": {"resourceVersion": str(self._latest())}}
            await send_event(response, "BOOKMARK", bookmark)
        finally:
            self.watching[path] -= 1
        if cut.is_set() and request.transport is not None:
            request.transport.abort()
        return response


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _selects(path: str, selector: str | None, name: str, obj: KubeObject) -> bool:
    """Return whether a collection, of one namespace or of all, has an object."""
    collection = name.rpartition("/")[0]
    if "/namespaces/" not in path:
        collection = re.sub("/namespaces/[^/]+", "", collection)
    return collection == path and (
        selector is None or selector in obj["metadata"].get("labels", {})
    )


async def send_event(response: web.StreamResponse, kind: str, obj: object) -> None:
    await response.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")


def answering(status: int, body: str = "", **headers: str) -> Fault:
    """Answer lists and watches with this."""

    async def answer(_asked: Asked) -> web.StreamResponse:
        return web.Response(
            status=status, text=body or f'{{"message": "{status}"}}', headers=headers
        )

    return answer


def watches_only(fault: Fault) -> Fault:
    """Let lists be."""

    async def answer(asked: Asked) -> web.StreamResponse | None:
        return await fault(asked) if asked.is_watch else None

    return answer


def telling(*lines: bytes, then_s: float = 0.0) -> Fault:
    """Begin an answer with these lines, wait, and end it."""

    async def answer(asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(asked.request)
        for line in lines:
            await response.write(line)
        await asyncio.sleep(then_s)
        return response

    return answer


async def hanging(_asked: Asked) -> web.StreamResponse | None:
    """Say nothing, and do not end."""
    await asyncio.sleep(HANG_S)
    return None


async def aborting(asked: Asked) -> web.StreamResponse | None:
    """Reset the connection."""
    assert asked.request.transport is not None
    asked.request.transport.abort()
    return web.Response()


async def trickling(asked: Asked) -> web.StreamResponse | None:
    """Send a byte now and then, and never a whole line."""
    response = web.StreamResponse()
    await response.prepare(asked.request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)
