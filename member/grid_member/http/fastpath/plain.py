"""Recognises the plain requests for maps and queues, and nothing else.

Strict on purpose: whatever is unusual in any way is `OTHER`, and left to the complete HTTP
implementation. Clients send the same lines again and again, so what was found once for the bytes
before a key, or for all header lines together, is looked up and not parsed again.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from grid_member.http.table import MAX_POLL_S, ROUTES
from grid_member.http.wire.paths import MalformedError, decode

if TYPE_CHECKING:
    from grid_member.config.model.member import Limits

HEAD_BYTES: Final = 8 << 10
"""Longer heads are not plain."""
MAX_LINES: Final = 100
"""Header lines; more are not plain."""
MAX_KNOWN: Final = 1024
"""Beginnings of request lines, and blocks of header lines, that are remembered."""

_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_VERSION: Final = b" HTTP/1.1"
_LINE_REST: Final = _VERSION + _LINE_END
_PCHAR: Final = rb"A-Za-z0-9\-._~!$&'()*,;=:@"
"""What stands for itself in a part of a path (RFC 3986 section 3.3); a plus does not."""
_LITERAL: Final = bytes(c for c in range(128) if re.match(rb"[" + _PCHAR + rb"]", bytes([c])))
_PART: Final = re.compile(rb"[" + _PCHAR + rb"%+]+")
_BEGINNING: Final = re.compile(
    rb"(GET|POST|PUT|DELETE) /grid/rest/(maps|queues)(?:/([" + _PCHAR + rb"%+]+))?"
)
_BEGINNINGS: Final = tuple(
    b"%b /grid/rest/%b/" % (method, kind)
    for method in (b"GET", b"POST", b"PUT", b"DELETE")
    for kind in (b"maps", b"queues")
)
_PARTIAL_LINE: Final = re.compile(rb"[!-~]+ [!-~]*(?: [HTP/1.]{0,8}\r?)?")
_PARTIAL_HEADER: Final = re.compile(rb"(?:[!-~][ -~]*)?\r?")
_HEADER: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([!-~](?:[ -~]*[!-~])?)")
_HOST: Final = re.compile(rb"[A-Za-z0-9.\-_:\[\]]+")
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}")
_SECONDS: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_NOT_PLAIN: Final = frozenset(
    {
        *(b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer", b"proxy-connection"),
        b"sec-websocket-key1",  # which aiohttp refuses
    }
)
_KEEP_ALIVE: Final = b"keep-alive"


class RequestKind(enum.Enum):
    """The operations that have plain requests; each names its row of the routing table."""

    MAP_PUT = "map_put"
    MAP_GET = "map_get"
    MAP_REMOVE = "map_remove"
    QUEUE_OFFER = "queue_offer"
    QUEUE_POLL = "queue_poll"
    QUEUE_SIZE = "queue_size"


# Their members as globals: finding one in its class takes ten times as long.
MAP_PUT: Final = RequestKind.MAP_PUT
MAP_GET: Final = RequestKind.MAP_GET
MAP_REMOVE: Final = RequestKind.MAP_REMOVE
QUEUE_OFFER: Final = RequestKind.QUEUE_OFFER
QUEUE_POLL: Final = RequestKind.QUEUE_POLL

_KINDS: Final = {
    (b"maps", b"GET"): RequestKind.MAP_GET,
    (b"maps", b"POST"): RequestKind.MAP_PUT,
    (b"maps", b"PUT"): RequestKind.MAP_PUT,
    (b"maps", b"DELETE"): RequestKind.MAP_REMOVE,
    (b"queues", b"GET"): RequestKind.QUEUE_SIZE,
    (b"queues", b"DELETE"): RequestKind.QUEUE_POLL,
}
"""By what stands before and after the structure's name."""
_WITH_BODY: Final = frozenset({RequestKind.MAP_PUT, RequestKind.QUEUE_OFFER})
_PATHS: Final = {row.operation: row.path for row in ROUTES}


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the request line says up to its last slash."""

    kind: RequestKind
    name: str
    """The structure; empty where it comes behind the slash."""
    method: str
    path: str
    """As the routing table has it."""
    is_map: bool
    has_body: bool


class NotPlain(enum.Enum):
    """Why there is no request."""

    INCOMPLETE = "incomplete"
    """It may become a plain one when more of its head comes."""
    OTHER = "other"
    """It is none, or what has come of it already is not plain."""


Request: TypeAlias = tuple[Beginning, str, str | None, int, int]
"""Beginning, then what follows its last slash, decoded; content type; where the body begins and
how many bytes it has."""


WholeRequest: TypeAlias = tuple[Beginning, str, str | None, bytes]
"""The same with the body."""


class Recognizer:
    """Recognises the requests of one listener."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._head_bytes = min(HEAD_BYTES, limits.header_bytes)
        self._key_bytes = limits.key_bytes
        self._beginnings: dict[bytes, Beginning] = {}
        self._line_and_lines_bytes = self._head_bytes - len(_LINE_REST)
        self._small_bytes = min(self._key_bytes, self._line_and_lines_bytes)
        """Requests of that size keep both limits, whatever they are made of."""
        self._heads: dict[bytes, tuple[int, str | None]] = {}
        self._texts: dict[bytes, str] = {}
        """What is behind the last slash, by request lines for queues without their version."""

    def whole_request(self, data: bytes) -> WholeRequest | None:
        """Return the request if it is alone, whole, and made of what was met before.

        The same as `request`, for most requests, in half the time; None tells nothing.
        """
        line, _, rest = data.partition(_LINE_REST)
        lines, end, value = rest.partition(_END)
        start, _, tail = line.rpartition(b"/")
        try:
            length, content_type = self._heads[lines]
            beginning = self._beginnings[start]
            text = tail.decode() if beginning.is_map else self._texts[line]
        except (KeyError, UnicodeDecodeError):
            return None
        if not end or len(value) != length or (value and not beginning.has_body):
            return None
        if not tail.isalnum() and beginning.is_map and (not tail or tail.translate(None, _LITERAL)):
            return None
        if len(data) > self._small_bytes and (
            (beginning.is_map and len(tail) > self._key_bytes)
            or len(line) + len(lines) > self._line_and_lines_bytes
        ):
            return None
        return beginning, text, content_type, value

    def request(self, data: bytes, start: int) -> Request | NotPlain:
        """Return the request whose head begins at start; its body may not be there yet."""
        head_end = data.find(_END, start)
        if head_end < 0:
            return self._classify_unfinished(data, start)
        if head_end - start > self._head_bytes:
            return NotPlain.OTHER
        line_end = data.find(_LINE_END, start)
        target_end = line_end - len(_VERSION)
        # Without lines there is no Host. Compiled, a slice that ends before its beginning raises.
        if line_end == head_end or not data.endswith(_VERSION, start, line_end):
            return NotPlain.OTHER
        slash = data.rfind(b"/", start, target_end)
        beginning = self._beginnings.get(data[start:slash]) or self._read_beginning(
            data[start:slash]
        )
        lines = data[line_end + 2 : head_end]
        head = self._heads.get(lines) or self._read(lines)
        if beginning is None or head is None:
            return NotPlain.OTHER
        tail = data[slash + 1 : target_end]
        length, content_type = head
        if length and not beginning.has_body:
            return NotPlain.OTHER
        if beginning.is_map and not tail.translate(None, _LITERAL) and tail:
            if len(tail) > self._key_bytes:
                return NotPlain.OTHER
            return beginning, tail.decode("ascii"), content_type, head_end + 4, length
        text = self._decode(beginning.kind, tail)
        if text is None:
            return NotPlain.OTHER
        if not beginning.is_map:
            _remember(self._texts, data[start:target_end], text)
        return beginning, text, content_type, head_end + 4, length

    def _read_beginning(self, beginning: bytes) -> Beginning | None:
        """Read a request line up to its last slash, without it, and remember it."""
        match = _BEGINNING.fullmatch(beginning)
        if match is None:
            return None
        method, structure, name = match.groups()
        if name is None:
            offers = structure == b"queues" and method in (b"POST", b"PUT")
            kind = RequestKind.QUEUE_OFFER if offers else None
        else:
            kind = _KINDS.get((structure, method))
        text = "" if name is None else _decode(name, self._limits.name_bytes)
        if kind is None or text is None:
            return None
        begun = Beginning(
            kind,
            text,
            method.decode(),
            _PATHS[kind.value],
            structure == b"maps",
            kind in _WITH_BODY,
        )
        _remember(self._beginnings, beginning, begun)
        return begun

    def _read(self, lines: bytes) -> tuple[int, str | None] | None:
        """Read header lines, and remember them."""
        headers = _headers(lines)
        if headers is None or not _HOST.fullmatch(headers.get(b"host", b"")):
            return None
        length = int(headers.get(b"content-length", b"0"))
        if length > self._limits.value_bytes:
            return None
        content_type = headers.get(b"content-type")
        head = length, None if content_type is None else content_type.decode("ascii")
        _remember(self._heads, lines, head)
        return head

    def _decode(self, kind: RequestKind, tail: bytes) -> str | None:
        """Return what follows the last slash; None when the kind of request does not have it."""
        if kind is RequestKind.QUEUE_SIZE:
            return "" if tail == b"size" else None
        is_name = kind is RequestKind.QUEUE_OFFER
        text = _decode(tail, self._limits.name_bytes if is_name else self._limits.key_bytes)
        if kind is RequestKind.QUEUE_POLL and text is not None:
            return text if _SECONDS.fullmatch(text) and int(text) <= MAX_POLL_S else None
        return text

    def _classify_unfinished(self, data: bytes, start: int) -> NotPlain:
        """Tell whether a head that has not come to its end may become a plain one."""
        begun = data[start:]
        if len(begun) >= self._head_bytes:
            return NotPlain.OTHER
        line, line_end, _ = begun.partition(_LINE_END)
        plain = (
            self._may_become_head(line, begun[len(line) :]) if line_end else _may_become_line(begun)
        )
        return NotPlain.INCOMPLETE if plain else NotPlain.OTHER

    def _may_become_head(self, line: bytes, rest: bytes) -> bool:
        lines, _, last = rest.rpartition(_LINE_END)
        slash = line.rfind(b"/", 0, -len(_VERSION))
        beginning = self._beginnings.get(line[:slash]) or self._read_beginning(line[:slash])
        return (
            line.endswith(_VERSION)
            and beginning is not None
            and self._decode(beginning.kind, line[slash + 1 : -len(_VERSION)]) is not None
            and (not lines or _headers(lines[len(_LINE_END) :]) is not None)
            and _PARTIAL_HEADER.fullmatch(last) is not None
        )


