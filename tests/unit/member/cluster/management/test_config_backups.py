"""What is added to the configuration of a cluster asks for no more backups than that has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.config import ClusterConfig
from grid_member.http.routes.configuration import config_upload
from tests.unit.member.cluster.managed import reason

if TYPE_CHECKING:
    from tests.unit.member.cluster.managed import Managed

MORE_BACKUPS = {
    "alone": (None, 6, 0, ""),
    "three copies": (0, 1, 0, ""),
    "one more": (1, 2, 0, "map.m3.backup-count: must be at most 1 in this cluster"),
    "five copies": (2, 2, 0, ""),
    "later": (2, 1, 1, "map.m3.async-backup-count: must be at most 0 in this cluster"),
}


@pytest.mark.parametrize("case", MORE_BACKUPS.values(), ids=list(MORE_BACKUPS))
async def test_a_new_block_has_the_backups_of_the_cluster(
    managed: Managed, case: tuple[int | None, int, int, str]
) -> None:
    highest, count, later, message = case
    if highest is not None:
        members = (("a", 5704), ("b", 5704))
        cluster = ClusterConfig(5704, members, "grid", "x", backup_count=highest)
        managed.member.config = replace(managed.member.config, cluster=cluster)
    before = managed.everything()
    text = f"grid: {{map: {{m3: {{backup-count: {count}, async-backup-count: {later}}}}}}}"
    answer = await managed.call(config_upload, text)
    if not message:
        assert answer.status == 200
        assert "m3" in managed.member.config.maps
        return
    assert (answer.status, message in reason(answer)) == (400, True)
    assert (managed.everything(), managed.extended) == (before, [])
