"""Lists and watches of the Kubernetes API, one request at a time.

Every request here has an end, whatever the other side does: a page of a list has `REQUEST_S`, a
watch asks the API server for an end and does not wait much longer for it. What to do after an end
or an error is for the caller to decide.

Only the metadata of objects is asked for, so that a list is small and holds no Secret's content.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from grid_operator.api.names import CLUSTER_LABEL
from grid_operator.ports.errors import OperatorError, Rejected, Silent, Unavailable
from grid_operator.ports.kubernetes.client import LIST_PAGE_SIZE, collection_path
from grid_operator.ports.kubernetes.rest import Answer, classify_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from grid_operator.ports.kubernetes.rest import Credentials

CONNECT_S: Final = 10.0
REQUEST_S: Final = 20.0
"""For a page of a list with its body, and for the head of a watch's answer."""
GRACE_S: Final = 10.0
"""How much longer than it asked for a watch waits for the API server to end it."""
LINE_LIMIT_BYTES: Final = 32 << 20
ERROR_LIMIT_BYTES: Final = 64 << 10
LIST_TYPE: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
WATCH_TYPE: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """The objects that one watch is about."""

    api_version: str
    plural: str
    namespace: str | None
    """None: all namespaces."""
    selector: str | None = None
    """A label selector; None: all objects."""

    @property
    def path(self) -> str:
        """The URL path of the collection."""
        return collection_path(self.api_version, self.plural, self.namespace)

    def __str__(self) -> str:
        """Return what a log line calls it."""
        where = "all namespaces" if self.namespace is None else f"namespace {self.namespace}"
        return f"{self.plural} in {where}"


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """What a list or a watch says of one object."""

    namespace: str
    name: str
    version: str
    cluster: str | None = None
    """The value of its label of that name: the cluster that it belongs to."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    version: str
    """Where a watch goes on after this list."""
    token: str
    """Of the next page; empty: this was the last one."""
    objects: tuple[ObjectMeta, ...]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch."""

    change: str
    """ADDED, MODIFIED or DELETED; empty: a bookmark, or a type that this operator does not know."""
    version: str
    meta: ObjectMeta


