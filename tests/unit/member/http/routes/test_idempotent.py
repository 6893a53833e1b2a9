"""Promise: a key of a call that changes one member is not that of another member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from grid_member.http.routes import idempotent
from grid_member.http.routes.idempotent import LEAVE, LEAVES, PER_MEMBER, fingerprint
from grid_member.http.table import ROUTES

CREDENTIALS: Final = ("dev", "")


def call(
    operation: str,
    member: str,
    *,
    data: bool,
    address: str = "",
    headers: dict[str, str] | None = None,
) -> Any:
    """Return what of a call its fingerprint depends on."""
    chosen = SimpleNamespace(
        config=SimpleNamespace(data_directory="data" if data else None),
        engine=SimpleNamespace(member_uuid=member),
        name="m",
        address=address or member,
        management=SimpleNamespace(departing=object()),
    )
    return SimpleNamespace(
        route=SimpleNamespace(operation=operation),
        names={},
        parameters=(*CREDENTIALS, "r"),
        request=SimpleNamespace(headers=headers or {}),
        member=chosen,
    )


def check_members_are_told_apart(operation: str) -> None:
    for data in (True, False):
        found = [fingerprint(call(operation, member, data=data)) for member in "aab"]
        assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("operation", sorted(PER_MEMBER))
def test_members_are_told_apart(operation: str) -> None:
    assert operation in {route.operation for route in ROUTES}
    check_members_are_told_apart(operation)


@pytest.mark.parametrize("operation", sorted(PER_MEMBER))
def test_a_member_in_memory_is_another_one_after_a_restart(operation: str) -> None:
    """What was set on it is gone, so a repeated call must not be answered as if it were not."""
    before, after = (
        fingerprint(call(operation, member, data=False, address="a")) for member in "ab"
    )
    assert before != after


def test_a_member_in_memory_that_was_asked_to_leave_is_known_by_its_place() -> None:
    headers = {LEAVE: "true"}
    before, after = (
        fingerprint(call(LEAVES, member, data=False, address="a", headers=headers))
        for member in "ab"
    )
    assert before == after


def test_what_is_about_the_cluster_has_one_answer_at_all_members() -> None:
    first, second = (fingerprint(call("wan_sync_map", member, data=True)) for member in "ab")
    assert first == second


@pytest.mark.parametrize("operation", sorted(PER_MEMBER))
def test_a_key_that_tells_the_wrong_member_is_caught(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a repeated key is answered by any member as by the first one."""
    monkeypatch.setattr(idempotent, "PER_MEMBER", frozenset())
    with pytest.raises(AssertionError):
        check_members_are_told_apart(operation)
