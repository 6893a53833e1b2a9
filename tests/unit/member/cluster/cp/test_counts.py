"""Members whose `cp-member-count` differs are told so, each by each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.member.cluster.cp.test_several_members import changed, founded, server, shown
from tests.unit.member.cluster.managed import content

if TYPE_CHECKING:
    import pytest

    from tests.unit.member.cluster.several import Several


async def test_members_that_have_another_count_are_named(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    (oldest,) = await several.started(1)
    alike = await several.started(2, cp_member_count=3)
    lite = several.add(lite=True, cp_member_count=4)
    await several.run(lite.start())
    await several.time.advance(10)
    assert _differing(caplog) == [
        (0, "10.0.0.2:5701 has 3"),
        (3, "10.0.0.1:5701 has 0"),
        (0, "10.0.0.2:5701 has 3, 10.0.0.3:5701 has 3"),
        (3, "10.0.0.1:5701 has 0"),
        (0, "10.0.0.2:5701 has 3, 10.0.0.3:5701 has 3, 10.0.0.4:5701 has 4"),
        (3, "10.0.0.1:5701 has 0, 10.0.0.4:5701 has 4"),
        (3, "10.0.0.1:5701 has 0, 10.0.0.4:5701 has 4"),
        (4, "10.0.0.1:5701 has 0, 10.0.0.2:5701 has 3, 10.0.0.3:5701 has 3"),
    ]
    refused = await changed(alike[0], "cp_member_remove", uuid=alike[1].uuid)
    assert (refused.status, content(refused)["message"]) == (
        409,
        "cp-member-count is 3 here and 0 on the oldest member 10.0.0.1:5701, which founds the CP "
        "subsystem: make it the same on all members",
    )
    caplog.clear()
    await oldest.stop()
    several.groups.start(*(server(member) for member in (oldest, *alike)))
    oldest.options["cp_member_count"] = 3
    await several.run(oldest.again().start())
    assert _differing(caplog) == [
        (4, "10.0.0.1:5701 has 3, 10.0.0.2:5701 has 3, 10.0.0.3:5701 has 3"),
        (3, "10.0.0.4:5701 has 4"),
    ]
    await several.time.advance(5)
    assert len(await shown(alike[0], "cp_groups")) == 4


async def test_a_member_of_a_version_that_tells_no_count_is_not_warned_of(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await several.started(2, cp_member_count=3)
    record = next(one for one in second.membership.members() if one.uuid == first.uuid)
    put = replace(record, cp_member_count=None).put()
    content_of_old = json.loads(put.value or b"")
    del content_of_old["cp_member_count"]
    second.engine.system_put(put.key, json.dumps(content_of_old).encode(), lambda _: None)
    await several.time.settle()
    assert [one.cp_member_count for one in second.membership.members()] == [None, 3]
    assert not _differing(caplog)


async def test_members_that_have_the_same_count_are_not_warned_of(
    several: Several, caplog: pytest.LogCaptureFixture
) -> None:
    await founded(several, 4)
    assert not _differing(caplog)


def _differing(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Return the warnings of numbers that differ: what the member has, and what others have."""
    told = [record for record in caplog.records if "cp-member-count differs" in record.message]
    fields = [vars(record)["grid_fields"] for record in told]
    return [(one["here"], one["others"]) for one in fields]
