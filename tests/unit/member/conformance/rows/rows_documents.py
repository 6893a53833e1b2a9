"""Documents, health, management, groups and credentials: answers sections 1, 3, 4 and 5."""

from __future__ import annotations

from tests.unit.member.conformance.language import (
    BAD,
    JSON,
    MISSING,
    NOTHING,
    OK,
    Event,
    Role,
    Row,
    Security,
    Want,
    call,
    closing,
    disabled,
    document,
    failure,
    matching,
    not_allowed,
    number,
    row,
    value,
)
from tests.unit.member.conformance.targets import CLUSTER, STATE

HEALTH = "/grid/health"
SHUTDOWN = f"{CLUSTER}/memberShutdown"
ACTIVE = document('{"status":"success","state":"active"}')
VERSION = document('{"status":"success","version":"0.2"}')
INSTANCE = document('{"name":"tester"}')
WHOLE = (
    '{"nodeState":"ACTIVE","clusterState":"ACTIVE","clusterSafe":true,'
    '"migrationQueueSize":0,"clusterSize":1}'
)
MEMBERS = matching(
    r'\{"members":\[\{"address":"127\.0\.0\.1:[0-9]+","liteMember":false,"localMember":true,'
    r'"uuid":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}","memberVersion":"0\.2\.0"\}\],'
    r'"connectionCount":[0-9]+,"allConnectionCount":[0-9]+\}'
)
UNAUTHENTICATED = failure(403, "unauthenticated")
CP = "cp-subsystem is not configured"
BASIC = "Basic b3A6czNjcmV0"
CHALLENGE = Want(401, headers=(("WWW-Authenticate", 'Basic realm="ops", charset="UTF-8"'),))

HEALTH_ROWS: tuple[Row, ...] = (
    row(
        "interface §Information 3; interface §States 3; answers §1 9; answers §1 13",
        call("GET", f"{HEALTH}/ready", OK),
        call("GET", f"{HEALTH}/ready/", OK),
        call("GET", f"{HEALTH}/ready?x=1", OK),
        call("HEAD", f"{HEALTH}/ready", not_allowed("GET")),
        call("POST", f"{HEALTH}/ready", not_allowed("GET"), b""),
        call("DELETE", f"{HEALTH}/ready", not_allowed("GET")),
    ),
    row(
        "answers §3 10; answers §1 9",
        call("GET", HEALTH, document(WHOLE)),
        call("GET", f"{HEALTH}/", document(WHOLE)),
        *(
            call(
                "HEAD",
                path,
                Want(
                    200,
                    WHOLE.encode(),
                    JSON,
                    (
                        ("Grid-NodeState", "ACTIVE"),
                        ("Grid-ClusterState", "ACTIVE"),
                        ("Grid-MigrationQueueSize", "0"),
                        ("Grid-ClusterSize", "1"),
                    ),
                ),
            )
            for path in (HEALTH, f"{HEALTH}/?x")
        ),
    ),
    *(
        row(
            "interface §Groups 3; answers §3 10",
            call("GET", f"{HEALTH}/{check}", want),
            call("GET", f"{HEALTH}/{check}/", want),
            call("HEAD", f"{HEALTH}/{check}", want),
        )
        for check, want in (
            ("node-state", document('"ACTIVE"')),
            ("cluster-state", document('"ACTIVE"')),
            ("cluster-safe", OK),
            ("migration-queue-size", document("0")),
            ("cluster-size", document("1")),
        )
    ),
    *(
        row(
            "answers §3 10",
            call("GET", f"{HEALTH}/{check}", BAD),
            call("HEAD", f"{HEALTH}/{check}", BAD),
        )
        for check in ("other", "Ready", "ready/now", "/ready", "%00", "cluster_safe")
    ),
    row(
        "interface §Groups 3; interface §Groups 1",
        call("GET", f"{HEALTH}/ready", OK),
        call("GET", "/grid/rest/instance", INSTANCE),
        call("GET", "/grid/rest/maps/{map}/k", disabled("DATA")),
        role=Role.DEFAULTS,
    ),
)

INFORMATION: tuple[Row, ...] = (
    row(
        "interface §Information 1; interface §Cluster document 1; interface §Cluster document 2; "
        "interface §Cluster document 3; interface §Cluster document 4; "
        "interface §Cluster document 5; interface §Cluster document 6; "
        "interface §Cluster document 7; interface §Cluster document 8; "
        "answers §3 1; answers §3 2; answers §3 3",
        call("GET", "/grid/rest/cluster", MEMBERS),
        call("GET", "/grid/rest/cluster/?x", MEMBERS),
        call("HEAD", "/grid/rest/cluster", MEMBERS),
    ),
    row(
        "interface §Information 2; interface §Instance document 1; answers §1 13",
        call("GET", "/grid/rest/instance", INSTANCE),
        call("GET", "/grid/rest/instance/", INSTANCE),
        call("HEAD", "/grid/rest/instance", INSTANCE),
        call("GET", "/grid/rest/instance?%zz=%ff&", INSTANCE),
    ),
    row(
        "interface §Management 4; interface §Version document 1; interface §Version document 2; "
        "interface §Versioning 3; answers §3 2",
        call("GET", f"{CLUSTER}/version", VERSION),
        call("GET", f"{CLUSTER}/version/", VERSION),
        call("HEAD", f"{CLUSTER}/version", VERSION),
    ),
)

