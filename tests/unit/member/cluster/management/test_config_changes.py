"""Upload and reload add maps and queues, all or nothing, and for good."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.cluster.management import config_changes
from grid_member.cluster.management.config_changes import ConfigSource, read_blocks
from grid_member.cluster.member.member import Phase
from grid_member.config import ConfigError, parse_config
from grid_member.config.model.member import MapConfig
from grid_member.engine.api import Reason, Refused
from grid_member.engine.local.usage import StructureUsage
from grid_member.http.routes.configuration import config_reload, config_upload
from tests.unit.member.cluster.managed import CONFIGURATION, Managed, content, reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grid_member.http.wire.answers import Answer

UPDATED = "Configuration Update successfully finished."
PERSISTENT = """
grid:
  network: {rest-api: {enabled: true}}
  persistence: {enabled: true, base-dir: %s}
  map: {default: {data-persistence: {enabled: false}}, kept: {}}
  queue: {default: {}}
"""


def block(section: str, name: str) -> dict[str, str]:
    return {"sectionName": section, "configName": name}


def result(answer: Answer) -> Any:
    assert answer.status == 200
    return content(answer)["result"]


XML = """<grid xmlns="urn:grid:config:1">
  <map name="m3"><time-to-live-seconds>7</time-to-live-seconds></map>
  <queue name="q3"/>
