"""What a nats-server writes about itself: its level here, and what a failure means."""

from __future__ import annotations

import logging
import math
import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grid_member.engine.cluster_settings import ClusterSettings

_LINE: Final = re.compile(r"(?:\[\d+\] )?\[(TRC|DBG|INF|WRN|ERR|FTL)\] (.*)", re.DOTALL)
_LEVELS: Final = {
    "TRC": logging.DEBUG,
    "DBG": logging.DEBUG,
    "INF": logging.DEBUG,
    "WRN": logging.WARNING,
    "ERR": logging.ERROR,
    "FTL": logging.ERROR,
}
_EXPECTED: Final = (
    "Maximum payloads over",
    "Plaintext passwords detected",
    "Waiting for routing to be established",
    "Metalayer blocking snapshot",
    "JetStream has not established contact with a meta leader",
)
"""Warnings about what is meant to be so."""
_NOT_THERE: Final = "Error trying to connect to route"
"""A member that starts or is away; it is tried again for ever, and told the first time."""
_LOOKED_AT: Final = re.compile(
    r"proto='\"GRID |TLS route handshake error: EOF|Error flushing: write .*: broken pipe"
)
"""Between a server and a member that only looks whether others are there, or has just gone."""
_STRANGER: Final = (
    "cluster-name, the identity of security.member-authentication and whether network.cluster.ssl "
    "is enabled have to be the same on all members"
)
_NO_TLS: Final = "network.cluster.ssl has to be enabled on all members or on none"
_NOT_TRUSTED: Final = (
    "each member needs a certificate for servers and for clients, with the host or address that it "
    "is listed as, from the ca-file of network.cluster.ssl of the others"
)
_OUT_OF_TIME: Final = (
    "a certificate of one of them, or of its authority, has expired or is not valid yet: who has "
    "it in a file of network.cluster.ssl says so in its log, with the file and the date"
)
_PLAIN: Final = re.compile(r"TLS .*handshake error: .*not look like a TLS")
"""What answers a server in plain text: one without TLS, or a member that has no server yet."""
SERVERLESS_S: Final = 20.0
"""How long that may be a member that waits for others before it starts its server."""
_ADVICE: Final = (
    (re.compile(r"Authorization Violation|authentication error"), _STRANGER),
    (_PLAIN, _NO_TLS),
    (re.compile(r"TLS .*handshake error: .*certificate.* expired|expired cert"), _OUT_OF_TIME),
    (re.compile(r"TLS .*handshake error: .*certificate"), _NOT_TRUSTED),
)
"""What to do about servers that do not take each other."""
_TLS_FILES: Final = re.compile(
    r"(?:.*nats\.conf:\d+:\d+:)?(.*(?:certificate|x509|private key|\btls:).*)", re.IGNORECASE
)
"""A complaint about them, behind the place in the server's own configuration."""
_HANDSHAKE: Final = "handshake error"
"""Who knocks may be anybody: that ends no server."""
APART_S: Final = 10.0
"""How long servers that did not take each other are believed not to; each tries every 2 s."""
PERSISTS_S: Final = 2.0
"""How long who is not taken goes on trying before it is believed to be a member: who tries a port
once may be anybody."""
TRIES_S: Final = 4.0
"""Who tries again later than that begins anew: a monitor may look at a port now and then."""
_NOBODY: Final = ("", "", -math.inf)
"""Host, what to do, and when, before any server was not taken."""
_DISABLED: Final = "will be DISABLED"
"""Of a server that goes on without storing anything: only a restart helps."""
_LAST_LINES: Final = 20
_LINE_CHARACTERS: Final = 2000
_REPEAT_S: Final = 60.0
"""How long the same complaint is not told again."""
_REPEATS: Final = 200
_ATTEMPT: Final = re.compile(r"\(attempt \d+\)")
_DIGITS: Final = re.compile(r"\d+")
_HIDDEN: Final = "***"


def parse_line(line: str) -> tuple[int, str]:
    """Return level and text of a line; without one it is a complaint from before there is a log."""
    found = _LINE.fullmatch(line)
    if found is None:
        return logging.WARNING, line
    level, text = _LEVELS[found[1]], found[2]
    if text.startswith(_EXPECTED) or _LOOKED_AT.search(text):
        level = logging.DEBUG
    elif text.startswith(_NOT_THERE):
        level = logging.WARNING
    return level, text


def explanation(lines: Iterable[str], settings: ClusterSettings) -> str | None:
    """Return what the complaints of a server that ended mean and what to do; None: unknown."""
    text = "\n".join(line for line in lines if _HANDSHAKE not in line)
    at = f"{settings.host}:{settings.port}"
    if "address already in use" in text:
        return (
            f"the members' port {at} is taken: stop what listens there, or give this member "
            "another one, as with network.cluster.port: {port: 5714} in its own configuration and "
            "with the same port in the list of members; where the list has REST ports, give it "
            "another REST port instead, there too: the members' port is 100 above"
        )
    if "cannot assign requested address" in text:
        return f"this machine does not have the address {settings.host}: correct the interfaces"
    if _is_full(text):
        return f"the disk of {_place(settings)} is full: make room on it"
    if re.search(r"Can't start JetStream: .*\bcorrupt", text):
        return (
            f"the data in {_place(settings)} is damaged: empty it and start the member again, and "
            "it copies everything from the others; where they are no majority without it, stop all "
            "members and restore a backup"
        )
    if re.search(r"listen.*permission denied", text):
        return f"the member may not listen at {at}: use a port above 1023"
    if "permission denied" in text:
        return f"nats-server may not use {_place(settings)}: let the member's user read and write"
    tls = _TLS_FILES.search(text)
    if tls is not None:
        return (
            f"the files of the members' TLS cannot be used ({tls[1].strip()}): correct "
            "certificate-file, key-file and ca-file of network.cluster.ssl"
        )
    return None


