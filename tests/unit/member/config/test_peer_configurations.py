"""Configurations as users of the peer product have them: off is taken, on says what to write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from jsonschema import Draft202012Validator
from xmlschema import XMLSchema10

from grid_member.config import ConfigError, EndpointGroup, parse_config
from grid_member.config.convert import convert
from grid_member.config.schema.json_schema import json_schema
from grid_member.config.schema.xsd import xml_schema
from grid_member.config.settings.refused_settings import REFUSED
from grid_member.config.settings.shape import settings_shape
from grid_member.config.xml.forms import TOP_ELEMENT
from tests.unit.member.config.test_settings import below, turned_on

if TYPE_CHECKING:
    from grid_member.config.convert import Syntax
    from grid_member.config.settings.refusal import RefusedSetting
    from grid_member.config.tree import Problem

FILES = sorted((Path(__file__).parent / "peer").iterdir())
SAYS_WHAT_TO_DO = re.compile(
    "leave it out|write |use |list the members|choose one|there are no clients|needs a"
)
REST = "rest-server-socket-endpoint-config"
JOIN = "network.join"
LEFT = {
    "01-defaults.yaml": ("executor-service", "multimap", f"{JOIN}.tcp-ip.interface"),
    "02-cart.yaml": ("map.session-*.near-cache", "properties"),
    "03-kubernetes.yaml": (f"{JOIN}.kubernetes",),
    "04-persistent.yaml": ("hot-restart-persistence", "map.ledger.hot-restart"),
    "05-advanced.yaml": (
        "advanced-network.client-server-socket-endpoint-config",
        *("map.readings.indexes", "partition-group"),
    ),
    "06-defaults.xml": ("executor-service", "list", "multimap", "topic"),
    "07-range.xml": (
        *("map.positions.near-cache", "map.positions.read-backup-data"),
        f"{JOIN}.tcp-ip.connection-timeout-seconds",
        f"{JOIN}.tcp-ip.member-list[0]",
        *(f"{JOIN}.tcp-ip.required-member", "properties"),
    ),
    "08-three.xml": (
        *("group", "map.users.eviction-policy", "map.users.max-size", "map.users.quorum-ref"),
        "quorum",
    ),
    "09-tls.xml": (
        *("license-key", "listeners", f"{JOIN}.multicast", "network.ssl"),
        *("network.ssl.factory-class-name", "network.ssl.properties"),
        "security.client-permissions",
        "security.realms[0].authentication.simple.users[0].roles",
    ),
    "10-embedded.xml": ("topic",),
}
"""What each of them has that is on and not here."""


def adapted(file: Path) -> str:
    """Return the text with nothing changed but its top element."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".yaml":
        return re.sub(r"(?m)^hazelcast:$", "grid:", text)
    text = text.replace("</hazelcast>", "</grid>")
    return re.sub(r'<hazelcast xmlns="[^"]*"', TOP_ELEMENT[:-1], text)


def complaints(text: str, file: Path) -> dict[str, str]:
    found: tuple[Problem, ...] = ()
    try:
        parse_config(text, str(file), {})
    except ConfigError as error:
        found = error.problems
    assert all(problem.place and problem.place.line for problem in found)
    return {problem.path: problem.message for problem in found}


