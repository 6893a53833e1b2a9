"""JSON over HTTP to a Kubernetes API server: authentication, timeouts, errors, counting.

`kubernetes.aio` loads the configuration (in a cluster or from a kubeconfig, with token refresh
and exec plug-ins) and holds the connections; requests are plain JSON, so that no generated model
drops or renames a field.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from grid_operator.ports.errors import (
    Conflict,
    Deposed,
    OperatorError,
    Rejected,
    Unavailable,
)
from grid_operator.ports.metrics import OperatorMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grid_operator.api.objects import KubeObject

LOG: Final = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 20.0
CONNECTION_LIMIT: Final = 64
MESSAGE_LIMIT_CHARACTERS: Final = 1024
RETRY_AFTER_MAX_S: Final = 120.0
NOT_IN_SCHEMA: Final = "failed to create typed patch object"
"""What an API server says, with status 500, of an applied object with a field that its kind does
not have."""

DOUBLE_NODE_PORT: Final = "duplicate nodePort"
"""What it says, with status 500 too, of a Service with two ports on one port of the nodes."""
INVALID: Final = "Invalid"
"""The API server's reason of a 422."""

JSON_TYPE: Final = "application/json"
APPLY_TYPE: Final = "application/apply-patch+yaml"
MERGE_TYPE: Final = "application/merge-patch+json"
JSON_PATCH_TYPE: Final = "application/json-patch+json"

