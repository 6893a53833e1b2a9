"""Configurations from Python values, and which syntax a text is taken for."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from grid_member.config import Config, ConfigError, config_from, parse_config

XML = '<grid xmlns="urn:grid:config:1" cluster-name="x"/>'
YAML = "grid: {cluster-name: y}"


def problems(tree: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_from(tree, {})
    assert all(problem.place is None for problem in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def endless() -> dict[str, Any]:
    tree: dict[str, Any] = {}
    tree["map"] = {"a": tree}
    return tree


NO_TYPE = "must be text, an integer, True, False, None, a list or a mapping, not"
BAD: list[tuple[Any, list[str]]] = [
    ([], [": must hold further elements, not a value"]),
    ({"cluster-name": 1.5}, [f"cluster-name: {NO_TYPE} float"]),
    ({"cluster-name": b"a"}, [f"cluster-name: {NO_TYPE} bytes"]),
    ({"cluster-name": None}, ["cluster-name: must not be empty"]),
    ({1: 2, "map": {None: {}}}, [": a name must be text", "map: a name must be text"]),
    ({"limits": {"name-bytes": True}}, ["limits.name-bytes: must be an integer"]),
    ({"limits": {"name-bytes": 10**5000}}, ["limits.name-bytes: the number is too large"]),
    ({"map": {"a": [{}]}}, ["map.a: must hold further elements, not a value"]),
    ({"cluster-name": "a\0"}, ["cluster-name: must not hold control characters"]),
    ({"cluster-name": "\ud800"}, ["cluster-name: must not hold control characters"]),
    (
        {"cluster-name": "${NOBODY}", "x": 1, "map": {"a": {"backup-count": 7}}},
        [
            "cluster-name: the environment variable NOBODY is not set",
            "x: unknown element",
            "map.a.backup-count: must be from 0 to 6",
        ],
    ),
]


@pytest.mark.parametrize(("tree", "expected"), BAD, ids=[e[0] for _, e in BAD])
def test_what_is_wrong(tree: Any, expected: list[str]) -> None:
    found = [problem.split("; known are")[0] for problem in problems(tree)]
    assert found == [problem.removeprefix(": ") for problem in expected]


def test_endless_nesting_is_a_problem() -> None:
    found = problems(endless())
    assert [problem for problem in found if problem.endswith(": nested too deep")]


def test_any_mapping_and_sequence_will_do() -> None:
    tree = OrderedDict(network={"interfaces": {"enabled": True, "interfaces": ("10.0.0.1",)}})
    tree["network"]["rest-api"] = {"enabled": "${ON}"}

    config = config_from(tree, {"ON": "true"})

    assert config.rest is not None
    assert config.rest.interfaces == ("10.0.0.1",)


def test_variables_come_from_the_process_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "from-process")
    tree = {"cluster-name": "${CLUSTER:default}"}

    assert config_from(tree).cluster_name == "from-process"
    assert config_from(tree, {}).cluster_name == "default"


def test_the_default_is_a_configuration_like_any_other() -> None:
    config = Config.default(environment={"GRID_MEMBER_CLUSTERNAME": "other"}).model

    assert config.cluster_name == "other"
    assert config.rest is not None
    assert (config.rest.interfaces, config.rest.port) == (("127.0.0.1",), 5701)


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("f", XML, "x"),
        ("f", YAML, "y"),
        ("f", f"\ufeff \n{XML}", "x"),
        ("f.conf", f"\ufeff{YAML}", "y"),
        ("f.XML", XML, "x"),
        ("f.yaml", YAML, "y"),
        ("f.yml", YAML, "y"),
    ],
)
def test_the_suffix_or_the_first_character_tells_the_syntax(
    file: str, text: str, name: str, tmp_path: Path
) -> None:
    assert parse_config(text, file, {}).cluster_name == name
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert Config.from_file(tmp_path / file, environment={}).model.cluster_name == name


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("f.xml", YAML, "f.xml:1:1: not XML: syntax error"),
        ("f.yaml", XML, "f.yaml:1:1: the top element must be grid:"),
    ],
)
def test_the_suffix_is_believed(file: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, file, {})
    assert str(caught.value) == expected


def test_a_base_directory_is_relative_to_the_one_given() -> None:
    text = "grid: {persistence: {enabled: true, base-dir: data}}"
    assert parse_config(text, "f", {}, Path("/srv")).data_directory == Path("/srv/data")
    assert parse_config(text, "f", {}).data_directory == Path("data")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (YAML.encode("utf-16"), "not UTF-8"),
        (XML.encode("utf-16"), "not UTF-8"),
        (b"grid: {}" + b" " * (1 << 20), "longer than 1 MiB"),
    ],
)
def test_a_file_that_is_no_text_of_ours(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ConfigError, match=reason):
        Config.from_file(tmp_path / "f", environment={})


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="directory"):
        Config.from_file(tmp_path, environment={})
