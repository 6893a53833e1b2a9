"""The metrics section of the configuration, and the port that it opens."""

from __future__ import annotations

import socket

import pytest

from grid_member import Config, start_member
from grid_member.config import ConfigError, parse_config
from grid_member.http.server.binding import PortError, bind

ADVANCED = "advanced-network: {enabled: true, rest-server-socket-endpoint-config: {}}"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "f", {})
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_off_by_default() -> None:
    assert parse_config("grid: {}", "f", {}).metrics is None
    assert parse_config("grid: {metrics: {port: {port: 1}}}", "f", {}).metrics is None


@pytest.mark.parametrize("network", ["network: {rest-api: {enabled: true}}", ADVANCED])
def test_on_it_is_a_listener_of_its_own(network: str) -> None:
    found = parse_config(f"grid: {{metrics: {{enabled: true}}, {network}}}", "f", {})
    assert found.metrics is not None
    assert found.rest is not None
    assert (found.metrics.port, found.metrics.kind) == (5703, "metrics")
    assert found.metrics.groups == frozenset()
    assert found.metrics.interfaces == ("*",)
    assert not found.metrics.auto_increment
    assert found.rest.kind == "rest"


def test_xml_says_the_same() -> None:
    in_xml = parse_config(
        """<grid xmlns="urn:grid:config:1"><metrics enabled="true">
        <port auto-increment="true" port-count="3">7000</port>
        <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
        </metrics></grid>""",
        "f.xml",
        {},
    )
    in_yaml = parse_config(
        """grid: {metrics: {enabled: true, port: {port: 7000, auto-increment: true, port-count: 3},
        interfaces: {enabled: true, interfaces: [127.0.0.1]}}}""",
        "f",
        {},
    )
    assert in_xml == in_yaml
    assert in_yaml.metrics is not None
    assert in_yaml.metrics.port_count == 3


def test_a_variable_turns_it_on() -> None:
    assert (
        parse_config("grid: {}", "f", {"GRID_MEMBER_METRICS_ENABLED": "true"}).metrics is not None
    )


def test_the_port_must_be_its_own() -> None:
    rest = "network: {rest-api: {enabled: true}}"
    clash = "metrics: {enabled: true, port: {port: 5701}}"
    told = ["metrics.port: must differ from the port of network.port"]
    assert problems(f"grid: {{{rest}, {clash}}}") == told
    advanced = [
        "metrics.port: must differ from the port of "
        "advanced-network.rest-server-socket-endpoint-config.port"
    ]
    assert problems(f"grid: {{{ADVANCED}, {clash}}}") == advanced
    parse_config(f"grid: {{{rest}, metrics: {{enabled: false, port: {{port: 5701}}}}}}", "f", {})
    anywhere = "network: {port: {port: 0}, rest-api: {enabled: true}}"
    parse_config(f"grid: {{{anywhere}, metrics: {{enabled: true, port: {{port: 0}}}}}}", "f", {})


def test_what_is_wrong_is_told_even_where_it_is_off() -> None:
    told = problems("grid: {metrics: {interfaces: {enabled: true, interfaces: [nowhere]}}}")
    assert told == ["metrics.interfaces.interfaces[0]: must be an IP address or * for any"]


async def test_a_taken_port_names_its_setting_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        place = "interfaces: {enabled: true, interfaces: [127.0.0.1]}"
        text = f"grid: {{metrics: {{enabled: true, port: {{port: {port}}}, {place}}}}}"
        config = Config.from_text(text, environment={})
        with pytest.raises(PortError, match=f"port {port} is taken; .* metrics.port"):
            await start_member(config)
    assert config.model.metrics is not None
    for one in bind(config.model.metrics):
        one.close()
