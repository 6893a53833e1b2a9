"""Where a member listens and what address it shows, under both forms of the network."""

from __future__ import annotations

from typing import Any

import pytest

from grid_member import Config, start_member
from tests.unit.member.start.handles import port_of
from tests.unit.member.wire import Wire, once
from tests.unit.ports import free_ports


@pytest.mark.parametrize(
    ("public", "shown"),
    [
        (None, "127.0.0.1:{port}"),
        ("example.org", "example.org:{port}"),
        ("example.org:80", "example.org:80"),
        ("10.1.2.3", "10.1.2.3:{port}"),
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("fd00::1", "[fd00::1]:{port}"),
        ("[fd00::1]", "[fd00::1]:{port}"),
        ("[fd00::1]:80", "[fd00::1]:80"),
    ],
)
@pytest.mark.parametrize("network", ["network", "advanced-network"])
async def test_the_address_in_the_cluster_document(
    network: str, public: str | None, shown: str
) -> None:
    made = on_network(network, ["127.0.0.1"], public)
    async with await start_member(Config(made, environment={})) as member:
        document = (await once(port_of(member), "GET", "/grid/rest/cluster")).json
        expected = shown.format(port=member.rest_port)
        assert [m["address"] for m in document["members"]] == [member.address] == [expected]


def on_network(
    network: str, interfaces: list[str] | None, public: str | None = None, *, port: int = 0
) -> dict[str, Any]:
    socket_settings: dict[str, Any] = {"port": {"port": port}}
    if interfaces is not None:
        socket_settings["interfaces"] = {"enabled": True, "interfaces": interfaces}
    if public is not None:
        socket_settings["public-address"] = public
    if network == "network":
        return {"network": socket_settings | {"rest-api": {"enabled": True}}}
    return {
        "advanced-network": {
            "enabled": True,
            "rest-server-socket-endpoint-config": socket_settings,
        }
    }


@pytest.mark.parametrize("network", ["network", "advanced-network"])
@pytest.mark.parametrize(
    ("interfaces", "reached", "not_reached"),
    [
        (["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2", "::1"]),
        (["127.0.0.1", "127.0.0.2"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.3", "::1"]),
        (["::1"], ["::1"], ["127.0.0.1"]),
        (["::"], ["::1"], ["127.0.0.1"]),
        (["0.0.0.0"], ["127.0.0.1", "127.0.0.2"], ["::1"]),
        (["0.0.0.0", "::"], ["127.0.0.1", "::1"], []),
        (["*"], ["127.0.0.1", "::1"], []),
        (None, ["127.0.0.1", "::1"], []),
    ],
)
async def test_interfaces(
    network: str, interfaces: list[str] | None, reached: list[str], not_reached: list[str]
) -> None:
    # A port that nobody else is given on another address.
    made = on_network(network, interfaces, port=free_ports(1)[0])
    async with await start_member(Config(made, environment={})) as member:
        for host in reached:
            async with await Wire.connect(port_of(member), host) as wire:
                assert (await wire.call("GET", "/grid/health/ready")).status == 200
        for host in not_reached:
            with pytest.raises(ConnectionRefusedError):
                await Wire.connect(port_of(member), host)
        host = member.address.rpartition(":")[0].strip("[]")
        async with await Wire.connect(port_of(member), host) as wire:
            assert (await wire.call("GET", "/grid/rest/cluster")).status == 200