MANAGEMENT: tuple[Row, ...] = (
    row(
        "interface §Management 1; interface §Authentication 4; interface §Authentication 5; "
        "answers §3 4; answers §4 2",
        call("POST", STATE, ACTIVE, b"dev&"),
        call("POST", STATE, ACTIVE, b"dev&any"),
        call("PUT", f"{STATE}/?x", ACTIVE, b"d%65v&%2526"),
        call("POST", STATE, ACTIVE, b"dev&", Content_Type="text/plain"),
    ),
    row(
        "interface §Management 1; interface §Authentication 5; answers §4 1; answers §4 2",
        call("POST", STATE, ACTIVE, b"dev&a&b&c"),
        security=Security.OFF,
    ),
    row(
        "answers §1 7; answers §4 1",
        call("POST", STATE, BAD),
        call("POST", STATE, BAD, b""),
        call("POST", STATE, BAD, b"dev"),
        call("POST", STATE, BAD, b"other"),
        call("POST", STATE, BAD, b"%zz&"),
        call("POST", STATE, BAD, b"dev&%ff"),
        call("POST", STATE, BAD, b"\xff&"),
    ),
    *(
        row("answers §1 7; answers §4 1; answers §4 2", call("POST", STATE, UNAUTHENTICATED, body))
        for body in (
            *(b"other&", b"Dev&", b"&", b"&dev", b" dev&", b"dev+&", b"dev\n&", b"dev%00&"),
            *(b"%2564ev&", b"dev%26&", b"de&v"),
        )
    ),
    row("answers §1 4", call("GET", STATE, not_allowed("POST, PUT"))),
    row(
        "interface §Groups 2; answers §3 5; answers §1 7",
        call("POST", SHUTDOWN, BAD, b"dev"),
        call("POST", SHUTDOWN, UNAUTHENTICATED, b"other&"),
        call("GET", SHUTDOWN, not_allowed("POST, PUT")),
        call("GET", f"{HEALTH}/ready", OK),
        call("POST", SHUTDOWN, closing(document('{"status":"success"}')), b"dev&"),
        Event.STOPPED,
        role=Role.OWN,
    ),
)

GROUPS: tuple[Row, ...] = (
    row(
        "answers §1 3; interface §Groups 2",
        *(
            call(method, path, disabled("CLUSTER_WRITE"), body)
            for method, path, body in (
                ("GET", "/grid/", None),
                ("GET", "/grid", None),
                ("GET", "/grid/nothing", None),
                ("HEAD", "/grid/rest/nothing", None),
                ("POST", "/grid/rest/clusterX", b"v"),
                ("DELETE", "/grid/rest/queues/{queue}/1/2", None),
                ("PATCH", "/grid/1", None),
                ("GET", "/grid//health", None),
                ("GET", "/grid/rest/../health", None),
                ("GET", "/grid/Health", None),
                ("GET", "/%67rid/x", None),
            )
        ),
        role=Role.DEFAULTS,
    ),
    row(
        "answers §1 3",
        *(
            call(method, path, MISSING, body)
            for method, path, body in (
                ("GET", "/grid/", None),
                ("GET", "/grid", None),
                ("HEAD", "/grid/rest/nothing", None),
                ("POST", "/grid/rest/clusterX", b"v"),
                ("DELETE", "/grid/rest/queues/{queue}/1/2", None),
                ("GET", "/grid/rest/../health", None),
                ("GET", "/grid/./health", None),
                ("GET", "/grid//health", None),
                ("GET", "/grid/health%2Fready", None),
                ("GET", "/grid/rest/cp-subsystem", None),
                ("POST", "/grid/rest/wan/sync/allMaps", b"dev&"),
            )
        ),
    ),
    *(
        row(
            "answers §1 3; interface §Versioning 2",
            *(
                call(method, path, MISSING)
                for method, path in (
                    ("GET", "/"),
                    ("GET", "//"),
                    ("GET", "//grid/health"),
                    ("HEAD", "/other"),
                    ("DELETE", "/Grid/health"),
                    ("GET", "/gridx/health"),
                    ("GET", "/grid%2Fhealth"),
                    ("GET", "/v1/grid/health"),
                    ("OPTIONS", "*"),
                )
            ),
            role=role,
        )
        for role in (Role.OPEN, Role.DEFAULTS)
    ),
    row(
        "interface §What 3; answers §1 2",
        call("GET", "/grid/health/ready", disabled("HEALTH_CHECK")),
        call("GET", "/grid/rest/cluster", disabled("CLUSTER_READ")),
        call("HEAD", "/grid/rest/cluster", disabled("CLUSTER_READ")),
        call("PATCH", "/grid/rest/cluster", disabled("CLUSTER_READ")),
        call("POST", STATE, disabled("CLUSTER_READ"), b"%zz"),
        call("GET", "/grid/rest/maps/{map}/k", MISSING),
        role=Role.STRICT,
    ),
    row(
        "answers §1 2; answers §1 4",
        # One path, two groups by method: each follows its own, what neither takes is 405.
        call("GET", f"{CLUSTER}/version", VERSION),
        call("POST", f"{CLUSTER}/version", disabled("CLUSTER_WRITE"), b"dev&&1.0"),
        call("PATCH", f"{CLUSTER}/version", not_allowed("GET, HEAD, POST, PUT")),
        call("DELETE", "/grid/rest/log-level", disabled("CLUSTER_WRITE")),
        role=Role.DEFAULTS,
    ),
    *(
        row(
            "answers §3 16; interface §Groups 7; interface §Groups 2",
            call("GET", "/grid/rest/cp-subsystem/groups", failure(409, CP)),
            call("POST", "/grid/rest/cp-subsystem/members", failure(409, CP), b"dev&"),
            call("POST", f"/grid/rest/cp-subsystem/{mine}", failure(409, CP), b"dev&"),
            call("POST", f"/grid/rest/cp-subsystem/{other}", disabled(group), b"dev&"),
            role=role,
        )
        for role, mine, other, group in (
            (Role.STRICT, "reset", "restart", "CLUSTER_WRITE"),
            (Role.WRITER, "restart", "reset", "CP"),
        )
    ),
)

