"""Promise: an address that fails rests longer and longer, and names are looked up again."""

from __future__ import annotations

import asyncio

import pytest

from grid_member.wan.endpoints import Address, Endpoints, UnresolvedError, look_up, rest_after
from tests.unit.member.wan.virtual_time import play


class Names:
    """A clock and what names lead to."""

    def __init__(self, **found: list[str]) -> None:
        self.now_s = 0.0
        self.found = found
        self.failing: dict[str, str] = {}
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked += 1
        if host in self.failing:
            raise UnresolvedError(self.failing[host])
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


async def test_an_address_is_chosen_again_as_long_as_it_does_not_rest() -> None:
    endpoints = Names(a=["1.1.1.1", "2.2.2.2", "3.3.3.3"]).endpoints("a")
    first = await endpoints.choose()
    assert first is not None
    assert {await endpoints.choose(first) for _ in range(4)} == {first}
    endpoints.note_failure(first)
    assert first not in {await endpoints.choose(first) for _ in range(4)}
    gone = first._replace(ip="9.9.9.9")
    assert gone not in {await endpoints.choose(gone) for _ in range(4)}


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


@pytest.mark.parametrize("fails", [True, False])
async def test_a_name_without_an_address_now_keeps_its_last_ones(fails: bool) -> None:
    names = Names(a=["1.1.1.1"], b=["2.2.2.2"])
    endpoints = names.endpoints("a", "b")
    await endpoints.choose()
    assert endpoints.problem == ""
    if fails:
        names.failing["a"] = "Temporary failure in name resolution"
    else:
        names.found["a"] = []
    names.now_s = 10
    assert {await endpoints.choose() for _ in range(4)} == {
        Address("a", "1.1.1.1", 5705),
        Address("b", "2.2.2.2", 5705),
    }
    why = "Temporary failure in name resolution" if fails else "it has none"
    assert endpoints.problem == (
        f"the name a has no address now ({why}): the addresses that it had before are used"
    )
    names.failing, names.found["a"] = {}, ["9.9.9.9"]
    names.now_s = 20
    assert Address("a", "9.9.9.9", 5705) in {await endpoints.choose() for _ in range(4)}
    assert endpoints.problem == ""


async def test_an_address_that_is_kept_rests_like_others() -> None:
    names = Names(a=["1.1.1.1"])
    endpoints = names.endpoints("a")
    await endpoints.choose()
    names.failing["a"] = "gone"
    endpoints.note_failure(Address("a", "1.1.1.1", 5705))
    assert await endpoints.choose() is None
    assert endpoints.wait_s() == 1
    names.now_s = 1
    assert await endpoints.choose() == Address("a", "1.1.1.1", 5705)


async def test_a_name_that_never_had_an_address_is_told_and_others_are_used() -> None:
    names = Names(b=["2.2.2.2"])
    names.failing["a"] = "Name or service not known"
    endpoints = names.endpoints("a", "b")
    assert await endpoints.choose() == Address("b", "2.2.2.2", 5705)
    assert endpoints.problem == "the name a has no address (Name or service not known)"
    names.found["b"] = []
    names.now_s = 30
    await endpoints.choose()
    assert endpoints.problem.endswith("; 1 other name has none either")


def test_a_look_up_that_hangs_holds_up_none_that_has_an_address() -> None:
    async def scene() -> None:
        loop, answers = asyncio.get_running_loop(), asyncio.Event()
        asked: list[str] = []

        async def resolve(host: str, port: int) -> list[str]:
            asked.append(host)
            if len(asked) > 1:
                await answers.wait()
                return ["9.9.9.9"]
            return ["1.1.1.1"]

        endpoints = Endpoints([("a", 5705)], loop.time, 10.0, 100, resolve)
        known = await endpoints.choose()
        await asyncio.sleep(11)
        began_s = loop.time()
        assert [await endpoints.choose() for _ in range(100)] == [known] * 100
        assert loop.time() - began_s <= 1
        await asyncio.sleep(60)
        assert [await endpoints.choose() for _ in range(100)] == [known] * 100
        assert asked == ["a", "a"], "one look-up is under way at a time"
        answers.set()
        await asyncio.sleep(0.01)
        assert await endpoints.choose() == Address("a", "9.9.9.9", 5705)
        endpoints.close()

    play(scene())


async def test_a_name_that_no_dns_can_hold_says_why() -> None:
    with pytest.raises(UnresolvedError, match="no DNS name"):
        await look_up("a" * 70 + ".example", 5705)


async def test_the_number_of_addresses_is_bounded() -> None:
    endpoints = Names(a=[f"10.0.0.{n}" for n in range(200)]).endpoints("a", most=3)
    assert len({await endpoints.choose() for _ in range(50)}) == 3


@pytest.mark.parametrize(
    ("host", "ip", "shown"),
    [("a", "1.1.1.1", "a (1.1.1.1) port 5"), ("1.1.1.1", "1.1.1.1", "1.1.1.1 port 5")],
)
def test_people_see_name_and_address(host: str, ip: str, shown: str) -> None:
    assert Address(host, ip, 5).shown == shown
