"""State, version, shutdown and the list of members."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member import member as member_module
from grid_member.cluster.member.member import Phase
from grid_member.cluster.values.system_store import start
from grid_member.cluster.values.versions import ClusterVersion, Versions, parse_version
from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.http.routes.management import change_state, change_version, cluster_shutdown, nodes
from tests.unit.member.cluster.managed import FakeStore, content, reason, short

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.engine.api import Done
    from grid_member.http.routes.calls import HttpCall
    from grid_member.http.wire.answers import Answer
    from tests.unit.member.cluster.managed import Managed

NOT_JOINED = "the member has not joined its cluster or is stopping already"


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("frozen", ClusterState.FROZEN),
        ("FROZEN", ClusterState.FROZEN),
        ("No_Migration", ClusterState.NO_MIGRATION),
        ("passive", ClusterState.PASSIVE),
    ],
)
async def test_the_state_is_what_was_asked_for_when_it_is_answered(
    managed: Managed, name: str, state: ClusterState
) -> None:
    answer = await managed.call(change_state, name)
    assert (answer.status, answer.body) == (
        200,
        b'{"status":"success","state":"%s"}' % state.value.encode(),
    )
    assert managed.member.cluster_state is state


async def test_every_settable_state_follows_every_other(managed: Managed) -> None:
    states = [s for s in ClusterState if s is not ClusterState.IN_TRANSITION]
    for one in states:
        for other in states:
            await managed.call(change_state, one.value)
            assert managed.member.cluster_state is one
            answer = await managed.call(change_state, other.value)
            same = one is other
            expected = {"status": "fail" if same else "success", "state": other.value}
            assert (answer.status, content(answer)) == (200, expected)
            assert managed.member.cluster_state is other


async def test_passive_refuses_writes_and_active_takes_them_again(managed: Managed) -> None:
    def put(done: Done[None]) -> None:
        managed.engine.map_put("m1", "k", b"v", None, done)

    await managed.call(change_state, "passive")
    refused = await start(put)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.PASSIVE
    await managed.call(change_state, "active")
    assert await start(put) is None


@pytest.mark.parametrize(
    "name",
    ["", "in_transition", "IN_TRANSITION", " frozen", "frozen\n", "fro zen", "foo", "frozen\0",
     "pa\u017f\u017five", "x" * 1_000_000],
    ids=short,
)  # fmt: skip
async def test_an_unknown_state_is_400_and_changes_nothing(managed: Managed, name: str) -> None:
    before = managed.everything()
    answer = await managed.call(change_state, name)
    assert answer.status == 400
    assert reason(answer).startswith("the third parameter must be one of active, ")
    assert managed.everything() == before


async def test_a_second_change_meanwhile_is_409(managed: Managed) -> None:
    with managed.management.change():
        for operation, parameter in ((change_state, "frozen"), (change_version, "1.2")):
            answer = await managed.call(operation, parameter)
            assert answer.status == 409
            assert content(answer)["message"] == (
                "another change of the cluster state or version is under way: try again"
            )
    assert managed.member.cluster_state is ClusterState.ACTIVE
    assert (await managed.call(change_state, "frozen")).status == 200


async def test_of_two_changes_at_once_one_is_carried_out(managed: Managed) -> None:
    answers = await asyncio.gather(
        managed.call(change_state, "frozen"), managed.call(change_state, "passive")
    )
    assert [answer.status for answer in answers] == [200, 409]
    assert managed.member.cluster_state is ClusterState.FROZEN


async def test_a_state_that_the_log_cannot_take_is_503(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(state: ClusterState, done: Done[bool]) -> None:
        done(Refused(Reason.UNAVAILABLE, "the disk is full"))

    monkeypatch.setattr(managed.engine, "change_cluster_state", refuse)
    answer = await managed.call(change_state, "frozen", keys=("k",))
    assert (answer.status, reason(answer)) == (503, "the disk is full")
    assert managed.store.values == {}
    assert not managed.management.changing


WRITES: list[tuple[Callable[[HttpCall], Awaitable[Answer]], tuple[str, ...]]] = [
    (change_state, ("frozen",)),
    (change_version, ("1.2",)),
    (cluster_shutdown, ()),
    (nodes, ()),
]


@pytest.mark.parametrize(("operation", "parameters"), WRITES)
async def test_before_the_join_and_while_stopping_it_is_409(
    make: Callable[..., Managed],
    operation: Callable[[HttpCall], Awaitable[Answer]],
    parameters: tuple[str, ...],
) -> None:
    managed = make()
    for phase in (Phase.STARTING, Phase.STOPPING):
        managed.member.phase = phase
        before = managed.everything()
        answer = await managed.call(operation, *parameters)
        assert (answer.status, content(answer)) == (409, {"status": "fail", "message": NOT_JOINED})
        assert managed.everything() == before
    managed.member.phase = Phase.STARTING


async def test_a_shutdown_is_answered_before_it_begins(managed: Managed) -> None:
    answer = await managed.call(cluster_shutdown)
    assert (answer.status, answer.body) == (200, b'{"status":"success"}')
    assert answer.close
    assert (managed.member.joined, managed.member.ready) == (True, True)
    assert answer.on_delivery is not None
    answer.on_delivery()
    await asyncio.wait_for(managed.member.wait_for_stop(), 5)
    assert (managed.member.joined, managed.member.ready) == (False, False)
    assert managed.member.cluster_state is ClusterState.PASSIVE


async def test_a_shutdown_goes_on_when_the_log_cannot_take_the_state(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[ClusterState, bool]] = []

    def refuse(state: ClusterState, done: Done[bool], *, transient: bool) -> None:
        asked.append((state, transient))
        done(Refused(Reason.UNAVAILABLE, "the disk is full"))

    monkeypatch.setattr(managed.engine, "change_cluster_state", refuse)
    answer = await managed.call(cluster_shutdown)
    assert answer.on_delivery is not None
    answer.on_delivery()
    assert asked == [(ClusterState.PASSIVE, True)]
    assert not managed.member.joined


async def test_a_shutdown_goes_on_when_the_log_tells_nothing(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ClusterState] = []

    def stick(state: ClusterState, done: Done[bool], *, transient: bool) -> None:
        asked.append(state)

    monkeypatch.setattr(managed.engine, "change_cluster_state", stick)
    monkeypatch.setattr(member_module, "CLUSTER_STOP_PATIENCE_S", 0.05)
    answer = await managed.call(cluster_shutdown)
    assert answer.on_delivery is not None
    answer.on_delivery()
    assert asked == [ClusterState.PASSIVE]
    assert managed.member.joined, "the state comes first, if it comes"
    await asyncio.wait_for(managed.member.wait_for_stop(), 5)
    assert not managed.member.joined


async def test_a_shutdown_whose_client_left_begins_as_well(managed: Managed) -> None:
    answer = await managed.call(cluster_shutdown)
    assert answer.on_loss is not None
    answer.on_loss()
    await asyncio.wait_for(managed.member.wait_for_stop(), 5)


@pytest.mark.parametrize(
    ("address", "shown"),
    [("10.0.0.7:5701", "[10.0.0.7]:5701"), ("[fe80::7]:5701", "[fe80::7]:5701")],
)
async def test_nodes_are_three_lines(managed: Managed, address: str, shown: str) -> None:
    managed.member.address = address
    uuid = managed.engine.member_uuid
    text = f"[Member {shown} - {uuid} this]\n1.2.3\n{platform.python_version()}"
    answer = await managed.call(nodes)
    assert (answer.status, content(answer)) == (200, {"status": "success", "response": text})


@pytest.mark.parametrize(
    "text", ["1.2", "1.2.3", "1.2.0", "1.2-SNAPSHOT", "1.2.3-beta.1", "01.2", "1.2.999999999"]
)
async def test_the_present_version_is_a_success_that_changes_nothing(
    managed: Managed, text: str
) -> None:
    before = managed.everything()
    answer = await managed.call(change_version, text)
    assert (answer.status, answer.body) == (200, b'{"status":"success","version":"1.2"}')
    assert managed.everything() == before


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.", ".2", "1.2.", "1.2.3.4", "a.b", "v1.2", " 1.2", "1.2\n", "1,2", "-1.2", "+1.2",
     "1.2-", "128.0", "1.128", "1000.0", "\u0661.\u0662", "1.2\0", "9" * 1_000_000],
    ids=short,
)  # fmt: skip
async def test_what_is_no_version_is_400(managed: Managed, text: str) -> None:
    before = managed.everything()
    answer = await managed.call(change_version, text)
    assert answer.status == 400
    assert reason(answer) == "the third parameter must be a version, major.minor"
    assert managed.everything() == before


@pytest.mark.parametrize("text", ["0.0", "1.3", "2.0", "1.0", "0.2", "127.127", "1.1"])
async def test_a_version_that_cannot_be_is_409(managed: Managed, text: str) -> None:
    before = managed.everything()
    answer = await managed.call(change_version, text)
    assert answer.status == 409
    assert content(answer)["status"] == "fail"
    assert "1.2" in content(answer)["message"]
    assert managed.everything() == before


async def test_a_newer_member_raises_the_version_of_its_cluster(managed: Managed) -> None:
    managed.store.values["cluster-version"] = b"1.1"
    assert str(managed.management.versions.current) == "1.1"
    assert (await managed.call(change_version, "1.1")).status == 200
    answer = await managed.call(change_version, "1.2.3")
    assert content(answer) == {"status": "success", "version": "1.2"}
    assert managed.store.values["cluster-version"] == b"1.2"
    assert str(managed.management.versions.current) == "1.2"
    answer = await managed.call(change_version, "1.1")
    assert answer.status == 409
    assert "cannot go back" in content(answer)["message"]


def test_a_new_cluster_keeps_the_version_it_began_with() -> None:
    store = FakeStore()
    put = Versions(store, "1.2.3").join_put()
    assert put is not None
    assert (put.key, put.value) == ("cluster-version", b"1.2")
    store.values["cluster-version"] = b"1.2"
    next_minor = Versions(store, "1.3.0")
    assert next_minor.join_put() is None
    assert next_minor.current == ClusterVersion(1, 2)
    assert next_minor.join_problem() is None


@pytest.mark.parametrize(
    ("own", "stored", "fits"),
    [
        ("1.2.3", "1.2", True),
        ("1.2.3", "1.1", True),
        ("1.2.3", "1.0", False),
        ("1.2.3", "1.3", False),
        ("1.2.3", "2.0", False),
        ("2.0.0", "1.9", True),
        ("2.1.0", "1.9", False),
        ("2.0.0", "0.9", False),
    ],
)
def test_a_member_joins_data_of_its_own_version_or_the_one_before(
    own: str, stored: str, fits: bool
) -> None:
    store = FakeStore()
    store.values["cluster-version"] = stored.encode()
    problem = Versions(store, own).join_problem()
    assert (problem is None) is fits
    if problem:
        assert stored in problem


def test_a_version_has_two_numbers_up_to_127() -> None:
    assert parse_version("127.127.0") == ClusterVersion(127, 127)
    assert parse_version("128.1") is None
