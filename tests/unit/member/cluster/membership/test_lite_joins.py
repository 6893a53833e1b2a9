"""How a lite member joins, which needs one with data for what it is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grid_member.cluster.membership.failure_detector import RENEW_S
from grid_member.cluster.membership.locks import LOCK
from tests.unit.member.cluster.several import uuids

if TYPE_CHECKING:
    from tests.unit.member.cluster.several import Several


async def test_a_lite_member_without_a_host_keeps_the_lock_from_nobody(several: Several) -> None:
    (first,) = await several.started(1)
    lite = several.add(lite=True)
    lite.engine.figures = lite.engine.figures._replace(in_contact=False)
    keys: set[str] = set()
    watch = first.engine.applied

    def applied(changed: set[str]) -> None:
        keys.update(changed)
        watch(changed)

    first.engine.applied = applied
    joining = asyncio.ensure_future(several.run(lite.start()))
    await several.time.settle()
    await several.time.advance(3 * RENEW_S)
    assert not joining.done()
    assert keys, "it gives no sign of life"
    assert not [key for key in keys if key.startswith(LOCK)]
    assert "holds data" in (lite.membership.waiting or "")
    lite.engine.figures = lite.engine.figures._replace(in_contact=True)
    await joining
    assert first.listed == uuids([first, lite])
