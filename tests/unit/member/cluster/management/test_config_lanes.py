"""Blocks that would move structures of several members, whether those hold anything or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grid_member.cluster.member.member import Phase
from grid_member.http.routes.configuration import config_upload
from tests.unit.member.cluster.managed import Managed, content
from tests.unit.member.cluster.management.test_config_changes import PERSISTENT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEVERAL = PERSISTENT.replace(
    "rest-api: {enabled: true}",
    "rest-api: {enabled: true}, join: {tcp-ip: {enabled: true, member-list: [a, b]}}",
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("grid: {map: {new: {data-persistence: {enabled: true}}}}", 409),
        ("grid: {map: {'k*': {data-persistence: {enabled: true}}}}", 409),
        ("grid: {map: {new: {data-persistence: {enabled: false}}, 'k*': %s}}", 200),
        ("grid: {queue: {new: {data-persistence: {enabled: false}}}}", 409),
        ("grid: {queue: {new: {max-size: 5}}}", 200),
    ],
)
async def test_several_members_move_nothing_though_it_holds_no_data_now(
    make: Callable[..., Managed], tmp_path: Path, text: str, status: int
) -> None:
    managed = make(SEVERAL % tmp_path)
    managed.member.phase = Phase.RUNNING
    text = text.replace("%s", "{data-persistence: {enabled: false}}")
    answer = await managed.call(config_upload, text)
    assert answer.status == status
    if status == 409:
        assert "another data-persistence.enabled than default" in content(answer)["message"]
        alone = make(PERSISTENT % (tmp_path / "alone"))
        alone.member.phase = Phase.RUNNING
        assert (await alone.call(config_upload, text)).status == 200
        alone.member.phase = Phase.STARTING
    managed.member.phase = Phase.STARTING