class KubeWatch:
    """Lists and watches over connections of their own, of which there may be any number."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        credentials: Callable[[], Awaitable[Credentials]],
        request_s: float = REQUEST_S,
        grace_s: float = GRACE_S,
    ) -> None:
        """Use a session for all requests.

        Args:
            session: Has no limit of connections: each watch keeps one.
            credentials: Asked before each request, so that a token is always the newest one.
            request_s: For a page of a list, and for the head of a watch's answer.
            grace_s: How much longer than asked for a watch waits for its end.
        """
        self._session = session
        self._credentials = credentials
        self._request_s = request_s
        self._grace_s = grace_s

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, credentials: Callable[[], Awaitable[Credentials]], **limits: float
    ) -> AsyncIterator[KubeWatch]:
        """Give lists and watches while the block runs.

        Raises:
            Rejected: The certificates of the configuration are unusable.
            Unavailable: What makes the token does not answer.
        """
        try:
            async with _in_time(REQUEST_S, "credentials"):
                tls = tls_context(await credentials())
        except (OSError, ssl.SSLError) as error:
            raise Rejected(f"no usable certificates for the API server: {error}") from error
        connector = aiohttp.TCPConnector(limit=0, ssl=tls)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        # As of all other requests: a proxy that the environment names is used.
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=True
        ) as session:
            yield cls(session, credentials, **limits)

    async def fetch_page(self, target: WatchTarget, token: str) -> Page:
        """Return a page of a list; the token is the one of the page before, empty for the first.

        Raises:
            Rejected: The API server refuses it.
            Conflict: The list is too old to be continued.
            Unavailable: There is no (complete) answer in time, or it is no list.
        """
        query = {"limit": str(LIST_PAGE_SIZE)} | _selection(target)
        if token:
            query["continue"] = token
        async with (
            _in_time(self._request_s, f"list of {target}"),
            self._opened(target, query, LIST_TYPE) as response,
        ):
            return _page(await response.read())

    async def follow(
        self,
        target: WatchTarget,
        version: str,
        seconds: int,
        begun: Callable[[], None],
        received: Callable[[WatchEvent], None],
    ) -> None:
        """Watch from a version on; return when the API server has ended the watch in good order.

        Args:
            target: What to watch.
            version: Where a list, or a line of an earlier watch, ended.
            seconds: When the API server is to end it.
            begun: Called when the head of the answer is there.
            received: Called for each line.

        Raises:
            Rejected: The API server refuses it.
            Conflict: The version is too old: a list is needed.
            Silent: The connection said nothing until long after its end.
            Unavailable: The connection broke, or said something that is no event.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        } | _selection(target)
        open_ = heard = False
        try:
            async with asyncio.timeout(self._request_s) as limit:
                async with self._opened(target, query, WATCH_TYPE) as response:
                    if not limit.expired():
                        limit.reschedule(_now() + seconds + self._grace_s)
                    open_ = True
                    begun()
                    lines = _Lines()
                    async for data in response.content.iter_any():
                        for line in lines.fed(data):
                            received(_event(line, target.path))
                            heard = True
                    lines.end()
        except TimeoutError as error:
            if not open_:
                raise Unavailable(f"no answer in {self._request_s:g} s ({target.path})") from error
            if not heard:  # else it lives, and the API server, or a proxy, disregards the time
                raise Silent(f"the connection is silent ({target.path})") from error

    @contextlib.asynccontextmanager
    async def _opened(
        self, target: WatchTarget, query: Mapping[str, str], accept: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give an answer with status 200."""
        credentials = await self._fresh_credentials()
        headers = {"Accept": accept}
        if credentials.authorization is not None:
            scheme, _, token = credentials.authorization.partition(" ")
            headers["Authorization"] = f"{scheme.capitalize()} {token}"
        url = credentials.server.rstrip("/") + target.path
        try:
            async with self._session.get(
                url,
                params=query,
                headers=headers,
                allow_redirects=False,
                proxy=credentials.proxy,
                server_hostname=credentials.server_name,
            ) as response:
                if response.status != 200:
                    raise await _refusal(response, target.path)
                yield response
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error} ({target.path})") from error

    async def _fresh_credentials(self) -> Credentials:
        try:
            return await self._credentials()
        except Exception as error:  # of a file, of a program that makes tokens, of its output
            raise Unavailable(f"no credentials: {type(error).__name__}: {error}") from error


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return what connections to the API server are made with."""
    context = ssl.create_default_context(cafile=credentials.ca_path)
    if credentials.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.certificate_path is not None:
        context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    return context


def _now() -> float:
    return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def _in_time(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"{what}: no complete answer in {seconds:g} s") from error


def _selection(target: WatchTarget) -> dict[str, str]:
    return {} if target.selector is None else {"labelSelector": target.selector}


async def _refusal(response: aiohttp.ClientResponse, path: str) -> OperatorError:
    data = await response.content.read(ERROR_LIMIT_BYTES)
    answer = Answer(data, response.headers.get("Retry-After", ""))
    return classify_error(response.status, answer, path)


class _Lines:
    """Whole lines, of any length up to the limit; `StreamReader` has a far lower one."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def fed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in the data."""
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > LINE_LIMIT_BYTES:
            raise Unavailable(f"the watch sent a line of more than {LINE_LIMIT_BYTES} bytes")
        return [bytes(line) for line in lines if line.strip()]

    def end(self) -> None:
        """Raise Unavailable when the last line has no end."""
        if self._rest.strip():
            raise Unavailable("the watch ended in the middle of a line")


def _page(data: bytes) -> Page:
    document = Answer(data, "").document()
    meta, items = document.get("metadata"), document.get("items") or []
    if not isinstance(meta, dict) or not isinstance(items, list):
        raise Unavailable("the API server answered something other than a list")
    version = str(meta.get("resourceVersion") or "")
    return Page(
        version, str(meta.get("continue") or ""), tuple(_object_meta(item) for item in items)
    )


def _event(line: bytes, path: str) -> WatchEvent:
    try:
        event: Any = json.loads(line)
        kind, obj = event["type"], event["object"]
        if kind != "ERROR":
            meta = _object_meta(obj)
            return WatchEvent(kind if kind in CHANGES else "", meta.version, meta)
        code = int(obj["code"])
    except (ValueError, TypeError, KeyError) as error:
        raise Unavailable("the watch sent something other than an event") from error
    raise classify_error(code, Answer(json.dumps(obj).encode(), ""), path)


def _object_meta(obj: Any) -> ObjectMeta:
    try:
        meta = obj["metadata"]
        return ObjectMeta(
            str(meta.get("namespace") or ""),
            str(meta.get("name") or ""),
            str(meta.get("resourceVersion") or ""),
            (meta.get("labels") or {}).get(CLUSTER_LABEL),
        )
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Unavailable("the API server sent something other than an object") from error
