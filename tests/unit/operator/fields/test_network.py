"""Listeners, endpoint groups, the configuration file and the log, in a member that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.gridctl.running import until

if TYPE_CHECKING:
    from tests.unit.operator.fields.pods import RunningPod

GROUPS = ("ClusterRead", "ClusterWrite", "HealthCheck", "Persistence", "Wan", "Data", "Cp")
FORBIDDEN = 403
PROBES: dict[str, tuple[str, bytes | None]] = {
    "ClusterRead": ("rest/cluster", None),
    "ClusterWrite": ("rest/management/cluster/changeState", b"dev&&active"),
    "HealthCheck": ("health/ready", None),
    "Persistence": ("rest/management/cluster/backup", b"dev&"),
    "Wan": ("rest/wan/clearWanQueues", b"dev&&a&b"),
    "Data": ("rest/maps/default/a", None),
    "Cp": ("rest/cp-subsystem/reset", b"dev&"),
}
"""A path that only its group turns on, and the body for it."""
MAP = {"name": "default"}


def answering(pod: RunningPod) -> set[str]:
    """Return the endpoint groups that are on at the REST port."""
    answers = {name: pod.call(path, body)[0] for name, (path, body) in PROBES.items()}
    assert 0 not in answers.values(), answers
    return {name for name, status in answers.items() if status != FORBIDDEN}


@pytest.mark.parametrize("spec", [{"port": 5777}, {}], ids=["named", "default"])
def test_the_rest_port_is_where_the_member_answers(pod: RunningPod, spec: dict[str, Any]) -> None:
    pod.start({"rest": spec})

    answers = {port: pod.call("health/ready", port=port)[0] for port in (5701, 5777)}

    wanted = spec.get("port", 5701)
    assert answers == {port: 200 if port == wanted else 0 for port in answers}


@pytest.mark.parametrize("name", GROUPS)
def test_an_endpoint_group_is_on_or_off_by_itself(pod: RunningPod, name: str) -> None:
    default = {"ClusterRead", "HealthCheck"}
    turned = name == "HealthCheck" or name not in default

    pod.start({"rest": {"endpointGroups": [{"name": name, "enabled": turned}]}})

    assert answering(pod) == (default | {name} if turned else default - {name})


def test_the_advanced_network_has_its_own_port_and_the_same_groups(pod: RunningPod) -> None:
    groups = [{"name": "Data", "enabled": True}]

    pod.start(
        {
            "advancedNetwork": {"enabled": True, "restPort": 5778},
            "rest": {"endpointGroups": groups},
            "maps": [{"name": "default"}],
        }
    )

    assert pod.call("health/ready", port=5778)[0] == 200
    assert pod.call("rest/maps/default/a", port=5778)[0] == 204
    assert pod.call("health/ready", port=5701)[0] == 0
    text = next(pod.directory.rglob("grid.yaml")).read_text(encoding="utf-8")
    assert "advanced-network:" in text
    assert "\n  network:" not in text


@pytest.mark.parametrize(
    ("metrics", "port"), [({}, 5703), ({"port": 5779}, 5779), ({"enabled": False}, None)]
)
@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
def test_metrics_are_read_at_their_port_or_nowhere(
    pod: RunningPod, metrics: dict[str, Any], port: int | None, file_format: str
) -> None:
    pod.start({"configFormat": file_format, "metrics": metrics})

    urls = {port: f"http://{pod.address}:{port}/metrics" for port in (5703, 5779)}
    answers = {port: pod.fetch(url) for port, url in urls.items()}

    wanted = {found: 200 if found == port else 0 for found in urls}
    assert {found: status for found, (status, _) in answers.items()} == wanted
    assert all(b"grid_ready 1.0" in body for status, body in answers.values() if status)


@pytest.mark.parametrize(("file_format", "start"), [("Yaml", "grid:"), ("Xml", "<")])
def test_the_member_runs_on_a_file_of_the_format(
    pod: RunningPod, file_format: str, start: str
) -> None:
    pod.start({"configFormat": file_format, "clusterName": "orders"})

    assert pod.process is not None
    arguments = Path(f"/proc/{pod.process.pid}/cmdline").read_bytes().split(b"\0")
    (file,) = (Path(a.decode()) for a in arguments if a.endswith((b".yaml", b".xml")))
    assert file.suffix == f".{file_format.lower()}"
    assert file.read_text(encoding="utf-8").startswith(start)
    assert pod.manage("state", "orders&")["status"] == "success"


def test_the_cluster_name_is_what_callers_give(pod: RunningPod) -> None:
    pod.start({"clusterName": "orders"})

    assert pod.manage("state", "orders&", 5701) == {"status": "success", "state": "active"}
    assert pod.manage("state", "dev&", 5701)["status"] == "fail"


def test_the_log_is_of_the_format_and_level(pod: RunningPod) -> None:
    pod.start({"logging": {"format": "Json", "level": "Debug"}})

    def levels() -> set[str]:
        return {json.loads(line)["level"] for line in pod.text().rpartition("\n")[0].splitlines()}

    until(lambda: {"debug", "info"} <= levels(), "not logged")

    pod.start({"logging": {"format": "Text", "level": "Info"}})
    until(lambda: "ready" in pod.text(), "not logged")
    text = pod.text()
    assert "debug" not in text.lower()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.splitlines()[0])

    pod.start({"logging": {"level": "Error"}})
    assert pod.text() == ""


def test_a_member_that_is_told_to_stop_drains(pod: RunningPod) -> None:
    data = [{"name": "Data", "enabled": True}]
    pod.start({"shutdown": {"drainSeconds": 60}, "rest": {"endpointGroups": data}, "maps": [MAP]})

    assert pod.process is not None
    pod.process.terminate()
    until(lambda: not pod.is_ready(), "still ready")
    assert pod.call("rest/maps/default/key", b"value")[0] == 200
    pod.process.terminate()
    assert pod.process.wait(60) == 0


def test_a_variable_of_the_spec_is_the_processes(pod: RunningPod) -> None:
    pod.start({"pod": {"env": [{"name": "TEAM", "value": "orders & co"}]}})

    assert pod.process is not None
    variables = Path(f"/proc/{pod.process.pid}/environ").read_bytes().split(b"\0")
    assert b"TEAM=orders & co" in variables
