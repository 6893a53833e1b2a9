from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from grid_operator.handlers.election import Election
from grid_operator.ports.errors import Deposed, Rejected, Unavailable

if TYPE_CHECKING:
    from grid_operator.ports.kubernetes.lease import Lease

QUICK_S = 0.02


class FakeLease:
    def __init__(self) -> None:
        self.mine = False
        self.may_take = True
        self.holder = "another"
        self.error: Exception | None = None
        self.hangs = False
        self.attempts = 0

    def held(self) -> bool:
        return self.mine

    async def attempt(self) -> bool:
        self.attempts += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        self.mine = self.may_take
        return self.mine

    async def release(self) -> None:
        self.mine = False


def election(lease: FakeLease) -> Election:
    made: Lease = lease  # type: ignore[assignment]
    return Election(made, random.Random(1), QUICK_S)


async def attempts(lease: FakeLease, count: int) -> None:
    async with asyncio.timeout(5):
        while lease.attempts < count:  # noqa: ASYNC110 - the lease has no event
            await asyncio.sleep(0)


async def test_it_waits_until_the_lease_is_free_whatever_the_api_server_does() -> None:
    lease = FakeLease()
    lease.may_take = False
    winning = asyncio.create_task(election(lease).win())
    await attempts(lease, 2)
    lease.error = Unavailable("503")
    await attempts(lease, 4)
    assert not winning.done()
    lease.error, lease.may_take = None, True
    async with asyncio.timeout(5):
        await winning
    assert lease.mine


async def test_without_the_right_it_ends_and_says_what_to_grant() -> None:
    lease = FakeLease()
    lease.error = Rejected("leases is forbidden", "Forbidden")
    with pytest.raises(Rejected, match="--no-leader-election"):
        await election(lease).win()


async def test_it_renews_for_as_long_as_that_works() -> None:
    lease = FakeLease()
    lease.mine = True
    guarding = asyncio.create_task(election(lease).guard())
    await attempts(lease, 3)
    lease.error = Unavailable("503")
    await attempts(lease, 6)
    assert not guarding.done(), "it is held still"
    guarding.cancel()
    await asyncio.gather(guarding, return_exceptions=True)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_lost_lease_ends_the_work_also_while_a_renewal_hangs(hangs: bool) -> None:
    lease = FakeLease()
    lease.mine = True
    guarding = asyncio.create_task(election(lease).guard())
    lease.hangs, lease.may_take = hangs, False
    await attempts(lease, 1)
    lease.mine = False
    async with asyncio.timeout(5):
        with pytest.raises(Deposed):
            await guarding
