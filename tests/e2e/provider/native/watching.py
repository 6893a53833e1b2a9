"""Following the objects of a Kubernetes API, for the native cluster's own controllers."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.e2e.provider.layout import Layout

WATCH_TIMEOUT_S: Final = 300
RETRY_DELAY_S: Final = 0.3
REQUEST_TIMEOUT_S: Final = 10.0
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024

KubeObject = dict[str, Any]


def client_session(layout: Layout) -> aiohttp.ClientSession:
    """Return a session with the administrator's certificate; base URL is the API server's."""
    pki: Path = layout.pki
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
    return aiohttp.ClientSession(
        layout.api_server,
        connector=aiohttp.TCPConnector(ssl=context),
        read_bufsize=MAX_EVENT_BYTES,
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
    )


class Mirror:
    """The present objects of one kind; calls back after each change."""

    def __init__(
        self, session: aiohttp.ClientSession, path: str, changed: Callable[[], None]
    ) -> None:
        self._session = session
        self._path = path
        self._changed = changed
        self._objects: dict[str, KubeObject] = {}
        self.synced = False

    @property
    def objects(self) -> list[KubeObject]:
        return list(self._objects.values())

    async def follow(self) -> None:
        """List and watch for ever; a broken connection begins anew."""
        while True:
            try:
                await self._watch(await self._list())
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                sys.stderr.write(f"{self._path}: {error!r}\n")
                await asyncio.sleep(RETRY_DELAY_S)

    async def _list(self) -> str:
        async with self._session.get(self._path) as response:
            response.raise_for_status()
            body = await response.json()
        self._objects = {item["metadata"]["uid"]: item for item in body["items"]}
        self.synced = True
        self._changed()
        return str(body["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> None:
        query: Mapping[str, str] = {
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
        }
        no_limit = aiohttp.ClientTimeout(total=None, connect=REQUEST_TIMEOUT_S)
        async with self._session.get(self._path, params=query, timeout=no_limit) as response:
            response.raise_for_status()
            async for line in response.content:
                self._take(json.loads(line))

    def _take(self, event: KubeObject) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise ValueError(f"the watch ended: {obj.get('message')}")
        if kind == "DELETED":
            self._objects.pop(obj["metadata"]["uid"], None)
        else:
            self._objects[obj["metadata"]["uid"]] = obj
        self._changed()
