"""The XML schema of a configuration, from the table of settings and its forms in XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from grid_member.config.schema.patterns import (
    VARIABLE,
    any_case_pattern,
    choice_pattern,
    name_pattern,
    shown,
)
from grid_member.config.settings.setting import Setting, SettingKind
from grid_member.config.settings.shape import Shape, settings_shape
from grid_member.config.tree import TOP
from grid_member.config.validate import MAX_TEXT_CHARACTERS
from grid_member.config.xml.forms import NAME, NAMESPACE, TEXTS, Collection, collection

if TYPE_CHECKING:
    from grid_member.config.settings.refusal import RefusedSetting

_SCHEMA_NAMESPACE: Final = "http://www.w3.org/2001/XMLSchema"
_ANYTHING: Final = r"[\s\S]*"


def xml_schema() -> str:
    """Return the XML schema (XSD 1.0) of configurations in XML, as text.

    It knows elements, types and ranges, in their usual form.

    What may be an attribute may be an element of the same name, as for the member itself.
    """
    root = Element(
        "xs:schema",
        {
            "xmlns:xs": _SCHEMA_NAMESPACE,
            "xmlns:c": NAMESPACE,
            "targetNamespace": NAMESPACE,
            "elementFormDefault": "qualified",
        },
    )
    _explain(root, "Configuration of a grid member.")
    _named_types(root)
    top = SubElement(root, "xs:element", name=TOP)
    shape = settings_shape()
    _section(top, shape)
    for name, below in shape.below.items():
        form = collection(below)
        if form is not None and below.any_name is not None:
            unique = SubElement(top, "xs:unique", name=f"{name}-{NAME}")
            SubElement(unique, "xs:selector", xpath=f"c:{form.element}")
            SubElement(unique, "xs:field", xpath=f"@{NAME}")
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _named_types(root: Element) -> None:
    _restriction(_simple(root, "variable"), "xs:string", pattern=_ANYTHING + VARIABLE + _ANYTHING)
    _restriction(
        _simple(root, "text"), "xs:string", minLength="1", maxLength=str(MAX_TEXT_CHARACTERS)
    )
    _restriction(_simple(root, "none"), "xs:token", length="0")
    union = SubElement(_simple(root, "boolean"), "xs:union", memberTypes="c:variable")
    _restriction(_simple(union), "xs:token", enumeration=("true", "false"))
    any_case = f"{any_case_pattern('true')}|{any_case_pattern('false')}"
    _restriction(_simple(union), "xs:token", pattern=any_case)
    for name, setting in _text_settings().items():
        # The text may be missing when only the attributes are set.
        union = SubElement(_simple(root, name), "xs:union", memberTypes="c:none c:variable")
        _range(_simple(union), setting)


def _text_settings() -> dict[str, Setting]:
    """Return the settings that are the text of an element, by name: one type for all of a name."""
    shape = settings_shape()
    found = {}
    for path, name in TEXTS.items():
        setting = shape.at([*path.split("."), name]).setting
        if setting is None:
            raise LookupError(f"no setting {path}.{name}")
        found[name] = setting
    return found


def _simple(into: Element, name: str | None = None) -> Element:
    return SubElement(into, "xs:simpleType", {"name": name} if name else {})


def _restriction(into: Element, base: str, **facets: str | tuple[str, ...]) -> None:
    restriction = SubElement(into, "xs:restriction", base=base)
    for facet, values in facets.items():
        for value in (values,) if isinstance(values, str) else values:
            SubElement(restriction, f"xs:{facet}", value=value)


def _explain(into: Element, text: str) -> None:
    note = SubElement(into, "xs:annotation")
    SubElement(note, "xs:documentation").text = text


def _section(element: Element, shape: Shape, form: Collection | None = None) -> None:
    """Give the element the type of a section; form when it is one of many with names."""
    body = SubElement(element, "xs:complexType")
    known = {name: below for name, below in shape.below.items() if below.refusal is None}
    leaves = {name: below.setting for name, below in known.items() if below.setting is not None}
    text = TEXTS.get(shape.path)
    attributes = body
    if text is not None:
        leaves.pop(text)
        content = SubElement(body, "xs:simpleContent")
        attributes = SubElement(content, "xs:extension", base=f"c:{text}")
    else:
        off = {name: below.refusal for name, below in shape.below.items() if below.refusal}
        _children(body, known, off, form)
    if form is not None:
        use = {"use": "required"} if form.name == NAME else {}
        named = SubElement(attributes, "xs:attribute", {"name": form.name} | use)
        _restriction(_simple(named), "xs:string", minLength="1", pattern=name_pattern(form.path))
    for name, setting in leaves.items():
        _leaf(attributes, "xs:attribute", name, setting)
    if text is not None:
        for name, refused in _off_values(shape).items():
            _off_value(SubElement(attributes, "xs:attribute", name=name), refused)


def _off_values(shape: Shape) -> dict[str, RefusedSetting]:
    """Return the refused elements of a section that some value of turns off."""
    found = {name: below.refusal for name, below in shape.below.items()}
    return {name: refused for name, refused in found.items() if refused and refused.off}


def _off_value(into: Element, refused: RefusedSetting) -> None:
    _explain(into, f"{refused.why}, unless it is off.")
    union = SubElement(_simple(into), "xs:union", memberTypes="c:variable")
    any_case = "|".join(any_case_pattern(re.escape(value)) for value in refused.off)
    _restriction(_simple(union), "xs:token", pattern=any_case)


def _off(group: Element, name: str, refused: RefusedSetting, bounds: dict[str, str]) -> None:
    """Add the form of a refused element in which it says nothing, if there is one."""
    if not (refused.switch or refused.off or refused.empty):
        return
    element = SubElement(group, "xs:element", {"name": name} | bounds)
    if refused.off and not refused.switch:
        _off_value(element, refused)
        return
    _explain(element, f"{refused.why}, unless it is off.")
    body = SubElement(element, "xs:complexType")
    if not refused.switch:
        return
    anything = SubElement(body, "xs:sequence")
    skipped = {"processContents": "skip"}
    SubElement(anything, "xs:any", skipped | {"minOccurs": "0", "maxOccurs": "unbounded"})
    switch = SubElement(body, "xs:attribute", name=refused.switch, use="required")
    union = SubElement(_simple(switch), "xs:union", memberTypes="c:variable")
    _restriction(_simple(union), "xs:token", pattern=any_case_pattern("false"))
    SubElement(body, "xs:anyAttribute", skipped)


def _children(
    body: Element,
    known: dict[str, Shape],
    off: dict[str, RefusedSetting],
    named: Collection | None = None,
) -> None:
    forms = {name: collection(below) for name, below in known.items()}
    # Elements stand in any order; where some may be repeated XSD 1.0 lets all of them be.
    many = any(form is not None and not form.wrapped for form in forms.values())
    if not known and not off:
        return
    bounds = {"minOccurs": "0", "maxOccurs": "unbounded"} if many else {}
    group = SubElement(body, "xs:choice" if many else "xs:all", bounds)
    if named is not None and named.name != NAME:
        identifier = SubElement(group, "xs:element", {"name": named.name, "minOccurs": "0"})
        pattern = name_pattern(named.path)
        _restriction(_simple(identifier), "xs:string", minLength="1", pattern=pattern)
    for name, below in known.items():
        _child(group, name, below, forms[name], {} if many else {"minOccurs": "0"})
    for name, refused in off.items():
        _off(group, name, refused, {} if many else {"minOccurs": "0"})


def _child(
    group: Element, name: str, shape: Shape, form: Collection | None, bounds: dict[str, str]
) -> None:
    if shape.setting is not None:
        _leaf(group, "xs:element", name, shape.setting, bounds)
    elif form is None:
        _section(SubElement(group, "xs:element", {"name": name} | bounds), shape)
    elif form.wrapped:
        wrapper = SubElement(group, "xs:element", {"name": name} | bounds)
        items = SubElement(SubElement(wrapper, "xs:complexType"), "xs:sequence")
        _item(items, shape, form, {"minOccurs": "0", "maxOccurs": "unbounded"})
    else:
        _item(group, shape, form, bounds)


def _item(group: Element, shape: Shape, form: Collection, bounds: dict[str, str]) -> None:
    below = shape.items or shape.any_name
    if below is None:
        raise LookupError(f"{shape.path} is no collection")
    if below.setting is not None:
        _leaf(group, "xs:element", form.element, below.setting, bounds)
    else:
        element = SubElement(group, "xs:element", {"name": form.element} | bounds)
        _section(element, below, form if shape.any_name is not None else None)


def _leaf(
    into: Element, kind: str, name: str, setting: Setting, bounds: dict[str, str] | None = None
) -> None:
    element = SubElement(into, kind, {"name": name} | (bounds or {}))
    default = "" if setting.default is None else f" Default: {shown(setting.default)}."
    _explain(element, f"{setting.about}{default}")
    if setting.kind is SettingKind.BOOLEAN and setting.refused_values:
        union = SubElement(_simple(element), "xs:union", memberTypes="c:variable")
        _restriction(_simple(union), "xs:token", pattern=any_case_pattern(shown(setting.default)))
    elif setting.kind is SettingKind.BOOLEAN:
        element.set("type", "c:boolean")
    elif setting.kind is SettingKind.INTEGER:
        union = SubElement(_simple(element), "xs:union", memberTypes="c:variable")
        _range(_simple(union), setting)
    elif setting.choices:
        union = SubElement(_simple(element), "xs:union", memberTypes="c:variable")
        _restriction(_simple(union), "xs:token", enumeration=setting.choices)
        _restriction(_simple(union), "xs:token", pattern=choice_pattern(setting))
    elif setting.forbidden_text:
        union = SubElement(_simple(element), "xs:union", memberTypes="c:variable")
        _restriction(_simple(union), "c:text", pattern=f"[^{setting.forbidden_text}]*")
    else:
        element.set("type", "c:text")


def _range(into: Element, setting: Setting) -> None:
    _restriction(into, "xs:integer", minInclusive=str(setting.low), maxInclusive=str(setting.high))
