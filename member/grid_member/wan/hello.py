"""What two clusters tell each other before changes travel, as JSON.

Keys that a version does not know are ignored: a later one may add some.
"""

from __future__ import annotations

import enum
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_HELLO_BYTES: Final = 64 << 10
MAX_LISTED: Final = 1024
"""Maps published back, protocols: of each so many at most."""
_CHECKSUM: Final = b',"checksum":"%08x"}'
_ID_CHARACTERS: Final = 32
_MAX_NUMBER: Final = 2**53 - 1
T = TypeVar("T")


class HelloError(Exception):
    """The bytes are no hello; the message says which field is wrong."""


class Began(enum.Enum):
    """How the data of a cluster began."""

    EMPTY = "EMPTY"
    RESTORED = "RESTORED"
    """From a backup."""
    WENT_ON = "WENT_ON"
    """With the data of its last run."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What the source says."""

    protocols: tuple[int, ...]
    """Versions of the protocol that the source speaks, `PROTOCOL` among them."""
    cluster_name: str
    """Of the source."""
    cluster_id: bytes
    """16 bytes that name the source's data."""
    target_name: str
    """The `cluster-name` of the publisher: the cluster that it wants to reach."""
    replication: str
    publisher: str
    member: str
    """The UUID of the member that sends."""
    version: str
    began: Began
    ends: bool = False
    """Whether this publisher sends no more."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """What the target takes."""

    key_bytes: int
    """Of one key as UTF-8."""
    value_bytes: int
    """Of one value."""
    batch_bytes: int
    """Of a batch before it is deflated."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the target answers."""

    protocol: int
    """The one that is spoken from now on."""
    cluster_name: str
    """Of the target."""
    cluster_id: bytes
    """16 bytes that name the target's data; batches say it."""
    member: str
    """The name of the member that answers."""
    version: str
    """`major.minor.patch` of that member."""
    limits: TargetLimits
    published_back: tuple[str, ...] = ()
    """Configured names of maps that the target publishes to the source."""


def write_hello(hello: Hello) -> bytes:
    """Return the JSON of a hello."""
    return _json(
        {
            "protocols": list(hello.protocols),
            "clusterName": hello.cluster_name,
            "clusterId": hello.cluster_id.hex(),
            "targetClusterName": hello.target_name,
            "replication": hello.replication,
            "publisher": hello.publisher,
            "member": hello.member,
            "version": hello.version,
            "began": hello.began.value,
            "ends": hello.ends,
        }
    )


def read_hello(data: bytes) -> Hello:
    """Return the hello that the bytes are.

    Raises:
        HelloError: they are none.
    """
    fields = _Fields(data)
    try:
        began = Began(fields.text("began"))
    except ValueError:
        raise HelloError("the field began is none of EMPTY, RESTORED, WENT_ON") from None
    return Hello(
        protocols=fields.listed("protocols", _as_number),
        cluster_name=fields.text("clusterName"),
        cluster_id=fields.cluster_id("clusterId"),
        target_name=fields.text("targetClusterName"),
        replication=fields.text("replication"),
        publisher=fields.text("publisher"),
        member=fields.text("member"),
        version=fields.text("version"),
        began=began,
        ends=fields.flag("ends"),
    )


def write_welcome(welcome: Welcome) -> bytes:
    """Return the JSON of a welcome; its last field is a checksum of what is before."""
    limits = welcome.limits
    content = _json(
        {
            "protocol": welcome.protocol,
            "clusterName": welcome.cluster_name,
            "clusterId": welcome.cluster_id.hex(),
            "member": welcome.member,
            "version": welcome.version,
            "limits": {
                "keyBytes": limits.key_bytes,
                "valueBytes": limits.value_bytes,
                "batchBytes": limits.batch_bytes,
            },
            "publishedBack": list(welcome.published_back),
        }
    )
    return sealed_welcome(content)


def sealed_welcome(content: bytes) -> bytes:
    """Return the JSON of an object with a last field, the CRC-32 of the JSON without it."""
    return content[:-1] + _CHECKSUM % zlib.crc32(content)


def read_welcome(data: bytes) -> Welcome:
    """Return the welcome that the bytes are.

    Raises:
        HelloError: they are none, or are not what was sent.
    """
    content = data[: -len(_CHECKSUM % 0)] + b"}"
    if sealed_welcome(content) != data:
        raise HelloError("the checksum is missing or wrong")
    fields = _Fields(content)
    limits = fields.below("limits")
    return Welcome(
        protocol=fields.number("protocol"),
        cluster_name=fields.text("clusterName"),
        cluster_id=fields.cluster_id("clusterId"),
        member=fields.text("member"),
        version=fields.text("version"),
        limits=TargetLimits(
            limits.number("keyBytes"), limits.number("valueBytes"), limits.number("batchBytes")
        ),
        published_back=fields.listed("publishedBack", _as_text),
    )


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


class _Fields:
    """The fields of an object, each looked at before it is taken."""

    def __init__(self, source: bytes | dict[object, object]) -> None:
        content: object = _parsed(source) if isinstance(source, bytes) else source
        if not isinstance(content, dict):
            raise HelloError("this is no JSON object")
        self._content: dict[object, object] = content

    def text(self, name: str) -> str:
        return self._field(name, _as_text, "a text")

    def number(self, name: str) -> int:
        return self._field(name, _as_number, "a number")

    def flag(self, name: str) -> bool:
        return self._field(name, _as_flag, "true or false")

    def cluster_id(self, name: str) -> bytes:
        text = self.text(name)
        try:
            if len(text) == _ID_CHARACTERS:
                return bytes.fromhex(text)
        except ValueError:
            pass
        raise HelloError(f"the field {name} is not {_ID_CHARACTERS} hexadecimal digits")

    def listed(self, name: str, taken: Callable[[object], T | None]) -> tuple[T, ...]:
        content = self._content.get(name)
        if isinstance(content, list) and len(content) <= MAX_LISTED:
            items = tuple(found for each in content if (found := taken(each)) is not None)
            if len(items) == len(content):
                return items
        raise HelloError(f"the field {name} is missing or no list of what belongs there")

    def below(self, name: str) -> _Fields:
        content = self._content.get(name)
        if not isinstance(content, dict):
            raise HelloError(f"the field {name} is missing or no object")
        return _Fields(content)

    def _field(self, name: str, taken: Callable[[object], T | None], kind: str) -> T:
        found = taken(self._content.get(name))
        if found is None:
            raise HelloError(f"the field {name} is missing or not {kind}")
        return found


def _parsed(data: bytes) -> object:
    if len(data) > MAX_HELLO_BYTES:
        raise HelloError("this is too long")
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError):
        raise HelloError("this is no JSON") from None
    return content


def _as_text(content: object) -> str | None:
    if not isinstance(content, str):
        return None
    try:
        content.encode()
    except UnicodeEncodeError:
        return None
    return content


def _as_number(content: object) -> int | None:
    if isinstance(content, int) and not isinstance(content, bool) and 0 <= content <= _MAX_NUMBER:
        return content
    return None


def _as_flag(content: object) -> bool | None:
    return content if isinstance(content, bool) else None
