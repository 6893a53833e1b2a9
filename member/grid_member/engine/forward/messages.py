"""What a lite member and its forward server say to each other, as bytes.

Members that hold a part of the data ask as lite members do: both are a `PartEngine`.
A message is a header and words: calls one way, their outcomes the other way. All words have the
same fields, of which each kind uses some; the others are empty.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.api import Entry, Item, Reason, Refused
from grid_member.engine.state.fields import CodecError, Reader, put_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION: Final = 1
FORWARD_SERVERS: Final = b"grid.hosts.%d" % VERSION
"""Who holds data, can be reached and speaks this version answers with its UUID."""
INCARNATION_BYTES: Final = 16
"""Tell one start of a lite member from any other."""
MAX_MESSAGE_BYTES: Final = 256 * 1024
"""Words that travel together; a larger one travels alone."""
AGAIN_S: Final = 0.05
"""Until what the connection did not take is sent again."""
FRAME_BYTES: Final = 64
"""What a word takes beside its texts and its value, about."""

TOO_LARGE: Final = Refused(
    Reason.UNAVAILABLE, "it is larger than members take: raise limits.value-bytes on all"
)

_HEADER: Final = struct.Struct(">B16sIQQBI")
_WHOSE: Final = struct.Struct(">B16sI")
"""How the header begins, whatever the version."""
_FRAME: Final = struct.Struct(">BQQ")


class FrameKind(enum.IntEnum):
    """What a word is. The numbers are for ever."""

    # Calls
    MAP_PUT = 1
    MAP_GET = 2
    MAP_REMOVE = 3
    MAP_CLEAR = 4
    QUEUE_OFFER = 5
    QUEUE_POLL = 6
    QUEUE_SIZE = 7
    QUEUE_CONFIRM = 8
    QUEUE_RETURN = 9
    SPREAD = 10
    """Tell a cluster state to all shards but the first."""
    SPREAD_FOR_NOW = 11
    """The same, but a restart begins with the state that was set otherwise."""
    USAGE = 12
    """What the structures hold; the outcome is an entry."""

    # Of a lite member, without an outcome
    CANCEL = 20
    """Nobody wants the poll of that identifier any more."""
    HELD = 21
    """An item of an earlier session that the lite member still has."""

    # Outcomes
    NOTHING = 30
    TRUE = 31
    FALSE = 32
    COUNT = 33
    ENTRY = 34
    ITEM = 35
    REFUSED = 36
    NOT_TAKEN = 37
    """The call was not begun, and never will be here."""


READS: Final = frozenset({FrameKind.MAP_GET, FrameKind.QUEUE_SIZE, FrameKind.USAGE})
HARMLESS: Final = READS | {FrameKind.SPREAD, FrameKind.SPREAD_FOR_NOW}
"""What does no harm when it is asked for twice. A poll may have taken an item, which goes back
later: who polls has to hear of that, or would see the order of the queue broken for no reason."""


class Flag(enum.IntFlag):
    """What a message says beside its words."""

    NONE = 0
    PING = 1
    """A heartbeat, to be answered with one."""
    BYE = 2
    """The session ends, and nothing of it is needed any more."""
    ALL_HELD = 4
    """With this the server has heard of every item that the lite member still has."""
    WEAK = 8
    """The server is about to stop, or has no majority: another one is better."""
    BROKEN = 16
    """What was heard does not follow what was heard before: the session is over."""
    APART = 32
    """The server's shards have different cluster states."""


class Frame(NamedTuple):
    """A call or its outcome."""

    kind: FrameKind
    call: int
    """Which call it is, or is the outcome of."""
    name: str = ""
    """A map's or queue's; a state's; the reason of a refusal."""
    key: str = ""
    """A map's; the message of a refusal."""
    value: bytes = b""
    content_type: str | None = None
    number: int = 0
    """How many; milliseconds of a poll; an item's identifier."""
    take_id: int = 0

    @property
    def size_bytes(self) -> int:
        """What it takes in a message, about."""
        return FRAME_BYTES + len(self.name) + len(self.key) + len(self.value)


