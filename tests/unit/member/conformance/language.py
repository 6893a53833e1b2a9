"""The language of the conformance table: a row is a reference and what is asked and answered."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import TypeAlias

JSON = "application/json"
TEXT = "text/plain"
UNAUTHENTICATED = b'{"status":"fail","message":"unauthenticated"}'


class Role(enum.Enum):
    """Which member of the configuration under test a row is for."""

    OPEN = "open"
    """Every group enabled."""
    DEFAULTS = "defaults"
    """No group is mentioned: CLUSTER_READ and HEALTH_CHECK are on."""
    STRICT = "strict"
    """DATA and CP only; no `default` structure."""
    WRITER = "writer"
    """CLUSTER_WRITE, PERSISTENCE and WAN only."""
    MANAGED = "managed"
    """The management port of OPEN."""
    DISABLED = "disabled"
    """REST is not enabled; only the management port is there."""
    CHANGED = "changed"
    """As OPEN; each topic of the rows has the member as it was when it started."""
    OWN = "own"
    """A member of its own, which the row may stop."""
    DURABLE = "durable"
    """As OPEN, with persistence and a directory for backups."""
    REPLICATED = "replicated"
    """As OPEN; the map `sent` is replicated to clusters that do not answer."""
    PROTECTED = "protected"
    """As OPEN; DATA, HEALTH_CHECK and two paths ask for Basic authentication."""


class Security(enum.Enum):
    """For which members a row holds, and whose credentials it sends."""

    BOTH = "both"
    """Where security is on, ada and her password take the place of the cluster's name and the
    second parameter; everything else is sent, and answered, as where it is off."""
    OFF = "off"
    """What it shows is gone where security is on."""
    ON = "on"
    """Only where security is on, and sent as it is written."""


class Transport(enum.Enum):
    """Over what a row can be played."""

    BOTH = "both"
    PLAIN = "plain"
    """The client does something that asyncio's clients cannot do over TLS."""


UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request.

    `{map}` and `{queue}` in the path are names that no other row uses, `{begun}` is the UUID of the
    synchronisation or check that the row has begun last.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None
    """The bytes to send instead, when the request is not an ordinary one."""


@dataclass(frozen=True, slots=True)
class Want:
    """The exact answer: status, body, type and every header beside Date and Content-Length."""

    status: int
    body: bytes | re.Pattern[bytes] = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False
    begins: bool = False
    """Whether `X-Grid-Operation` must name what was begun."""

    @property
    def explains(self) -> bool:
        """Whether `X-Grid-Error` must say why."""
        return self.status >= 400 and self.status not in (401, 405) and self.body == b""


@dataclass(frozen=True, slots=True)
class Call:
    """Ask on the row's connection and compare the answer."""

    ask: Ask
    want: Want


@dataclass(frozen=True, slots=True)
class Also:
    """Send more bytes, or none, and compare the next answer on the row's connection."""

    want: Want
    data: bytes = b""
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Until:
    """Ask again until the answer is the wanted one."""

    ask: Ask
    want: Want


@dataclass(frozen=True, slots=True)
class Begin:
    """Ask on a connection of its own and do not wait."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class End:
    """Compare the answer of the oldest request that was begun."""

    want: Want


class Leave(enum.Enum):
    """The oldest client that has begun goes away."""

    FIN = "closes"
    RST = "resets"
    HALF = "closes its sending side"


class Event(enum.Enum):
    """What else may happen in a row."""

    RECONNECT = "a new connection"
    STOPPED = "the member has ended by itself"


Step: TypeAlias = Call | Also | Until | Begin | End | Leave | Event


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the specification, and what shows it."""

    reference: str
    steps: tuple[Step, ...]
    role: Role = Role.OPEN
    slow: bool = False
    security: Security = Security.BOTH
    transport: Transport = Transport.BOTH

    @property
    def references(self) -> tuple[str, ...]:
        """The lines of the specification that the row shows."""
        return tuple(self.reference.split("; "))

    @property
    def section(self) -> str:
        """The section of the first of them."""
        return self.references[0].rpartition(" ")[0]

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The requests of the row."""
        return tuple(s.ask for s in self.steps if isinstance(s, Call | Until | Begin))


def row(
    reference: str,
    *steps: Step,
    role: Role = Role.OPEN,
    slow: bool = False,
    security: Security = Security.BOTH,
    transport: Transport = Transport.BOTH,
) -> Row:
    return Row(reference, steps, role, slow, security, transport)


def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> Ask:
    lines = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Ask(method, path, body, lines)


def raw(method: str, path: str, data: bytes) -> Ask:
    """Return a request whose bytes are given; method and path say what they mean."""
    return Ask(method, path, raw=data)


CONTINUE = Want(100)
OK = Want(200)
NOTHING = Want(204)
MISSING = Want(404)
BAD = Want(400)
FULL = Want(503)


def value(body: bytes, content_type: str | None = None) -> Want:
    return Want(200, body, content_type)


def item(body: bytes, content_type: str = TEXT) -> Want:
    return Want(200, body, content_type)


def number(count: int) -> Want:
    return Want(200, b"%d" % count, TEXT)


def document(text: str, status: int = 200) -> Want:
    return Want(status, text.encode(), JSON)


def matching(pattern: str) -> Want:
    return Want(200, re.compile(pattern.encode()), JSON)


def failure(status: int, message: str) -> Want:
    return document(f'{{"status":"fail","message":"{message}"}}', status)


def disabled(group: str) -> Want:
    return failure(403, f"endpoint group {group} is disabled")


def not_allowed(allow: str) -> Want:
    return Want(405, headers=(("Allow", allow),))


def closing(want: Want) -> Want:
    return replace(want, closes=True)


def call(method: str, path: str, want: Want, body: bytes | None = None, **headers: str) -> Call:
    return Call(ask(method, path, body, **headers), want)
