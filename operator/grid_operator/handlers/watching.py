"""The HTTP session that kopf watches with, and how long each watch has been silent.

The API server sends bookmarks about every minute. Whatever comes in on a watch, a bookmark too, is
a sign of life; kopf renews a watch without any (see `settings`), and the metrics show its age.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
import kopf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grid_operator.ports.kube_rest import Credentials
    from grid_operator.ports.metrics import OperatorMetrics

WATCH_PARAMETER: Final = "watch"


class WatchAges:
    """When each watch last gave a sign of life."""

    def __init__(self, steady_s: Callable[[], float], metrics: OperatorMetrics) -> None:
        """Know of no watch.

        Args:
            steady_s: A monotonic clock, in seconds.
            metrics: Where the ages are shown, from the first sign of each resource's watch on.
        """
        self._steady_s = steady_s
        self._metrics = metrics
        self._heard: dict[str, dict[str, float]] = {}
        """By resource, then by the path of the watch: one resource has a watch per namespace."""

    def heard(self, path: str) -> None:
        """Note a sign of life of the watch with this URL path."""
        resource = path.rpartition("/")[2]
        if resource not in self._heard:
            self._heard[resource] = {}
            self._metrics.show_watch(resource, lambda: self.age_s(resource))
        self._heard[resource][path] = self._steady_s()

    def age_s(self, resource: str) -> float:
        """Return the seconds since the longest silent watch of the resource said anything."""
        return self._steady_s() - min(self._heard[resource].values())


class _HeardStream:
    """A stream that tells whenever something comes in."""

    def __init__(self, stream: aiohttp.StreamReader, heard: Callable[[], None]) -> None:
        self._stream = stream
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for chunk in self._stream.iter_chunked(size):
            self._heard()
            yield chunk


def watching_response(ages: WatchAges) -> type[aiohttp.ClientResponse]:
    """Return a response class that notes what watches say."""

    class WatchingResponse(aiohttp.ClientResponse):
        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            """Begin to read; the first sign of life is the head of the answer."""
            response = await super().start(connection)
            if WATCH_PARAMETER in self.url.query:
                path = self.url.path
                ages.heard(path)
                listening = _HeardStream(self.content, lambda: ages.heard(path))
                self.content = cast("aiohttp.StreamReader", listening)
            return response

    return WatchingResponse


def connect(credentials: Credentials, ages: WatchAges) -> kopf.AiohttpSession:
    """Return a session with these credentials as kopf wants them; kopf closes it."""
    headers = {}
    if credentials.authorization is not None:
        scheme, _, token = credentials.authorization.partition(" ")
        headers["Authorization"] = f"{scheme.capitalize()} {token}"
    return kopf.AiohttpSession(
        server=credentials.server,
        aiohttp_session=aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=_tls(credentials)),
            headers=headers,
            response_class=watching_response(ages),
        ),
    )


def _tls(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=credentials.ca_path)
    if credentials.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.certificate_path is not None:
        context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    return context
