"""One member as the client sees it: what it says of itself, and what it is asked to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from grid_member.client.errors import ConflictError, FinalError, PassingError
from grid_member.client.wire import CALL_S, exchange

if TYPE_CHECKING:
    from grid_member.client.wire import ConnectOptions, Endpoint, HttpReply

HEALTH_PATH: Final = "/grid/health"
READY_PATH: Final = "/grid/health/ready"
SAFE_PATH: Final = "/grid/health/cluster-safe"
CLUSTER_PATH: Final = "/grid/rest/cluster"
OPERATIONS_PATH: Final = "/grid/rest/management/cluster/operations"
SHUTDOWN_PATH: Final = "/grid/rest/management/cluster/memberShutdown"
BACKUP_PATH: Final = "/grid/rest/management/cluster/backup"
ERROR_HEADER: Final = "x-grid-error"
OPERATION_HEADER: Final = "x-grid-operation"
KEY_HEADER: Final = "Idempotency-Key"
LEAVE_HEADERS: Final = {"X-Grid-Leave": "forever"}
MAX_TEXT_LENGTH: Final = 512


@dataclass(frozen=True, slots=True)
class ListedMember:
    """A member as another one lists it."""

    host: str
    version: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A long operation as the members show it."""

    id: str
    kind: str
    stage: str
    progress: int
    error: str

    @property
    def ended(self) -> bool:
        """Whether it has finished or failed."""
        return self.stage in ("FINISHED", "FAILED")


@dataclass(frozen=True, slots=True)
class MemberClient:
    """The way to one member."""

    endpoint: Endpoint
    options: ConnectOptions
    cluster_name: str = ""
    """What callers give in place of credentials while the members' security is off."""

    @property
    def name(self) -> str:
        """Host and port."""
        return self.endpoint.name

    def ask(self, method: str, path: str, body: bytes | None = None) -> HttpReply:
        """Return the answer to a request, whatever it is."""
        return exchange(self.endpoint, self.options, method, path, body=body)

    def require_ready(self) -> None:
        """Return when the member can be used.

        Raises:
            PassingError: Not now.
        """
        self._require_accepted(self.ask("GET", READY_PATH), "is not ready")

    def require_safe(self) -> None:
        """Return when the member says that every copy of all data is current.

        Raises:
            PassingError: Not now; the message has what is missing.
        """
        self._require_accepted(self.ask("GET", SAFE_PATH), "does not call the cluster safe")

    def require_size(self, size: int) -> None:
        """Return when the member sees so many members.

        Raises:
            PassingError: It sees fewer, or more.
        """
        seen = self.health().get("clusterSize")
        if seen != size:
            raise PassingError(f"{self.name} sees {seen} members, {size} are wanted")

    def health(self) -> dict[str, Any]:
        """Return the health document."""
        return self._object(self.ask("GET", HEALTH_PATH), HEALTH_PATH)

    def list_members(self) -> tuple[ListedMember, ...]:
        """Return the members of the cluster that the member sees.

        Raises:
            PassingError: It has not joined.
        """
        found = self._object(self.ask("GET", CLUSTER_PATH), CLUSTER_PATH).get("members")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise FinalError(f"{self.name} answered no list of members to GET {CLUSTER_PATH}")
        return tuple(
            ListedMember(
                host=str(one.get("address", "")).rpartition(":")[0].strip("[]"),
                version=str(one.get("memberVersion", "")),
                uuid=str(one.get("uuid", "")),
            )
            for one in found
        )

    def operations(self) -> dict[str, Operation]:
        """Return the long operations that the members know, by their ids."""
        found = self._document(self.ask("GET", OPERATIONS_PATH), OPERATIONS_PATH)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise FinalError(f"{self.name} answered no list to GET {OPERATIONS_PATH}")
        made = (
            Operation(
                id=str(one.get("id", "")),
                kind=str(one.get("kind", "")),
                stage=str(one.get("stage", "")),
                progress=int(one.get("progress") or 0),
                error=_printable(str(one.get("error") or "")),
            )
            for one in found
        )
        return {operation.id: operation for operation in made}

    def call(self, path: str, key: str, headers: dict[str, str] | None = None) -> str:
        """Ask the member to do something once; return the id of the operation, empty for none.

        Raises:
            ConflictError: Its present state does not allow it.
            PassingError: It is not known whether it was done: to be asked again with the same key.
            FinalError: It was refused for good.
        """
        secured = self.options.authorization is not None
        body = "&" if secured else f"{quote_plus(self.cluster_name)}&"
        sent = {KEY_HEADER: key, "Content-Type": "text/plain", **(headers or {})}
        reply = exchange(
            self.endpoint,
            self.options,
            "POST",
            path,
            body=body.encode(),
            headers=sent,
            timeout_s=CALL_S,
        )
        if reply.status == 409:
            raise ConflictError(f"{self.name} answered 409: {_reason(reply)}")
        self._require_accepted(reply, "does not do it")
        said = self._object(reply, path)
        if said.get("status") != "success":
            raise FinalError(f"{self.name} answered: {_reason(reply) or 'it failed'}")
        return _printable(reply.headers.get(OPERATION_HEADER, ""))

    def _require_accepted(self, reply: HttpReply, otherwise: str) -> None:
        if reply.status == 200:
            return
        reason = _reason(reply)
        if reply.status == 503:
            raise PassingError(f"{self.name} {otherwise}: {reason or 'it answered 503'}")
        raise FinalError(f"{self.name} answered {reply.status}: {reason or 'without a reason'}")

    def _document(self, reply: HttpReply, path: str) -> object:
        self._require_accepted(reply, "cannot tell")
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise FinalError(f"{self.name} answered no JSON to {path}: is it a member?") from None

    def _object(self, reply: HttpReply, path: str) -> dict[str, Any]:
        found = self._document(reply, path)
        if not isinstance(found, dict):
            raise FinalError(f"{self.name} answered no JSON object to {path}: is it a member?")
        return found


def _reason(reply: HttpReply) -> str:
    """Return what the member says is wrong, and what the caller can change about it."""
    try:
        said = json.loads(reply.body) if reply.body else {}
    except (ValueError, RecursionError):
        said = {}
    text = str(said.get("message", "")) if isinstance(said, dict) else ""
    text = _printable(text or reply.headers.get(ERROR_HEADER, ""))
    if reply.status == 401 or text == "unauthenticated":
        return (
            "it does not accept the caller: --credentials DIR holds username and password, or "
            "--cluster-name NAME is needed while security is off"
        )
    return text


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_TEXT_LENGTH].strip()
