"""Asks members over their management listener what they say of themselves.

A member is another program that may hang, trickle, lie or be something else by now: every
question has a deadline and a size, every answer is checked, and whatever is wrong becomes a
`MemberProblem` in words. Credentials appear in no message and in no log line.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp

from grid_operator.api.names import MANAGEMENT_PORT
from grid_operator.decide.model import MemberProblem, MemberView

if TYPE_CHECKING:
    from typing import Self

    from grid_operator.api.objects import KubeObject

CONNECT_TIMEOUT_S: Final = 1.0
VIEW_TIMEOUT_S: Final = 3.0
"""For all questions to one member together."""
BODY_LIMIT_BYTES: Final = 256 * 1024
HEADER_LIMIT_BYTES: Final = 16 * 1024
CONNECTION_LIMIT: Final = 256

HEALTH_PATH: Final = "/grid/health"
READY_PATH: Final = "/grid/health/ready"
CLUSTER_PATH: Final = "/grid/rest/cluster"
VERSION_PATH: Final = "/grid/rest/management/cluster/version"

FieldT = TypeVar("FieldT", str, int, bool)


class _RefusedError(Exception):
    """The member answers 401."""


class _BadAnswerError(Exception):
    """The member answered something that is not in the interface."""


class MemberClient:
    """Implements `ports.api.Members` with HTTP. Use as an async context manager."""

    def __init__(self, port: int = MANAGEMENT_PORT, view_timeout_s: float = VIEW_TIMEOUT_S) -> None:
        self._port = port
        self._view_timeout_s = view_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTION_LIMIT, force_close=True),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=HEADER_LIMIT_BYTES,
            max_field_size=HEADER_LIMIT_BYTES,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch_view(
        self, pod: KubeObject, username: str, password: str
    ) -> MemberView | MemberProblem:
        """Ask one member what it says of itself; a problem, not an exception, when it cannot."""
        address = pod["status"]["podIP"]
        host = f"[{address}]" if ":" in address else address
        headers = {"Authorization": aiohttp.encode_basic_auth(username, password, "utf-8")}
        try:
            async with asyncio.timeout(self._view_timeout_s):
                return await self._view(f"http://{host}:{self._port}", headers)
        except TimeoutError:
            return MemberProblem(f"gave no complete answer within {self._view_timeout_s:g} s")
        except _RefusedError:
            return MemberProblem("does not accept the operator's credentials", unauthenticated=True)
        except _BadAnswerError as error:
            return MemberProblem(str(error))
        except aiohttp.ClientConnectorError as error:
            return MemberProblem(f"cannot be reached: {error.os_error.strerror or error.os_error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return MemberProblem(f"broke off its answer: {type(error).__name__}")

    async def _view(self, base_url: str, headers: dict[str, str]) -> MemberView:
        health = await self._get_json(base_url + HEALTH_PATH, headers)
        cluster = await self._get_json(base_url + CLUSTER_PATH, headers)
        version = await self._get_json(base_url + VERSION_PATH, headers)
        status, _ = await self._get(base_url + READY_PATH, headers)
        member = _local_member(cluster)
        return MemberView(
            uuid=_field(member, "uuid", str, CLUSTER_PATH),
            address=_field(member, "address", str, CLUSTER_PATH),
            version=_field(member, "memberVersion", str, CLUSTER_PATH),
            cluster_version=_field(version, "version", str, VERSION_PATH),
            node_state=_field(health, "nodeState", str, HEALTH_PATH),
            cluster_state=_field(health, "clusterState", str, HEALTH_PATH),
            cluster_safe=_field(health, "clusterSafe", bool, HEALTH_PATH),
            migration_queue_size=_field(health, "migrationQueueSize", int, HEALTH_PATH),
            cluster_size=_field(health, "clusterSize", int, HEALTH_PATH),
            ready=status == 200,
        )

    async def _get_json(self, url: str, headers: dict[str, str]) -> dict[str, object]:
        path = urlsplit(url).path
        status, body = await self._get(url, headers)
        if status == 401:
            raise _RefusedError
        if status != 200:
            raise _BadAnswerError(f"answered {status} to GET {path}")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _BadAnswerError(f"answered something other than JSON to GET {path}") from error
        if not isinstance(document, dict):
            raise _BadAnswerError(f"answered no JSON object to GET {path}")
        return document

    async def _get(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("MemberClient is used outside its context")
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > BODY_LIMIT_BYTES:
                    raise _BadAnswerError(f"answered more than {BODY_LIMIT_BYTES} bytes")
            return response.status, bytes(body)


def _local_member(document: dict[str, object]) -> dict[str, object]:
    members = document.get("members")
    for member in members if isinstance(members, list) else ():
        if isinstance(member, dict) and member.get("localMember") is True:
            return member
    raise _BadAnswerError(f"answered no local member to GET {CLUSTER_PATH}")


def _field(document: dict[str, object], name: str, kind: type[FieldT], path: str) -> FieldT:
    value = document.get(name)
    if type(value) is not kind:  # bool is an int to isinstance
        raise _BadAnswerError(f"answered no proper {name} to GET {path}")
    return value
