"""Which state counts when servers have lost a log that was in their memory, and who writes it back.

Pure: it goes by what the members report of themselves. All members come to the same verdict from
final positions, and a position is final once its member has left the log.

    a member that counts is missing       wait for it, as it may hold the highest position
    another one has not left the log      ask again
    another one knows a later generation  read that
    the own state is the highest          write it back
    another state is                      wait until that member has written it back
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from grid_member.engine.nats.admin.server_records import ServerRecord, decode_server_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_UNKNOWN: Final = "of a member of another version"


class LogHolding(NamedTuple):
    """What a member holds of one log."""

    created: str
    """When its stream was made, as servers tell it: another one has another time."""
    generation: int
    """How often the log was written back."""
    sequence: int
    """Of the last record that the member has applied."""
    left: bool
    """Whether the member has left it for good, so that the sequence is final."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a member tells of itself."""

    server: str
    """The id of its server."""
    place: ServerRecord
    """Where it is."""
    whole: bool
    """Whether its server's copies were complete once since that was started."""
    holdings: Mapping[str, LogHolding] = field(default_factory=dict)
    """By the names of the logs that it holds."""
    servers: Mapping[str, ServerRecord | None] = field(default_factory=dict)
    """The servers that are noted in its state, by their ids."""
    gone: frozenset[str] = frozenset()
    """The ids of those whose members told that they stop."""

    def encode(self) -> bytes:
        """Return it as it is sent."""
        fields = {
            "server": self.server,
            "place": self.place.encode().decode(),
            "whole": self.whole,
            "holdings": {name: list(one) for name, one in self.holdings.items()},
            "servers": {
                name: None if place is None else place.encode().decode()
                for name, place in self.servers.items()
            },
            "gone": sorted(self.gone),
        }
        return json.dumps(fields).encode()


def decode_report(payload: bytes) -> MemoryReport:
    """Return what was sent.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is no report.
    """
    fields = json.loads(payload)
    place = decode_server_record(fields["place"])
    if place is None:
        raise ValueError("a report without a place")
    holdings = {
        str(name): LogHolding(str(one[0]), int(one[1]), int(one[2]), bool(one[3]))
        for name, one in fields["holdings"].items()
    }
    servers = {
        str(name): None if value is None else decode_server_record(value)
        for name, value in fields["servers"].items()
    }
    return MemoryReport(
        str(fields["server"]),
        place,
        bool(fields["whole"]),
        holdings,
        servers,
        frozenset(map(str, fields["gone"])),
    )


class LogAction(enum.Enum):
    """What a member is to do about a log that it has left."""

    WAIT = enum.auto()
    """For members that are missing."""
    ASK = enum.auto()
    """Again: somebody has not left the log yet."""
    READ = enum.auto()
    """The log that is there now, or will be in a moment."""
    WRITE = enum.auto()
    """The own state back."""


class LogDecision(NamedTuple):
    """What is to be done, and who is waited for."""

    act: LogAction
    missing: tuple[str, ...] = ()
    """Names of members, for people."""
    generation: int = 0
    """The highest one that anybody knows."""
    apart: tuple[str, ...] = ()
    """Names of members that began the log without this one, and go on with it."""


def missing(reports: Iterable[MemoryReport]) -> dict[str, ServerRecord | None]:
    """Return the servers of members that count, did not report, and may live; with their places.

    A member is known to be gone when another process has its place, or when it told that it stops.
    """
    told = {one.server: one for one in reports}
    gone = {server for one in told.values() for server in one.gone}
    noted_places: dict[str, ServerRecord | None] = {}
    for one in told.values():
        for server, place in one.servers.items():
            noted_places[server] = noted_places.get(server) or place
    living = [one.place for one in told.values()]
    return {
        server: place
        for server, place in sorted(noted_places.items())
        if server not in told
        and server not in gone
        and not (place is not None and any(place.excludes(other) for other in living))
    }


def is_roundup_complete(reports: Mapping[str, MemoryReport]) -> bool:
    """Tell whether all reported that count, as far as is known from more than one."""
    return len(reports) > 1 and not missing(reports.values())


def names_of(servers: Mapping[str, ServerRecord | None]) -> tuple[str, ...]:
    """Return whose servers these are, for people."""
    return tuple(
        sorted(
            f"the server {server} {_UNKNOWN}"
            if place is None
            else f"{place.member} (members' port {place.port} of {place.host})"
            for server, place in servers.items()
        )
    )


def incomplete(reports: Iterable[MemoryReport]) -> int:
    """Count the servers that have lost what they had, as far as that is known.

    Those count that are not complete again, and those of members that are known to be gone.
    """
    told = {one.server: one for one in reports}
    known = _noted_servers(told.values())
    lost = sum(not one.whole for one in told.values() if one.server in known)
    return len(_gone_servers(told.values())) + lost


def is_lost(reports: Iterable[MemoryReport], copies: int) -> bool:
    """Tell whether more servers have lost what they had than a log with so many copies allows."""
    return incomplete(reports) > (copies - 1) // 2


