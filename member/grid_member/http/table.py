"""The routing table: every path of the interface, its methods, groups and parameters.

A row without an operation is a known path whose feature is not there yet. Patterns are matched
part by part after the path was split at `/`: `{x}` is one part, `{x...}` is all that follows.
HEAD comes with GET and PUT with POST where the rows say so; a path that no row names belongs to
the catch-all row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from grid_member.config.model.member import EndpointGroup

READ: Final = EndpointGroup.CLUSTER_READ
WRITE: Final = EndpointGroup.CLUSTER_WRITE
HEALTH: Final = EndpointGroup.HEALTH_CHECK
PERSISTENCE: Final = EndpointGroup.PERSISTENCE
WAN: Final = EndpointGroup.WAN
DATA: Final = EndpointGroup.DATA
CP: Final = EndpointGroup.CP

GET: Final = ("GET", "HEAD")
POST: Final = ("POST", "PUT")
DELETE: Final = ("DELETE",)

CATCH_ALL_GROUPS: Final = frozenset({WRITE})
MAX_POLL_S: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Route:
    """One row: which requests it takes and what they need."""

    methods: tuple[str, ...]
    path: str
    groups: frozenset[EndpointGroup]
    """It answers when any of these is enabled."""
    operation: str | None = None
    parameters: int | None = None
    """Body parameters; the first two of them are the credentials."""
    probe: bool = False
    """Never asks for credentials: Kubernetes probes carry none."""


def _row(
    methods: tuple[str, ...],
    path: str,
    *groups: EndpointGroup,
    does: str | None = None,
    parameters: int | None = None,
    probe: bool = False,
) -> Route:
    return Route(methods, path, frozenset(groups), does, parameters, probe)


def _rest(
    methods: tuple[str, ...],
    path: str,
    *groups: EndpointGroup,
    does: str | None = None,
    parameters: int | None = None,
) -> Route:
    return _row(methods, f"/grid/rest/{path}", *groups, does=does, parameters=parameters)


def _management(
    path: str, group: EndpointGroup, parameters: int = 2, does: str | None = None
) -> Route:
    where = f"management/cluster/{path}"
    return _rest(POST, where, group, does=does, parameters=parameters)


def _wan(name: str, parameters: int, does: str) -> Route:
    return _rest(POST, f"wan/{name}", WAN, does=does, parameters=parameters)


def _cp(methods: tuple[str, ...], path: str, does: str, *groups: EndpointGroup) -> Route:
    count = None if methods is GET else 2
    where = f"cp-subsystem/{path}"
    return _rest(methods, where, *(groups or (CP, WRITE)), does=does, parameters=count)


ROUTES: Final[tuple[Route, ...]] = (
    # Data
    _rest(POST, "maps/{name}/{key...}", DATA, does="map_put"),
    _rest(GET, "maps/{name}/{key...}", DATA, does="map_get"),
    _rest(DELETE, "maps/{name}/{key...}", DATA, does="map_remove"),
    _rest(DELETE, "maps/{name}", DATA, does="map_clear"),
    _rest(GET, "queues/{name}/size", DATA, does="queue_size"),
    _rest(DELETE, "queues/{name}/{seconds}", DATA, does="queue_poll"),
    _rest(POST, "queues/{name}", DATA, does="queue_offer"),
    _rest((*GET, *POST, *DELETE), "maps", DATA, does="no_name"),
    _rest((*GET, *POST, *DELETE), "queues", DATA, does="no_name"),
    # Health
    _row(("GET",), "/grid/health/ready", HEALTH, does="health_ready", probe=True),
    _row(GET, "/grid/health/node-state", HEALTH, does="health_node_state", probe=True),
    _row(GET, "/grid/health/cluster-state", HEALTH, does="health_cluster_state"),
    _row(GET, "/grid/health/cluster-safe", HEALTH, does="health_cluster_safe"),
    _row(GET, "/grid/health/migration-queue-size", HEALTH, does="health_migration_queue_size"),
    _row(GET, "/grid/health/cluster-size", HEALTH, does="health_cluster_size"),
    _row(GET, "/grid/health", HEALTH, does="health"),
    _row(GET, "/grid/health/{check...}", HEALTH, does="health_unknown"),
    # Information
    _rest(GET, "cluster", READ, does="cluster"),
    _rest(GET, "instance", READ, does="instance"),
    _rest(GET, "openapi.json", READ, does="openapi"),
    # Cluster management
    _management("state", READ, does="cluster_state"),
    _rest(GET, "management/cluster/version", READ, does="cluster_version"),
    _management("memberShutdown", WRITE, does="member_shutdown"),
    _management("nodes", READ, does="nodes"),
    _management("changeState", WRITE, 3, does="change_state"),
    _management("clusterShutdown", WRITE, does="cluster_shutdown"),
    _management("version", WRITE, 3, does="change_version"),
    _management("forceStart", PERSISTENCE, does="force_start"),
    _management("partialStart", PERSISTENCE, does="partial_start"),
    _management("backup", PERSISTENCE, does="backup"),
    _management("backupInterrupt", PERSISTENCE, does="backup_interrupt"),
    _management("hotBackup", PERSISTENCE, does="hot_backup"),
    _management("hotBackupInterrupt", PERSISTENCE, does="hot_backup_interrupt"),
    _rest(GET, "management/cluster/operations", READ, does="operations"),
    _rest(GET, "management/cluster/usage", READ, does="usage"),
    # License, log level, configuration
    _rest(GET, "license", READ, does="license_get"),
    _rest(POST, "license", WRITE, does="license_set", parameters=3),
    _rest(GET, "log-level", READ, does="log_level_get"),
    _rest(POST, "log-level", WRITE, does="log_level_set", parameters=3),
    _rest(DELETE, "log-level", WRITE, does="log_level_reset", parameters=2),
    _rest(POST, "log-level/reset", WRITE, does="log_level_reset", parameters=2),
    _rest(POST, "config/reload", WRITE, does="config_reload", parameters=2),
    _rest(POST, "config/upload", WRITE, does="config_upload", parameters=3),
    _rest(POST, "config/update", WRITE, does="config_upload", parameters=3),
    _rest(GET, "config/tcp-ip/member-list", READ, does="member_list_get"),
    _rest(POST, "config/tcp-ip/member-list", WRITE, does="member_list_set", parameters=3),
    # WAN
    _wan("clearWanQueues", 4, "wan_clear_queues"),
    _wan("pausePublisher", 4, "wan_pause_publisher"),
    _wan("resumePublisher", 4, "wan_resume_publisher"),
    _wan("stopPublisher", 4, "wan_stop_publisher"),
    _wan("sync/map", 5, "wan_sync_map"),
    _wan("sync/allmaps", 4, "wan_sync_all_maps"),
    _wan("consistencyCheck/map", 5, "wan_check_map"),
    _wan("addWanConfig", 3, "wan_add_config"),
    _wan("removeWanConfig", 4, "wan_remove_config"),
    _rest(GET, "wan/sync/progress/{uuid}", WAN, does="wan_sync_progress"),
    _rest(GET, "wan/status", WAN, does="wan_status"),
    # CP
    _cp(GET, "groups", "cp_groups"),
    _cp(GET, "groups/{name}", "cp_group"),
    _cp(POST, "groups/{name}/remove", "cp_group_remove"),
    _cp(GET, "groups/{name}/sessions", "cp_sessions"),
    _cp(POST, "groups/{name}/sessions/{id}/remove", "cp_session_remove"),
    _cp(GET, "members", "cp_members"),
    _cp(POST, "members", "cp_promote"),
    _cp(GET, "members/local", "cp_member_local"),
    _cp(POST, "members/{uuid}/remove", "cp_member_remove"),
    _cp(POST, "reset", "cp_reset", CP),
    _cp(POST, "restart", "cp_reset", WRITE),
)


def unavailable(row: Route) -> str:
    """Return why a row without an operation cannot do its work."""
    return f"{row.path} is not available in this version"


@dataclass(frozen=True, slots=True)
class Match:
    """The rows of one path, all of them with the same pattern, and what its braces stand for."""

    rows: tuple[Route, ...]
    names: dict[str, str]

    def row(self, method: str) -> Route | None:
        """Return the row that takes the method."""
        return next((row for row in self.rows if method in row.methods), None)

    @property
    def allow(self) -> str:
        """The methods of this path as the `Allow` header lists them."""
        return ", ".join(method for row in self.rows for method in row.methods)


class RoutingTable:
    """Finds the rows of a path; the most literal pattern wins."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self._literal: dict[tuple[str, ...], tuple[Route, ...]] = {}
        self._patterns: dict[tuple[str, ...], tuple[Route, ...]] = {}
        for route in routes:
            parts = tuple(route.path.split("/")[1:])
            table = self._patterns if "{" in route.path else self._literal
            table[parts] = (*table.get(parts, ()), route)

    def match(self, parts: tuple[str, ...]) -> Match | None:
        """Return the rows for the decoded parts of a path, None when no row names it."""
        rows = self._literal.get(parts)
        if rows is not None:
            return Match(rows, {})
        for pattern, rows in self._patterns.items():
            names = _bind_pattern(pattern, parts)
            if names is not None:
                return Match(rows, names)
        return None


def _bind_pattern(pattern: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for index, piece in enumerate(pattern):
        if index >= len(parts):
            return None
        if piece.endswith("...}"):
            names[piece[1:-4]] = "/".join(parts[index:])
            return names
        if piece.startswith("{"):
            names[piece[1:-1]] = parts[index]
        elif piece != parts[index]:
            return None
    return names if len(parts) == len(pattern) else None
