"""What an audit line tells of a call's parameters, and that it is nothing that was made up."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.http.table import ROUTES
from grid_member.security.audit import DETAILS
from grid_member.security.details import details

UUID = "00000000-0000-0000-0000-0000000000ab"
KNOWN = {
    "state": "active|no_migration|frozen|passive|in_transition",
    "version": r"[0-9]{1,3}\.[0-9]{1,3}",
    "log_level": "[A-Z]{3,7}",
    "map": "m",
    "group": "METADATA|default",
    "member": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
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


@pytest.mark.parametrize(
    ("operation", "parameters", "told"),
    [
        ("wan_pause_publisher", ("r", "p"), {"replication": "r", "publisher": "p"}),
        ("wan_pause_publisher", ("r", ""), {"replication": "r"}),
        ("wan_sync_map", ("r", "p", "m"), {"replication": "r", "publisher": "p", "map": "m"}),
        ("wan_add_config", ('{"name": "s3cret"}',), {}),
        ("wan_add_config", ("s3cret",), {}),
        (
            "wan_add_config",
            (
                '{"name": "r", "batchPublishers": [{"clusterName": "c", '
                '"targetEndpoints": "s3cret", "properties": {"realm": "s3cret"}}]}',
            ),
            {"replication": "r", "publisher": "c"},
        ),
    ],
)
def test_a_line_tells_what_of_wan_replication_was_meant(
    operation: str, parameters: tuple[str, ...], told: dict[str, str]
) -> None:
    assert details(operation, {}, ("ada", "pw", *parameters)) == told


@pytest.mark.parametrize(
    ("operation", "names", "told"),
    [
        ("cp_group_remove", {"name": "default"}, {"group": "default"}),
        ("cp_group_remove", {"name": "metadata"}, {"group": "METADATA"}),
        ("cp_group_remove", {"name": "s3cret"}, {}),
        ("cp_session_remove", {"name": "default", "id": "s3cret"}, {"group": "default"}),
        ("cp_member_remove", {"uuid": f"{{{UUID.upper()}}}"}, {"member": UUID}),
        ("cp_member_remove", {"uuid": "s3cret"}, {}),
        ("cp_reset", {}, {}),
    ],
)
def test_a_line_tells_what_of_the_cp_subsystem_was_meant(
    operation: str, names: dict[str, str], told: dict[str, str]
) -> None:
    assert details(operation, names, ("ada", "pw")) == told


@given(st.text() | st.sampled_from(["FROZEN", "Info", "1.2", "1.2-x", "default", UUID]))
def test_no_call_tells_what_was_sent(sent: str) -> None:
    for row in ROUTES:
        name = "m" if "/maps/" in row.path else sent
        names = {"name": name, "key": sent, "id": sent, "uuid": sent}
        if row.operation is not None and row.operation.startswith("wan_"):
            continue  # the names of a WAN call are told as they came
        told = details(row.operation, names, (sent, sent, sent, sent, sent))
        assert set(told) <= DETAILS
        assert all(re.fullmatch(KNOWN[name], value) for name, value in told.items())
