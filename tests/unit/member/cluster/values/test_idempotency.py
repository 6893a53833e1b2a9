"""A call that is sent again under its key has one effect and one answer."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.cluster.values import idempotency
from grid_member.cluster.values.idempotency import (
    KEEP_S,
    MAX_KEY_CHARACTERS,
    StoredAnswer,
    StoredAnswers,
)
from grid_member.config.model.member import EndpointGroup
from grid_member.engine.api import ClusterState, Reason, Refused
from grid_member.http.routes.configuration import license_set, log_level_set
from grid_member.http.routes.idempotent import READ_ONLY, settle
from grid_member.http.routes.information import cluster_state
from grid_member.http.routes.management import (
    change_state,
    cluster_shutdown,
    member_shutdown,
    nodes,
)
from grid_member.http.table import ROUTES
from grid_member.http.wire.answers import Answer, failure_answer, success
from tests.unit.member.cluster.managed import FakeStore, content, reason, short
from tests.unit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.http.routes.calls import HttpCall
    from tests.unit.member.cluster.managed import Managed

KEY = ("8e03978e-40d5-43dd-bc93-6894a57f9324",)
FULL = Refused(Reason.UNAVAILABLE, "the disk is full")


async def test_the_effect_and_its_outcome_are_applied_together(managed: Managed) -> None:
    await managed.call(license_set, "key", keys=KEY)
    assert managed.store.applied == [["license", f"idempotency/{KEY[0]}"]]
    assert managed.store.ends_s == {f"idempotency/{KEY[0]}": KEEP_S}
    assert KEEP_S >= 24 * 3600


async def test_without_a_key_nothing_is_remembered(managed: Managed) -> None:
    await managed.call(license_set, "key")
    assert list(managed.store.values) == ["license"]


async def test_the_first_answer_comes_again_without_a_second_effect(managed: Managed) -> None:
    first = await managed.call(change_state, "frozen", keys=KEY)
    await managed.call(change_state, "active")
    again = await managed.call(change_state, "frozen", keys=KEY)
    assert (again.status, again.body, again.content_type) == (200, first.body, first.content_type)
    assert managed.member.cluster_state is ClusterState.ACTIVE
    assert content(first) == {"status": "success", "state": "frozen"}


async def test_an_answer_that_nothing_changed_is_kept_as_well(managed: Managed) -> None:
    first = await managed.call(change_state, "active", keys=KEY)
    assert content(first) == {"status": "fail", "state": "active"}
    await managed.call(change_state, "passive")
    again = await managed.call(change_state, "active", keys=KEY)
    assert again.body == first.body
    assert managed.member.cluster_state is ClusterState.PASSIVE


async def test_it_is_answered_again_by_the_next_life(managed: Managed) -> None:
    first = await managed.call(license_set, "key", keys=KEY)
    other = managed.restarted()
    other.member.phase = Phase.RUNNING
    before = other.everything()
    again = await other.call(license_set, "key", keys=KEY)
    assert (again.status, again.body) == (first.status, first.body)
    assert other.everything() == before


async def test_a_shutdown_is_not_repeated_after_the_restart(managed: Managed) -> None:
    for operation, key in ((cluster_shutdown, "c"), (member_shutdown, "m")):
        first = await managed.call(operation, keys=(key,))
        assert first.on_delivery is not None
        other = managed.restarted()
        other.member.phase = Phase.RUNNING
        again = await other.call(operation, keys=(key,))
        assert again.body == first.body == b'{"status":"success"}'
        assert again.on_delivery is None
        assert again.on_loss is None
        assert not again.close


async def test_a_shutdown_under_way_answers_its_key_again(managed: Managed) -> None:
    first = await managed.call(cluster_shutdown, keys=KEY)
    managed.member.phase = Phase.STOPPING
    assert (await managed.call(cluster_shutdown, keys=KEY)).body == first.body
    assert (await managed.call(cluster_shutdown, keys=("other",))).status == 409


@pytest.mark.parametrize(
    ("parameters", "names"),
    [(("other",), {}), (("key",), {"name": "m"}), (("key", "more"), {}), ((), {})],
)
async def test_another_request_under_the_key_is_409_and_names_it(
    managed: Managed, parameters: tuple[str, ...], names: dict[str, str]
) -> None:
    await managed.call(license_set, "key", keys=KEY)
    before = managed.everything()
    answer = await managed.call(license_set, *parameters, names=names, keys=KEY)
    assert answer.status == 409
    message = f"the Idempotency-Key {KEY[0]} was sent before with another request"
    assert content(answer) == {"status": "fail", "message": message}
    assert managed.everything() == before
    answer = await managed.call(change_state, "key", keys=KEY)
    assert content(answer)["message"] == message


async def test_who_asks_is_no_part_of_the_request(managed: Managed) -> None:
    first = await managed.call(license_set, "key", keys=KEY, user="dev")
    again = await managed.call(license_set, "key", keys=KEY, user="")
    assert (again.status, again.body) == (200, first.body)


@pytest.mark.parametrize(
    "keys",
    [("",), ("a", "b"), ("a", "a"), ("with space",), ("k" * (MAX_KEY_CHARACTERS + 1),),
     ("\u00e4",), ("k\t",), ("k\x7f",), ("k" * 60_000,)],
    ids=lambda keys: short(" ".join(keys)),
)  # fmt: skip
async def test_a_key_that_is_none_is_400_and_changes_nothing(
    managed: Managed, keys: tuple[str, ...]
) -> None:
    before = managed.everything()
    answer = await managed.call(license_set, "key", keys=keys)
    assert answer.status == 400
    assert "Idempotency-Key" in reason(answer)
    assert managed.everything() == before


@pytest.mark.parametrize(
    "key", ["k" * MAX_KEY_CHARACTERS, '"quoted"', "a/b/c", "idempotency/", "~!"]
)
async def test_any_visible_characters_are_a_key(managed: Managed, key: str) -> None:
    first = await managed.call(license_set, "key", keys=(key,))
    managed.store.values.pop("license")
    again = await managed.call(license_set, "key", keys=(key,))
    assert again.body == first.body
    assert "license" not in managed.store.values


async def test_a_refusal_is_not_kept(managed: Managed) -> None:
    with managed.management.change():
        assert (await managed.call(change_state, "frozen", keys=KEY)).status == 409
    assert (await managed.call(change_state, "foo", keys=KEY)).status == 400
    managed.store.refusal = FULL
    assert (await managed.call(license_set, "key", keys=("other",))).status == 503
    managed.store.refusal = None
    assert managed.store.values == {}
    assert (await managed.call(change_state, "frozen", keys=KEY)).status == 200
    assert managed.member.cluster_state is ClusterState.FROZEN


async def test_an_effect_that_was_refused_leaves_no_outcome(managed: Managed) -> None:
    managed.store.refusal, managed.store.refused_prefix = FULL, "license"
    assert (await managed.call(license_set, "key", keys=KEY)).status == 503
    assert managed.store.values == {}
    managed.store.refusal = None
    assert (await managed.call(license_set, "key", keys=KEY)).status == 200


async def test_the_same_call_meanwhile_waits_for_the_first(managed: Managed) -> None:
    managed.store.paused = True
    calls = [asyncio.create_task(managed.call(license_set, "key", keys=KEY)) for _ in range(3)]
    other = asyncio.create_task(managed.call(license_set, "other", keys=KEY))
    assert (await other).status == 409
    assert not any(call.done() for call in calls)
    managed.store.commit()
    answers = await asyncio.gather(*calls)
    assert len({(answer.status, answer.body) for answer in answers}) == 1
    assert managed.store.applied == [["license", f"idempotency/{KEY[0]}"]]


async def test_who_waited_for_a_refusal_tries_itself(managed: Managed) -> None:
    begun = asyncio.Event()
    answers = [failure_answer(409, "not now"), success()]
    seen: list[Answer] = []

    async def operation(call: HttpCall) -> Answer:
        begun.set()
        await asyncio.sleep(0)
        seen.append(answers[len(seen)])
        return seen[-1]

    calls = [asyncio.create_task(managed.call(operation, keys=KEY)) for _ in range(3)]
    await begun.wait()
    assert [answer.status for answer in await asyncio.gather(*calls)] == [409, 200, 200]
    assert len(seen) == 2


async def test_a_client_that_leaves_does_not_stop_the_call(managed: Managed) -> None:
    managed.store.paused = True
    call = asyncio.create_task(managed.call(license_set, "key", keys=KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    again = asyncio.create_task(managed.call(license_set, "key", keys=KEY))
    await asyncio.sleep(0)
    managed.store.commit()
    assert (await again).status == 200
    assert managed.store.values["license"] == b"key"
    assert len(managed.store.applied) == 1


async def test_a_shutdown_whose_client_leaves_happens_as_its_outcome_says(managed: Managed) -> None:
    managed.store.paused = True
    call = asyncio.create_task(managed.call(cluster_shutdown, keys=KEY))
    await until(lambda: managed.store.waiting)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert managed.member.joined
    managed.store.commit()
    await asyncio.wait_for(managed.member.wait_for_stop(), 5)


async def test_a_full_disk_keeps_nobody_from_shutting_down(
    managed: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    managed.store.refusal = FULL
    with caplog.at_level(logging.WARNING, "grid.http"):
        answer = await managed.call(cluster_shutdown, keys=KEY)
    assert answer.status == 200
    assert answer.on_delivery is not None
    assert "outcome not remembered" in caplog.text


async def test_a_full_disk_keeps_nobody_from_changing_the_state(
    managed: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    managed.store.refusal, managed.store.refused_prefix = FULL, "idempotency/"
    with caplog.at_level(logging.WARNING, "grid.http"):
        answer = await managed.call(change_state, "passive", keys=KEY)
    assert content(answer) == {"status": "success", "state": "passive"}
    assert managed.member.cluster_state is ClusterState.PASSIVE
    assert "outcome not remembered" in caplog.text


async def test_an_operation_that_breaks_lets_the_next_one_in(managed: Managed) -> None:
    async def broken(call: HttpCall) -> Answer:
        raise RuntimeError("broken")

    for _ in range(2):
        with pytest.raises(RuntimeError):
            await managed.call(broken, keys=KEY)
    assert managed.store.values == {}


async def test_a_key_is_free_again_when_its_time_is_over(managed: Managed) -> None:
    await managed.call(change_state, "frozen", keys=KEY)
    managed.store.now_s = 24 * 3600
    await managed.call(change_state, "active")
    states = []
    for now_s in (24 * 3600, KEEP_S):
        managed.store.now_s = now_s
        await managed.call(change_state, "frozen", keys=KEY)
        states.append(managed.member.cluster_state)
    assert states == [ClusterState.ACTIVE, ClusterState.FROZEN]


@pytest.mark.parametrize("operation", [cluster_state, nodes])
async def test_a_call_that_reads_only_takes_no_key(
    managed: Managed,
    monkeypatch: pytest.MonkeyPatch,
    operation: Callable[[HttpCall], Awaitable[Answer]],
) -> None:
    monkeypatch.setattr(idempotency, "MAX_OUTCOMES", 1)
    for key in ("one", "two"):
        assert (await managed.call(operation, keys=(key,))).status == 200
    assert managed.store.values == {}
    assert (await managed.call(operation, keys=("a", "b"))).status == 400
    assert (await managed.call(change_state, "frozen", keys=("one",))).status == 200
    first = await managed.call(operation, keys=("one",))
    await managed.call(change_state, "active")
    now = await managed.call(operation, keys=("one",))
    assert (first.body != now.body) is (operation is cluster_state)


def test_what_reads_only_and_has_parameters() -> None:
    """Every other operation with body parameters changes something, or may."""
    known = {route.operation for route in ROUTES if route.parameters is not None}
    reading = {route.operation for route in ROUTES if route.groups == {EndpointGroup.CLUSTER_READ}}
    assert known >= READ_ONLY
    assert known & reading <= READ_ONLY


@pytest.mark.parametrize("limit", ["MAX_OUTCOMES", "MAX_OUTCOMES_BYTES"])
async def test_keys_are_bounded_and_known_ones_go_on(
    managed: Managed, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(idempotency, limit, 1)
    first = await managed.call(license_set, "key", keys=("one",))
    answer = await managed.call(license_set, "other", keys=("two",))
    assert (answer.status, reason(answer)) == (503, "too many idempotency keys are remembered")
    assert ("Retry-After", "1") in answer.headers
    assert managed.store.values["license"] == b"key"
    assert (await managed.call(license_set, "key", keys=("one",))).body == first.body
    assert (await managed.call(license_set, "other")).status == 200
    managed.store.now_s = KEEP_S
    assert (await managed.call(license_set, "other", keys=("two",))).status == 200


async def test_before_the_join_it_is_the_answer_without_a_key(
    make: Callable[..., Managed],
) -> None:
    managed = make()
    assert (await managed.call(license_set, "key", keys=KEY)).status == 409
    assert (await managed.call(log_level_set, "info", keys=KEY)).status == 200
    managed.management.log_levels.reset()
    assert managed.store.values == {}


async def test_settled_without_changes_is_remembered(managed: Managed) -> None:
    async def operation(call: HttpCall) -> Answer:
        return await settle(call, Answer(200, b"\x00\xff", None, (("Deprecation", "true"),)))

    first = await managed.call(operation, keys=KEY)
    again = await managed.call(operation, keys=KEY)
    assert (again.body, again.headers, again.content_type) == (b"\x00\xff", first.headers, None)


def test_what_is_stored_is_small_and_says_nothing_of_the_request() -> None:
    outcome = StoredAnswer("f" * 64, 200, b'{"status":"success"}', "application/json", ())
    put = StoredAnswers(FakeStore()).remember("k", outcome)
    assert put.value is not None
    assert len(put.value) < 200
    assert StoredAnswer.unpack(put.value) == outcome
    assert json.loads(put.value)[0] == "f" * 64
