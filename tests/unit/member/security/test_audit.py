"""What the audit log says, and what it can never say."""

from __future__ import annotations

import json
import logging

import pytest

from grid_member.http.wire.answers import document, failure_answer, success
from grid_member.security.audit import LOGGER, Audit, endpoint, is_failure, keep_auditing
from grid_member.security.credentials import LoginAttempt
from grid_member.telemetry.logs import JsonLines


@pytest.fixture
def audit() -> Audit:
    return Audit("rest")


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    shown = [json.loads(JsonLines().format(record)) for record in caplog.records]
    return [{k: v for k, v in line.items() if k != "time"} for line in shown]


def test_a_call_names_who_where_what_and_the_outcome(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    where = "POST /grid/rest/management/cluster/changeState"
    called = {"remote": "10.0.0.7", "endpoint": where, "user": "ada"}
    audit.log_call(LoginAttempt("10.0.0.7", where), "ada", 200)
    audit.log_call(LoginAttempt(None, where), None, 409, details={"state": "f" * 1000})
    common = {"level": "info", "logger": LOGGER, "message": "management call", "listener": "rest"}
    assert lines(caplog) == [
        common | called | {"outcome": "done", "status": 200},
        common | {"endpoint": where, "outcome": "refused", "status": 409, "state": "f" * 256},
    ]


@pytest.mark.parametrize(
    ("status", "refused", "repeated", "outcome"),
    [
        (200, False, False, {"outcome": "done", "status": 200}),
        (200, True, False, {"outcome": "refused", "status": 200}),
        (500, False, False, {"outcome": "refused", "status": 500}),
        (200, False, True, {"outcome": "repeated", "status": 200}),
        (200, True, True, {"outcome": "repeated", "status": 200}),
        (None, False, False, {"outcome": "unanswered"}),
    ],
)
def test_the_outcome_is_what_the_caller_was_told(
    status: int | None,
    refused: bool,
    repeated: bool,
    outcome: dict[str, object],
    audit: Audit,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    attempt = LoginAttempt(None, "POST /x")
    audit.log_call(attempt, None, status, refused=refused, repeated=repeated)
    (line,) = lines(caplog)
    assert {k: v for k, v in line.items() if k in ("outcome", "status")} == outcome


def test_a_document_that_refuses_is_told_from_others() -> None:
    assert is_failure(failure_answer(200, "there is nothing to start").body)
    assert is_failure(document({"status": "fail", "state": "frozen"}).body)
    assert not is_failure(success(state="frozen").body)
    assert not is_failure(b"")


def test_a_refusal_names_the_reason(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    attempt = LoginAttempt("10.0.0.7", "GET /x")
    audit.log_denial("wrong credentials", attempt, "ada", 4)
    audit.log_denial("no credentials", attempt)
    common = {
        "level": "warning",
        "logger": LOGGER,
        "message": "authentication failed",
        "listener": "rest",
        "remote": "10.0.0.7",
        "endpoint": "GET /x",
    }
    assert lines(caplog) == [
        common | {"reason": "wrong credentials", "user": "ada", "wait_s": 4},
        common | {"reason": "no credentials"},
    ]


@pytest.mark.parametrize("name", ["password", "license", "key", "config", "level", "message"])
def test_a_detail_that_may_be_a_secret_is_no_line(
    name: str, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="no audit line"):
        audit.log_call(LoginAttempt(None, ""), None, 200, details={name: "x"})
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "path", "shown"),
    [
        ("POST", "/grid/rest/maps/{name}/{key...}", "POST /grid/rest/maps/{name}/{key...}"),
        ("GET", None, "GET unknown path"),
        ("X" * 60_000, "/grid/health", "other /grid/health"),
    ],
)
def test_an_endpoint_is_shown_as_the_table_has_it(
    method: str, path: str | None, shown: str
) -> None:
    assert endpoint(method, path) == shown


def test_turning_the_log_down_leaves_the_audit_log_on(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    # `set_level` is undone after the test; `keep_auditing` sets the same logger again.
    caplog.set_level(logging.ERROR)
    caplog.set_level(logging.ERROR, LOGGER)
    caplog.handler.setLevel(logging.NOTSET)
    keep_auditing()
    audit.log_call(LoginAttempt(None, "GET /x"), "ada", 200)
    assert len(lines(caplog)) == 1
