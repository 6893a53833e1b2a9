"""Promise: an address that fails rests longer and longer, and names are looked up again."""

from __future__ import annotations

import pytest

from grid_member.wan.endpoints import Address, Endpoints, rest_after


class Names:
    """A clock and what names lead to."""

    def __init__(self, **found: list[str]) -> None:
        self.now_s = 0.0
        self.found = found
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.found.get(host, [])

    def endpoints(self, *hosts: str, most: int = 100) -> Endpoints:
        configured = [(host, 5705) for host in hosts]
        return Endpoints(configured, lambda: self.now_s, 10.0, most, self.resolve)


def test_rests_double() -> None:
    assert [rest_after(n) for n in (1, 2, 3, 4, 5, 6, 7, 1000)] == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_all_addresses_take_turns() -> None:
    endpoints = Names(a=["1.1.1.1", "2.2.2.2"], b=["3.3.3.3"]).endpoints("a", "b", "nowhere")
    chosen = {await endpoints.choose() for _ in range(9)}
    assert chosen == {
        Address("a", "1.1.1.1", 5705),
        Address("a", "2.2.2.2", 5705),
        Address("b", "3.3.3.3", 5705),
    }


async def test_an_address_that_failed_rests() -> None:
    names = Names(a=["1.1.1.1"], b=["3.3.3.3"])
    endpoints = names.endpoints("a", "b")
    first = Address("a", "1.1.1.1", 5705)
    for rest_s in (1, 2, 4):
        endpoints.note_failure(first)
        assert {await endpoints.choose() for _ in range(4)} == {Address("b", "3.3.3.3", 5705)}
        names.now_s += rest_s - 0.01
        assert first not in {await endpoints.choose() for _ in range(4)}
        names.now_s += 0.01
        assert first in {await endpoints.choose() for _ in range(4)}
    endpoints.note_success(first)
    endpoints.note_failure(first)
    names.now_s += 1
    assert first in {await endpoints.choose() for _ in range(4)}


async def test_with_all_at_rest_the_shortest_is_waited_for() -> None:
    names = Names(a=["1.1.1.1"], b=["3.3.3.3"])
    endpoints = names.endpoints("a", "b")
    for host, ip in (("a", "1.1.1.1"), ("a", "1.1.1.1"), ("b", "3.3.3.3")):
        endpoints.note_failure(Address(host, ip, 5705))
        await endpoints.choose()
    assert await endpoints.choose() is None
    assert endpoints.wait_s() == 1


async def test_names_are_looked_up_again_in_time_and_after_a_failure() -> None:
    names = Names(a=["1.1.1.1"])
    endpoints = names.endpoints("a")
    await endpoints.choose()
    names.found["a"] = ["9.9.9.9"]
    names.now_s = 9.9
    assert await endpoints.choose() == Address("a", "1.1.1.1", 5705)
    names.now_s = 10
    assert await endpoints.choose() == Address("a", "9.9.9.9", 5705)
    names.found["a"] = ["8.8.8.8"]
    endpoints.note_failure(Address("a", "9.9.9.9", 5705))
    assert await endpoints.choose() == Address("a", "8.8.8.8", 5705)


async def test_a_name_without_an_address_is_looked_up_again_soon() -> None:
    names = Names()
    endpoints = names.endpoints("a")
    assert await endpoints.choose() is None
    assert 0 < endpoints.wait_s() <= 1
    names.found["a"] = ["1.1.1.1"]
    names.now_s += endpoints.wait_s()
    assert await endpoints.choose() is not None


async def test_the_number_of_addresses_is_bounded() -> None:
    endpoints = Names(a=[f"10.0.0.{n}" for n in range(200)]).endpoints("a", most=3)
    assert len({await endpoints.choose() for _ in range(50)}) == 3


@pytest.mark.parametrize(
    ("host", "ip", "shown"),
    [("a", "1.1.1.1", "a (1.1.1.1) port 5"), ("1.1.1.1", "1.1.1.1", "1.1.1.1 port 5")],
)
def test_people_see_name_and_address(host: str, ip: str, shown: str) -> None:
    assert Address(host, ip, 5).shown == shown