def _may_become_line(begun: bytes) -> bool:
    if begun.startswith(_BEGINNINGS):
        return _PARTIAL_LINE.fullmatch(begun) is not None
    return any(full.startswith(begun) for full in _BEGINNINGS)


def _headers(lines: bytes) -> dict[bytes, bytes] | None:
    """Return the headers by their names in lower case; None when they are not plain."""
    found: dict[bytes, bytes] = {}
    for line in lines.split(_LINE_END):
        match = _HEADER.fullmatch(line)
        if match is None:
            return None
        name = match[1].lower()
        if name in found or name in _NOT_PLAIN or len(found) == MAX_LINES:
            return None
        found[name] = match[2]
    if found.get(b"connection", _KEEP_ALIVE).lower() != _KEEP_ALIVE:
        return None
    return found if _LENGTH.fullmatch(found.get(b"content-length", b"0")) else None


def _decode(part: bytes, limit_bytes: int) -> str | None:
    """Return a part of a path decoded; None when it is empty, too long or malformed."""
    if not _PART.fullmatch(part):
        return None
    try:
        text = decode(part.decode("ascii"))
    except MalformedError:
        return None
    return text if len(text.encode()) <= limit_bytes else None


_T = TypeVar("_T")


def _remember(known: dict[bytes, _T], key: bytes, value: _T) -> None:
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[key] = value
