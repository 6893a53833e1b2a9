"""WAN replication on one member: each answer of its calls, with publishers added by a call.

Those about synchronisations and checks are of a member whose targets do not answer.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tests.unit.member.conformance.language import (
    BAD,
    NOTHING,
    OK,
    Call,
    Role,
    Row,
    Step,
    Until,
    Want,
    ask,
    call,
    document,
    failure,
    matching,
    row,
)

WAN = "/grid/rest/wan"
REFERENCE = "answers §3 15"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
OTHER = "00000000-0000-0000-0000-000000000001"
NOT_CONFIGURED = failure(409, "wan-replication is not configured")
SYNC = matching(rf'\{{"status":"success","message":"Sync initiated","uuid":"{UUID}"\}}')
SENT_NOTHING = document('{"status":"success","message":"WAN replication queues are cleared."}')
PER_MEMBER = (
    ("clearWanQueues", "WAN replication queues are cleared."),
    ("pausePublisher", "WAN publisher paused"),
    ("stopPublisher", "WAN publisher stopped"),
    ("resumePublisher", "WAN publisher resumed"),
)


def success(message: str) -> Want:
    return document(f'{{"status":"success","message":"{message}"}}')


def refused(pattern: str) -> Want:
    return replace(matching(pattern), status=409)


def added(new: str = "", there: str = "") -> Want:
    new_ids, there_ids = (f'"{name}"' if name else "" for name in (new, there))
    return document(
        '{"status":"success","message":"WAN configuration added.",'
        f'"addedPublisherIds":[{new_ids}],"ignoredPublisherIds":[{there_ids}]}}'
    )


def publisher(name: str, realm: str = "to-london") -> bytes:
    """Return the body that adds a publisher."""
    block = {
        "publisherId": name,
        "clusterName": "london",
        "targetEndpoints": "127.0.0.1:1",
        "properties": {"realm": realm},
    }
    text = json.dumps({"name": "r", "batchPublishers": [block]})
    return b"dev&&" + text.replace("%", "%25").replace("+", "%2B").encode()


def told(name: str, *parameters: str, want: Want, method: str = "POST") -> Call:
    return call(method, f"{WAN}/{name}", want, "&".join(("dev", "", *parameters)).encode())


def status(*publishers: str) -> Want:
    listed = ",".join(
        rf'\{{"publisherId":"{each}","clusterName":"london","members":\[\{{"uuid":"{UUID}",'
        r'"state":"REPLICATING","queued":0\}\],"queued":\{"own":0,"all":0\},'
        r'"connected":false,"endpoint":"[^"]*","problem":"[^"]*","lagMillis":0,"blocked":\[\],'
        r'"needsSync":\[\],"needsSyncReason":"","job":null,"lastSyncs":\[\],"lastChecks":\[\]\}'
        for each in publishers
    )
    return matching(
        rf'\{{"status":"success","replications":\[\{{"name":"r","publishers":\[{listed}\]\}}\],'
        r'"sources":\[\]\}'
    )


UNKNOWN = (
    *("clearWanQueues", "pausePublisher", "resumePublisher", "stopPublisher"),
    *("sync/allmaps", "removeWanConfig"),
)
CALLS: tuple[Call, ...] = (
    *(told(name, "r", "london", want=NOT_CONFIGURED) for name in UNKNOWN),
    call("GET", f"{WAN}/status", NOT_CONFIGURED),
    told("addWanConfig", "", want=BAD),
    told("addWanConfig", "[1]", want=BAD),
    told("addWanConfig", '{"name":"r"}', want=BAD),
    call(
        "POST",
        f"{WAN}/addWanConfig",
        refused(
            r'\{"status":"fail","message":"nothing is added: member [^ ]+: realm none is not in '
            r'security.realms or has no identity"\}'
        ),
        publisher("london", "none"),
    ),
    call("POST", f"{WAN}/addWanConfig", added("london"), publisher("london")),
    call("PUT", f"{WAN}/addWanConfig/", added("", "london"), publisher("london")),
    call("GET", f"{WAN}/status", status("london")),
    call("GET", f"{WAN}/status/?x", status("london")),
    call("HEAD", f"{WAN}/status", status("london")),
    *(
        told(name, "r", publisher, want=success(message), method=method)
        for name, message in PER_MEMBER
        for publisher, method in (("london", "POST"), ("", "PUT"))
    ),
    *(told(name, "x", "", want=failure(404, "no wan-replication is called x")) for name in UNKNOWN),
    *(
        told(name, "r", "x", want=failure(404, "wan-replication r has no publisher x"))
        for name in UNKNOWN
    ),
    # No map is replicated, so each has ended before the next.
    told("sync/allmaps", "r", "london", want=SYNC),
    told("sync/allmaps", "r", "", want=SYNC, method="PUT"),
    *(
        told(name, "r", "", "exact", want=failure(409, "map exact has no wan-replication-ref to r"))
        for name in ("sync/map", "consistencyCheck/map")
    ),
    *(
        told(name, "r", "", "", want=failure(404, "the name of the map is empty"))
        for name in ("sync/map", "consistencyCheck/map")
    ),
    *(
        call(
            "GET",
            f"{WAN}/sync/progress/{uuid}",
            failure(404, "no synchronisation or check has this uuid"),
        )
        for uuid in (OTHER, "x")
    ),
    call("POST", f"{WAN}/addWanConfig", added("paris"), publisher("paris")),
    *(
        told(
            name,
            "r",
            "",
            want=failure(404, "wan-replication r has the publishers london, paris: name one"),
        )
        for name in UNKNOWN
    ),
    call("GET", f"{WAN}/status", status("london", "paris")),
    told("removeWanConfig", "r", "paris", want=success("WAN configuration removed.")),
    told(
        "removeWanConfig",
        "r",
        "paris",
        want=failure(404, "wan-replication r has no publisher paris"),
    ),
    call("GET", f"{WAN}/status", status("london")),
)

SENT = "/grid/rest/maps/sent"
OPERATIONS = "/grid/rest/management/cluster/operations"
PROGRESS = f"{WAN}/sync/progress/{{begun}}"
JOB_LINES = (
    "interface §WAN sync start 1; interface §WAN progress 1; interface §States 2; "
    "interface §Limits 1; answers §3 15; answers §3 18"
)
CHECK = matching(
    rf'\{{"status":"success","message":"Consistency check initiated","uuid":"{UUID}"\}}'
)
SYNCHRONISED = refused(
    r'\{"status":"fail","message":"publisher london of r is being synchronised already: '
    rf'{UUID}"\}}'
)
CHECKED = refused(
    r'\{"status":"fail","message":"a consistency check of publisher london of r is under way: '
    rf'{UUID}"\}}'
)
NOT_COMPARED = failure(409, "publisher paris of r has consistency-check-strategy NONE")
QUEUE_FULL = Want(503, headers=(("Retry-After", "1"),))
ANOTHER_CALL = refused(r'\{"status":"fail","message":"[^"]*Idempotency-Key[^"]*"\}')


def progress(stage: str) -> Want:
    return matching(
        rf'\{{"status":"success","result":\{{"stage":"{stage}","progress":0,'
        r'"wanReplicationName":"r","wanPublisherId":"london","creationTime":[0-9]+\}\}'
    )


def operations(*jobs: tuple[str, str, str]) -> Want:
    """Expect kinds, stages and errors, each as JSON has it."""
    listed = ",".join(
        rf'\{{"id":"{UUID}","kind":"{kind}","stage":"{stage}","progress":0,"error":{error},'
        r'"started":[0-9]+,"finished":(null|[0-9]+)\}'
        for kind, stage, error in jobs
    )
    return matching(rf"\[{listed}\]")


def told_once(name: str, want: Want, *parameters: str) -> Call:
    """Tell under a key, each time under the same."""
    body = "&".join(("dev", "", *parameters)).encode()
    return call("POST", f"{WAN}/{name}", want, body, Idempotency_Key="wan")


UNDER_WAY = "(STARTED|IN_PROGRESS)"
ENDED = ("wanSync", "FAILED", '"the publisher was removed"')
JOBS: tuple[Step, ...] = (
    Until(ask("POST", f"{WAN}/resumePublisher", b"dev&&r&paris"), success("WAN publisher resumed")),
    call("POST", f"{SENT}/a", OK, b"v"),
    told("consistencyCheck/map", "r", "paris", "sent", want=NOT_COMPARED),
    told("sync/map", "r", "london", "sent", want=SYNC),
    call("GET", PROGRESS, progress(UNDER_WAY)),
    call("HEAD", f"{PROGRESS}/", progress(UNDER_WAY)),
    *(
        told(name, "r", "london", *maps, want=SYNCHRONISED, method=method)
        for method in ("POST", "PUT")
        for name, maps in (
            ("sync/map", ("sent",)),
            ("sync/allmaps", ()),
            ("consistencyCheck/map", ("sent",)),
        )
    ),
    call("GET", OPERATIONS, operations(("wanSync", UNDER_WAY, "null"))),
    told("removeWanConfig", "r", "london", want=success("WAN configuration removed.")),
    call("GET", PROGRESS, progress("FAILED")),
    call("GET", OPERATIONS, operations(ENDED)),
    call("POST", f"{WAN}/addWanConfig", added("london"), publisher("london")),
    told("consistencyCheck/map/", "r", "london", "sent", want=CHECK, method="PUT"),
    call("GET", PROGRESS, progress(UNDER_WAY)),
    told("consistencyCheck/map", "r", "london", "sent", want=CHECKED),
    told("sync/map", "r", "london", "sent", want=CHECKED),
    told("sync/allmaps", "r", "london", want=CHECKED),
    call("GET", OPERATIONS, operations(ENDED, ("wanConsistencyCheck", UNDER_WAY, "null"))),
)
KEYS: tuple[Call, ...] = (
    told_once("pausePublisher", success("WAN publisher paused"), "r", "paris"),
    told("resumePublisher", "r", "paris", want=success("WAN publisher resumed")),
    told_once("pausePublisher", success("WAN publisher paused"), "r", "paris"),
    call("GET", f"{WAN}/status", matching(r'.*"publisherId":"paris".*"state":"REPLICATING".*')),
    told_once("stopPublisher", ANOTHER_CALL, "r", "paris"),
)
FULL_QUEUE: tuple[Step, ...] = (
    Until(ask("POST", f"{WAN}/clearWanQueues", b"dev&&r&london"), SENT_NOTHING),
    *(call("POST", f"{SENT}/{number}", OK, b"v") for number in range(100)),
    call("POST", f"{SENT}/more", QUEUE_FULL, b"v"),
    call("GET", f"{SENT}/more", NOTHING),
    call("POST", f"{SENT}/99", OK, b"again"),
    told("clearWanQueues", "r", "london", want=SENT_NOTHING),
    call("POST", f"{SENT}/more", OK, b"v"),
    told("clearWanQueues", "r", "london", want=SENT_NOTHING),
)

ROWS: tuple[Row, ...] = (
    row(REFERENCE, *CALLS, role=Role.CHANGED),
    # In one row, as the publisher that is added in the end has no queue that refuses writes.
    row(JOB_LINES, *FULL_QUEUE, *KEYS, *JOBS, role=Role.REPLICATED),
)
