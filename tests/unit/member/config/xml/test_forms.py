"""Every way to write a setting in XML that the manual names is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import xmlschema

from grid_member.config.schema import __main__ as publication
from grid_member.config.schema.xsd import xml_schema
from grid_member.config.settings.setting import SettingKind
from grid_member.config.settings.shape import settings_shape
from grid_member.config.settings.table import SETTINGS
from grid_member.config.validate import collect
from grid_member.config.xml.forms import COLLECTIONS, NAME, NAMESPACE, TEXTS
from grid_member.config.xml.source import read_xml

if TYPE_CHECKING:
    from grid_member.config.settings.setting import Setting, Value
    from grid_member.config.settings.shape import Path as SettingPath
    from grid_member.config.settings.shape import Shape

MANUAL = (Path(__file__).parents[5] / "docs" / publication.MANUAL).read_text(encoding="utf-8")
OF_XML = xmlschema.XMLSchema10(xml_schema())
ROW = re.compile(r"^\| `([^`]+)` \| `(<[^`]+>)` \| (?:`(<[^`]+>)`|[^`|]+) \|$", re.MULTILINE)
FORMS = {path: (usual, other) for path, usual, other in ROW.findall(MANUAL)}
"""The table of the manual: what is usually written, and what is read as well, if anything."""
LEAVES = [setting for setting in SETTINGS if not setting.path.endswith(".[]")]
IDENTIFIER = "<publisher-id>…</publisher-id>"
IDENTIFIED = IDENTIFIER.replace("…", "DATA")
LISTED = "127.0.0.1"
"""Fits every list."""


def parsed(text: str) -> tuple[dict[SettingPath, Value], list[str]]:
    """Return the settings of a document, and what is wrong with how it is written."""
    found = read_xml(text, "f")
    return collect(found.root, {}).values, [str(problem) for problem in found.problems]


def named(path: str) -> bool:
    return settings_shape().at(path.split(".")).any_name is not None


def value(setting: Setting) -> str:
    if setting.kind is SettingKind.BOOLEAN:
        return str(setting.default).lower() if setting.refused_values else "true"
    return str(setting.low) if setting.kind is SettingKind.INTEGER else (*setting.choices, "x")[0]


def filled(form: str, inner: str) -> str:
    """Return a form of the manual with a name and with what is inside."""
    return form.replace('"…"', '"DATA"').replace(IDENTIFIER, IDENTIFIED).replace("…", inner)


def document(path: str, written: str) -> str:
    """Return a document that has something written in the section at a path."""
    parts = path.split(".") if path else []
    while parts:
        last = parts.pop()
        if last in ("*", "[]"):
            # An attribute, or what is inside would stand behind an element.
            form = FORMS[".".join(parts)][0].replace(f">{IDENTIFIER}", ' publisher-id="…">')
            written = filled(form, written)
            parts.pop()
        else:
            written = f"<{last}>{written}</{last}>"
    return f'<grid xmlns="{NAMESPACE}">{written}</grid>'


def one_of(path: str) -> str:
    """Return what may stand in one of the many at a path."""
    item = settings_shape().at([*path.split("."), "*" if named(path) else "[]"])
    if item.setting is not None:
        return LISTED
    return next(filter(None, map(_first, item.below.items())))


def _first(named_shape: tuple[str, Shape]) -> str:
    """Return the first setting in a section; empty: there is none without a free name."""
    name, shape = named_shape
    if shape.setting is not None:
        return f"<{name}>{value(shape.setting)}</{name}>"
    inner = next(filter(None, map(_first, shape.below.items())), "")
    return (
        f"<{name}>{inner}</{name}>"
        if inner and name not in ("*", "[]") and not shape.any_name
        else ""
    )


def test_the_manual_has_the_forms_of_the_table() -> None:
    refused = {path for path in (form.path for form in COLLECTIONS) if _refused(path)}
    assert list(FORMS) == [form.path for form in COLLECTIONS if form.path not in refused]
    for form in COLLECTIONS:
        if form.path not in refused:
            usual, other = FORMS[form.path]
            assert usual.count("<") == (4 if form.wrapped or IDENTIFIER in usual else 2)
            assert f"<{form.element}" in usual
            # The name of a map is no element that maps could stand in.
            assert (other == "") == (form.path.rpartition(".")[2] == form.element)
    assert '`<port>5701</port>` is `<port port="5701"/>`' in MANUAL
    assert set(TEXTS.values()) == {"port"}


def _refused(path: str) -> bool:
    return settings_shape().at(path.split(".")).refusal is not None


@pytest.mark.parametrize("path", FORMS)
def test_both_forms_say_the_same(path: str) -> None:
    section, item = path.rpartition(".")[0], one_of(path)
    usual, other = (document(section, filled(form, item)) for form in FORMS[path])
    told, problems = parsed(usual)
    assert problems == []
    assert [p for p in told if settings_shape().find(p) and _path(p).startswith(f"{path}.")]
    assert OF_XML.is_valid(usual)
    if FORMS[path][1]:
        assert parsed(other) == (told, [])
        assert not OF_XML.is_valid(other), "the schema knows what is usually written"


@pytest.mark.parametrize("path", [path for path, (_, other) in FORMS.items() if other])
def test_the_forms_are_not_mixed(path: str) -> None:
    section = path.rpartition(".")[0]
    written = "".join(filled(form, one_of(path)) for form in FORMS[path])
    _, problems = parsed(document(section, written))
    assert [p for p in problems if p.endswith("is there twice, first in line 1")]


@pytest.mark.parametrize(
    "path", [path for path, (usual, _) in FORMS.items() if named(path) and IDENTIFIER not in usual]
)
def test_a_name_may_be_an_element(path: str) -> None:
    section = path.rpartition(".")[0]
    usual = document(section, filled(FORMS[path][0], one_of(path)))
    assert f' {NAME}="DATA">' in usual
    assert parsed(usual.replace(f' {NAME}="DATA">', f"><{NAME}>DATA</{NAME}>")) == parsed(usual)


def test_the_id_of_a_publisher_may_be_an_attribute_or_its_cluster_name() -> None:
    section = "wan-replication.*"
    inner = "<cluster-name>DATA</cluster-name>"
    told = parsed(document(section, f"<batch-publisher>{IDENTIFIED}{inner}</batch-publisher>"))
    assert told[1] == []
    assert "wan-replication.DATA.batch-publisher.DATA.cluster-name" in map(_text, told[0])

    for begin in ('<batch-publisher publisher-id="DATA">', "<batch-publisher>"):
        written = document(section, f"{begin}{inner}</batch-publisher>")
        assert parsed(written) == told
        assert OF_XML.is_valid(written)
    _, problems = parsed(document(section, "<batch-publisher/>"))
    assert [each.partition(": ")[2] for each in problems] == [
        "wan-replication.DATA.batch-publisher: every batch-publisher needs a publisher-id"
    ]


def _text(path: SettingPath) -> str:
    return ".".join(map(str, path))


@pytest.mark.parametrize("setting", LEAVES, ids=lambda setting: setting.path)
def test_a_setting_may_be_an_attribute_or_an_element(setting: Setting) -> None:
    section, _, name = setting.path.rpartition(".")
    written = f"<{name}>{value(setting)}</{name}>"
    as_element = document(section, written)
    outer = as_element.partition(f">{written}")[0]
    as_attribute = f'{outer} {name}="{value(setting)}">{as_element.partition(written)[2]}'
    told, problems = parsed(as_element)
    assert problems == []
    assert setting.path in {_path(path) for path in told}
    assert parsed(as_attribute) == (told, [])
    both = as_attribute.replace(
        f'{name}="{value(setting)}">', f'{name}="{value(setting)}">{written}'
    )
    assert any("is there twice" in problem for problem in parsed(both)[1])


@pytest.mark.parametrize(("section", "name"), TEXTS.items())
def test_the_text_of_an_element_is_a_setting(section: str, name: str) -> None:
    assert parsed(document(section, "1")) == parsed(document(section, f"<{name}>1</{name}>"))
    assert parsed(document(section, "1"))[0]


def _path(path: SettingPath) -> str:
    """Return a path of a document as it is in the table of settings."""
    shape = settings_shape().find(path)
    assert shape is not None
    return shape.path


@pytest.mark.parametrize("given", ["", "<publisher-id/>", "<publisher-id> </publisher-id>"])
def test_a_publisher_with_an_empty_id_has_its_cluster_name_as_id(given: str) -> None:
    found, problems = parsed(publisher_document(given, "tokyo"))
    assert problems == []
    path = ("wan-replication", "r", "batch-publisher", "tokyo", "cluster-name")
    assert found[path] == "tokyo"


def test_a_publisher_is_not_named_by_a_variable() -> None:
    _, problems = parsed(publisher_document("", "${TARGET}"))
    assert [problem.partition(" ")[2] for problem in problems] == [
        "wan-replication.r.batch-publisher: a batch-publisher needs a publisher-id where its "
        "cluster-name has a variable"
    ]


def publisher_document(publisher_id: str, cluster_name: str) -> str:
    return (
        f'<grid xmlns="{NAMESPACE}"><wan-replication name="r"><batch-publisher>{publisher_id}'
        f"<cluster-name>{cluster_name}</cluster-name></batch-publisher></wan-replication></grid>"
    )
