"""WAN replication on one member: each answer of its calls, with publishers added by a call."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.unit.member.conformance.language import (
    BAD,
    Call,
    Role,
    Row,
    Want,
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

ROWS: tuple[Row, ...] = (row(REFERENCE, *CALLS, role=Role.CHANGED),)
