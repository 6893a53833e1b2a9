"""What a member's nats-server is given: configuration file, environment; and its file of ports."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.engine.bootstrap.identity import ROUTE_USER, route_cluster, route_password
from grid_member.engine.nats.admin.peers import ACCOUNT, peer_id

if TYPE_CHECKING:
    from grid_member.engine.cluster_settings import ClusterSettings, ClusterTls

USER: Final = "grid"
"""The member at its own server, in the account that the data is in."""
SYSTEM_USER: Final = "sys"
"""The member at its own server, in the account that servers report in."""
SYSTEM_ACCOUNT: Final = "SYS"
_PORTS_SUFFIX: Final = ".ports"
_MAX_PENDING_BYTES: Final = 256 << 20
"""What may wait for one connection: a member that does not read is cut off then."""
_STORE_BYTES: Final = 1 << 40
"""Per kind of storage. The member refuses what is too much, long before; a disk ends by itself."""
_WRITE_DEADLINE_S: Final = 10
_AUTHORIZATION_TIMEOUT_S: Final = 10
"""Generous: whoever starts on a busy machine is late, not hostile."""
_CLIENT_PING_S: Final = 20
_ROUTE_PING_S: Final = 5
"""A machine that went without a word is noticed after two of them."""
_PINGS_UNANSWERED: Final = 2
_MAX_PROCESSORS: Final = 2
_FEW_PROCESSORS: Final = 2
"""Of a machine on which the server has one to itself: with more its idle threads look for work that
the member's thread could do."""
_GC_PERCENT: Final = 400
_MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_KEPT_VARIABLES: Final = ("PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG")


@dataclass(frozen=True, slots=True)
class ServerPlaces:
    """What is each start's own."""

    runtime: Path
    """Private to this process, removed at its end."""
    store: Path
    """Where the server keeps what it keeps."""
    token: str = field(repr=False)
    """The password of the clients: of this member alone, of this start alone."""


def server_config(settings: ClusterSettings, server_name: str, places: ServerPlaces) -> str:
    """Return the file; everything that is not a constant is quoted."""
    token = quote(places.token)
    lines = [
        f"server_name: {quote(server_name)}",
        # What is to be on some servers only is placed by their ids.
        f"server_tags: [{quote(peer_id(server_name))}]",
        # The member is the only client: others have a server of their own.
        "host: 127.0.0.1",
        "port: -1",
        f"ports_file_dir: {quote(str(places.runtime))}",
        "logtime: false",
        f"max_payload: {settings.max_payload_bytes}",
        f"max_pending: {max(_MAX_PENDING_BYTES, 4 * settings.max_payload_bytes)}",
        f'write_deadline: "{_WRITE_DEADLINE_S}s"',
        f'ping_interval: "{_CLIENT_PING_S}s"',
        f"ping_max: {_PINGS_UNANSWERED}",
        'lame_duck_grace_period: "0s"',
        'lame_duck_duration: "30s"',
        f"authorization {{ timeout: {_AUTHORIZATION_TIMEOUT_S} }}",
        "accounts {",
        f"  {ACCOUNT} {{ jetstream: enabled, users: [{{ user: {USER}, password: {token} }}] }}",
        f"  {SYSTEM_ACCOUNT} {{ users: [{{ user: {SYSTEM_USER}, password: {token} }}] }}",
        "}",
        f"system_account: {SYSTEM_ACCOUNT}",
        *_jetstream(settings, places),
        *_cluster(settings),
    ]
    return "\n".join(lines) + "\n"


def quote(text: str) -> str:
    """Return a string as the configuration language has it; nothing in it has a meaning there."""
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in text.encode(errors="surrogateescape")
    )
    return f'"{"".join(plain)}"'


def _jetstream(settings: ClusterSettings, places: ServerPlaces) -> list[str]:
    if settings.lite:
        return []
    # Streams in memory need no sync, but what the servers agreed on is in files even then.
    sync = "always" if settings.directory is not None else '"10s"'
    return [
        "jetstream {",
        f"  store_dir: {quote(str(places.store))}",
        f"  sync_interval: {sync}",
        f"  max_memory_store: {_STORE_BYTES}",
        f"  max_file_store: {_STORE_BYTES}",
        "}",
    ]


def _cluster(settings: ClusterSettings) -> list[str]:
    password = route_password(settings)
    timeout = f"timeout: {_AUTHORIZATION_TIMEOUT_S}"
    routes = [
        f"    {quote(f'nats://{ROUTE_USER}:{password}@{_url_host(host)}:{port}')}"
        for host, port in settings.members
    ]
    return [
        "cluster {",
        f"  name: {quote(route_cluster(settings.cluster_name))}",
        f"  host: {quote(settings.host)}",
        f"  port: {settings.port}",
        f"  authorization {{ user: {ROUTE_USER}, password: {quote(password)}, {timeout} }}",
        # The addresses of clients are loopback ones: of no use to other members' clients.
        "  no_advertise: true",
        # One connection for everything. If what servers agree on came over another one, a leader
        # that was cut off would get records before it hears of its successor: ADR 0027.
        "  pool_size: -1",
        f'  ping_interval: "{_ROUTE_PING_S}s"',
        f"  ping_max: {_PINGS_UNANSWERED}",
        *_tls(settings.tls),
        "  routes: [",
        *routes,
        "  ]",
        "}",
    ]


def _tls(tls: ClusterTls | None) -> list[str]:
    if tls is None:
        return []
    return [
        "  tls {",
        f"    cert_file: {quote(str(tls.certificate_file))}",
        f"    key_file: {quote(str(tls.key_file))}",
        f"    ca_file: {quote(str(tls.ca_file))}",
        "    verify: true",
        f"    timeout: {_AUTHORIZATION_TIMEOUT_S}",
        "  }",
    ]


def _url_host(host: str) -> str:
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return f"[{bare}]" if ipaddress.ip_address(bare).version == 6 else bare
    except ValueError:
        return host


def server_environment() -> dict[str, str]:
    """Return the variables of the server: none that may hold a secret of the member."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    available = len(os.sched_getaffinity(0))
    processors = 1 if available <= _FEW_PROCESSORS else _MAX_PROCESSORS
    return {
        "GOMAXPROCS": str(processors),
        "GOGC": str(_GC_PERCENT),
        # The collector works harder before memory is gone; the other half is the member's own.
        "GOMEMLIMIT": str(_memory_bytes() // 2),
        **kept,
    }


def _memory_bytes() -> int:
    """Return the memory of the machine, or of the container when that has less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(_MEMORY_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return machine


def remove_ports(runtime: Path) -> None:
    """Remove what a former server wrote."""
    for path in runtime.glob(f"*{_PORTS_SUFFIX}"):
        path.unlink()


def client_address(runtime: Path) -> tuple[str, int] | None:
    """Return the address in the server's file of ports, None while it is not written."""
    try:
        path = next(runtime.glob(f"*{_PORTS_SUFFIX}"))
        url = json.loads(path.read_bytes())["nats"][0]
        host, port = str(url).removeprefix("nats://").rsplit(":", 1)
        return host, int(port)
    except (StopIteration, OSError, ValueError, KeyError, IndexError, TypeError):
        return None
