"""The member: maps and queues over HTTP, for one cluster member.

    from grid_member import Config, start_member

    Config        a checked configuration
    start_member  starts a member in the running event loop, returns its MemberHandle
    ConfigError   a configuration that cannot be used; `problems` has everything that was found
    PortError     a port could not be taken
    TlsError      a certificate, key or list of authorities cannot be used
    EngineError   the data could not be opened
    StopError     a stop was given up: the disk does not answer

What is not used is not loaded: configurations are checked without the HTTP server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from grid_member.config.load import Config
    from grid_member.config.tree import ConfigError
    from grid_member.engine.api import EngineError
    from grid_member.http.server.binding import PortError
    from grid_member.security.tls import TlsError
    from grid_member.start.handle import MemberHandle, StopError, start_member

__all__ = [
    "Config",
    "ConfigError",
    "EngineError",
    "MemberHandle",
    "PortError",
    "StopError",
    "TlsError",
    "start_member",
]

_HOMES: Final = {
    "Config": "grid_member.config.load",
    "ConfigError": "grid_member.config.tree",
    "EngineError": "grid_member.engine.api",
    "MemberHandle": "grid_member.start.handle",
    "PortError": "grid_member.http.server.binding",
    "StopError": "grid_member.start.handle",
    "TlsError": "grid_member.security.tls",
    "start_member": "grid_member.start.handle",
}


def __getattr__(name: str) -> object:
    """Load a name of the Python API when it is asked for first."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
