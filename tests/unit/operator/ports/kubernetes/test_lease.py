"""Promise: of all operators at most one holds the Lease, whatever happens to the others."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from grid_operator.ports.errors import Conflict, OperatorError, Rejected, Unavailable
from grid_operator.ports.kubernetes.lease import (
    DURATION_S,
    RENEW_LIMIT_S,
    RETRY_S,
    Lease,
    LeaseName,
)
from grid_operator.ports.kubernetes.rest import KubeRest
from tests.unit.operator.fake_api import FakeApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

NAME = LeaseName("grid-system", "grid-operator")


class Store:
    """A connection to a Lease in memory, which fails when it is told to."""

    def __init__(self) -> None:
        self.lease: KubeObject | None = None
        self.version = 0
        self.error: OperatorError | None = None
        self.lost_answer = False

    async def get(self, _path: str) -> KubeObject | None:
        self._fail()
        return None if self.lease is None else {**self.lease, "spec": {**self.lease["spec"]}}

    async def create(self, _path: str, body: KubeObject) -> KubeObject:
        self._fail()
        if self.lease is not None:
            raise Conflict("it exists")
        return self._write(body)

    async def replace(self, _path: str, body: KubeObject) -> KubeObject:
        self._fail()
        if self.lease is None or self.lease["metadata"] != body["metadata"]:
            raise Conflict("it changed")
        return self._write(body)

    def _write(self, body: KubeObject) -> KubeObject:
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": metadata}
        if self.lost_answer:
            raise Unavailable("the answer was lost")
        return self.lease

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def candidate(store: Store, clock: Clock, name: str) -> Lease:
    return Lease(store, NAME, name, clock)  # type: ignore[arg-type]


async def test_the_first_takes_it_and_the_second_stands_by() -> None:
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    assert await first.attempt()
    assert not await second.attempt()
    assert (first.held(), second.held()) == (True, False)
    assert second.holder == "a"


async def test_a_holder_that_renews_keeps_it() -> None:
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    for _ in range(50):
        assert await first.attempt()
        assert not await second.attempt()
        clock.now_s += RETRY_S
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 0


async def test_a_silent_holder_is_deposed_before_another_can_hold_it() -> None:
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    await first.attempt()
    await second.attempt()
    clock.now_s += RENEW_LIMIT_S
    assert not first.held(), "by its clock alone, without asking anybody"
    assert not await second.attempt()
    clock.now_s += DURATION_S - RENEW_LIMIT_S + 0.1
    assert await second.attempt()
    assert not await first.attempt()
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] == 1


async def test_the_time_runs_from_before_the_renewal_was_sent() -> None:
    store, clock = Store(), Clock()
    first = candidate(store, clock, "a")

    async def slow(_path: str) -> None:
        clock.now_s += RENEW_LIMIT_S - 1

    store.get = slow  # type: ignore[method-assign]
    assert await first.attempt()
    clock.now_s += 1
    assert not first.held()


@pytest.mark.parametrize("error", [Unavailable("503"), Conflict("409")])
async def test_a_renewal_that_fails_costs_nothing_while_there_is_time(error: OperatorError) -> None:
    store, clock = Store(), Clock()
    first = candidate(store, clock, "a")
    await first.attempt()
    store.error = error
    clock.now_s += RENEW_LIMIT_S - 1
    with pytest.raises(type(error)):
        await first.attempt()
    assert first.held()


async def test_a_lost_answer_lets_nobody_else_in_too_early() -> None:
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    store.lost_answer = True
    with pytest.raises(Unavailable):
        await first.attempt()
    store.lost_answer = False
    assert not first.held()
    assert not await second.attempt()
    assert await first.attempt()


async def test_another_clock_or_time_of_day_does_not_matter() -> None:
    """The times that a Lease carries are never compared with a clock of one's own."""
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    await first.attempt()
    assert store.lease is not None
    store.lease["spec"]["renewTime"] = "1970-01-01T00:00:00.000000Z"
    assert not await second.attempt()
    clock.now_s += DURATION_S - 1
    assert not await second.attempt()


async def test_a_released_lease_is_free_at_once() -> None:
    store, clock = Store(), Clock()
    first, second = candidate(store, clock, "a"), candidate(store, clock, "b")
    await first.attempt()
    await second.release()
    assert not await second.attempt(), "only the holder can give it back"
    await first.release()
    assert not first.held()
    assert await second.attempt()


async def test_never_two_hold_it() -> None:
    """Seeded: candidates pause, lose answers and are cut off, each as it happens."""
    rng = random.Random(7)
    store, clock = Store(), Clock()
    candidates = [candidate(store, clock, str(n)) for n in range(3)]
    turns = 0
    for _ in range(4000):
        one = rng.choice(candidates)
        store.error = Unavailable("503") if rng.random() < 0.1 else None
        store.lost_answer = rng.random() < 0.1
        try:
            turns += await one.attempt()
            if rng.random() < 0.02:
                await one.release()
        except OperatorError:
            pass
        clock.now_s += rng.choice([0.1, 0.5, RETRY_S, 6.0])
        assert sum(c.held() for c in candidates) <= 1
    assert turns > 100
    assert store.lease is not None
    assert store.lease["spec"]["leaseTransitions"] > 5


@asynccontextmanager
async def server(tmp_path: Path) -> AsyncIterator[tuple[FakeApi, KubeRest]]:
    api = FakeApi()
    await api.start()
    rest = await KubeRest.connect(str(api.kubeconfig(tmp_path / "kubeconfig")))
    try:
        yield api, rest
    finally:
        await rest.close()
        await api.stop()


async def test_over_http_two_take_turns(tmp_path: Path) -> None:
    clock = Clock()
    async with server(tmp_path) as (api, rest):
        first, second = (Lease(rest, NAME, name, clock) for name in ("a", "b"))
        assert await first.attempt()
        assert await first.attempt()
        assert not await second.attempt()
        await first.release()
        assert await second.attempt()
        (lease,) = api.objects.values()
    assert lease["kind"] == "Lease"
    assert lease["spec"]["holderIdentity"] == "b"
    assert lease["spec"]["leaseDurationSeconds"] == DURATION_S


async def test_without_the_right_it_says_so(tmp_path: Path) -> None:
    from aiohttp import web

    async with server(tmp_path) as (api, rest):
        api.fault = lambda _m, _p: web.json_response({"message": "leases is forbidden"}, status=403)
        with pytest.raises(Rejected, match="forbidden"):
            await Lease(rest, NAME, "a", Clock()).attempt()
