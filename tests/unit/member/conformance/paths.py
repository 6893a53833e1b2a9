"""Every path of the interface, copied from the specification by hand, and the rows they make."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.member.conformance.language import (
    Role,
    Row,
    call,
    disabled,
    failure,
    not_allowed,
    row,
)
from tests.unit.member.conformance.targets import CLUSTER

WAN = "wan-replication is not configured"
WAN_ROOT = "/grid/rest/wan"
CP_ROOT = "/grid/rest/cp-subsystem"


@dataclass(frozen=True, slots=True)
class Path:
    """One path with one set of methods."""

    reference: str
    methods: str
    path: str
    groups: tuple[str, ...]
    """As the 403 names them: the first is the one shown."""
    parameters: int = 0
    missing: str = ""
    """What the 409 of a path says whose feature is not there."""


def here(reference: str, methods: str, path: str, group: str, parameters: int = 0) -> Path:
    return Path(reference, methods, path, (group,), parameters)


def later(reference: str, methods: str, path: str, group: str, parameters: int = 0) -> Path:
    missing = f"{path} is not available in this version"
    return Path(reference, methods, path, (group,), parameters, missing)


def wan(reference: str, name: str, parameters: int) -> Path:
    path = f"{WAN_ROOT}/{name}"
    return Path(
        f"{reference}; interface §Groups 5; answers §3 15",
        "POST PUT",
        path,
        ("WAN",),
        parameters,
        WAN,
    )


def cp(methods: str, name: str, parameters: int = 0, *groups: str) -> Path:
    reference = "interface §Groups 7; interface §Groups 2; answers §3 16"
    both = groups or ("CLUSTER_WRITE", "CP")
    return Path(reference, methods, f"{CP_ROOT}/{name}", both, parameters)


READ, WRITE, HEALTH, STORE = "CLUSTER_READ", "CLUSTER_WRITE", "HEALTH_CHECK", "PERSISTENCE"
DATA_LINE = "interface §Groups 6"
READ_LINE, WRITE_LINE = "interface §Groups 1", "interface §Groups 2"
HEALTH_LINE, STORE_LINE = "interface §Groups 3", "interface §Groups 4"

PATHS: tuple[Path, ...] = (
    here(DATA_LINE, "POST PUT", "/grid/rest/maps/{name}/{key...}", "DATA"),
    here(DATA_LINE, "GET HEAD", "/grid/rest/maps/{name}/{key...}", "DATA"),
    here(DATA_LINE, "DELETE", "/grid/rest/maps/{name}/{key...}", "DATA"),
    here(DATA_LINE, "DELETE", "/grid/rest/maps/{name}", "DATA"),
    here(DATA_LINE, "GET HEAD POST PUT DELETE", "/grid/rest/maps", "DATA"),
    here(DATA_LINE, "GET HEAD POST PUT DELETE", "/grid/rest/queues", "DATA"),
    here(f"{DATA_LINE}; answers §3 17", "POST PUT", "/grid/rest/queues/{name}", "DATA"),
    here(DATA_LINE, "GET HEAD", "/grid/rest/queues/{name}/size", "DATA"),
    here(DATA_LINE, "DELETE", "/grid/rest/queues/{name}/{seconds}", "DATA"),
    here(HEALTH_LINE, "GET", "/grid/health/ready", HEALTH),
    here(HEALTH_LINE, "GET HEAD", "/grid/health/node-state", HEALTH),
    here(HEALTH_LINE, "GET HEAD", "/grid/health/cluster-state", HEALTH),
    here(HEALTH_LINE, "GET HEAD", "/grid/health/cluster-safe", HEALTH),
    here(HEALTH_LINE, "GET HEAD", "/grid/health/migration-queue-size", HEALTH),
    here(HEALTH_LINE, "GET HEAD", "/grid/health/cluster-size", HEALTH),
    here(f"{HEALTH_LINE}; answers §3 17", "GET HEAD", "/grid/health", HEALTH),
    here("answers §3 10", "GET HEAD", "/grid/health/{check...}", HEALTH),
    here(READ_LINE, "GET HEAD", "/grid/rest/cluster", READ),
    here(READ_LINE, "GET HEAD", "/grid/rest/instance", READ),
    here(READ_LINE, "GET HEAD", f"{CLUSTER}/version", READ),
    here(READ_LINE, "POST PUT", f"{CLUSTER}/state", READ, 2),
    here(WRITE_LINE, "POST PUT", f"{CLUSTER}/memberShutdown", WRITE, 2),
    here("interface §Groups 1; answers §3 9", "POST PUT", f"{CLUSTER}/nodes", READ, 2),
    here("interface §Management 2; answers §3 4", "POST PUT", f"{CLUSTER}/changeState", WRITE, 3),
    here(
        "interface §Management 3; answers §3 5", "POST PUT", f"{CLUSTER}/clusterShutdown", WRITE, 2
    ),
    here("interface §Management 5; answers §3 6", "POST PUT", f"{CLUSTER}/version", WRITE, 3),
    here("interface §Management 6; answers §3 7", "POST PUT", f"{CLUSTER}/partialStart", STORE, 2),
    here("interface §Management 7; answers §3 7", "POST PUT", f"{CLUSTER}/forceStart", STORE, 2),
    here("interface §Management 8; answers §3 8", "POST PUT", f"{CLUSTER}/backup", STORE, 2),
    here("answers §3 8", "POST PUT", f"{CLUSTER}/backupInterrupt", STORE, 2),
    here("interface §Groups 4; answers §3 8", "POST PUT", f"{CLUSTER}/hotBackup", STORE, 2),
    here(
        "interface §Groups 4; answers §3 8", "POST PUT", f"{CLUSTER}/hotBackupInterrupt", STORE, 2
    ),
    here("answers §3 18", "GET HEAD", f"{CLUSTER}/operations", READ),
    here("answers §3 18", "GET HEAD", f"{CLUSTER}/usage", READ),
    here("answers §3 17", "GET HEAD", "/grid/rest/openapi.json", READ),
    here("interface §Groups 1; answers §3 11", "GET HEAD", "/grid/rest/license", READ),
    here("interface §Groups 2; answers §3 11", "POST PUT", "/grid/rest/license", WRITE, 3),
    here("interface §Groups 1; answers §3 12", "GET HEAD", "/grid/rest/log-level", READ),
    here("interface §Groups 2; answers §3 12", "POST PUT", "/grid/rest/log-level", WRITE, 3),
    here("interface §Groups 2; answers §3 12", "DELETE", "/grid/rest/log-level", WRITE, 2),
    here("answers §3 12", "POST PUT", "/grid/rest/log-level/reset", WRITE, 2),
    here("interface §Groups 2; answers §3 13", "POST PUT", "/grid/rest/config/reload", WRITE, 2),
    here("interface §Groups 2; answers §3 13", "POST PUT", "/grid/rest/config/upload", WRITE, 3),
    here("answers §3 13", "POST PUT", "/grid/rest/config/update", WRITE, 3),
    here(
        "interface §Groups 1; answers §3 14",
        "GET HEAD",
        "/grid/rest/config/tcp-ip/member-list",
        READ,
    ),
    here(
        "interface §Groups 2; answers §3 14",
        "POST PUT",
        "/grid/rest/config/tcp-ip/member-list",
        WRITE,
        3,
    ),
    wan("interface §WAN 1", "clearWanQueues", 4),
    wan("interface §WAN 2", "pausePublisher", 4),
    wan("interface §WAN 3", "resumePublisher", 4),
    wan("interface §WAN 4", "stopPublisher", 4),
    wan("interface §WAN 5", "sync/map", 5),
    wan("interface §WAN 6", "sync/allmaps", 4),
    wan("interface §WAN 7", "consistencyCheck/map", 5),
    # It may be the first call about WAN replication.
    here("interface §WAN 8; interface §Groups 5", "POST PUT", f"{WAN_ROOT}/addWanConfig", "WAN", 3),
    wan("answers §3 15", "removeWanConfig", 4),
    Path("answers §3 15", "GET HEAD", f"{WAN_ROOT}/status", ("WAN",), missing=WAN),
    Path(
        "interface §WAN 9; interface §WAN progress 1; answers §3 15; answers §3 17",
        "GET HEAD",
        "/grid/rest/wan/sync/progress/{uuid}",
        ("WAN",),
        missing=WAN,
    ),
    cp("GET HEAD", "groups"),
    cp("GET HEAD", "groups/{name}"),
    cp("POST PUT", "groups/{name}/remove", 2),
    cp("GET HEAD", "groups/{name}/sessions"),
    cp("POST PUT", "groups/{name}/sessions/{id}/remove", 2),
    cp("GET HEAD", "members"),
    cp("POST PUT", "members", 2),
    cp("GET HEAD", "members/local"),
    cp("POST PUT", "members/{uuid}/remove", 2),
    cp("POST PUT", "reset", 2, "CP"),
    cp("POST PUT", "restart", 2, "CLUSTER_WRITE"),
)

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
NO_OPERATION = frozenset({"/grid/rest/maps", "/grid/rest/queues", "/grid/health/{check...}"})


def real(path: str) -> str:
    """Return the path with something in place of its braces."""
    filled = path.replace("{key...}", "k").replace("{check...}", "other").replace("{seconds}", "0")
    structure = "{queue}" if "/queues/" in path else "{map}"
    return filled.replace("{name}", structure).replace("{uuid}", "u").replace("{id}", "1")


def _body(method: str, parameters: int) -> bytes | None:
    if not parameters:
        return b"v" if method in ("POST", "PUT") else None
    return b"&".join([b"dev", b"", *[b"x"] * (parameters - 2)])


def missing_rows(path: Path) -> tuple[Row, ...]:
    """Return the rows of a path whose feature is not there."""
    if not path.missing:
        return ()
    want = failure(409, path.missing)
    where, methods, count = real(path.path), path.methods.split(), path.parameters
    reference = f"{path.reference}; answers §1 6"
    return (
        row(reference, *(call(m, where, want, _body(m, count)) for m in methods)),
        row(reference, *(call(m, f"{where}/?x", want, _body(m, count)) for m in methods)),
    )


def group_rows(path: Path) -> tuple[Row, ...]:
    """Return the rows of a path whose groups are disabled, and of the wrong methods."""
    where, methods = real(path.path), path.methods.split()
    rows: list[Row] = []
    for role, enabled in (
        (Role.DEFAULTS, {READ, HEALTH}),
        (Role.STRICT, {"DATA", "CP"}),
        (Role.WRITER, {WRITE, STORE, "WAN"}),
    ):
        if not enabled & set(path.groups):
            want = disabled(path.groups[0])
            body = _body(methods[0], path.parameters)
            calls = [call(m, where, want, body if m in ("POST", "PUT") else None) for m in methods]
            rows.append(row(f"{path.reference}; answers §1 2", *calls, role=role))
    return tuple(rows)


def allowed(path: str) -> str:
    """Return what `Allow` lists for a path."""
    return ", ".join(m for p in PATHS if p.path == path for m in p.methods.split())


def method_row(path: str) -> Row:
    """Return the row of all methods that a path does not take."""
    allow = allowed(path)
    wrong = [m for m in (*METHODS, "PATCH", "OPTIONS", "TRACE") if m not in allow.split(", ")]
    return row("answers §1 4", *(call(m, real(path), not_allowed(allow)) for m in wrong))


ROWS: tuple[Row, ...] = (
    *(r for path in PATHS for r in missing_rows(path)),
    *(r for path in PATHS for r in group_rows(path)),
    *(method_row(path) for path in dict.fromkeys(p.path for p in PATHS)),
)