class ForwardMessage(NamedTuple):
    """A message."""

    incarnation: bytes
    session: int
    number: int
    """Counts what is said in a session in one direction, from 1."""
    flags: Flag
    frames: list[Frame]
    ack: int = 0
    """Of a forward server: the number of the last message that it heard."""


def forward_subject(member: bytes) -> bytes:
    """Return where the server with that UUID listens to lite members."""
    return b"grid.forward.%b" % member.hex().encode()


def encode_message(message: ForwardMessage) -> bytes:
    """Return a message as bytes."""
    incarnation, session, number, flags, frames, heard = message
    pieces = [_HEADER.pack(VERSION, incarnation, session, number, heard, flags, len(frames))]
    for kind, call, name, key, value, content_type, number, take_id in frames:
        pieces.append(_FRAME.pack(kind, call, take_id))
        put_entry((name, key, value, content_type, number), pieces)
    return b"".join(pieces)


def decode_message(data: bytes) -> ForwardMessage:
    """Return the message that `encode_message` made data from.

    Raises:
        CodecError: data is anything else.
    """
    reader = Reader(data)
    version, incarnation, session, number, heard, flags, count = reader.header(_HEADER)
    if version != VERSION:
        raise CodecError(f"version {version} of what members forward is not {VERSION}")
    frames: list[Frame] = []
    while len(frames) < count:
        kind, call, take_id = reader.header(_FRAME)
        try:
            frames.append(Frame(FrameKind(kind), call, *reader.entry(), take_id))
        except ValueError:
            raise CodecError("unknown kind of word") from None
    reader.end()
    return ForwardMessage(incarnation, session, number, Flag(flags), frames, heard)


def session_end(incarnation: bytes, session: int) -> ForwardMessage:
    """Return what ends a session, of whatever is known of it."""
    return ForwardMessage(incarnation, session, 0, Flag.BROKEN, [])


def session_end_for(data: bytes) -> ForwardMessage | None:
    """Return what ends the session of a message that cannot be read; None if none can be told."""
    if len(data) < _WHOSE.size:
        return None
    _, incarnation, session = _WHOSE.unpack_from(data)
    return session_end(incarnation, session)


def frame_groups(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """Yield what travels in one message, one message after the other."""
    group: list[Frame] = []
    size_bytes = 0
    for frame in frames:
        if group and size_bytes + frame.size_bytes > MAX_MESSAGE_BYTES:
            yield group
            group, size_bytes = [], 0
        group.append(frame)
        size_bytes += frame.size_bytes
    if group:
        yield group


def outcome_frame(call: int, outcome: object) -> Frame:
    """Return what an operation's outcome is sent as."""
    if isinstance(outcome, Entry):
        return Frame(FrameKind.ENTRY, call, "", "", outcome.value, outcome.content_type)
    if isinstance(outcome, Item):
        return Frame(
            FrameKind.ITEM, call, outcome.queue, "", outcome.value, outcome.content_type,
            outcome.item_id, outcome.take_id,
        )  # fmt: skip
    if isinstance(outcome, Refused):
        return Frame(FrameKind.REFUSED, call, outcome.reason.value, outcome.message)
    if isinstance(outcome, bool):
        return Frame(FrameKind.TRUE if outcome else FrameKind.FALSE, call)
    if isinstance(outcome, int):
        return Frame(FrameKind.COUNT, call, number=outcome)
    return Frame(FrameKind.NOTHING, call)


def frame_outcome(frame: Frame) -> Entry | Item | Refused | bool | int | None:
    """Return the outcome that `outcome_frame` made a word from."""
    match frame.kind:
        case FrameKind.ENTRY:
            return Entry(frame.value, frame.content_type)
        case FrameKind.ITEM:
            return Item(frame.value, frame.content_type, frame.name, frame.number, frame.take_id)
        case FrameKind.REFUSED:
            return Refused(_reason(frame.name), frame.key)
        case FrameKind.TRUE | FrameKind.FALSE:
            return frame.kind is FrameKind.TRUE
        case FrameKind.COUNT:
            return frame.number
        case _:
            return None


def _reason(name: str) -> Reason:
    try:
        return Reason(name)
    except ValueError:
        return Reason.UNAVAILABLE  # of a later version
