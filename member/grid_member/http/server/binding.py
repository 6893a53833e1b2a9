"""The ports of listeners: which ones a listener may take, and why one cannot be taken."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config.model.member import ListenerConfig

BACKLOG_CONNECTIONS: Final = 2048
KEEPALIVE_IDLE_S: Final = 20
"""Until the system asks whether the other end of a quiet connection is still there."""
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 4
"""With so many unanswered the connection is lost: forty seconds after the last sign."""
MAX_PORT: Final = 65535
ANY_PORT_ATTEMPTS: Final = 16
"""How often the system is asked for a port that is free on all interfaces at once."""
_ANY: Final = "*"


class PortError(Exception):
    """No port could be taken; the message says which were tried and what to do."""


class TakenError(PortError):
    """None of the ports is free now."""


def bind(listener: ListenerConfig) -> list[socket.socket]:
    """Return a listening socket for each interface, all on the first port that is free.

    Raises:
        PortError: an interface does not exist; `TakenError`: none of the ports is free.
    """
    ports = _candidates(listener)
    for port in ports:
        try:
            return _bind_all(port, listener.interfaces)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise _cannot_listen(listener, port, problem) from None
    raise _taken_error(listener, ports)


def binding_order(listeners: list[ListenerConfig]) -> list[ListenerConfig]:
    """Return the listeners of a member, those with the fewest ports to choose from first.

    Who has a choice then leaves the others theirs; any port at all is chosen last.
    """
    return sorted(listeners, key=lambda each: (each.port == 0, len(_candidates(each))))


def _candidates(listener: ListenerConfig) -> range | list[int]:
    if listener.port == 0:
        return [0] * ANY_PORT_ATTEMPTS
    count = listener.port_count if listener.auto_increment else 1
    return range(listener.port, min(listener.port + count - 1, MAX_PORT) + 1)


def _cannot_listen(listener: ListenerConfig, port: int, problem: OSError) -> PortError:
    if problem.errno in (errno.EACCES, errno.EPERM):
        return PortError(
            f"no right to listen on port {port}: "
            f"change {listener.port_setting}, usually to one above 1023"
        )
    where = ", ".join(listener.interfaces)
    if problem.errno == errno.EADDRNOTAVAIL:
        return PortError(
            f"cannot listen on {where}: this machine has no such address; "
            f"change the interfaces that go with {listener.port_setting}"
        )
    return PortError(f"cannot listen on {where}: {problem.strerror}")


def _taken_error(listener: ListenerConfig, ports: range | list[int]) -> TakenError:
    setting = listener.port_setting
    if listener.port == 0:
        return TakenError(f"no port is free on every interface at once; choose one in {setting}")
    if len(ports) == 1:
        hint = "" if listener.auto_increment else ", or its auto-increment"
        return TakenError(
            f"port {listener.port} is taken; stop what uses it or change {setting}{hint}"
        )
    return TakenError(
        f"all ports {ports[0]} to {ports[-1]} are taken; "
        f"stop what uses one of them or change {setting}"
    )


def _bind_all(port: int, interfaces: tuple[str, ...]) -> list[socket.socket]:
    with contextlib.ExitStack() as undo:
        sockets: list[socket.socket] = []
        for interface in interfaces:
            bound = undo.enter_context(_bind_one(interface, port))
            port = bound.getsockname()[1]
            sockets.append(bound)
        undo.pop_all()
    return sockets


def _bind_one(interface: str, port: int) -> socket.socket:
    dual = interface == _ANY and socket.has_dualstack_ipv6()
    host = interface if interface != _ANY else "::" if dual else "0.0.0.0"  # noqa: S104
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections have these from here: no poll waits for a machine that is gone.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        if family == socket.AF_INET6:
            # An address that was written as IPv6 stands for IPv6 alone, `*` for both.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual)
        sock.bind((host, port))
        # Two sockets may bind one port, only one may listen: a taken port shows here.
        sock.listen(BACKLOG_CONNECTIONS)
    except OSError:
        sock.close()
        raise
    return sock
