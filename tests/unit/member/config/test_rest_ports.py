"""A list of members that has their REST ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.member.config.loading import load, problems
from tests.unit.member.config.test_cluster import REST, USER, cluster, joined

if TYPE_CHECKING:
    from tests.unit.member.config.trees import Tree


def by_rest(*members: str, **network: Any) -> Tree:
    """Return a member whose REST service is on, and whose list has these."""
    return {"network": {**joined(*members)["network"], "rest-api": {"enabled": True}, **network}}


def test_a_list_of_rest_ports_has_the_members_ports_that_follow_from_them() -> None:
    config = load(by_rest("127.0.0.1:5701", "127.0.0.1:5702", "[::1]:5704"))
    assert config.join_members == ("127.0.0.1:5701", "127.0.0.1:5702", "[::1]:5704")
    found = config.cluster
    assert found is not None
    assert found.by_rest_ports
    assert (found.port, found.members) == (
        5801,
        (("127.0.0.1", 5801), ("127.0.0.1", 5802), ("::1", 5804)),
    )
    other = cluster(by_rest("127.0.0.1:5701", "127.0.0.1:5702", port={"port": 5702}))
    assert (other.port, other.members) == (5802, (("127.0.0.1", 5801), ("127.0.0.1", 5802)))
    endpoints = {REST: {"port": {"port": 8080}}}
    advanced = {"enabled": True, **joined("a:8080", "b:8080")["network"], **endpoints}
    assert cluster({"advanced-network": advanced}).members == (("a", 8180), ("b", 8180))


@pytest.mark.parametrize(
    "tree",
    [
        by_rest("a:5701", "b:5701", cluster={"port": {"port": 5704}}),
        by_rest("a:5701", "b", cluster={"port": {"port": 5704}}),
        by_rest("a", "b", "c:5705"),
        by_rest("a:5704", "b:5705"),
        by_rest("a", "b"),
        by_rest("a:5701", "b:5701", port={"port": 0}),
        joined("a:5701", "b:5701"),
    ],
)
def test_a_members_port_that_is_named_or_listed_is_taken_as_it_is(tree: Tree) -> None:
    found = cluster(tree)
    assert not found.by_rest_ports
    assert found.port == 5704
    assert {port for _, port in found.members} <= {5701, 5704, 5705}


NO_PORT = (
    "has no port, and another item has the REST port of this member: write each item as HOST:PORT "
    "with the REST port of that member, or set network.cluster.port when the list has members' "
    "ports"
)


@pytest.mark.parametrize(
    ("tree", "without"),
    [
        (by_rest("a:5701", "b"), (1,)),
        (by_rest("a", "b:5701", "[::1]"), (0, 2)),
        (by_rest("a:5701", "b:5702", "c"), (2,)),
        (by_rest("a:8080", "10.0.0.2", "::1", port={"port": 8080}), (1, 2)),
    ],
)
def test_an_item_without_a_port_beside_rest_ports_is_refused(
    tree: Tree, without: tuple[int, ...]
) -> None:
    # The member took the list for one of members' ports and waited without end for the others.
    refused = [f"network.join.tcp-ip.member-list[{number}]: {NO_PORT}" for number in without]
    assert problems(tree) == refused


@pytest.mark.parametrize(
    ("port", "persistence", "tried"),
    [
        ({}, False, 3),
        ({"port": 5701, "auto-increment": True}, False, 3),
        ({"port": 5702, "auto-increment": True}, False, 2),
        ({"port": 5701, "auto-increment": True, "port-count": 2}, False, 2),
        ({"port": 5701}, False, 1),
        ({"auto-increment": False}, False, 1),
        ({"port": 5701, "auto-increment": True}, True, 1),
        ({}, True, 1),
    ],
)
def test_which_rest_ports_a_listed_member_tries(port: Tree, persistence: bool, tried: int) -> None:
    tree = by_rest("a:5701", "a:5702", "a:5703", port=port)
    rest = load({**tree, "persistence": {"enabled": persistence}}).rest
    assert rest is not None
    assert rest.port_count == tried
    assert rest.auto_increment is (tried > 1)


def test_what_is_wrong_with_a_list_of_rest_ports() -> None:
    assert problems(by_rest("a:65500", "a:65501", "b:1", port={"port": 65500})) == [
        f"network.join.tcp-ip.member-list[{number}]: is a REST port that has no members' port 100 "
        "above it: set network.cluster.port, and list the members' ports"
        for number in (0, 1)
    ]
    management = {"enabled": True, "realm": "r", "port": {"port": 5801}}
    realm = {"name": "r", "authentication": {"simple": {"users": [USER]}}}
    tree = by_rest("a:5701", "b:5701", management=management)
    assert problems({**tree, "security": {"realms": [realm]}}) == [
        "network.cluster.port: must differ from the port of network.management.port"
    ]
    assert problems(by_rest("a:5701", "a:5701")) == [
        "network.join.tcp-ip.member-list[1]: is the same member as "
        "network.join.tcp-ip.member-list[0]"
    ]
