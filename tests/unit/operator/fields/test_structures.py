"""Maps and queues of a spec, in a member that runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.management.structures import ConfiguredStructures
from grid_member.config.load import parse_config
from grid_operator.render.configuration.tree import configuration_file
from tests.unit.gridctl.running import until
from tests.unit.operator.api.clusters import CONTEXT, make_cluster
from tests.unit.operator.render.configuration.test_member_configuration import ENVIRONMENT

if TYPE_CHECKING:
    from grid_member.engine.api import MapSettings, QueueSettings
    from tests.unit.operator.fields.pods import RunningPod

DATA: dict[str, Any] = {"rest": {"endpointGroups": [{"name": "Data", "enabled": True}]}}
LARGE = b"x" * (400 << 10)
"""Three of these are more than a megabyte, two are less."""


def with_maps(*maps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**DATA, "maps": list(maps), **more}


def evicting(policy: str, size: int, counted: str = "PerNode") -> dict[str, Any]:
    eviction = {"policy": policy, "size": size, "maxSizePolicy": counted}
    return with_maps({"name": "default", "eviction": eviction})


def offer(pod: RunningPod, queue: str, body: bytes = b"x") -> int:
    return pod.call(f"rest/queues/{queue}", body)[0]


@pytest.mark.parametrize("field", ["timeToLiveSeconds", "maxIdleSeconds"])
def test_an_entry_goes_when_its_time_is_over(pod: RunningPod, field: str) -> None:
    pod.start(with_maps({"name": "default"}, {"name": "short-*", field: 1}))
    for name in ("other", "short-lived"):
        pod.put("a", structure=name)
    assert size_of(pod, "other") == 1

    # Asked through the size: a read of the entry would begin its idle time anew.
    until(lambda: size_of(pod, "short-lived") == 0, "the entry stays")

    assert pod.get("a", "short-lived") is None
    assert pod.get("a", "other") == b"x"


def size_of(pod: RunningPod, name: str) -> int:
    """Return how many entries a map holds by the member's own count."""
    user = f"{CONTEXT.management_username}:{CONTEXT.management_password}"
    status, body = pod.call("rest/management/cluster/usage", port=5702, user=user)
    assert status == 200
    rows = {(r["kind"], r["name"]): r["entries"] for r in json.loads(body)["structures"]}
    return int(rows.get(("map", name), 0))


def test_idle_is_not_old(pod: RunningPod) -> None:
    pod.start(
        with_maps({"name": "idle", "maxIdleSeconds": 4}, {"name": "old", "timeToLiveSeconds": 4})
    )
    pod.put("a", structure="old")
    pod.put("a", structure="idle")

    def is_gone() -> bool:
        assert pod.get("a", "idle") == b"x", "it is read all the time"
        return pod.get("a", "old") is None

    until(is_gone, "the old entry stays")


@pytest.mark.parametrize(("policy", "gone"), [("Lru", "a"), ("Lfu", "b")])
def test_what_goes_first_is_as_the_policy_says(pod: RunningPod, policy: str, gone: str) -> None:
    pod.start(evicting(policy, 2))
    pod.put("a")
    pod.put("b")
    for key in ("a", "a", "a", "b"):
        assert pod.get(key) == b"x"

    pod.put("c")

    assert [key for key in "abc" if pod.get(key) is None] == [gone]


@pytest.mark.parametrize("policy", ["Random", "None"])
def test_no_more_than_the_size_stays_with_any_policy_but_none(pod: RunningPod, policy: str) -> None:
    pod.start(evicting(policy, 0 if policy == "None" else 3))
    keys = [f"k{number}" for number in range(9)]

    for key in keys:
        pod.put(key)

    kept = [key for key in keys if pod.get(key) is not None]
    assert len(kept) == (9 if policy == "None" else 3)


def test_the_size_counts_megabytes_or_entries(pod: RunningPod) -> None:
    pod.start(evicting("Lru", 1, "UsedHeapSize"))
    for key in "ab":
        pod.put(key, LARGE)
    assert [key for key in "ab" if pod.get(key)] == ["a", "b"]
    pod.put("c", LARGE)
    assert pod.get("a") is None
    assert pod.get("c") == LARGE

    pod.start(evicting("Lru", 1, "PerNode"))
    for key in "ab":
        pod.put(key)
    assert pod.get("a") is None


def test_a_queue_holds_no_more_than_its_size(pod: RunningPod) -> None:
    queues = [{"name": "small-*", "maxSize": 2}, {"name": "default"}]
    pod.start({**DATA, "queues": queues})

    assert [offer(pod, "small-one") for _ in range(3)] == [200, 200, 503]
    assert [offer(pod, "other") for _ in range(3)] == [200, 200, 200]


def test_each_map_and_queue_is_written_to_disk_or_not(pod: RunningPod) -> None:
    in_memory = {"dataPersistence": {"enabled": False}}
    spec = {
        **DATA,
        "persistence": {"enabled": True},
        "maps": [{"name": "kept"}, {"name": "lost", **in_memory}],
        "queues": [{"name": "kept"}, {"name": "lost", **in_memory}],
    }
    pod.start(spec)
    for name in ("kept", "lost"):
        pod.put("a", structure=name)
        assert offer(pod, name) == 200

    pod.start(spec)

    assert (pod.get("a", "kept"), pod.get("a", "lost")) == (b"x", None)
    sizes = [pod.call(f"rest/queues/{name}/size")[1] for name in ("kept", "lost")]
    assert sizes == [b"1", b"0"]


@pytest.mark.parametrize("file_format", ["Yaml", "Xml"])
def test_the_engine_is_told_whether_a_write_survives_a_power_loss(file_format: str) -> None:
    unsynced = [{"name": "a", "dataPersistence": {"fsync": False}}, {"name": "b"}]
    cluster = make_cluster(
        {
            "configFormat": file_format,
            "persistence": {"enabled": True},
            "maps": unsynced,
            "queues": unsynced,
        }
    )
    name, text = configuration_file(cluster)
    told = ConfiguredStructures(parse_config(text, name, ENVIRONMENT))

    assert _synced(told.map_settings("a"), told.map_settings("b")) == [False, True]
    assert _synced(told.queue_settings("a"), told.queue_settings("b")) == [False, True]


def _synced(*settings: MapSettings | QueueSettings | None) -> list[bool]:
    return [one.fsync for one in settings if one is not None]
