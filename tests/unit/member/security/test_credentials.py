"""Which requests are let in: security off and on, REST and management, header and body."""

from __future__ import annotations

import base64
import json
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.config.model.member import EndpointGroup, User
from grid_member.config.model.security import (
    PROBES,
    ProtectedEndpoints,
    RealmConfig,
    SecurityConfig,
)
from grid_member.http.table import ROUTES
from grid_member.security.audit import LOGGER
from grid_member.security.credentials import (
    NOT_ASKED,
    Gate,
    LoginAttempt,
    LoginOutcome,
    LoginVerdict,
)
from grid_member.telemetry.logs import JsonLines

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBERS = RealmConfig("members", (User("ada", "s3cret"),))
OPERATORS = RealmConfig('ops"\\\n\u00fc', (User("op", "only-here"),))
OFF = SecurityConfig()
ON = SecurityConfig(enabled=True, member_realm=MEMBERS)
DATA = {EndpointGroup.DATA}
READ = {EndpointGroup.CLUSTER_READ}
MAP = ("grid", "rest", "maps", "m", "k")
ACCEPTED, MISSING, WRONG = LoginOutcome.ACCEPTED, LoginOutcome.MISSING, LoginOutcome.WRONG


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ADA = basic("ada", "s3cret")
OP = basic("op", "only-here")


def rest(security: SecurityConfig, clock: Callable[[], float] | None = None) -> Gate:
    return Gate("rest", "dev", security, None, clock or Clock())


def management(security: SecurityConfig) -> Gate:
    return Gate("management", "dev", security, OPERATORS, Clock())


def attempt(*headers: str, remote: str = "10.0.0.7") -> LoginAttempt:
    return LoginAttempt(remote, "POST /x", headers)


def checked(gate: Gate, headers: tuple[str, ...], *parameters: str) -> LoginOutcome | str:
    """Return the outcome of a request, after the status it is refused with."""
    asked = attempt(*headers)
    verdict = gate.header(asked, groups=READ, parts=("grid", "x"), probe=False)
    if not verdict.allows:
        return f"401 {verdict.outcome.name}"
    verdict = gate.parameters(asked, verdict, parameters)
    return verdict.outcome if verdict.allows else f"403 {verdict.outcome.name}"


@pytest.mark.parametrize(
    ("parameters", "headers", "outcome"),
    [
        (("dev", ""), (), ACCEPTED),
        (("dev", "anything"), (), ACCEPTED),
        (("dev", "", "frozen"), (), ACCEPTED),
        (("Dev", ""), (), "403 WRONG"),
        (("dev\n", ""), (), "403 WRONG"),
        (("", ""), (), "403 WRONG"),
        (("", ""), (ADA,), "403 WRONG"),
        (("ada", "s3cret"), (), "403 WRONG"),
        (("d\ud800", ""), (), "403 WRONG"),
    ],
)
def test_security_off_asks_for_the_cluster_name(
    parameters: tuple[str, ...], headers: tuple[str, ...], outcome: LoginOutcome | str
) -> None:
    assert checked(rest(OFF), headers, *parameters) == outcome


@pytest.mark.parametrize(
    ("parameters", "headers", "outcome"),
    [
        (("ada", "s3cret"), (), ACCEPTED),
        (("ada", "s3cret", "frozen"), (), ACCEPTED),
        (("ada", "s3cret"), (basic("ada", "wrong"),), ACCEPTED),
        (("ada", ""), (), "403 WRONG"),
        (("ada", "wrong"), (), "403 WRONG"),
        (("dev", ""), (), "403 WRONG"),
        (("", ""), (), "403 MISSING"),
        (("", ""), (ADA,), ACCEPTED),
        (("", ""), ("bAsIc " + ADA[6:],), ACCEPTED),
        (("", ""), (basic("ada", "wrong"),), "403 WRONG"),
        (("", ""), ("Bearer token",), "403 MISSING"),
        (("", ""), (ADA, ADA), "403 WRONG"),
        (("", ""), (ADA, "Bearer token"), "403 WRONG"),
        (("", "s3cret"), (ADA,), "403 WRONG"),
        (("ada", ""), (ADA,), "403 WRONG"),
        (("op", "only-here"), (), "403 WRONG"),
        (("", ""), (OP,), "403 WRONG"),
    ],
)
def test_security_on_asks_for_a_user_of_the_member_realm(
    parameters: tuple[str, ...], headers: tuple[str, ...], outcome: LoginOutcome | str
) -> None:
    assert checked(rest(ON), headers, *parameters) == outcome