</grid>"""
YAML = "grid: {map: {m3: {time-to-live-seconds: 7}}, queue: {q3: }}"


@pytest.mark.parametrize("text", [YAML, XML])
async def test_new_blocks_are_added_at_once_and_listed(managed: Managed, text: str) -> None:
    answer = await managed.call(config_upload, text)
    assert answer.status == 200
    assert content(answer) == {
        "status": "success",
        "message": UPDATED,
        "result": {
            "addedConfigs": [block("map", "m3"), block("queue", "q3")],
            "ignoredConfigs": [],
        },
    }
    assert list(content(answer)) == ["status", "message", "result"]
    config = managed.member.config
    assert config.maps["m3"].time_to_live_s == 7
    assert list(config.queues) == ["default", "q1", "q3"]
    assert managed.extended == [config]
    stored = json.loads(managed.store.values["config/00000001"])
    assert stored == {"map": {"m3": {"time-to-live-seconds": 7}}, "queue": {"q3": {}}}


async def test_existing_blocks_are_left_as_they_are_and_listed(managed: Managed) -> None:
    text = "grid: {map: {m1: {time-to-live-seconds: 9}, m3: {}}, queue: {q1: {max-size: 1}}}"
    assert result(await managed.call(config_upload, text)) == {
        "addedConfigs": [block("map", "m3")],
        "ignoredConfigs": [block("map", "m1"), block("queue", "q1")],
    }
    assert managed.member.config.maps["m1"].time_to_live_s == 5
    assert managed.member.config.queues["q1"].max_size_items == 3


async def test_a_second_time_everything_is_ignored_and_nothing_is_written(managed: Managed) -> None:
    await managed.call(config_upload, YAML)
    before = managed.everything()
    assert result(await managed.call(config_upload, YAML)) == {
        "addedConfigs": [],
        "ignoredConfigs": [block("map", "m3"), block("queue", "q3")],
    }
    assert managed.everything() == before


async def test_other_elements_are_checked_and_change_nothing(managed: Managed) -> None:
    text = "grid: {cluster-name: other, limits: {key-bytes: 1}, map: {m3: {}}}"
    assert result(await managed.call(config_upload, text))["addedConfigs"] == [block("map", "m3")]
    assert managed.member.config.cluster_name == "dev"
    assert managed.member.config.limits.key_bytes == 8192


DOCUMENTS = {
    "all of a map": """grid: {map: {"w*": {time-to-live-seconds: 1, max-idle-seconds: 2,
        eviction: {eviction-policy: LFU, max-size-policy: USED_HEAP_SIZE, size: 3},
        backup-count: 2}}}""",
    "all of a queue": "grid: {queue: {'w*': {max-size: 4, backup-count: 0}}}",
    "default values": "grid: {map: {a: , b: {}}, queue: {'\u00e9 \U0001f600 . x': }}",
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=list(DOCUMENTS))
async def test_the_next_life_has_what_was_added(managed: Managed, text: str) -> None:
    await managed.call(config_upload, text)
    other = managed.restarted()
    other.management.config_changes.apply_stored()
    assert other.member.config == managed.member.config
    other.management.config_changes.apply_stored()
    assert len(other.extended) == 1


async def test_several_changes_are_added_in_their_order(managed: Managed) -> None:
    for number in range(11):
        await managed.call(config_upload, f"grid: {{map: {{m{number + 100}: {{}}}}}}")
    other = managed.restarted()
    other.management.config_changes.apply_stored()
    assert list(other.member.config.maps) == list(managed.member.config.maps)
    assert len(other.member.config.maps) == 13


BAD = {
    "empty": ("", "the top element must be grid:"),
    "space": (" ", "the top element must be grid:"),
    "binary": ("\0\x01\x02", ""),
    "no document": ("hello", "the top element must be grid:"),
    "broken YAML": ("grid: {map: {", ""),
    "broken XML": ("<grid", ""),
    "XML without namespace": ("<grid/>", ""),
    "entities": ('<!DOCTYPE x [<!ENTITY a "b">]><grid xmlns="urn:grid:config:1">&a;</grid>', ""),
    "aliases": ("grid: {map: {a: &a {}, b: *a}}", ""),
    "unknown element": ("grid: {map: {m3: {ttl: 1}}}", "map.m3.ttl: unknown element"),
    "wrong type": ("grid: {map: {m3: {time-to-live-seconds: x}}}", "must be an integer"),
    "one of two": ("grid: {map: {m3: {}, m4: {backup-count: 9}}}", "map.m4.backup-count"),
    "other section": ("grid: {map: {m3: {}}, network: {port: {port: -1}}}", "network.port.port"),
    "range of members": (
        "grid: {network: {join: {tcp-ip: {enabled: true, member-list: [127.0.0.1-3]}}}}",
        "network.join.tcp-ip.member-list[0]: is a range of addresses",
    ),
    "persistence": ("grid: {map: {m3: {}}, persistence: {enabled: maybe}}", "persistence.enabled"),
    "no persistence": (
        "grid: {persistence: {enabled: true}, map: {m3: {data-persistence: {enabled: true}}}}",
        "needs persistence.enabled",
    ),
    "variable": ("grid: {map: {m3: {backup-count: '${HOME}'}}}", "HOME is not set"),
    "two wildcards": ("grid: {map: {'a*': {}, '*b': {}}}", "as well"),
    "control character": ('grid: {map: {"a\\0": {}}}', ""),
    "huge": ("grid: {map: {m3: {}}}" + " " * (1 << 20), "longer than 1 MiB"),
    "huge and wrong": ("x" * 5_000_000, "longer than 1 MiB"),
    "deep": ("grid: " + "{a: " * 100 + "}" * 100, ""),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=list(BAD))
async def test_a_wrong_document_is_400_and_changes_nothing(
    managed: Managed, text: str, message: str
) -> None:
    before = managed.everything()
    answer = await managed.call(config_upload, text, keys=("k",))
    assert answer.status == 400
    assert message in reason(answer)
    assert managed.everything() == before
    assert managed.extended == []


async def test_a_new_wildcard_must_go_together_with_the_present_ones(managed: Managed) -> None:
    await managed.call(config_upload, "grid: {map: {'a*': {}}}")
    before = managed.everything()
    answer = await managed.call(config_upload, "grid: {map: {m3: {}, '*b': {}}}")
    assert answer.status == 400
    assert "map.*b: matches names that a* matches as well" in reason(answer)
    assert managed.everything() == before


async def test_a_value_of_a_wrong_document_is_told_nowhere(
    managed: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    text = "grid: {map: {m3: {time-to-live-seconds: s3cret}}, security: {enabled: s3cret}}"
    answer = await managed.call(config_upload, text)
    assert "and 1 more" in reason(answer)
    assert len(caplog.records) >= 2
    assert "s3cret" not in caplog.text + reason(answer)


async def test_a_disk_that_is_full_is_503_and_changes_nothing(managed: Managed) -> None:
    managed.store.refusal = Refused(Reason.UNAVAILABLE, "the disk is full")
    before = managed.everything()
    answer = await managed.call(config_upload, YAML)
    assert (answer.status, reason(answer)) == (503, "the disk is full")
    assert managed.everything() == before
    assert managed.extended == []


async def test_two_uploads_at_once_are_both_there(managed: Managed) -> None:
    answers = await asyncio.gather(
        managed.call(config_upload, "grid: {map: {a: {}, c: {}}}"),
        managed.call(config_upload, "grid: {map: {b: {}, c: {}}}"),
    )
    added = [entry["configName"] for answer in answers for entry in result(answer)["addedConfigs"]]
    assert sorted(added) == ["a", "b", "c"]
    assert sorted(managed.store.values) == ["config/00000001", "config/00000002"]
    assert {"a", "b", "c"} <= set(managed.member.config.maps)


async def test_the_change_and_its_outcome_are_applied_together(managed: Managed) -> None:
    first = await managed.call(config_upload, YAML, keys=("k",))
    assert managed.store.applied == [["config/00000001", "idempotency/k"]]
    again = await managed.call(config_upload, YAML, keys=("k",))
    assert again.body == first.body


async def test_added_blocks_are_bounded(managed: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "MAX_ADDED_BLOCKS", 2)
    await managed.call(config_upload, "grid: {map: {a: {}}}")
    before = managed.everything()
    answer = await managed.call(config_upload, "grid: {map: {b: {}}, queue: {c: {}}}")
    assert answer.status == 409
    assert "more than 2 blocks" in content(answer)["message"]
    assert managed.everything() == before
    assert result(await managed.call(config_upload, "grid: {map: {a: {}}}"))["addedConfigs"] == []
    assert (await managed.call(config_upload, "grid: {map: {b: {}}}")).status == 200


@pytest.mark.parametrize("operation", [config_upload, config_reload])
async def test_the_wrong_moment(
    make: Callable[..., Managed], operation: Callable[..., Any], tmp_path: Path
) -> None:
    managed = make(source=ConfigSource(tmp_path / "absent", {}))
    for phase in (Phase.STARTING, Phase.STOPPING):
        managed.member.phase = phase
        answer = await managed.call(operation, YAML)
        assert (answer.status, content(answer)["status"]) == (409, "fail")
    managed.member.phase = Phase.STARTING
    assert managed.store.values == {}


def write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(CONFIGURATION)
    return path


async def test_reload_adds_what_the_file_has_by_now(
    make: Callable[..., Managed], file: Path
) -> None:
    managed = await make(source=ConfigSource(file, {"TTL": "8"})).join()
    existing = [block("map", "default"), block("map", "m1")]
    existing += [block("queue", "default"), block("queue", "q1")]
    answer = await managed.call(config_reload)
    assert content(answer) == {
        "status": "success",
        "message": "Configuration Reload successfully finished.",
        "result": {"addedConfigs": [], "ignoredConfigs": existing},
    }
    text = CONFIGURATION.replace("default: {}, m1", "m9: {time-to-live-seconds: '${TTL}'}, m1", 1)
    write(file, text)
    assert result(await managed.call(config_reload)) == {
        "addedConfigs": [block("map", "m9")],
        "ignoredConfigs": existing[1:],
    }
    assert managed.member.config.maps["m9"].time_to_live_s == 8
    assert "default" in managed.member.config.maps
    stored = json.loads(managed.store.values["config/00000001"])
    assert stored == {"map": {"m9": {"time-to-live-seconds": 8}}}


async def test_reload_takes_overrides_from_the_environment_of_the_start(
    make: Callable[..., Managed], file: Path
) -> None:
    environment = {"GRID_MEMBER_MAP_NEW_TIMETOLIVESECONDS": "4"}
    managed = await make(source=ConfigSource(file, environment)).join()
    assert result(await managed.call(config_reload))["addedConfigs"] == [block("map", "new")]
    assert managed.member.config.maps["new"].time_to_live_s == 4


@pytest.mark.parametrize("text", ["grid: {map: {m9: {}, m10: 1}}", "", None])
async def test_a_file_that_is_wrong_by_now_is_400_and_changes_nothing(
    make: Callable[..., Managed], file: Path, text: str | None
) -> None:
    managed = await make(source=ConfigSource(file, {})).join()
    write(file, text)
    before = managed.everything()
    answer = await managed.call(config_reload)
    assert answer.status == 400
    assert reason(answer)
    assert managed.everything() == before


async def test_reload_without_a_file_is_409(managed: Managed) -> None:
    answer = await managed.call(config_reload)
    message = "the member was started without a configuration file"
    assert (answer.status, content(answer)) == (409, {"status": "fail", "message": message})


async def test_the_file_wins_over_what_was_added_when_both_have_a_block(
    make: Callable[..., Managed], managed: Managed
) -> None:
    await managed.call(config_upload, YAML)
    other = make("grid: {map: {m3: {time-to-live-seconds: 99}}, queue: {default: {}}}")
    other.store.values = dict(managed.store.values)
    other.management.config_changes.apply_stored()
    assert other.member.config.maps["m3"].time_to_live_s == 99
    assert "q3" in other.member.config.queues


async def test_what_was_added_and_does_not_go_with_the_new_file_is_an_error_that_names_it(
    make: Callable[..., Managed], managed: Managed
) -> None:
    await managed.call(config_upload, "grid: {map: {'a*': {}}}")
    other = make("grid: {map: {'*b': {}}, queue: {default: {}}}")
    other.store.values = dict(managed.store.values)
    with pytest.raises(ConfigError) as caught:
        other.management.config_changes.apply_stored()
    assert str(caught.value) == "config/00000001: map.a*: matches names that *b matches as well"


async def test_blocks_follow_the_member_s_persistence(
    make: Callable[..., Managed], tmp_path: Path
) -> None:
    managed = make(PERSISTENT % tmp_path)
    managed.member.phase = Phase.RUNNING
    text = "grid: {map: {m3: {data-persistence: {enabled: true, fsync: false}}, m4: {}}}"
    assert (await managed.call(config_upload, text)).status == 200
    off = "grid: {persistence: {enabled: false}, map: {m5: {data-persistence: {enabled: true}}}}"
    assert (await managed.call(config_upload, off)).status == 200
    # What a section that is off says of elements that are not supported has no effect.
    within = "persistence: {enabled: false, encryption-at-rest: {enabled: true}}"
    assert (
        await managed.call(config_upload, f"grid: {{{within}, map: {{m6: {{}}}}}}")
    ).status == 200
    maps = managed.member.config.maps
    assert (maps["m3"], maps["m4"]) == (MapConfig(True, False), MapConfig(True, True))
    assert maps["m5"].persistent
    assert maps["m6"].persistent
    managed.member.phase = Phase.STARTING


MOVES = [
    ("map", "held", "grid: {map: {held: {data-persistence: {enabled: true}}}}", 409),
    ("map", "held", "grid: {map: {'he*': {}}}", 409),
    ("map", "held", "grid: {map: {other: {}, held: {data-persistence: {enabled: false}}}}", 200),
    ("map", "kept", "grid: {map: {'k*': {data-persistence: {enabled: false}}}}", 200),
    ("queue", "held", "grid: {queue: {'*d': {data-persistence: {enabled: false}}}}", 409),
    ("queue", "held", "grid: {queue: {'*d': {}}}", 200),
    ("queue", "other", "grid: {queue: {'*d': {data-persistence: {enabled: false}}}}", 200),
]


@pytest.mark.parametrize(("kind", "name", "text", "status"), MOVES)
async def test_a_block_that_would_take_data_from_its_structure_is_409(
    make: Callable[..., Managed], tmp_path: Path, kind: Any, name: str, text: str, status: int
) -> None:
    managed = make(PERSISTENT % tmp_path)
    managed.member.phase = Phase.RUNNING
    managed.store.usage = [StructureUsage(kind, name, 1, 1)]
    before = managed.everything()
    answer = await managed.call(config_upload, text)
    assert answer.status == status
    if status == 409:
        assert f"{kind} {name} holds data" in content(answer)["message"]
        assert managed.everything() == before
    managed.member.phase = Phase.STARTING


def test_what_is_read_is_what_a_member_would_be_started_with() -> None:
    blocks = {(b.section, b.name): b.config for b in read_blocks(CONFIGURATION, "x", {}, False)}
    config = parse_config(CONFIGURATION, "x", {})
    expected = {("map", name): value for name, value in config.maps.items()}
    assert blocks == {**expected, **{("queue", n): v for n, v in config.queues.items()}}


async def test_in_memory_a_block_may_say_that_nothing_is_kept(managed: Managed) -> None:
    managed.store.usage = [StructureUsage("map", "held", 1, 1)]
    text = "grid: {map: {held: {data-persistence: {enabled: false}}}}"
    assert result(await managed.call(config_upload, text))["addedConfigs"] == [block("map", "held")]


UNDECLARED = "grid: {map: {m3: {wan-replication-ref: {r: {}}}}}"
DECLARED = "  wan-replication: {r: {}}\n"


async def test_a_block_refers_to_a_replication_that_members_declare() -> None:
    member = await Managed(CONFIGURATION + DECLARED).join()
    assert result(await member.call(config_upload, UNDECLARED))["addedConfigs"] == [
        block("map", "m3")
    ]
    await member.stop()


@pytest.mark.parametrize(
    "reference",
    [
        "{r: {}}",
        "{r: }",
        "{r: {republishing-enabled: false}}",
        "{r: {key-filter: {include: ['a*', b], exclude: [c]}}}",
    ],
)
async def test_what_a_block_refers_to_is_there_after_a_restart(reference: str) -> None:
    text = f"grid: {{map: {{m3: {{wan-replication-ref: {reference}}}}}}}"
    member = await Managed(CONFIGURATION + DECLARED).join()
    assert (await member.call(config_upload, text)).status == 200
    (uploaded,) = read_blocks(text, "text", {}, persistence=False)
    again = await member.restarted().join()
    for config in (member.member.config, again.member.config):
        assert config.maps["m3"] == uploaded.config
    assert isinstance(uploaded.config, MapConfig)
    assert uploaded.config.wan is not None
    await member.stop()
    await again.stop()


async def test_a_file_that_declares_a_replication_by_now_is_not_reloaded_with_its_maps(
    tmp_path: Path,
) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(CONFIGURATION)
    member = await Managed(source=ConfigSource(file, {})).join()
    file.write_text(CONFIGURATION.replace("m1:", "m3: {wan-replication-ref: {r: {}}}, m1:"))
    assert (await member.call(config_reload)).status == 400
    file.write_text(file.read_text() + DECLARED)
    assert reason(await member.call(config_reload)).startswith(
        "map.m3.wan-replication-ref.r: no member declares this replication"
    )
    await member.stop()
