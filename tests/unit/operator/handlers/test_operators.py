"""Promise: of two operator processes one works; the other takes over when it ends."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from tests.unit.operator.fake_kube import cluster_object
from tests.unit.operator.handlers.listening import started
from tests.unit.operator.handlers.operators import operator
from tests.unit.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

LEASE = "/apis/coordination.k8s.io/v1/namespaces/grids/leases/grid-operator"
CLUSTER = "/apis/gridcluster.io/v1alpha1/namespaces/grids/gridclusters/demo"


async def test_the_second_stands_by_and_takes_over_at_once_when_the_first_ends(
    tmp_path: Path,
) -> None:
    async with started() as api:
        api.objects[CLUSTER] = cluster_object()
        async with operator(api, tmp_path, "grids") as first:
            await eventually(first.leads)

            async def worked() -> bool:
                return "status" in api.objects[CLUSTER]

            await eventually(worked)
            async with operator(api, tmp_path, "grids") as second:

                async def stands_by() -> bool:
                    return (await second.health()).get("leader") is False

                await eventually(stands_by)
                assert (await second.health())["apiWrites"] == 0
                holder = api.objects[LEASE]["spec"]["holderIdentity"]
                first.process.send_signal(signal.SIGTERM)
                assert await first.process.wait() == 0
                await eventually(second.leads)
                assert api.objects[LEASE]["spec"]["holderIdentity"] != holder


async def test_one_that_loses_its_lease_ends(tmp_path: Path) -> None:
    async with started() as api, operator(api, tmp_path, "grids") as only:
        await eventually(only.leads)
        lease = json.loads(json.dumps(api.objects[LEASE]))
        lease["spec"] |= {"holderIdentity": "another", "renewTime": "later"}
        api.put(LEASE, lease)
        assert await only.ended(20) == 1
        assert api.objects[LEASE]["spec"]["holderIdentity"] == "another"
