"""What goes wrong between a member and its nats-server.

    NatsError
    ├── WireError               the peer does not speak NATS, or may not be sent this
    ├── NatsRefusedError        the server does not know this user and password
    ├── DisconnectedError       there is no connection, or it went: the outcome is unknown
    ├── NoRespondersError       nobody listens to the subject: nothing happened
    ├── RequestTimeoutError     no answer in time: the outcome is unknown
    ├── OverloadedError         too much waits already: nothing was sent
    ├── LackingError            the copy of a stream that was read is damaged
    └── ShortError              a log ends before what was in it once

A retry helps after the last six, after the last two of them when another copy is read then, or
leads; where the outcome is unknown it must be harmless twice.
"""

from __future__ import annotations

import traceback


class NatsError(Exception):
    """Talking to nats-server failed."""


class WireError(NatsError):
    """These bytes are no NATS, or more than what was agreed on."""


class NatsRefusedError(NatsError):
    """The server does not know this user and password."""


class DisconnectedError(NatsError):
    """There is no connection, or it went before the answer came."""


class NoRespondersError(NatsError):
    """Nobody listens to the subject; nothing was done."""


class RequestTimeoutError(NatsError):
    """No answer came in time."""


class OverloadedError(NatsError):
    """Too much waits to be sent or answered; nothing was sent."""


class LackingError(NatsError):
    """The copy that was read lacks messages that nobody purged; another one may have them."""

    def __init__(self, stream: str, server: str) -> None:
        """Name the stream, and the server whose copy it is, as far as that is known."""
        super().__init__(f"a copy of {stream} lacks messages")
        self.stream = stream
        self.server = server


class ShortError(NatsError):
    """A log ends before what was in it once: a copy that was emptied leads it."""

    def __init__(self, stream: str, sequence: int, *, in_snapshot: bool = False) -> None:
        """Name the stream, and the last record that is known to have been in it.

        It is the one that the log's snapshot was taken at, else this member has read it.
        """
        known = "at which its image was taken" if in_snapshot else "which this member has read"
        super().__init__(f"{stream} ends before record {sequence}, {known}")
        self.stream = stream
        self.sequence = sequence
        self.in_snapshot = in_snapshot


def describe_unexpected(error: Exception) -> str:
    """Return an error's type and where it came from; its text may quote a value."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name}, line {frame.lineno}"
