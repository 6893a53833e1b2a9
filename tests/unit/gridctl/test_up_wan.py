"""What `gridctl up` tells a running member of WAN replication, with the real member."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.unit.gridctl.running import Up, children, until

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = [{"name": name, "enabled": True} for name in ("Data", "Wan")]


NEW_MAP = {"name": "orders", "wan": {"replication": "new"}}


def wan(*publishers: str, state: str = "Replicating") -> dict[str, Any]:
    found = [
        {
            "id": name,
            "targetCluster": name,
            "endpoints": ["127.0.0.1:1"],
            "secretName": "shown",
            "state": state,
        }
        for name in publishers
    ]
    return {
        "rest": {"endpointGroups": GROUPS},
        "maps": [{"name": "default", "wan": {"replication": "r"}}],
        "wan": [{"name": "r", "publishers": found}],
    }


def shown(up: Up) -> dict[str, str]:
    """Return the state of each publisher of the member."""
    status, body = up.call("GET", "wan/status")
    if status != 200:
        return {}
    return {
        publisher["publisherId"]: publisher["members"][0]["state"]
        for replication in json.loads(body)["replications"]
        for publisher in replication["publishers"]
    }


def ended(up: Up) -> list[tuple[str, str]]:
    """Return kind and outcome of each operation that is over."""
    return [(o["kind"], o["outcome"]) for o in up.state()["lastOperations"]]


def test_publishers_and_states_of_the_file_are_told_to_the_process_that_runs(
    up: Up, tmp_path: Path
) -> None:
    secret = tmp_path / "data" / "default" / ".secrets" / "shown"
    secret.mkdir(parents=True)
    for key, value in {"username": "lima", "password": "a-password"}.items():
        (secret / key).write_text(value, encoding="utf-8")
    up.write(**wan("london"))
    up.start()
    until(lambda: shown(up) == {"london": "REPLICATING"}, "not as in the file")
    processes = children(up.pid)

    up.write(**wan("london", "paris"))
    until(lambda: set(shown(up)) == {"london", "paris"}, "paris is not added")
    up.write(**wan("london", "paris", state="Paused"))
    until(lambda: set(shown(up).values()) == {"PAUSED"}, "not paused")
    replicated = wan("london", "paris", state="Paused")
    added = {"name": "new", "publishers": wan("rome")["wan"][0]["publishers"]}
    replicated["wan"].append(added)
    replicated["maps"].append(NEW_MAP)
    up.write(**replicated)
    until(lambda: ("ApplyLive", "Succeeded") in ended(up), "the new map is not given")
    assert up.call("POST", "maps/orders/a", b"v")[0] == 200
    assert shown(up)["rome"] == "REPLICATING"
    assert up.call("POST", "wan/resumePublisher", b"dev&&r&paris")[0] == 200
    until(lambda: shown(up)["paris"] == "PAUSED", "not paused again")
    replicated["wan"][0]["publishers"].pop(0)
    up.write(**replicated)
    until(lambda: "london" not in shown(up), "london is not removed")

    assert children(up.pid) == processes, "a member was restarted"
    over = ended(up)
    assert {kind for kind, _ in over} == {"WanPublisher", "ApplyLive", "WanState"}
    assert "Failed" not in {outcome for _, outcome in over}
    assert "a-password" not in up.text()
    assert up.stop() == 0