DRY_RUN: Final = "DRY RUN"
"""What a request that only asks what would be written is counted as."""
READ_METHODS: Final = frozenset({"GET", DRY_RUN})
VERBS: Final = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
"""What metrics call a method."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to reach and convince an API server, for other clients than this one."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    private_key_path: str | None
    authorization: str | None = field(repr=False)
    """Value of the `Authorization` header."""
    proxy: str | None = None
    """URL of the proxy that the kubeconfig names."""
    server_name: str | None = None
    """Whose certificate the API server has to show; None: that of its address."""


class KubeRest:
    """A connection to one API server. Counts what it sends, by method."""

    def __init__(
        self,
        client: ApiClient,
        timeout_s: float = REQUEST_TIMEOUT_S,
        namespace: str | None = None,
        metrics: OperatorMetrics | None = None,
    ) -> None:
        self.metrics = metrics or OperatorMetrics()
        self.may_write: Callable[[], bool] = lambda: True
        """Asked before each request that may change something: whether it still may."""
        self.calls: Counter[str] = Counter()
        """Requests sent, by HTTP method."""
        self.default_namespace = namespace
        """Namespace of the kubeconfig's context, None without."""
        self._client = client
        self._timeout_s = timeout_s

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        metrics: OperatorMetrics | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> KubeRest:
        """Return a connection from a kubeconfig file, or from the pod's service account.

        Args:
            kubeconfig: Path of the file; None: the service account of the pod.
            context: A context of that file; None: its current one.
            metrics: Where requests are counted.
            timeout_s: For each request, its answer included.

        Raises:
            Rejected: The configuration is missing or unusable.
        """
        namespace = None
        configuration = Configuration()
        configuration.connection_pool_maxsize = CONNECTION_LIMIT
        try:
            if kubeconfig is None:
                kube_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
            else:
                await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                    kubeconfig, context, configuration, persist_config=False
                )
                namespace = _context_namespace(kubeconfig, context)
        except (kube_config.ConfigException, OSError) as error:
            raise Rejected(f"no usable Kubernetes configuration: {error}", "Config") from error
        return cls(ApiClient(configuration), timeout_s, namespace, metrics)

    @property
    def writes(self) -> int:
        """Return the number of requests sent so far that may have changed something."""
        return sum(count for method, count in self.calls.items() if method not in READ_METHODS)

    async def credentials(self) -> Credentials:
        """Return what other clients need, with a token that is fresh now."""
        configuration = self._client.configuration
        return Credentials(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            authorization=await configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            ),
            proxy=configuration.proxy,
            server_name=configuration.tls_server_name,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> KubeObject | None:
        """Return what is at the path, None when there is nothing (404)."""
        status, answer = await self._send("GET", path, query)
        return None if status == 404 else self._accept(status, answer, path)

    async def create(self, path: str, body: KubeObject) -> KubeObject:
        """POST an object to a collection."""
        status, answer = await self._send("POST", path, None, body)
        return self._accept(status, answer, path)

    async def replace(self, path: str, body: KubeObject) -> KubeObject:
        """PUT an object; its resourceVersion is the precondition."""
        status, answer = await self._send("PUT", path, None, body)
        return self._accept(status, answer, path)

    async def patch(
        self,
        path: str,
        body: KubeObject | list[KubeObject],
        content_type: str,
        query: Mapping[str, str] | None = None,
    ) -> KubeObject:
        """PATCH an object; the content type says which kind of patch it is."""
        status, answer = await self._send("PATCH", path, query, body, content_type)
        return self._accept(status, answer, path)

    async def delete(self, path: str, body: KubeObject) -> None:
        """DELETE an object; no error when it is gone."""
        status, answer = await self._send("DELETE", path, None, body)
        if status != 404:
            self._accept(status, answer, path)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: KubeObject | list[KubeObject] | None = None,
        content_type: str = JSON_TYPE,
    ) -> tuple[int, Answer]:
        writes = method not in READ_METHODS
        if writes and not self.may_write():
            raise Deposed("this operator does not hold its Lease any more")
        self.calls[DRY_RUN if "dryRun" in (query or {}) else method] += 1
        status = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                request = await self._client.param_serialize(
                    method,
                    path,
                    query_params=list((query or {}).items()),
                    header_params={"Accept": JSON_TYPE, "Content-Type": content_type},
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = await self._client.call_api(*request)
                data = cast("bytes", await response.read())  # type: ignore[no-untyped-call]
                status = response.status
        except TimeoutError as error:
            raise Unavailable(f"{method} {path}: no answer in {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{method} {path}: {type(error).__name__}: {error}") from error
        finally:
            self.metrics.api_called(VERBS[method], status)
        if writes:
            LOG.debug("wrote %s %s: %d", method, path, response.status)
        return response.status, Answer(data, response.headers.get("Retry-After", ""))

    def _accept(self, status: int, answer: Answer, path: str) -> KubeObject:
        if not 200 <= status < 300:
            raise classify_error(status, answer, path)
        return answer.document()


class Answer:
    """The body of a response, and when to come back."""

    def __init__(self, data: bytes, retry_after: str) -> None:
        self._data = data
        self._retry_after = retry_after

    def document(self) -> KubeObject:
        """Return the JSON object.

        Raises:
            Unavailable: It is not one: this is not (or not yet) an API server.
        """
        try:
            document: Any = json.loads(self._data)
        except ValueError as error:
            raise Unavailable("the API server answered something other than JSON") from error
        if not isinstance(document, dict):
            raise Unavailable("the API server answered something other than an object")
        return document

    def message(self) -> str:
        """Return the words of a Status object, or what there is."""
        try:
            text = str(self.document().get("message", ""))
        except Unavailable:
            text = self._data.decode(errors="replace")
        return text[:MESSAGE_LIMIT_CHARACTERS]

    def reason(self) -> str:
        """Return the reason of a Status object, empty when it has none."""
        try:
            return str(self.document().get("reason", ""))
        except Unavailable:
            return ""

    def retry_after_s(self) -> float:
        """Return the seconds of the `Retry-After` header, 0 without."""
        text = self._retry_after
        return min(float(text), RETRY_AFTER_MAX_S) if text.isdecimal() else 0.0


def classify_error(status: int, answer: Answer, path: str) -> OperatorError:
    """Return the error that says what to do about an HTTP status.

    Source: Kubernetes API conventions, "HTTP Status codes".
    """
    message = f"{answer.message()} ({status} for {path})"
    if status in (409, 410):  # 410: a page of a list that has expired
        return Conflict(message)
    if status == 500 and NOT_IN_SCHEMA in message:  # the spec's fault, whatever the status says
        return Rejected(message, "BadRequest")
    if status == 500 and DOUBLE_NODE_PORT in message:
        return Rejected(message, INVALID)
    if status in (401, 408, 429) or status >= 500:  # 401: a token may be renewed at any time
        return Unavailable(message, answer.retry_after_s())
    if status == 403 and "is being terminated" in message:
        return Conflict(message)
    return Rejected(message, answer.reason() or "Rejected")


def _context_namespace(kubeconfig: str, context: str | None) -> str | None:
    contexts, current = kube_config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
    named = [c for c in contexts if c["name"] == context]
    chosen = named[0] if named else current
    return cast("str | None", chosen["context"].get("namespace"))
