"""What each member of a cluster tells the others about its sending, in the system store.

    wan/sender/<publisher>/<uuid>     whether the member can send, and how its connection is

A member writes its report when it changes, at most once a second. So every member can say how a
publisher of the whole cluster is, and knows which members can send.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from grid_member.cluster.values.system_store import Put
from grid_member.wan.agreement.store import WAN, name_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grid_member.engine.state.system import SystemStore
    from grid_member.engine.wan.agreement import PublisherName

SENDER: Final = f"{WAN}sender/"
MAX_BLOCKED: Final = 32
"""Maps that a report names."""


@dataclass(frozen=True, slots=True)
class SenderReport:
    """How a member sends for a publisher."""

    able: bool = True
    """Whether it has all shards, and the credentials for the target."""
    lanes: int = 0
    """How many shards it sends."""
    connected: bool = False
    endpoint: str = ""
    """The address that answered last."""
    problem: str = ""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """By map, why the target refuses its changes."""

    @property
    def shown(self) -> SenderReport:
        """What others are told: a part of the blocked maps if they are many."""
        if len(self.blocked) <= MAX_BLOCKED:
            return self
        return replace(self, blocked=dict(sorted(self.blocked.items())[:MAX_BLOCKED]))

    def differs(self, other: SenderReport | None) -> bool:
        """Tell whether it says something else; with each batch the address may be another one."""
        return other is None or replace(self, endpoint="") != replace(other, endpoint="")


CANNOT_SEND: Final = "a member cannot send, and others do so in its place"
UNKNOWN: Final = SenderReport()
"""Of a member that has told nothing yet: it may be able to send."""


class SenderReports:
    """The reports of all members."""

    def __init__(self, store: SystemStore) -> None:
        self._store = store

    def of(self, publisher: PublisherName) -> dict[str, SenderReport]:
        """Return the reports about a publisher by the members' UUIDs."""
        prefix = f"{SENDER}{name_key(publisher)}/"
        items = self._store.system_items(prefix)
        return {key.removeprefix(prefix): _read(value) for key, value in items}

    def tell(self, publisher: PublisherName, member: str, report: SenderReport) -> None:
        """Put a member's report where it says something else than before."""
        key, shown = f"{SENDER}{name_key(publisher)}/{member}", report.shown
        stored = self._store.system_get(key)
        if shown.differs(None if stored is None else _read(stored)):
            # What is refused is told again with the next look.
            Put(key, _pack(shown)).send(self._store)

    def tidy(self, publishers: Iterable[PublisherName], members: Iterable[str]) -> None:
        """Remove the reports of members that are gone, and about publishers that are."""
        wanted, names = set(members), {name_key(name) for name in publishers}
        for key, _ in self._store.system_items(SENDER):
            name, _, member = key.removeprefix(SENDER).rpartition("/")
            if name not in names or member not in wanted:
                Put(key, None).send(self._store)


def merged(reports: Iterable[SenderReport]) -> SenderReport:
    """Return how a publisher is by the reports of all members that send for it.

    When none has a problem, or none sends, it says why a member cannot send.
    """
    known = list(reports)
    sending = [report for report in known if report.lanes] or known
    problems = [each.problem for each in sending] + [
        f"{CANNOT_SEND}: {each.problem}" for each in known if each.problem and not each.able
    ]
    return SenderReport(
        able=any(report.able for report in sending),
        lanes=sum(report.lanes for report in sending),
        connected=bool(sending) and all(report.connected for report in sending),
        endpoint=next((each.endpoint for each in sending if each.endpoint), ""),
        problem=next(filter(None, problems), ""),
        blocked={name: why for each in sending for name, why in each.blocked.items()},
    )


def _pack(report: SenderReport) -> bytes:
    content = {
        "able": report.able,
        "lanes": report.lanes,
        "connected": report.connected,
        "endpoint": report.endpoint,
        "problem": report.problem,
        "blocked": dict(report.blocked),
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _read(value: bytes) -> SenderReport:
    """Return a report; what a member of another version does not tell has its default."""
    found = json.loads(value)
    return SenderReport(
        able=bool(found.get("able", True)),
        lanes=int(found.get("lanes", 0)),
        connected=bool(found.get("connected", False)),
        endpoint=str(found.get("endpoint", "")),
        problem=str(found.get("problem", "")),
        blocked={str(name): str(why) for name, why in found.get("blocked", {}).items()},
    )