def is_lost_for_good(reports: Iterable[MemoryReport], copies: int, size: int) -> bool:
    """Tell whether so many are known to have lost it, and no member that may live is missing.

    Then a log that nobody leads does not get a leader any more.
    """
    told = list(reports)
    return is_lost(told, copies) and not missing(told) and is_majority(told, size)


def is_majority(reports: Iterable[MemoryReport], size: int) -> bool:
    """Tell whether most members of a list that long reported: others may begin without a few."""
    return 2 * len(list(reports)) > size


def is_majority_gone(reports: Iterable[MemoryReport], size: int) -> bool:
    """Tell whether servers may lead without those of members that are known to be gone.

    They had so many that none can lead with them, and most members of a list that long are there.
    """
    told = list(reports)
    return 2 * len(_gone_servers(told)) >= len(_noted_servers(told)) and is_majority(told, size)


def is_everything_lost(reports: Iterable[MemoryReport]) -> bool:
    """Tell whether no log goes on, and most servers that vote are gone for good.

    Then a server that lost its memory had better forget which servers vote, too. It would ask for
    votes by what it knows while those that came in their places elect one of themselves, and of the
    two one takes back what the other agreed on.
    """
    told = list(reports)
    held = [one for report in told for one in report.holdings.values()]
    all_left = bool(held) and all(one.left for one in held)
    return all_left and 2 * len(_gone_servers(told)) >= len(_noted_servers(told))


def _noted_servers(reports: Iterable[MemoryReport]) -> frozenset[str]:
    return frozenset(server for one in reports for server in one.servers)


def _gone_servers(reports: Iterable[MemoryReport]) -> frozenset[str]:
    """Return the servers of members that are known to be gone."""
    told = {one.server: one for one in reports}
    return _noted_servers(told.values()) - told.keys() - missing(told.values()).keys()


def decide(log: str, own: str, reports: Iterable[MemoryReport]) -> LogDecision:
    """Return what the member with that server is to do about a log that it has left."""
    told = {one.server: one for one in reports}
    held = {one.server: one.holdings[log] for one in told.values() if log in one.holdings}
    top = max((one.generation for one in held.values()), default=0)
    if own not in held or held[own].generation < top:
        return LogDecision(LogAction.READ, generation=top)
    absent = missing(told.values())
    if absent:
        return LogDecision(LogAction.WAIT, names_of(absent), top)
    latest = {server: one for server, one in held.items() if one.generation == top}
    following = {server for server, one in latest.items() if not one.left}
    if following:
        created = held[own].created
        others = {one: told[one].place for one in following if latest[one].created != created}
        return LogDecision(LogAction.ASK, generation=top, apart=names_of(others))
    highest = max(latest, key=lambda server: (latest[server].sequence, server))
    return LogDecision(LogAction.WRITE if highest == own else LogAction.READ, generation=top)


def is_followed(log: str, created: str, reports: Iterable[MemoryReport]) -> bool:
    """Tell whether a member that reported follows the log that was made then."""
    held = (one.holdings.get(log) for one in reports)
    return any(one is not None and one.created == created and not one.left for one in held)


def start_obstacle(
    log: str,
    read: tuple[str, int],
    last: int,
    reports: Iterable[MemoryReport],
    *,
    all_told: bool,
) -> str | None:
    """Return why a member that starts must not go on with a log that it has read; None: it may.

    Either another member follows the log, or it was written back a moment ago, or no member holds
    one at all.

    Args:
        log: the name of its stream.
        read: when the stream was made, and how often the log was written back.
        last: the sequence of its last record now.
        reports: of the members that answered.
        all_told: whether no others are waited for.
    """
    told = list(reports)
    created, generation = read
    held = [one.holdings[log] for one in told if log in one.holdings]
    if any(one.generation > generation for one in held):
        return f"{log} was written back meanwhile"
    same = [one for one in held if one.created == created]
    if same and not any(one.left or one.sequence > last for one in same):
        return None
    if held and all(one.generation < generation for one in held):
        return None  # they are about to read it
    if held:
        return f"{log} lacks what a member holds, which writes it back"
    if all_told:
        return None
    return f"members do not tell yet what they hold of {log}: it may be new, or lost"


def describe_decisions(verdicts: Mapping[str, LogDecision]) -> str:
    """Return what is waited for, and what to do, for people."""
    names = ", ".join(verdicts)
    missed = sorted({one for verdict in verdicts.values() for one in verdict.missing})
    apart = sorted({one for verdict in verdicts.values() for one in verdict.apart})
    if apart:
        return (
            f"{' and '.join(apart)} began {names} again without what this member holds, while it "
            "was out of sight: restart this member to go on with theirs; what only this member "
            "holds is lost then"
        )
    lost = f"the servers lost what they had in memory of {names}"
    if not missed:
        return f"{lost}: it is written back by the member that holds most of it"
    return (
        f"{lost}, and it is not known yet what {' and '.join(missed)} holds of it: start or "
        "reconnect that member; when its process is gone for good, start another one in its "
        "place, with the same name and at the same address"
    )
