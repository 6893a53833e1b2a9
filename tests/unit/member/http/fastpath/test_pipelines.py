"""Requests that come before the answers to those before them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.member.http.fastpath.peers import Handed, Peer, ask, cut, request, turns
from tests.unit.member.http.fastpath.scripts import OK, PLAIN, RARE, Model, Step, read, steps
from tests.unit.member.http.fastpath.unplain import MALFORMED, SMUGGLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.member.running import RunningMember

EXAMPLES = 60
# The members stay the same from one example to the next, which has names of its own.
same_members = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = itertools.count()
SCRIPTS = st.lists(steps(*PLAIN), min_size=1, max_size=30)
RARE_SCRIPTS = st.builds(
    lambda before, rare, after: [*before, rare, *after],
    *(SCRIPTS, steps(*RARE), st.lists(steps(*PLAIN, *RARE), max_size=20)),
)
CUTS = st.none() | st.lists(st.integers(0, 4000), max_size=12)
"""Where the bytes are cut; None: all come in one packet."""
MANY = 1200
"""More requests than a connection may have under way at once."""


def fresh() -> str:
    """Return the end of the names of maps and queues that nothing else uses."""
    return f"{next(NUMBERS)}"


async def answers(peer: Peer, script: Sequence[Step]) -> list[bytes]:
    return [await peer.answer(body=step.verb != "head") for step in script]


async def played(
    member: RunningMember, handed: Handed, script: Sequence[Step], cuts: list[int] | None, name: str
) -> tuple[list[bytes], bool]:
    """Return the answers to a script sent without waiting, and whether aiohttp had a part in it."""
    data = b"".join(step.data(name) for step in script)
    async with await Peer.connect(member.port) as peer:
        await peer.send_pieces(cut(data, cuts or ()))
        found = await answers(peer, script)
        # Exactly one each: what comes next is the answer to what is asked next.
        assert read(await peer.ask(request("GET /grid/rest/instance"))) == (
            *(200, b'{"name":"tester"}', "application/json"),
        )
        return found, handed.has(member, peer)


@same_members
@given(SCRIPTS, CUTS)
async def test_a_mix_is_answered_as_one_after_the_other(
    pair: tuple[RunningMember, RunningMember],
    handed: Handed,
    script: list[Step],
    cuts: list[int] | None,
) -> None:
    model, name = Model(), fresh()
    wanted = [model.answer(step) for step in script]
    fast_path, aiohttp = [(await played(one, handed, script, cuts, name))[0] for one in pair]
    assert [read(answer) for answer in fast_path] == wanted
    assert fast_path == aiohttp


@same_members
@given(RARE_SCRIPTS, CUTS)
@example([Step("offer", value=b"x"), Step("poll"), Step("head", "a"), Step("size")], None)
@example([Step("put", "a", b"1"), Step("chunked", "a", b"22"), Step("get", "a")], [20, 200])
async def test_what_is_not_plain_may_come_in_between(
    pair: tuple[RunningMember, RunningMember],
    handed: Handed,
    script: list[Step],
    cuts: list[int] | None,
) -> None:
    model, name = Model(), fresh()
    wanted = [model.answer(step) for step in script]
    found = [await played(one, handed, script, cuts, name) for one in pair]
    assert [handed_over for _, handed_over in found] == [True, True]
    assert [read(answer) for answer in found[0][0]] == wanted
    assert found[0][0] == found[1][0]


@same_members
@given(SCRIPTS, CUTS, st.sampled_from(sorted(MALFORMED)))
async def test_what_is_malformed_ends_it_behind_good_ones(
    pair: tuple[RunningMember, RunningMember],
    script: list[Step],
    cuts: list[int] | None,
    malformed: str,
) -> None:
    model, name = Model(), fresh()
    wanted = [model.answer(step) for step in script]
    data = b"".join(step.data(name) for step in script) + MALFORMED[malformed] + SMUGGLED
    ends: list[bytes] = []
    for one in pair:
        async with await Peer.connect(one.port) as peer:
            await peer.send_pieces(cut(data, cuts or ()))
            assert [read(answer) for answer in await answers(peer, script)] == wanted
            ends.append(await peer.to_end())
        after = await ask(one, request("GET /grid/rest/maps/default/smuggled"))
        assert after.startswith(b"HTTP/1.1 204 ")
    assert ends[0] == ends[1]
    assert ends[0].startswith(b"HTTP/1.1 400 ")
    assert ends[0].count(b"HTTP/1.1") == 1


@same_members
@given(
    st.lists(steps(*PLAIN[:3], "wait", "size"), min_size=1, max_size=15).filter(
        lambda script: any(step.verb == "wait" for step in script)
    ),
    CUTS,
    st.booleans(),
)
async def test_polls_wait_in_between(
    one: RunningMember, script: list[Step], cuts: list[int] | None, rare: bool
) -> None:
    """Nothing behind a poll is answered, or carried out, before its item has come."""
    if rare:
        script = [*script, Step("head", "a"), Step("put", "a", b"last")]
    name, model = fresh(), Model()
    data = b"".join(step.data(name) for step in script)
    async with await Peer.connect(one.port) as peer, await Peer.connect(one.port) as other:
        await peer.send_pieces(cut(data, cuts or ()))
        for number, step in enumerate(script):
            if step.verb == "wait":
                item = Step("offer", value=b"%d" % number, swift=step.swift)
                # Only what stands before the poll has been done when its item comes.
                for key in ("a", "b"):
                    look = Step("get", key, swift=step.swift)
                    assert read(await other.ask(look.data(name))) == model.answer(look)
                assert read(await other.ask(item.data(name))) == model.answer(item)
            answer = await peer.answer(body=step.verb != "head")
            assert read(answer) == model.answer(step)


async def test_an_offer_behind_a_poll_is_not_its_item(one: RunningMember) -> None:
    poll = request("DELETE /grid/rest/queues/default/1")
    offer = request("POST /grid/rest/queues/default", body=b"x")
    size = request("GET /grid/rest/queues/default/size")
    async with await Peer.connect(one.port) as peer:
        peer.send(poll + offer + size + poll)
        found = [read(answer)[:2] for answer in await peer.answers(4)]
    assert found == [(204, b""), (200, b""), (200, b"1"), (200, b"x")]


@same_members
@given(st.lists(st.booleans(), min_size=2, max_size=40))
@example([False, True])
@example([True, False, True, True])
async def test_what_is_done_sooner_is_not_answered_sooner(
    one: RunningMember, swift: list[bool]
) -> None:
    name = fresh()
    script = [Step("offer", value=b"%d" % n, swift=on) for n, on in enumerate(swift)]
    script += [Step("poll", swift=on) for on in swift]
    model = Model()
    async with await Peer.connect(one.port) as peer:
        peer.send(b"".join(step.data(name) for step in script))
        assert [read(a) for a in await answers(peer, script)] == [model.answer(s) for s in script]


async def test_thousands_at_once(one: RunningMember) -> None:
    name, script = fresh(), [Step("put", f"k{n % 7}", b"%d" % n) for n in range(MANY)]
    async with await Peer.connect(one.port) as peer:
        peer.send(b"".join(step.data(name) for step in script))
        assert [read(answer) for answer in await answers(peer, script)] == [OK] * MANY
        script = [Step("get", f"k{n % 7}") for n in range(MANY)]
        peer.send(b"".join(step.data(name) for step in script))
        last = [max(range(n, MANY, 7)) for n in range(7)]
        found = [read(answer)[1] for answer in await answers(peer, script)]
    assert found == [b"%d" % last[n % 7] for n in range(MANY)]


async def test_reads_see_the_writes_before_them(one: RunningMember) -> None:
    name = fresh()
    script = [
        step
        for n in range(100)
        for step in (Step("put", "k", b"%d" % n), Step("get", "k"), Step("remove", "k"))
    ] + [Step("get", "k")]
    model = Model()
    async with await Peer.connect(one.port) as peer:
        await peer.send_pieces([b"".join(step.data(name) for step in script)])
        assert [read(a) for a in await answers(peer, script)] == [model.answer(s) for s in script]


async def test_two_connections_do_not_mix(one: RunningMember) -> None:
    """A poll that waits on one connection takes what the other one offers, in order."""
    name = fresh()
    script = [Step("offer", value=b"%d" % n) for n in range(100)]
    waits = [Step("wait") for _ in script]
    async with await Peer.connect(one.port) as taker, await Peer.connect(one.port) as giver:
        taker.send(b"".join(step.data(name) for step in waits))
        await turns()
        giver.send(b"".join(step.data(name) for step in script))
        assert [read(answer)[0] for answer in await giver.answers(len(script))] == [200] * 100
        found = [read(answer)[1] for answer in await taker.answers(len(waits))]
    assert found == [step.value for step in script]