def is_full(lines: Iterable[str]) -> bool:
    """Whether a server ended because its disk is full."""
    return any(map(_is_full, lines))


def _is_full(text: str) -> bool:
    return "no space left on device" in text or _DISABLED in text


def advice(text: str) -> str | None:
    """Return what to do about a complaint of a server that goes on; None: nothing is known."""
    return next((what for complaint, what in _ADVICE if complaint.search(text)), None)


class ServerLog:
    """Takes the output of a server in pieces and hands its lines to a logger.

    Args:
        logger: Gets what the server says; complaints that repeat themselves once a minute.
        secrets: What may not be in a log.
    """

    def __init__(self, logger: logging.Logger, secrets: Iterable[str]) -> None:
        self._logger = logger
        self._secrets = tuple(secrets)
        self._reported_s: OrderedDict[str, float] = OrderedDict()
        self._rest = b""
        self._disk_alarms: deque[str] = deque(maxlen=_LAST_LINES)
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._plain: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By host: when it answered in plain text first, and last."""
        self._refusals: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By host: when it was not taken first, and last."""
        self._apart = _NOBODY
        self.crippled = False
        """Whether the server said that it stores nothing any more."""

    def apart(self, now: float) -> str | None:
        """Return why this server and others do not take each other, None when they do."""
        host, todo, told_s = self._apart
        if now - told_s >= APART_S:
            return None
        return f"this member and one at {host} do not take each other: {todo}"

    @property
    def disk_alarms(self) -> list[str]:
        """The last warnings and errors since `begin`."""
        return list(self._disk_alarms)

    @property
    def last(self) -> list[str]:
        """The last lines since `begin`."""
        return list(self._last)

    def begin(self) -> None:
        """Hear a new server."""
        self._rest = b""
        self._disk_alarms.clear()
        self._last.clear()
        self._apart = _NOBODY
        self._refusals.clear()
        self._plain.clear()
        self.crippled = False

    def feed(self, data: bytes, now: float) -> None:
        """Take what the server has written; b"" is its end."""
        *lines, rest = (self._rest + data).split(b"\n")
        if not data or len(rest) > _LINE_CHARACTERS:
            lines.append(rest)
            rest = b""
        self._rest = rest
        for line in lines:
            if line.strip():
                self._take(line.decode(errors="replace")[:_LINE_CHARACTERS], now)

    def _take(self, line: str, now: float) -> None:
        for secret in self._secrets:
            line = line.replace(secret, _HIDDEN)
        level, text = parse_line(line)
        self._last.append(text)
        # Who connects comes from another port each time.
        todo, host = advice(text), text.partition(" - ")[0].rpartition(":")[0]
        if _PLAIN.search(text) and _is_lasting(self._plain, host, now, SERVERLESS_S) < SERVERLESS_S:
            level = logging.DEBUG
        if level >= logging.WARNING:
            self._disk_alarms.append(text)
            self.crippled = self.crippled or _DISABLED in text
            if todo is not None and _is_lasting(self._refusals, host, now, TRIES_S) >= PERSISTS_S:
                self._set_apart(host, todo, now)
            if not self._is_news(text, now):
                level = logging.DEBUG
        self._logger.log(level, "nats-server: %s%s", text, f" ({todo})" if todo else "")

    def _set_apart(self, host: str, todo: str, now: float) -> None:
        _, former, told_s = self._apart
        # Of two that refuse each other one says why, the other one only that it was refused.
        known = former == _OUT_OF_TIME and todo == _NOT_TRUSTED and now - told_s < APART_S
        if not known:
            self._apart = host, todo, now

    def _is_news(self, text: str, now: float) -> bool:
        # Who knocks comes from another port each time, as another connection; who is to be
        # reached is told apart by nothing but digits.
        text = _ATTEMPT.sub("", text) if text.startswith(_NOT_THERE) else _DIGITS.sub("#", text)
        told = self._reported_s.get(text)
        if told is not None and now - told < _REPEAT_S:
            return False
        self._reported_s[text] = now
        self._reported_s.move_to_end(text)
        if len(self._reported_s) > _REPEATS:
            self._reported_s.popitem(last=False)
        return True


def _is_lasting(
    seen: OrderedDict[str, tuple[float, float]], host: str, now: float, gap_s: float
) -> float:
    """Note that something was seen of a host; return for how long it has been, in seconds.

    After a gap of that length it begins anew.
    """
    began_s, last_s = seen.pop(host, (now, now))
    began_s = began_s if now - last_s < gap_s else now
    seen[host] = began_s, now
    if len(seen) > _REPEATS:
        seen.popitem(last=False)
    return now - began_s


def _place(settings: ClusterSettings) -> str:
    return str(settings.directory or "the temporary directory")