@pytest.mark.parametrize(
    ("security", "parameters", "headers", "outcome"),
    [
        (OFF, ("", ""), (), "401 MISSING"),
        (OFF, ("dev", ""), (), "401 MISSING"),
        (OFF, ("", ""), (ADA,), "401 WRONG"),
        (OFF, ("", ""), (OP,), ACCEPTED),
        (OFF, ("", "ignored"), (OP,), ACCEPTED),
        (OFF, ("dev", ""), (OP,), ACCEPTED),
        (OFF, ("other", ""), (OP,), "403 WRONG"),
        (ON, ("", ""), (), "401 MISSING"),
        (ON, ("ada", "s3cret"), (), "401 MISSING"),
        (ON, ("", ""), (ADA,), "401 WRONG"),
        (ON, ("", ""), (OP,), ACCEPTED),
        (ON, ("ada", "s3cret"), (OP,), ACCEPTED),
        (ON, ("op", "only-here"), (OP,), "403 WRONG"),
        (ON, ("", "s3cret"), (OP,), "403 WRONG"),
    ],
)
def test_the_management_listener_asks_everybody(
    security: SecurityConfig,
    parameters: tuple[str, ...],
    headers: tuple[str, ...],
    outcome: LoginOutcome | str,
) -> None:
    assert checked(management(security), headers, *parameters) == outcome


PROTECTED = ProtectedEndpoints(
    frozenset({EndpointGroup.CLUSTER_READ, EndpointGroup.HEALTH_CHECK}),
    (("grid", "rest", "maps", "secret"), ("grid", "rest", "cp-subsystem")),
)


@pytest.mark.parametrize(
    ("groups", "path", "asked"),
    [
        (READ, "/grid/rest/cluster", True),
        ({EndpointGroup.CP, EndpointGroup.CLUSTER_READ}, "/grid/x", True),
        (DATA, "/grid/rest/maps/secret/k", True),
        (DATA, "/grid/rest/maps/secret", True),
        (DATA, "/grid/rest/maps/secrets/k", False),
        (DATA, "/grid/rest/maps", False),
        (DATA, "/grid/rest/queues/secret", False),
        ({EndpointGroup.CP}, "/grid/rest/cp-subsystem/groups", True),
        ({EndpointGroup.HEALTH_CHECK}, "/grid/health/cluster-state", True),
        ({EndpointGroup.HEALTH_CHECK}, "/grid/health/ready", False),
        ({EndpointGroup.HEALTH_CHECK}, "/grid/health/node-state", False),
    ],
)
def test_what_is_protected_asks_for_basic(
    groups: set[EndpointGroup], path: str, asked: bool
) -> None:
    parts = tuple(path.split("/")[1:])
    security = SecurityConfig(True, MEMBERS, PROTECTED)
    outcomes = [
        rest(given).header(attempt(*headers), groups=groups, parts=parts, probe=False).outcome
        for given, headers in ((security, ()), (security, (ADA,)), (security, (OP,)), (ON, ()))
    ]
    expected = [MISSING, ACCEPTED, WRONG] if asked else [LoginOutcome.NOT_ASKED] * 3
    assert outcomes == [*expected, LoginOutcome.NOT_ASKED]


