"""The published schemas and the tables of the manual: up to date, and right."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
import yaml
from hypothesis import HealthCheck, given, settings

from grid_member.config import ConfigError, config_from, parse_config
from grid_member.config.convert import write_xml, write_yaml
from grid_member.config.python_source import read_python
from grid_member.config.schema import __main__ as publication
from grid_member.config.schema.json_schema import json_schema
from grid_member.config.schema.xsd import xml_schema
from grid_member.config.settings.refused_settings import REFUSED
from grid_member.config.settings.table import SETTINGS
from tests.unit.member.config.trees import ENVIRONMENT, Tree, valid_trees

DOCS = Path(__file__).parents[5] / "docs"
FILES = [publication.JSON_SCHEMA, publication.XML_SCHEMA, publication.MANUAL]
JSON_SCHEMA = json.loads(json_schema())
OF_YAML = jsonschema.Draft202012Validator(JSON_SCHEMA)
OF_XML = xmlschema.XMLSchema10(xml_schema())


@pytest.mark.parametrize("file", FILES, ids=str)
def test_committed_files_are_what_the_table_says(file: Path, tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    shutil.copy(DOCS / publication.MANUAL, tmp_path)

    publication.main([str(tmp_path)])

    written = (tmp_path / file).read_text(encoding="utf-8")
    assert (DOCS / file).read_text(encoding="utf-8") == written, "run make schema"


def test_a_manual_without_marks_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / publication.MANUAL).write_text("settings?", encoding="utf-8")
    with pytest.raises(ValueError, match="the manual needs the lines"):
        publication.main([str(tmp_path)])
    assert (tmp_path / publication.MANUAL).read_text(encoding="utf-8") == "settings?"


def test_every_setting_is_documented() -> None:
    paths = [*(setting.path for setting in SETTINGS), *(refused.path for refused in REFUSED)]
    rows = (DOCS / publication.MANUAL).read_text(encoding="utf-8").splitlines()
    first = [row.split("|")[1].strip() for row in rows if row.startswith("| `")]
    assert {f"`{path}`" for path in paths} <= set(first)
    assert len(paths) == len(set(paths))
    assert all(setting.about.endswith(".") for setting in SETTINGS)


def examples(language: str) -> list[str]:
    manual = (DOCS / publication.MANUAL).read_text(encoding="utf-8")
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", manual, re.DOTALL)
    return found


def test_the_examples_of_the_manual_say_the_same_and_are_right() -> None:
    in_yaml, in_xml = examples("yaml"), examples("xml")
    in_xml[1:] = [f'<grid xmlns="urn:grid:config:1">{part}</grid>' for part in in_xml[1:]]
    assert len(in_yaml) == len(in_xml) >= 2
    for one, other in zip(in_yaml, in_xml, strict=True):
        OF_YAML.validate(yaml.safe_load(one))
        OF_XML.validate(other)
    environment = {"OPERATOR_PASSWORD": "x", "LONDON_PASSWORD": "y", "TOKYO_PASSWORD": "z"}
    (wan,) = [number for number, text in enumerate(in_yaml) if "wan-replication:" in text]
    in_both = [parse_config(text[wan], "f", environment) for text in (in_yaml, in_xml)]
    assert in_both[0] == in_both[1]
    assert in_both[0].wan.replications
    first = parse_config(in_yaml[0], "f", environment)
    assert first == parse_config(in_xml[0], "f", environment)
    assert first.management is not None


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(JSON_SCHEMA)
    assert OF_XML.target_namespace == "urn:grid:config:1"


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(valid_trees())
def test_right_configurations_are_valid(tree: Tree) -> None:
    root = read_python(tree).root
    in_yaml = write_yaml(root)
    assert parse_config(in_yaml, "f", ENVIRONMENT) == config_from(tree, ENVIRONMENT)
    assert list(OF_YAML.iter_errors(yaml.safe_load(in_yaml))) == []
    assert list(OF_YAML.iter_errors({"grid": tree})) == []
    assert list(OF_XML.iter_errors(write_xml(root))) == []


def publisher(settings: Tree) -> Tree:
    """Return a publisher that is right but for these settings."""
    said = {"cluster-name": "b", "target-endpoints": "b", "realm": "r"} | settings
    shown = {"username-password": {"username": "u", "password": "p"}}
    return {
        "security": {"realms": [{"name": "r", "identity": shown}]},
        "wan-replication": {"r": {"batch-publisher": {"p": said}}},
    }


def test_a_flag_of_which_one_value_is_refused() -> None:
    for tree in (
        publisher({"snapshot-enabled": True, "use-endpoint-private-address": False}),
        publisher({"snapshot-enabled": "TRUE", "use-endpoint-private-address": "False"}),
    ):
        config_from(tree, ENVIRONMENT)
        assert OF_YAML.is_valid({"grid": tree})
        assert OF_XML.is_valid(write_xml(read_python(tree).root))


WRONG: list[Tree] = [
    {"cluster-nam": "a"},
    {"cluster-name": ""},
    {"cluster-name": "a" * 4097},
    {"cluster-name": {"a": "b"}},
    {"cluster-name": "a&b"},
    {"network": {"port": {"port": 65536}}},
    {"network": {"port": {"port": -1}}},
    {"network": {"port": {"port": "x"}}},
    {"network": {"port": {"port-count": 0}}},
    {"network": {"rest-api": {"enabled": "yes"}}},
    {"network": {"rest-api": {"endpoint-groups": {"DATE": {"enabled": True}}}}},
    {"network": {"join": {"multicast": {}}}},
    {"network": {"join": {"tcp-ip": {"enabled": True, "connection-timeout-seconds": 9}}}},
    {"cp-subsystem": {"cp-member-count": "x"}},
    {
        "advanced-network": {
            "enabled": True,
            "rest-server-socket-endpoint-config": {"name": "x"},
        }
    },
    {
        "advanced-network": {
            "rest-server-socket-endpoint-config": {"endpoint-groups": {"data": {"enabled": True}}}
        }
    },
    {"map": {"a*b*": {}}},
    {"map": {"": {}}},
    {"map": {"a": {"backup-count": 7}}},
    {"map": {"a": {"eviction": {"eviction-policy": "BEST"}}}},
    {"map": {"a": {"eviction": {"max-size-policy": "PER_PARTITION"}}}},
    {"queue": {"a": {"empty-queue-ttl": -2}}},
    {"security": {"realms": [{"identity": {"token": "x"}}]}},
    {"logging": {"level": "loud"}},
    {"limits": 5},
    publisher({"snapshot-enabled": False}),
    publisher({"use-endpoint-private-address": True}),
]


def in_xml(tag: str, value: Any) -> str:
    """Return the wrong tree as the plainest XML: the writer refuses to write it."""
    if isinstance(value, list):
        return "".join(in_xml(tag, item) for item in value)
    if isinstance(value, dict):
        inner = "".join(in_xml(name, below) for name, below in value.items())
        return f"<{tag}>{inner}</{tag}>"
    return f"<{tag}>{str(value).lower() if isinstance(value, bool) else value}</{tag}>"


@pytest.mark.parametrize("tree", WRONG, ids=str)
def test_wrong_configurations_are_not(tree: Tree) -> None:
    with pytest.raises(ConfigError):
        config_from(tree, ENVIRONMENT)
    assert not OF_YAML.is_valid({"grid": tree})
    try:
        text = write_xml(read_python(tree).root)
    except ConfigError:
        text = in_xml("grid", tree).replace("<grid>", '<grid xmlns="urn:grid:config:1">')
    assert not OF_XML.is_valid(text)


@pytest.mark.parametrize(
    "document", [{}, {"grid": {}, "other": 1}, {"grid": []}, {"grid": "x"}, []], ids=str
)
def test_wrong_documents_are_not(document: Any) -> None:
    assert not OF_YAML.is_valid(document)


@pytest.mark.parametrize(
    "text",
    [
        "<grid/>",
        '<grid xmlns="urn:grid:config:2"/>',
        '<member xmlns="urn:grid:config:1"/>',
        '<grid xmlns="urn:grid:config:1"><map name="a"/><map name="a"/></grid>',
        '<grid xmlns="urn:grid:config:1"><map/></grid>',
        '<grid xmlns="urn:grid:config:1">text</grid>',
        '<grid xmlns="urn:grid:config:1"><network><port>x</port></network></grid>',
    ],
)
def test_wrong_xml_is_not(text: str) -> None:
    assert not OF_XML.is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        '<grid xmlns="urn:grid:config:1"><network><port auto-increment="false"/></network></grid>',
        '<g:grid xmlns:g="urn:grid:config:1"><g:map name="a"/></g:grid>',
        '<grid xmlns="urn:grid:config:1" cluster-name=" a "><limits value-bytes="5"/></grid>',
        '<grid xmlns="urn:grid:config:1" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" '
        'i:schemaLocation="urn:grid:config:1 grid-config-1.xsd"/>',
    ],
)
def test_other_ways_to_write_xml(text: str) -> None:
    assert OF_XML.is_valid(text)
    parse_config(text, "f", {})
