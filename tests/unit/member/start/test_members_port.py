"""The members' port of a member whose configuration does not name one."""

from __future__ import annotations

import socket

import pytest

from grid_member.config import ClusterConfig
from grid_member.http.server.binding import PortError
from grid_member.start import ports
from grid_member.start.ports import GivenUpError, claim_members_port
from tests.unit.ports import HOST, free_ports


def listed(*ports: int, here: str = HOST, steps_aside: bool = True) -> ClusterConfig:
    members = tuple((here, port) for port in ports)
    return ClusterConfig(ports[0], members, "grid", "x", (HOST,), steps_aside=steps_aside)


async def test_members_that_start_at_once_choose_different_ports() -> None:
    cluster = listed(*free_ports(3))
    claims = [await claim_members_port(cluster, lambda: False) for _ in range(3)]
    chosen = [claim.port for claim in claims if claim is not None]
    assert chosen == [port for _, port in cluster.members]
    assert claims[1] is not None
    claims[1].release()
    again = await claim_members_port(cluster, lambda: False)
    assert again is not None
    assert again.port == chosen[1]
    for claim in (claims[0], claims[2], again):
        assert claim is not None
        claim.release()


async def test_a_port_on_which_something_listens_is_not_chosen() -> None:
    cluster = listed(*free_ports(2))
    with socket.create_server((HOST, cluster.port)):
        claim = await claim_members_port(cluster, lambda: False)
    assert claim is not None
    assert claim.port == cluster.members[1][1]
    claim.release()


async def test_with_all_taken_the_error_has_the_line_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "PORT_PATIENCE_S", 0.0)
    one, other = free_ports(2)
    with (
        socket.create_server((HOST, one)),
        socket.create_server((HOST, other)),
        pytest.raises(PortError, match=rf"taken \({one}, {other}\).*network.cluster.port"),
    ):
        await claim_members_port(listed(one, other), lambda: False)
    with pytest.raises(GivenUpError):
        await claim_members_port(listed(one, other), lambda: True)


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterConfig(5704, (("a", 5704), ("b", 5704)), "grid", "x", steps_aside=True),
        ClusterConfig(5704, (("a", 5704), ("b", 5705)), "grid", "x"),
    ],
)
async def test_without_a_choice_no_name_is_looked_up(
    cluster: ClusterConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "resolve_host", None)
    assert await claim_members_port(cluster, lambda: False) is None


async def test_a_list_that_does_not_name_this_machine_leaves_the_port_alone() -> None:
    assert await claim_members_port(listed(1, 2, here="192.0.2.1"), lambda: False) is None