MANAGED: tuple[Row, ...] = (
    row(
        "answers §5 2",
        *(
            call("GET", path, CHALLENGE, None, **headers)
            for path in (
                "/grid/rest/cluster",
                HEALTH,
                "/grid/nothing",
                "/other",
                "/grid/rest/maps/m/k",
            )
            for headers in (
                {},
                {"Authorization": "Basic b3A6eA=="},
                {"Authorization": "Bearer x"},
                {"Authorization": "Basic %%"},
                {"Authorization": "Basic"},
            )
        ),
        call("GET", f"{HEALTH}/ready", OK),
        call("GET", f"{HEALTH}/node-state", document('"ACTIVE"')),
        call("HEAD", "/grid/rest/cluster", CHALLENGE),
        role=Role.MANAGED,
    ),
    row(
        "answers §5 2; answers §4 3",
        call("GET", "/grid/rest/instance", INSTANCE, None, Authorization=BASIC),
        call(
            "GET", "/grid/rest/instance", INSTANCE, None, authorization=BASIC.replace("B", "b", 1)
        ),
        call("POST", STATE, ACTIVE, b"&", Authorization=BASIC),
        call("POST", STATE, ACTIVE, b"dev&", Authorization=BASIC),
        call("POST", STATE, UNAUTHENTICATED, b"other&", Authorization=BASIC),
        call("POST", STATE, BAD, b"", Authorization=BASIC),
        call("POST", "/grid/rest/maps/{map}/k", OK, b"v", Authorization=BASIC),
        call("GET", "/grid/rest/maps/{map}/k", value(b"v"), None, Authorization=BASIC),
        call("DELETE", "/grid/rest/queues/{queue}/0", NOTHING, None, Authorization=BASIC),
        call("GET", "/grid/nothing", MISSING, None, Authorization=BASIC),
        call("GET", "/grid/rest/queues/{queue}/size", number(0), None, Authorization=BASIC),
        role=Role.MANAGED,
    ),
    row(
        "answers §5 2; answers §4 3",
        *(
            call("POST", f"{CLUSTER}/changeState", *asked)
            for asked in ((CHALLENGE, b"dev&&frozen"), (CHALLENGE, b"op&s3cret&frozen"))
        ),
        call("POST", f"{CLUSTER}/changeState", BAD, b"frozen", Authorization=BASIC),
        call("POST", f"{CLUSTER}/changeState", BAD, b"&frozen", Authorization=BASIC),
        call("POST", f"{CLUSTER}/changeState", UNAUTHENTICATED, b"x&&frozen", Authorization=BASIC),
        call("POST", STATE, ACTIVE, b"&", Authorization=BASIC),
        call(
            "POST",
            f"{CLUSTER}/changeState",
            document('{"status":"fail","state":"active"}'),
            b"&&active",
            Authorization=BASIC,
        ),
        call("GET", f"{CLUSTER}/operations", document("[]"), None, Authorization=BASIC),
        call("GET", "/grid/rest/cp-subsystem/groups", CHALLENGE),
        role=Role.MANAGED,
    ),
    row(
        "interface §Authentication 1; interface §Authentication 2; interface §Authentication 7",
        call("GET", "/grid/rest/instance", INSTANCE, None, Authorization="Basic b3A6eA=="),
        call("POST", "/grid/rest/maps/{map}/k", OK, b"v", Cookie="a=b"),
    ),
)

ROWS: tuple[Row, ...] = (*HEALTH_ROWS, *INFORMATION, *MANAGEMENT, *GROUPS, *MANAGED)
