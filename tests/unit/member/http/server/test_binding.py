"""Taking ports: the next one, a clear refusal, and the interfaces, on real sockets."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
from typing import TYPE_CHECKING

import pytest

from grid_member.config import Config, ListenerConfig, parse_config
from grid_member.http.server.binding import MAX_PORT, PortError, bind, binding_order
from grid_member.start import start_member
from tests.unit.member.start.handles import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = ("127.0.0.1",)
FORMS = {
    "network": "grid: {network: {rest-api: {enabled: true}, %s}}",
    "advanced-network": "grid: {advanced-network: {enabled: true, "
    "rest-server-socket-endpoint-config: {%s}}}",
}
MANAGEMENT_FORMS = {
    "network": "network: {interfaces: {enabled: true, interfaces: [127.0.0.1]}, "
    "management: {enabled: true, realm: r, %s}}",
    "advanced-network": "advanced-network: {enabled: true, "
    "management-server-socket-endpoint-config: {realm: r, %s}}",
}
REALM = "security: {realms: [{name: r, authentication: {simple: {users: [%s]}}}]}"
PORT_SETTINGS = {
    "network": ("network.port", "network.management.port"),
    "advanced-network": (
        "advanced-network.rest-server-socket-endpoint-config.port",
        "advanced-network.management-server-socket-endpoint-config.port",
    ),
}


def rest(form: str, settings: str) -> ListenerConfig:
    listener = parse_config(FORMS[form] % settings, "f", {}).rest
    assert listener is not None
    return listener


def management(form: str, settings: str) -> ListenerConfig:
    realm = REALM % "{username: u, password: p}"
    text = f"grid: {{{MANAGEMENT_FORMS[form] % settings}, {realm}}}"
    listener = parse_config(text, "f", {}).management
    assert listener is not None
    return listener


def port_of(listener: ListenerConfig) -> int:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in bind(listener)]
        ports = {one.getsockname()[1] for one in sockets}
        assert len(sockets) == len(listener.interfaces)
        assert len(ports) == 1
        return int(ports.pop())


def bound(port: int, host: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def free_everywhere(port: int) -> None:
    """Take a port on every address and give it back.

    Raises:
        OSError: it is taken.
    """
    if socket.has_dualstack_ipv6():
        socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True).close()
    else:
        socket.create_server(("0.0.0.0", port)).close()


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """Take a row of ports; their numbers, all in a row, with two free ones behind them."""
    for _ in range(100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            first = stack.enter_context(bound(0)).getsockname()[1]
            for port in range(first + 1, first + 4):
                stack.enter_context(bound(port))
            for port in (first + 4, first + 5):
                # On all addresses: elsewhere a connection may have ended on it a moment ago.
                free_everywhere(port)
            yield list(range(first, first + 4))
            return
    raise AssertionError("no row of free ports")


@pytest.mark.parametrize("form", FORMS)
def test_the_next_free_port_is_taken(form: str, taken: list[int]) -> None:
    interfaces = "interfaces: {enabled: true, interfaces: [127.0.0.1]}"
    listener = rest(form, f"port: {{port: {taken[0]}, port-count: 5}}, {interfaces}")
    assert port_of(listener) == taken[-1] + 1


@pytest.mark.parametrize("form", FORMS)
def test_exactly_port_count_ports_are_tried(form: str, taken: list[int]) -> None:
    listener = rest(form, f"port: {{port: {taken[0]}, port-count: 4}}")
    with pytest.raises(PortError) as caught:
        bind(listener)
    setting = PORT_SETTINGS[form][0]
    assert str(caught.value) == (
        f"all ports {taken[0]} to {taken[-1]} are taken; "
        f"stop what uses one of them or change {setting}"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("increment", ["auto-increment: false", "port-count: 1"])
def test_a_taken_port_without_another_to_try(form: str, increment: str, taken: list[int]) -> None:
    listener = rest(form, f"port: {{port: {taken[0]}, {increment}}}")
    with pytest.raises(PortError) as caught:
        bind(listener)
    setting = PORT_SETTINGS[form][0]
    told = f"port {taken[0]} is taken; stop what uses it or change {setting}"
    assert str(caught.value).removesuffix(", or its auto-increment") == told


@pytest.mark.parametrize("form", FORMS)
def test_the_management_port(form: str, taken: list[int]) -> None:
    refused = management(form, f"port: {{port: {taken[0]}}}")
    with pytest.raises(PortError) as caught:
        bind(refused)
    setting = PORT_SETTINGS[form][1]
    assert str(caught.value) == (
        f"port {taken[0]} is taken; stop what uses it or change {setting}, or its auto-increment"
    )
    listener = management(form, f"port: {{port: {taken[0]}, auto-increment: true, port-count: 5}}")
    assert port_of(listener) == taken[-1] + 1


@pytest.mark.parametrize("increment", [False, True])
async def test_no_listener_takes_the_only_port_of_the_other(
    taken: list[int], increment: bool
) -> None:
    made = tree(taken[-1], taken[-1] + 1)
    made["network"]["port"]["auto-increment"] = True
    made["network"]["management"]["port"]["auto-increment"] = increment
    async with await start_member(Config(made, environment={})) as member:
        ports = (member.rest_port, member.management_port)
    free = (taken[-1] + 1, taken[-1] + 2)
    assert ports == (free if increment else free[::-1])


def test_any_port_is_taken_after_all_others() -> None:
    any_port = ListenerConfig(0)
    increasing = ListenerConfig(5701, auto_increment=True, port_count=100)
    only = ListenerConfig(5702, auto_increment=True)
    order = [only, increasing, any_port]
    assert all(binding_order(list(given)) == order for given in itertools.permutations(order))


@pytest.mark.parametrize(
    ("interface", "holder"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),
        ("*", "127.0.0.1"),
        ("*", "::1"),
        ("::1", "::1"),
        ("::", "::1"),
    ],
)
def test_what_counts_as_taken(interface: str, holder: str) -> None:
    with bound(0, holder) as other, pytest.raises(PortError, match="is taken"):
        bind(ListenerConfig(other.getsockname()[1], interfaces=(interface,)))


@pytest.mark.parametrize(
    ("interface", "holder"),
    [("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("::", "127.0.0.1")],
)
def test_what_does_not(interface: str, holder: str) -> None:
    with bound(0, holder) as other:
        port = other.getsockname()[1]
        assert port_of(ListenerConfig(port, interfaces=(interface,))) == port


def test_a_port_is_taken_on_all_interfaces_or_on_none(taken: list[int]) -> None:
    first = taken[0]
    listener = ListenerConfig(first, True, 5, interfaces=("127.0.0.2", "127.0.0.1"))
    assert port_of(listener) == taken[-1] + 1
    # What was taken on the first interface was given back.
    bound(first, "127.0.0.2").close()


@pytest.mark.parametrize("interfaces", [LOOPBACK, ("127.0.0.1", "127.0.0.2", "::1"), ("*",)])
def test_port_0_is_any_free_one(interfaces: tuple[str, ...]) -> None:
    assert port_of(ListenerConfig(0, True, 100, interfaces=interfaces)) > 0


def test_no_port_behind_the_last_one() -> None:
    with contextlib.ExitStack() as stack:
        for port in (MAX_PORT - 1, MAX_PORT):
            with contextlib.suppress(OSError):
                stack.enter_context(bound(port))
        with pytest.raises(PortError, match=rf"all ports {MAX_PORT - 1} to {MAX_PORT} are taken"):
            bind(ListenerConfig(MAX_PORT - 1, True, 100, interfaces=LOOPBACK))
        with pytest.raises(PortError, match=rf"port {MAX_PORT} is taken"):
            bind(ListenerConfig(MAX_PORT, True, 100, interfaces=LOOPBACK))


@pytest.mark.parametrize("interface", ["192.0.2.1", "2001:db8::1"])
def test_an_interface_that_does_not_exist(interface: str) -> None:
    with pytest.raises(PortError) as caught:
        bind(ListenerConfig(0, interfaces=("127.0.0.1", interface)))
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1, {interface}: this machine has no such address; "
        "change the interfaces that go with network.port"
    )


def test_a_port_without_the_right_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: socket.socket, _address: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # Whether a process has the right differs between systems and users.
    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PortError) as caught:
        bind(ListenerConfig(80, True, 100, interfaces=LOOPBACK))
    assert str(caught.value) == (
        "no right to listen on port 80: change network.port, usually to one above 1023"
    )