def test_there_are_ten_in_both_forms() -> None:
    assert [file.suffix for file in FILES] == [".yaml"] * 5 + [".xml"] * 5
    assert {file.name for file in FILES} == set(LEFT)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_top_element_is_called_by_name(file: Path) -> None:
    (told,) = complaints(file.read_text(encoding="utf-8"), file).values()
    wanted = "grid: in its place" if file.suffix == ".yaml" else f"{TOP_ELEMENT} in its place"
    assert told.endswith(f"another product's: write {wanted}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_with_it_changed_what_is_left_is_refused_with_what_to_write(file: Path) -> None:
    told = complaints(adapted(file), file)
    assert sorted(told) == sorted(LEFT[file.name])
    for message in told.values():
        assert SAYS_WHAT_TO_DO.search(message), message


OFF_SECTIONS = [each for each in REFUSED if each.switch]
OFF_VALUES = [(each, value) for each in REFUSED for value in each.off]
MAY_BE_EMPTY = [each for each in REFUSED if each.empty]
SCHEMA = Draft202012Validator(json.loads(json_schema()))
OF_XML = XMLSchema10(xml_schema())


def said(path: str, value: object) -> dict[str, object]:
    """Return a document with a value at a path of the table, in sections that are on."""
    return {"grid": turned_on(below(path, value), settings_shape())}


def refused_of(document: dict[str, object], path: str) -> list[str]:
    """Return what is said of the element itself: sections that are on may lack something else."""
    element = path.replace("*", "any").replace(".[]", "[0]")
    text = yaml.safe_dump(document)
    return [each for each in complaints(text, Path("f.yaml")) if each.startswith(element)]


@pytest.mark.parametrize("refused", OFF_SECTIONS, ids=lambda refused: refused.path)
def test_what_is_switched_off_is_taken(refused: RefusedSetting) -> None:
    for off in (False, "FALSE", "${NOT_SET:false}"):
        document = said(refused.path, {refused.switch: off, "any": {"thing": [1]}})
        assert refused_of(document, refused.path) == []
        assert SCHEMA.is_valid(document)
    for on in (True, "no", None):
        assert refused_of(said(refused.path, {refused.switch: on}), refused.path)
    if refused.path.count(".") < 2 and not refused.path.startswith("cp-"):
        root, _, leaf = refused.path.rpartition(".")
        element = f'<{leaf} {refused.switch}="false"><any thing="1">x</any></{leaf}>'
        inner = f"<{root}>{element}</{root}>" if root else element
        assert complaints(document_of(inner), Path("f.xml")) == {}
        assert OF_XML.is_valid(document_of(inner))
        twice = document_of(inner.replace(element, element + element.replace("false", "true")))
        assert list(complaints(twice, Path("f.xml"))) == (
            [refused.path] if root in ("", "network") else []
        )


def document_of(inner: str) -> str:
    return f"{TOP_ELEMENT}{inner}</grid>"


@pytest.mark.parametrize(("refused", "value"), OFF_VALUES, ids=str)
def test_a_value_that_says_nothing_is_taken(refused: RefusedSetting, value: str) -> None:
    for written in (value, value.upper(), [value]):
        document = said(refused.path, written)
        assert refused_of(document, refused.path) == []
    assert SCHEMA.is_valid(said(refused.path, value))
    assert refused_of(said(refused.path, [value, "x"]), refused.path)


@pytest.mark.parametrize("refused", MAY_BE_EMPTY, ids=lambda refused: refused.path)
def test_an_element_with_nothing_in_it_is_taken(refused: RefusedSetting) -> None:
    nothing: tuple[object, ...] = (None, {}, [], "")
    for written in nothing:
        assert refused_of(said(refused.path, written), refused.path) == []


def test_of_several_elements_one_that_is_on_is_refused() -> None:
    off, on = '<executor-service name="a"/>', '<quorum name="b" enabled="true"/>'
    assert list(complaints(document_of(f"{off}{off}{on}"), Path("f.xml"))) == [
        "executor-service",
        "quorum",
    ]
    switched = on.replace("true", "false")
    for order in (f"{switched}{on}{switched}", f"{on}{switched}", f"{switched}{on}"):
        assert list(complaints(document_of(order), Path("f.xml"))) == ["quorum"]
    assert complaints(document_of(switched * 2), Path("f.xml")) == {}


def test_what_stands_in_a_section_that_is_off_is_taken() -> None:
    inside = {"factory-class-name": "x", "properties": {"a": "b"}}
    for ssl in ({"enabled": False, **inside}, inside):
        assert complaints(yaml.safe_dump({"grid": {"network": {"ssl": ssl}}}), Path("f.yaml")) == {}
    ldap = {"security": {"enabled": False, "realms": [{"authentication": {"ldap": {"url": "x"}}}]}}
    found = complaints(yaml.safe_dump({"grid": ldap}), Path("f.yaml"))
    assert "security.realms[0].authentication.ldap" in found
    misspelt = {"network": {"ssl": {"enabled": False, "fatcory": "x"}}}
    assert list(complaints(yaml.safe_dump({"grid": misspelt}), Path("f.yaml"))) == [
        "network.ssl.fatcory"
    ]


@pytest.mark.parametrize("to", ["yaml", "xml"])
def test_what_is_off_is_left_out_by_the_converter(to: Syntax) -> None:
    text = (
        "grid: {network: {join: {multicast: {enabled: false, multicast-group: 224.2.2.3}, tcp-ip: "
        "{enabled: true, member-list: [10.0.0.1, 10.0.0.2]}}}, jet: {enabled: '${JET:false}'}, "
        "map: {default: {statistics-enabled: true}}}"
    )
    converted = convert(text, "f.yaml", to)
    assert not re.search("multicast|jet|statistics", converted)
    assert parse_config(converted, f"f.{to}", {}) == parse_config(text, "f.yaml", {})
    assert parse_config(convert(converted, f"f.{to}", "yaml"), "f.yaml", {}).maps


def test_the_former_name_of_a_group() -> None:
    for network in (
        "network: {rest-api: {enabled: true,",
        f"advanced-network: {{enabled: true, {REST}: {{",
    ):
        text = f"grid: {{{network} endpoint-groups: {{HOT_RESTART: {{enabled: true}}}}}}}}}}"
        rest = parse_config(text, "f.yaml", {}).rest
        assert rest is not None
        assert EndpointGroup.PERSISTENCE in rest.groups
        assert SCHEMA.is_valid(yaml.safe_load(text))
        both = text.replace("{HOT", "{PERSISTENCE: {enabled: true}, HOT")
        (told,) = complaints(both, Path("f.yaml")).values()
        assert told == "is the same endpoint group as PERSISTENCE"
    variable = {"GRID_MEMBER_NETWORK_RESTAPI_ENDPOINTGROUPS_HOTRESTART_ENABLED": "true"}
    rest = parse_config("grid: {network: {rest-api: {enabled: true}}}", "f.yaml", variable).rest
    assert rest is not None
    assert EndpointGroup.PERSISTENCE in rest.groups
