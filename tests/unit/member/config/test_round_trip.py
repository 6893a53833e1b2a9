"""What is written is what is read: YAML, XML and Python values say the same."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from grid_member.config import ConfigError, MemberConfig, config_from, parse_config
from grid_member.config.convert import convert, write_xml, write_yaml
from grid_member.config.load import read_document
from grid_member.config.python_source import read_python
from grid_member.config.settings.shape import Shape, settings_shape
from grid_member.config.validate import collect
from grid_member.config.xml.forms import COLLECTIONS, TEXTS
from tests.unit.member.config.trees import ENVIRONMENT, TRAPS, Tree, trees, valid_trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from grid_member.config.settings.setting import Value
    from grid_member.config.settings.shape import Path

# Thousands of documents are read, beside the processes of other tests.
pytestmark = pytest.mark.timeout(180, func_only=True)

Outcome = MemberConfig | list[tuple[str, str]]


def outcome(load: Callable[[], MemberConfig]) -> Outcome:
    """Return the model, or what is wrong without the places."""
    try:
        return load()
    except ConfigError as error:
        return sorted((problem.path, problem.message) for problem in error.problems)


def said(text: str) -> dict[Path, Value]:
    return collect(read_document(text, "f").root, ENVIRONMENT).values


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_yaml_and_xml_say_what_the_tree_says(tree: Tree) -> None:
    root = read_python(tree).root
    in_yaml, in_xml = write_yaml(root), write_xml(root)

    expected = outcome(lambda: config_from(tree, ENVIRONMENT))
    assert outcome(lambda: parse_config(in_yaml, "f", ENVIRONMENT)) == expected
    assert outcome(lambda: parse_config(in_xml, "f", ENVIRONMENT)) == expected
    assert said(in_yaml) == said(in_xml) == collect(root, ENVIRONMENT).values


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(valid_trees())
def test_a_right_configuration_survives_every_conversion(tree: Tree) -> None:
    in_yaml = write_yaml(read_python(tree).root)

    in_xml = convert(in_yaml, "f", "xml")
    back = convert(in_xml, "f", "yaml")

    expected = config_from(tree, ENVIRONMENT)
    assert parse_config(in_xml, "f", ENVIRONMENT) == expected
    assert parse_config(back, "f", ENVIRONMENT) == expected
    assert convert(back, "f", "xml") == in_xml
    assert convert(back, "f", "yaml") == back


@pytest.mark.parametrize("trap", [*TRAPS, "a" * 4096])
def test_no_text_is_lost_as_value_or_as_name(trap: str) -> None:
    # Control characters are refused in credentials.
    secret = "".join(c for c in trap if unicodedata.category(c) != "Cc") or "x"
    user = {"username": secret.replace(":", ";"), "password": secret}
    tree = {
        "instance-name": trap,
        "network": {"management": {"enabled": True, "realm": trap}},
        "security": {"realms": [{"name": trap, "authentication": {"simple": {"users": [user]}}}]},
        "map": {trap: {}},
    }
    environment = {"WORD": "w"}
    root = read_python(tree).root
    expected = config_from(tree, environment)

    for text in (write_yaml(root), write_xml(root)):
        assert parse_config(text, "f", environment) == expected
    assert list(expected.maps) == [trap]


@pytest.mark.parametrize("name", ["${", "${WORD", "${WORD}", "${A:${B}}"])
def test_a_name_holds_no_variable(name: str) -> None:
    root = read_python({"map": {name: {}}}).root
    for text in (write_yaml(root), write_xml(root)):
        assert list(parse_config(text, "f", {}).maps) == [name]


def shapes(shape: Shape) -> list[Shape]:
    return [shape, *(deep for below in shape.below.values() for deep in shapes(below))]


def test_every_list_and_every_free_name_has_a_form_in_xml() -> None:
    many = {s.path for s in shapes(settings_shape()) if s.items or s.any_name}
    refused = {s.path for s in shapes(settings_shape()) if s.refusal}

    assert many == {form.path for form in COLLECTIONS} - refused
    assert all(settings_shape().at([*p.split("."), n]).setting for p, n in TEXTS.items())