def test_nothing_protects_a_probe() -> None:
    everything = ProtectedEndpoints(frozenset(EndpointGroup), (("grid",), *PROBES))
    protecting = SecurityConfig(True, MEMBERS, everything)
    probes = [route for route in ROUTES if route.probe]
    assert {tuple(route.path.split("/")[1:]) for route in probes} == set(PROBES)
    for gate in (rest(protecting), management(ON)):
        for _ in range(20):
            guess = attempt(basic("ada", "guess"))
            gate.header(guess, groups=READ, parts=("grid", "x"), probe=False)
        for route in probes:
            parts = tuple(route.path.split("/")[1:])
            for headers in ((), (basic("x", "y"),)):
                given = attempt(*headers)
                verdict = gate.header(given, groups=route.groups, parts=parts, probe=True)
                assert verdict == NOT_ASKED


def test_an_accepted_header_is_enough_for_a_protected_call() -> None:
    protecting = SecurityConfig(
        True, MEMBERS, ProtectedEndpoints(frozenset({EndpointGroup.CLUSTER_READ}))
    )
    assert checked(rest(protecting), (ADA,), "", "") == ACCEPTED
    assert checked(rest(protecting), (), "ada", "s3cret") == "401 MISSING"
    assert checked(rest(protecting), (ADA,), "ada", "wrong") == "403 WRONG"


# Slow-down


def guesses(gate: Gate, count: int, remote: str = "10.0.0.7") -> list[LoginVerdict]:
    asked = attempt(remote=remote)
    return [gate.parameters(asked, NOT_ASKED, ("ada", f"guess-{n}")) for n in range(count)]


def right(gate: Gate, remote: str = "10.0.0.7") -> LoginVerdict:
    return gate.parameters(attempt(remote=remote), NOT_ASKED, ("ada", "s3cret"))


def test_after_some_failures_credentials_are_not_looked_at_for_a_while() -> None:
    clock = Clock()
    gate = rest(ON, clock)
    assert [v.outcome for v in guesses(gate, 10)] == [WRONG] * 10
    assert right(gate) == LoginVerdict(LoginOutcome.SLOWED, retry_after_s=1)
    assert right(gate, "10.0.0.8") == LoginVerdict(ACCEPTED, "ada")
    clock.now_s = 0.5
    assert right(gate) == LoginVerdict(LoginOutcome.SLOWED, retry_after_s=1)
    clock.now_s = 1.0
    assert right(gate) == LoginVerdict(ACCEPTED, "ada")
    assert [v.outcome for v in guesses(gate, 10)] == [WRONG] * 10


def test_who_was_in_before_is_let_in_while_others_behind_the_address_guess() -> None:
    gate = rest(ON)
    assert right(gate).outcome is ACCEPTED
    for n in range(1000):
        gate.parameters(attempt(), NOT_ASKED, ("nobody", f"guess-{n}"))
        assert n % 100 or right(gate) == LoginVerdict(ACCEPTED, "ada")
    assert checked(gate, (ADA,), "", "") == ACCEPTED


def test_guesses_at_who_was_in_before_are_looked_at_as_rarely_as_others() -> None:
    clock = Clock()
    gate = rest(ON, clock)
    assert right(gate).outcome is ACCEPTED
    looked_at = [v for v in guesses(gate, 30) if v.outcome is WRONG]
    assert len(looked_at) == 10
    # Ten more were compared, and answered like the rest; now nobody is told anything.
    assert right(gate) == LoginVerdict(LoginOutcome.SLOWED, retry_after_s=1)
    clock.now_s = 1.0
    assert right(gate).outcome is ACCEPTED


def test_during_a_wait_a_wrong_answer_does_not_tell_which_names_are_in_use() -> None:
    gate = rest(ON)
    assert right(gate).outcome is ACCEPTED
    guesses(gate, 10)
    said = [gate.parameters(attempt(), NOT_ASKED, (name, "x")) for name in ("ada", "nobody")]
    assert said == [LoginVerdict(LoginOutcome.SLOWED, retry_after_s=1)] * 2


def test_users_of_two_realms_who_share_a_name_are_two() -> None:
    operators = RealmConfig("operators", (User("ada", "only-here"),))
    gate = Gate("management", "dev", ON, operators, Clock())
    here = basic("ada", "only-here")
    assert checked(gate, (here,), "", "") == ACCEPTED
    for n in range(20):
        checked(gate, (basic("nobody", f"guess-{n}"),), "", "")
    assert checked(gate, (here,), "", "") == ACCEPTED
    assert checked(gate, (here,), "ada", "s3cret") == "403 SLOWED"


