"""The member list of the TCP/IP join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.cluster.member.member import Phase
from grid_member.cluster.membership.join_list import MemberListError, parse_member_list
from grid_member.config.addresses import MAX_ADDRESSES, is_address
from grid_member.http.routes.configuration import member_list_get, member_list_set
from tests.unit.member.cluster.managed import content, reason, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.cluster.managed import Managed

UPDATED = "The member list of TCP-IP join config is updated at run time. "
OFF = {
    "status": "fail",
    "message": "the TCP/IP join is not enabled: see network.join.tcp-ip.enabled",
}


async def test_the_configured_list_is_shown_and_replaced(managed: Managed) -> None:
    answer = await managed.call(member_list_get)
    assert (answer.status, answer.body) == (
        200,
        b'{"status":"success","member-list":["a:5701","b"]}',
    )
    answer = await managed.call(member_list_set, "h1:5701, h2 ;;[fe80::1]:5702")
    expected = ["h1:5701", "h2", "[fe80::1]:5702"]
    assert answer.status == 200
    assert content(answer) == {"status": "success", "message": UPDATED, "member-list": expected}
    assert list(content(answer)) == ["status", "message", "member-list"]
    answer = await managed.call(member_list_get)
    assert content(answer) == {"status": "success", "member-list": expected}
    other = managed.restarted()
    other.member.phase = Phase.RUNNING
    assert content(await other.call(member_list_get))["member-list"] == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", ",", ";, ;", "a:0", "a:65536", "a:05701", "a:", ":5701", "a:b", "a\nb", "a\n", "a\tb",
     "a b:x", "-a", "a-", "a..b", ".a", "a_!", "1.2.3", "1.2.3.256", "1.2.3.4.5", "[1.2.3.4]",
     "[::1", "::1]", "[::1]5701", "[::1]:", "[::1]:0", ":::", "1:2:3", "h\u00f6st", "a/b", "a%20b",
     "http://a", "\0", "x" * 64, "x." * 127 + "x", "h " * (MAX_ADDRESSES + 1), "x" * 1_000_000,
     "\u0661.2.3.4", "ok,bad!"],
    ids=short,
)  # fmt: skip
async def test_an_empty_or_malformed_list_is_400_and_changes_nothing(
    managed: Managed, text: str
) -> None:
    await managed.call(member_list_set, "kept")
    before = managed.everything()
    answer = await managed.call(member_list_set, text)
    assert answer.status == 400
    assert "the member list" in reason(answer)
    assert managed.everything() == before
    assert content(await managed.call(member_list_get))["member-list"] == ["kept"]


async def test_with_the_join_off_it_is_409(make: Callable[..., Managed]) -> None:
    managed = await make(join_members=None).join()
    for answer in (
        await managed.call(member_list_get),
        await managed.call(member_list_set, "h1"),
        await managed.call(member_list_set, "h1", keys=("k",)),
    ):
        assert (answer.status, content(answer)) == (409, OFF)
    assert (await managed.call(member_list_set, "h1:x")).status == 400
    assert managed.store.values == {}


async def test_an_empty_list_may_be_configured(make: Callable[..., Managed]) -> None:
    managed = await make(join_members=()).join()
    assert content(await managed.call(member_list_get))["member-list"] == []


async def test_the_wrong_moment(make: Callable[..., Managed]) -> None:
    managed = make()
    assert (await managed.call(member_list_set, "h1")).status == 409
    answer = await managed.call(member_list_get)
    assert (answer.status, reason(answer)) == (503, "the member is starting")
    assert managed.store.values == {}


@pytest.mark.parametrize(
    "text",
    ["a", "a.b.example.", "grid-0.grid.ns.svc.cluster.local:5701", "my_host", "10.0.0.1",
     "10.0.0.1:65535", "::1", "fe80::1%eth0", "[2001:db8::1]", "[2001:db8::1]:1", "0a", "x" * 63],
)  # fmt: skip
def test_what_is_an_address(text: str) -> None:
    assert is_address(text)


@given(
    st.lists(st.sampled_from(["a", "b:1", "[::1]:2", "10.0.0.1"]), min_size=1, max_size=20),
    st.text(",; ", min_size=1, max_size=4),
)
def test_any_run_of_separators_separates(addresses: list[str], separators: str) -> None:
    text = separators + separators.join(addresses) + separators
    assert parse_member_list(text) == addresses


@given(st.text())
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        found = parse_member_list(text)
    except MemberListError:
        return
    assert found
    assert all(is_address(address) for address in found)
