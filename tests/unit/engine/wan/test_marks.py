"""Why tombstones do not go by what sources have told: a compare sends old entries later.

Three clusters publish to each other and republish nothing. A removes a key while A cannot reach B.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from grid_member.engine.state.operations import MapPut, MapRemove, WanAgree
from tests.unit.engine.wan.agreements import MAP, MEMBERS, agreement, publisher
from tests.unit.engine.wan.model import TOPOLOGIES, Cluster, Link

if TYPE_CHECKING:
    from grid_member.engine.wan.map_wan import MapWan

MEMBER = MEMBERS[0]
MESH = TOPOLOGIES["mesh"]


class Mesh:
    """Three clusters whose queues hold two keys, and the links between them."""

    def __init__(self) -> None:
        chance = random.Random(1)
        self.clusters = {name: Cluster(name, MESH, chance) for name in MESH.names}
        for cluster in self.clusters.values():
            cluster.skew_ms = 0
            targets = tuple(publisher(target) for source, target in MESH.edges
                            if source == cluster.name)  # fmt: skip
            agreed = agreement(targets, cluster_id=cluster.cluster_id, republishing=False)
            cluster.apply(MEMBER, 0, WanAgree(agreed))
        self.links = {
            edge: Link(self.clusters[edge[0]], self.clusters[edge[1]], MESH.policy)
            for edge in MESH.edges
        }

    def carry(self, step: int, source: str, target: str, *, compares: bool = False) -> None:
        """Let all that one cluster has for another arrive."""
        link = self.links[source, target]
        for number, batch in list(link.send(step, 100, compares=compares)):
            self.clusters[target].apply(batch.member, step, *batch.merges)
            link.acknowledge(number, step)

    def wan(self, name: str) -> MapWan:
        return self.clusters[name].state.wan.maps[MAP]

    def keys(self, name: str) -> set[str]:
        return set(self.clusters[name].content()[0])


@pytest.mark.parametrize("purges", [False, True])
def test_a_compare_brings_a_removed_key_back_where_its_tombstone_went_by_marks(
    purges: bool,
) -> None:
    mesh = Mesh()
    a, b = mesh.clusters["A"], mesh.clusters["B"]
    a.apply(MEMBER, 1, MapPut(MAP, "k", b"v", None, 0))
    mesh.carry(2, "A", "B")
    mesh.carry(2, "A", "C")
    a.apply(MEMBER, 3, MapRemove(MAP, "k"))
    mesh.carry(4, "A", "C")
    b.apply(MEMBER, 5, MapPut(MAP, "l", b"v", None, 0))
    mesh.carry(6, "B", "C")
    # All that A and B have for C has arrived, and their clocks are beyond the removal.
    assert not mesh.wan("A").queues[mesh.links["A", "C"].publisher].count()
    assert not mesh.wan("B").queues[mesh.links["B", "C"].publisher].count()
    clock = b.state.wan.clock
    assert clock > mesh.wan("C").tombstones["k"]
    if purges:
        # No purge does so: each leaves the mark that makes later entries ambiguous.
        del mesh.wan("C").tombstones["k"]

    for key in "lmn":
        b.apply(MEMBER, 8, MapPut(MAP, key, b"w", None, 0))
    assert b.state.wan.comparing(mesh.links["B", "C"].publisher) == {MAP}
    mesh.carry(9, "B", "C")
    mesh.carry(10, "A", "B")
    for edge in MESH.edges:
        mesh.carry(11, *edge, compares=True)
    assert mesh.keys("A") == mesh.keys("B") == {"l", "m", "n"}
    assert mesh.keys("C") == ({"k", "l", "m", "n"} if purges else {"l", "m", "n"})
    assert mesh.wan("C").ambiguous == 0, "nobody is told"
