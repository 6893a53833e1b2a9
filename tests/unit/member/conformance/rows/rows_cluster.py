"""State, version, shutdown, nodes, operations and usage: answers section 3."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    FULL,
    NOTHING,
    OK,
    Begin,
    End,
    Event,
    Role,
    Row,
    ask,
    call,
    closing,
    document,
    failure,
    item,
    matching,
    number,
    row,
    value,
)
from tests.unit.member.conformance.rows.rows_bad_input import HUGE, UNCHANGED
from tests.unit.member.conformance.targets import CHANGE, CLUSTER, MAP, QUEUE, STATE

VERSION = f"{CLUSTER}/version"
NODES = f"{CLUSTER}/nodes"
ADDRESS = r"127\.0\.0\.1"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PASSIVE = FULL
"""Without Retry-After: nobody knows when somebody makes the cluster active again."""
SUCCESS = document('{"status":"success"}')
CHANGE_LINES = "interface §Management 2; interface §States 1; answers §3 4"


def state(name: str, status: str = "success") -> str:
    return f'{{"status":"{status}","state":"{name}"}}'


STATES: tuple[Row, ...] = (
    row(
        CHANGE_LINES,
        *(
            step
            for sent, name in (
                (b"frozen", "frozen"),
                (b"NO_MIGRATION", "no_migration"),
                (b"Pa%73sive", "passive"),
                (b"active", "active"),
            )
            for step in (
                call("POST", CHANGE, document(state(name)), b"dev&&" + sent),
                call("POST", STATE, document(state(name)), b"dev&"),
                call("GET", "/grid/health/cluster-state", document(f'"{name.upper()}"')),
                call("PUT", f"{CHANGE}/?x", document(state(name, "fail")), b"dev&pw&" + sent),
            )
        ),
        role=Role.CHANGED,
    ),
    row(
        f"{CHANGE_LINES}; answers §2 7",
        call("POST", f"{MAP}/k", OK, b"v"),
        call("POST", QUEUE, OK, b"i"),
        call("POST", CHANGE, document(state("passive")), b"dev&&passive"),
        call("GET", "/grid/health/node-state", document('"PASSIVE"')),
        call("GET", f"{MAP}/k", value(b"v")),
        call("POST", f"{MAP}/k", PASSIVE, b"w"),
        call("PUT", f"{MAP}/k", PASSIVE, b"w"),
        call("DELETE", f"{MAP}/k", PASSIVE),
        call("DELETE", MAP, PASSIVE),
        call("POST", QUEUE, PASSIVE, b"j"),
        call("DELETE", f"{QUEUE}/0", PASSIVE),
        call("GET", f"{QUEUE}/size", number(1)),
        call("POST", CHANGE, document(state("active")), b"dev&&active"),
        call("GET", f"{MAP}/k", value(b"v")),
        call("DELETE", f"{QUEUE}/0", item(b"i")),
        call("DELETE", f"{QUEUE}/0", NOTHING),
        role=Role.CHANGED,
    ),
    *(
        row(
            CHANGE_LINES,
            call("POST", CHANGE, document(state(name)), b"dev&&" + name.encode()),
            call("POST", f"{MAP}/k", OK, b"v"),
            call("POST", QUEUE, OK, b"i"),
            call("GET", f"{MAP}/k", value(b"v")),
            call("DELETE", f"{QUEUE}/0", item(b"i")),
            call("POST", CHANGE, document(state("active")), b"dev&&active"),
            role=Role.CHANGED,
        )
        for name in ("frozen", "no_migration")
    ),
    row(
        CHANGE_LINES,
        *(
            call("POST", CHANGE, BAD, b"dev&&" + wrong)
            for wrong in (
                *(b"", b"in_transition", b"IN_TRANSITION", b"frozen+", b"%20frozen", b"frozen%0A"),
                *(b"foo", b"frozen%00", b"frozen&passive", b"%zz", b"\xff", HUGE, b"pa%C5%BF"),
            )
        ),
        *UNCHANGED,
    ),
)

VERSIONS: tuple[Row, ...] = (
    row(
        "interface §Management 5; interface §Versioning 3; interface §Version document 1; "
        "interface §Version document 2; answers §3 6",
        *(
            call(method, VERSION, document('{"status":"success","version":"0.2"}'), body)
            for method, body in (
                ("POST", b"dev&&0.2"),
                ("PUT", b"dev&pw&0.2.7"),
                ("POST", b"dev&&0%2E2-SNAPSHOT"),
            )
        ),
        *UNCHANGED,
    ),
    row(
        "interface §Management 5; answers §3 6",
        *(
            call("POST", VERSION, BAD, b"dev&&" + wrong)
            for wrong in (
                *(b"", b"abc", b"1", b"0.1&", b"0.1%0A", b"128.0", b"0.128", b"-1.0", b"%"),
                *(b"0.1%00", b"\xff", HUGE),
            )
        ),
        call(
            "POST",
            VERSION,
            failure(409, "the cluster version cannot go back from 0.2 to 0.1"),
            b"dev&&0.1",
        ),
        *(
            call(
                "POST",
                VERSION,
                failure(409, f"members of version 0.2 cannot run a cluster of version {version}"),
                b"dev&&" + version.encode(),
            )
            for version in ("0.3", "1.0", "127.127")
        ),
        *UNCHANGED,
    ),
)

MEMBERS: tuple[Row, ...] = (
    row(
        "interface §Groups 1; answers §3 9",
        *(
            call(
                method,
                NODES,
                matching(
                    r'\{"status":"success","response":'
                    rf'"\[Member \[{ADDRESS}\]:[0-9]+ - {UUID} this\]'
                    r'\\n0\.2\.0\\n[0-9]+\.[0-9]+\.[0-9]+[^"]*"\}'
                ),
                b"dev&",
            )
            for method in ("POST", "PUT")
        ),
    ),
    row(
        "answers §3 18; answers §3 17",
        call("GET", f"{CLUSTER}/operations", document("[]")),
        call("HEAD", f"{CLUSTER}/operations/?x", document("[]")),
    ),
    row(
        "answers §3 18; answers §3 17",
        call("POST", "/grid/rest/maps/exact/k", OK, b"value"),
        call("POST", "/grid/rest/queues/jobs", OK, b"12"),
        *(
            call(
                method,
                f"{CLUSTER}/usage",
                matching(
                    r'\{"structures":\[.*'
                    r'\{"kind":"map","name":"exact","entries":1,"bytes":6,'
                    r'"limits":\{"entries":null,"bytes":null\}\},.*'
                    r'\{"kind":"map","name":"lruexact","entries":0,"bytes":0,'
                    r'"limits":\{"entries":1,"bytes":null\}\},.*'
                    r'\{"kind":"queue","name":"jobs","entries":1,"bytes":2,'
                    r'"limits":\{"entries":1,"bytes":null\}\}.*\],'
                    rf'"members":\[\{{"uuid":"{UUID}","address":"{ADDRESS}:[0-9]+",'
                    r'"storeBytes":null,"freeBytes":null\}\]\}'
                ),
            )
            for method in ("GET", "HEAD")
        ),
        call("DELETE", "/grid/rest/maps/exact", OK),
        call("DELETE", "/grid/rest/queues/jobs/0", item(b"12")),
        role=Role.CHANGED,
    ),
)

SHUTDOWN: tuple[Row, ...] = (
    row(
        "interface §Management 3; answers §3 5",
        call("POST", f"{MAP}/k", OK, b"v"),
        Begin(ask("DELETE", f"{QUEUE}/60")),
        call("GET", f"{QUEUE}/size", number(0)),
        call("POST", f"{CLUSTER}/clusterShutdown", closing(SUCCESS), b"dev&", Idempotency_Key="k"),
        End(closing(NOTHING)),
        Event.STOPPED,
        role=Role.OWN,
    ),
)

ROWS: tuple[Row, ...] = (*STATES, *VERSIONS, *MEMBERS, *SHUTDOWN)
