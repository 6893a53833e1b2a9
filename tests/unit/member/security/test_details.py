"""What an audit line tells of a call's parameters, and that it is nothing that was made up."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.http.routes import ROUTES
from grid_member.security.audit import DETAILS
from grid_member.security.details import details

KNOWN = {
    "state": "active|no_migration|frozen|passive|in_transition",
    "version": r"[0-9]{1,3}\.[0-9]{1,3}",
    "log_level": "[A-Z]{3,7}",
    "map": "m",
}


@pytest.mark.parametrize(
    ("operation", "parameter", "told"),
    [
        ("change_state", "Frozen", {"state": "frozen"}),
        ("change_state", "no_migration", {"state": "no_migration"}),
        ("change_state", "s3cret", {}),
        ("change_version", "1.2", {"version": "1.2"}),
        ("change_version", "1.2.3-s3cret", {"version": "1.2"}),
        ("change_version", "s3cret", {}),
        ("log_level_set", "off", {"log_level": "OFF"}),
        ("log_level_set", "s3cret", {}),
        ("license_set", "s3cret", {}),
        ("config_upload", "s3cret", {}),
        (None, "s3cret", {}),
    ],
)
def test_a_line_tells_what_the_interface_knows(
    operation: str | None, parameter: str, told: dict[str, str]
) -> None:
    assert details(operation, {}, ("ada", "pw", parameter)) == told


def test_a_line_tells_the_map_and_no_key() -> None:
    names = {"name": "orders", "key": "s3cret"}
    for operation in ("map_put", "map_remove", "map_clear"):
        assert details(operation, names, ()) == {"map": "orders"}


@given(st.text() | st.sampled_from(["FROZEN", "Info", "1.2", "1.2-x"]))
def test_no_call_tells_what_was_sent(sent: str) -> None:
    names = {"name": "m", "key": sent, "id": sent, "uuid": sent}
    for row in ROUTES:
        told = details(row.operation, names, (sent, sent, sent, sent, sent))
        assert set(told) <= DETAILS
        assert all(re.fullmatch(KNOWN[name], value) for name, value in told.items())
