"""`grid-member client check`: a line for each thing that is as it should be, or is not."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from grid_member.client.errors import ClientError, FinalError, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grid_member.client.deadline import Deadline
    from grid_member.client.member import MemberClient
    from grid_member.client.wire import HttpReply

MAPS_PATH: Final = "/grid/rest/maps"
PROBES: Final = {
    "CLUSTER_READ": ("GET", "/grid/rest/instance"),
    "CLUSTER_WRITE": ("GET", "/grid/rest/no-such-path"),
    "PERSISTENCE": ("POST", "/grid/rest/management/cluster/backupInterrupt"),
    "WAN": ("GET", "/grid/rest/wan/sync/progress/none"),
    "DATA": ("GET", "/grid/rest/maps/grid-check/none"),
    "CP": ("POST", "/grid/rest/cp-subsystem/reset"),
}
"""By endpoint group a request that changes nothing: calls without parameters are refused."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the command line says of the cluster."""

    size: int | None
    map_name: str | None
    """A map that is configured, for a value that is written, read and removed."""
    groups_off: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at."""

    passed: bool
    text: str

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'FAILED'}  {self.text}"


def check(
    members: tuple[MemberClient, ...], expected: Expectation, deadline: Deadline
) -> Iterator[CheckResult]:
    """Look at everything, one after the other; each may take the time that is left.

    Members change while pods are replaced, so what is not so yet is looked at again.
    """
    for name, look in _results(members, expected):
        try:
            yield CheckResult(True, f"{name}: {deadline.until(look)}")
        except ClientError as error:
            yield CheckResult(False, f"{name}: {error}")


def _results(
    members: tuple[MemberClient, ...], expected: Expectation
) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "ready", lambda: _all_ready(members)
    yield "size", lambda: _same_size(members, expected.size)
    yield "safe", lambda: _all_safe(members)
    yield "version", lambda: _one_version(members)
    if expected.map_name is not None:
        name = expected.map_name
        yield "data", lambda: _value_result(members, name)
    for group in expected.groups_off:
        yield group, lambda group=group: _group_result(members[0], group)  # type: ignore[misc]


def _all_ready(members: tuple[MemberClient, ...]) -> str:
    for member in members:
        member.require_ready()
    return ", ".join(member.name for member in members)


def _same_size(members: tuple[MemberClient, ...], size: int | None) -> str:
    wanted = size if size is not None else int(members[0].health().get("clusterSize") or 0)
    for member in members:
        member.require_size(wanted)
    return f"{wanted} members"


def _all_safe(members: tuple[MemberClient, ...]) -> str:
    for member in members:
        member.require_safe()
    return "every copy is current"


def _one_version(members: tuple[MemberClient, ...]) -> str:
    versions = sorted({one.version for one in members[0].list_members()})
    if len(versions) != 1:
        raise PassingError(f"the members are of versions {', '.join(versions)}")
    return versions[0]


def _value_result(members: tuple[MemberClient, ...], map_name: str) -> str:
    """Write through the first, read through the last, remove: under a key of this run alone."""
    key = f"grid-check-{uuid.uuid4().hex}"
    path = f"{MAPS_PATH}/{quote(map_name, safe='')}/{key}"
    first, last = members[0], members[-1]
    _require(first.ask("POST", path, b"checked"), 200, first, path)
    try:
        read = _require(last.ask("GET", path), 200, last, path)
        if read.body != b"checked":
            raise FinalError(f"{last.name} read another value than {first.name} wrote")
    finally:
        removed = first.ask("DELETE", path)
    _require(removed, 200, first, path)
    _require(last.ask("GET", path), 204, last, path)
    return f"a value was written, read and removed in map {map_name}"


def _group_result(member: MemberClient, group: str) -> str:
    method, path = PROBES[group]
    _require(member.ask(method, path, b"" if method == "POST" else None), 403, member, path)
    return "off, 403"


def _require(reply: HttpReply, status: int, member: MemberClient, path: str) -> HttpReply:
    if reply.status == status:
        return reply
    reason = reply.headers.get("x-grid-error", "") or reply.body[:200].decode("utf-8", "replace")
    text = f"{member.name} answered {reply.status}, not {status}, to {path}"
    problem = PassingError if reply.status == 503 else FinalError
    raise problem(f"{text}: {reason}" if reason else text)
