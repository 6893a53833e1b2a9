"""Nothing of the interface is missing in the conformance table."""

from __future__ import annotations

from itertools import combinations

from grid_member.http.table import ROUTES, RoutingTable
from grid_member.http.wire.paths import MalformedError, split_target
from tests.unit.member.conformance.configurations import SETUPS
from tests.unit.member.conformance.language import Role
from tests.unit.member.conformance.lines import ELSEWHERE, lines
from tests.unit.member.conformance.paths import PATHS
from tests.unit.member.conformance.table import TABLE
from tests.unit.member.conformance.test_conformance import holds


def test_every_line_of_the_specification_has_a_row() -> None:
    shown = {reference for row in TABLE for reference in row.references}
    assert shown - lines() == set(), "no such lines"
    assert lines() - shown - set(ELSEWHERE) == set(), "lines without a row"
    assert shown & set(ELSEWHERE) == set(), "lines that have a row after all"


def test_the_routing_table_is_that_of_the_specification() -> None:
    written = {
        (tuple(p.methods.split()), p.path, frozenset(p.groups), p.parameters or None) for p in PATHS
    }
    served = {
        (r.methods, r.path, frozenset(g.value for g in r.groups), r.parameters) for r in ROUTES
    }
    assert served == written
    assert len(ROUTES) == len(PATHS)


def test_every_way_to_configure_a_member_is_played() -> None:
    ways = {(s.syntax, s.network, s.security, s.tls) for s in SETUPS}
    assert len(ways) == len(SETUPS) == 2**4
    assert [len({way[choice] for way in ways}) for choice in range(4)] == [2] * 4


def test_every_row_is_played_with_and_without_the_fast_path_and_compiled_modules() -> None:
    for choices in combinations(("syntax", "network", "security", "tls"), 3):
        met = {(*(getattr(s, choice) for choice in choices), s.fast_path) for s in SETUPS}
        assert len(met) == 2**4, choices
    for row in TABLE:
        assert {s.fast_path for s in SETUPS if holds(row, s)} == {True, False}, row
        assert {s.compiled for s in SETUPS if holds(row, s)} == {True, False}, row


def touched(role: Role) -> set[tuple[str, str]]:
    """Return the method and path of every route that a row of the role asks for."""
    table = RoutingTable()
    found: set[tuple[str, str]] = set()
    for ask in (ask for row in TABLE if row.role is role for ask in row.asks):
        path = ask.path.replace("{map}", "m").replace("{queue}", "q")
        try:
            match = table.match(split_target(path).parts)
        except MalformedError:
            continue
        route = match.row(ask.method) if match else None
        if route is not None:
            found.add((ask.method, route.path))
    return found


def test_every_method_of_every_path_is_asked() -> None:
    wanted = {(method, route.path) for route in ROUTES for method in route.methods}
    wanted -= {("POST", STOP), ("PUT", STOP)}
    assert wanted - touched(Role.OPEN) - touched(Role.CHANGED) == set()
    assert ("POST", STOP) in touched(Role.OWN)


def test_every_method_of_every_path_is_asked_while_disabled() -> None:
    asked = touched(Role.DEFAULTS) | touched(Role.STRICT) | touched(Role.WRITER)
    assert {(method, route.path) for route in ROUTES for method in route.methods} - asked == set()


STOP = "/grid/rest/management/cluster/memberShutdown"
