"""The persistence actions of a healthy member, and of one without persistence: answers section 3.

Damaged data, kills and restores are in test_persistence_actions.
"""

from __future__ import annotations

from dataclasses import replace

from tests.unit.member.conformance.language import (
    NOTHING,
    OK,
    UUID,
    Call,
    Role,
    Row,
    Until,
    Want,
    ask,
    call,
    document,
    failure,
    item,
    matching,
    row,
    value,
)
from tests.unit.member.conformance.rows.rows_bad_input import UNCHANGED
from tests.unit.member.conformance.targets import CLUSTER, MAP, QUEUE

BACKUPS = ("backup", "hotBackup")
INTERRUPTS = ("backupInterrupt", "hotBackupInterrupt")
STARTS = ("partialStart", "forceStart")
START_LINES = "interface §Management 6; interface §Management 7; answers §3 7"
BACKUP_LINES = "interface §Management 8; interface §Groups 4; answers §3 8"
SUCCESS = document('{"status":"success"}')
OFF = "persistence is off: set persistence.enabled"
HEALTHY = "the store is healthy and in use"
DONE = (
    rf'\{{"id":"{UUID}","kind":"backup","stage":"FINISHED","progress":100,"error":null,'
    r'"started":[0-9]+,"finished":[0-9]+\}'
)


def action(method: str, name: str, want: Want, **headers: str) -> Call:
    """Return a call of an action, whose old names are told as such."""
    if name.startswith("hot"):
        want = Want(want.status, want.body, want.content_type, (("Deprecation", "true"),))
    if name in BACKUPS and want.status == 200:
        want = replace(want, begins=True)
    return call(method, f"{CLUSTER}/{name}", want, b"dev&", **headers)


def finished(count: int) -> Until:
    """Wait until the operations are so many backups, all of them complete."""
    return Until(ask("GET", f"{CLUSTER}/operations"), matching(rf"\[{','.join([DONE] * count)}\]"))


WITHOUT: tuple[Row, ...] = (
    row(
        BACKUP_LINES,
        *(action(m, name, failure(409, OFF)) for name in BACKUPS for m in ("POST", "PUT")),
        *(action(m, name, SUCCESS) for name in INTERRUPTS for m in ("POST", "PUT")),
        action("POST", "backup", failure(409, OFF), Idempotency_Key="off"),
        *UNCHANGED,
    ),
    row(
        START_LINES,
        call("POST", f"{MAP}/k", OK, b"v"),
        *(action(m, name, failure(200, OFF)) for name in STARTS for m in ("POST", "PUT")),
        call("POST", f"{CLUSTER}/forceStart/", failure(200, OFF), b"dev&"),
        call("POST", f"{CLUSTER}/partialStart/?x", failure(200, OFF), b"dev&"),
        call("GET", f"{MAP}/k", value(b"v")),
        *UNCHANGED,
    ),
)

WITH: tuple[Row, ...] = (
    row(
        f"{BACKUP_LINES}; answers §3 18",
        call("POST", f"{MAP}/k", OK, b"v"),
        call("POST", QUEUE, OK, b"i"),
        *(action("POST", name, SUCCESS) for name in INTERRUPTS),
        call("GET", f"{CLUSTER}/operations", document("[]")),
        *(
            step
            for count, (method, name, key) in enumerate(
                (
                    ("POST", "backup", None),
                    ("PUT", "backup", None),
                    ("POST", "hotBackup", None),
                    ("PUT", "hotBackup", None),
                    ("POST", "backup", "once"),
                ),
                1,
            )
            for step in (
                action(method, name, SUCCESS, **({"Idempotency_Key": key} if key else {})),
                finished(count),
            )
        ),
        action("POST", "backup", SUCCESS, Idempotency_Key="once"),
        *(action("PUT", name, SUCCESS) for name in INTERRUPTS),
        finished(5),
        call("GET", f"{MAP}/k", value(b"v")),
        call("DELETE", f"{QUEUE}/0", item(b"i")),
        call("DELETE", f"{QUEUE}/0", NOTHING),
        role=Role.DURABLE,
    ),
    row(
        START_LINES,
        call("POST", f"{MAP}/k", OK, b"v"),
        *(action(m, name, failure(200, HEALTHY)) for name in STARTS for m in ("POST", "PUT")),
        call("GET", f"{MAP}/k", value(b"v")),
        call("GET", "/grid/health/ready", OK),
        role=Role.DURABLE,
    ),
)

ROWS: tuple[Row, ...] = (*WITHOUT, *WITH)