def test_a_hundred_guesses_at_once_are_ten() -> None:
    outcomes = [verdict.outcome for verdict in guesses(rest(ON), 100)]
    assert outcomes == [WRONG] * 10 + [LoginOutcome.SLOWED] * 90


def test_headers_and_bodies_count_together() -> None:
    gate = rest(ON)
    for _ in range(5):
        checked(gate, (basic("ada", "guess"),), "", "")
        checked(gate, (), "ada", "guess")
    assert checked(gate, (ADA,), "", "") == "403 SLOWED"
    assert checked(gate, (), "ada", "s3cret") == "403 SLOWED"


def test_what_is_no_guess_slows_nobody_down() -> None:
    for gate in (rest(ON), management(ON)):
        for _ in range(50):
            checked(gate, (), "", "")
            checked(gate, ("Bearer token",), "", "")
            checked(gate, ("Basic %%",), "", "")
            checked(gate, (basic("ada", "guess"), basic("ada", "other")), "", "")
        assert checked(gate, (ADA,), "", "") in (ACCEPTED, "401 WRONG")
        assert checked(gate, (OP,), "", "") in (ACCEPTED, "403 WRONG")
    off = rest(OFF)
    for _ in range(50):
        assert checked(off, (), "other", "") == "403 WRONG"
    assert checked(off, (), "dev", "") == ACCEPTED


def test_an_endpoint_that_asks_nothing_helps_nobody_to_guess() -> None:
    gate = rest(ON)
    for _ in range(50):
        given = attempt(basic("ada", "guess"))
        assert gate.header(given, groups=DATA, parts=MAP, probe=False) == NOT_ASKED
    assert right(gate).outcome is ACCEPTED


def test_guessing_on_one_listener_leaves_the_other_alone() -> None:
    guesses(rest(ON), 20)
    assert checked(management(ON), (OP,), "", "") == ACCEPTED


# Lines


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [JsonLines().format(record) for record in caplog.records]


def test_lines_never_hold_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    for gate in (rest(OFF), rest(ON), management(OFF), management(ON)):
        checked(gate, (), "Swapped-pw", "Hidden-pw")
        checked(gate, (basic("Swapped-pw", "Hidden-pw"),), "", "")
        checked(gate, ("Basic Hidden-pw", "Hidden-pw"), "", "")
        checked(gate, (OP,), "Swapped-pw", "only-here")
    text = "\n".join(lines(caplog))
    assert len(caplog.records) >= 12
    encoded = base64.b64encode(b"Swapped-pw").decode()
    assert not any(s in text for s in ("Swapped-pw", "Hidden-pw", "only-here", encoded[:8]))


def test_a_line_names_the_user_that_exists(caplog: pytest.LogCaptureFixture) -> None:
    gate = rest(ON)
    gate.parameters(attempt(), NOT_ASKED, ("ada", "wrong"))
    gate.parameters(attempt(), NOT_ASKED, ("nobody", "wrong"))
    shown = [json.loads(line) for line in lines(caplog)]
    assert [line.get("user") for line in shown] == ["ada", None]
    assert {line["reason"] for line in shown} == {"wrong credentials"}
    assert {line["remote"] for line in shown} == {"10.0.0.7"}


def test_whoever_is_turned_away_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    guesses(rest(ON), 1010)
    assert len(caplog.records) == 10 + len([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    assert json.loads(lines(caplog)[10])["reason"] == "too many failures"
    assert json.loads(lines(caplog)[10])["wait_s"] == 1


def test_the_challenge_is_one_line_of_quotable_text() -> None:
    assert management(OFF).challenge == 'Basic realm="ops", charset="UTF-8"'
    assert rest(ON).challenge == 'Basic realm="members", charset="UTF-8"'


def test_nothing_that_is_shown_holds_a_header_or_password() -> None:
    shown = repr((attempt(ADA), rest(ON), management(ON), OPERATORS))
    assert not any(secret in shown for secret in (ADA, "s3cret", "only-here"))
