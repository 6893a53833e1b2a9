"""A configuration from one syntax to the other, as text that says the same when it is read.

convert                  a text in one syntax to the other
write_yaml, write_xml    the nodes below `grid`, which must fit the table of settings
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from xml.sax.saxutils import escape

import yaml

from grid_member.config.load import raise_problems, read_document
from grid_member.config.settings.setting import Setting, SettingKind
from grid_member.config.settings.shape import Path, Shape, path_text, settings_shape
from grid_member.config.tree import TOP, ConfigError, Items, Node, Problem, Scalar, Section
from grid_member.config.validate import collect
from grid_member.config.xml.forms import (
    NAME,
    NAMESPACE,
    TEXTS,
    WHITE_SPACE,
    Collection,
    collection,
    is_attribute,
)

Syntax: TypeAlias = Literal["xml", "yaml"]

_NO_FOLDING: Final = 1 << 30
_YAML_TAG: Final = "tag:yaml.org,2002:"
_INDENT: Final = "  "
_TEXT_ESCAPES: Final = {"\r": "&#13;"}
_ATTRIBUTE_ESCAPES: Final = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def convert(text: str, file: str, to: Syntax) -> str:
    """Return the document in the syntax `to`, xml or yaml; file is what problems name.

    Values are kept as they are written, variables too; comments and the order of attributes and
    elements beside each other are lost, and so is what is refused unless it is off. Elements, types
    and ranges are checked first, but not what spans several elements: that may hang on variables.

    Raises:
        ConfigError: the document cannot be read, or does not fit the table of settings.
    """
    document = read_document(text, file)
    raise_problems([*document.problems, *collect(document.root, None).problems])
    kept = _drop_refused(document.root, settings_shape())
    return write_xml(kept) if to == "xml" else write_yaml(kept)


def _drop_refused(node: Node, shape: Shape) -> Node:
    """Return the nodes without elements that the table refuses: they are off and say nothing."""
    if isinstance(node, Items):
        items = shape.items
        if items is None:
            return node
        return Items(node.place, tuple(_drop_refused(item, items) for item in node.items))
    if not isinstance(node, Section):
        return node
    kept = {
        name: _drop_refused(child, below)
        for name, child in node.children.items()
        if (below := shape.child(name)) is not None and below.refusal is None
    }
    return Section(node.place, kept, node.names)


def write_yaml(root: Node) -> str:
    """Return the document `grid:` with these nodes; what would be read otherwise is quoted."""
    name = yaml.ScalarNode(f"{_YAML_TAG}str", TOP)
    top = yaml.MappingNode(f"{_YAML_TAG}map", [(name, _yaml(root, settings_shape()))])
    text: str = yaml.serialize(
        top, Dumper=yaml.SafeDumper, allow_unicode=True, width=_NO_FOLDING, indent=2
    )
    return text


def _yaml(node: Node, shape: Shape | None) -> yaml.Node:
    if isinstance(node, Scalar):
        return _yaml_value(node.text, shape.setting.kind if shape and shape.setting else None)
    if isinstance(node, Items):
        below = [_yaml(item, shape.items if shape else None) for item in node.items]
        return yaml.SequenceNode(f"{_YAML_TAG}seq", below, flow_style=not below)
    pairs = [
        (_yaml_value(name, None), _yaml(child, shape.child(name) if shape else None))
        for name, child in node.children.items()
    ]
    return yaml.MappingNode(f"{_YAML_TAG}map", pairs, flow_style=not pairs)


def _yaml_value(text: str | None, kind: SettingKind | None) -> yaml.ScalarNode:
    if text is None:
        return yaml.ScalarNode(f"{_YAML_TAG}null", "null")
    if kind is SettingKind.BOOLEAN and text in ("true", "false"):
        return yaml.ScalarNode(f"{_YAML_TAG}bool", text)
    if kind is SettingKind.INTEGER and _is_yaml_integer(text):
        return yaml.ScalarNode(f"{_YAML_TAG}int", text)
    # Quoting without escapes folds lines and cannot show every character.
    style = None if text.isascii() and text.isprintable() else '"'
    return yaml.ScalarNode(f"{_YAML_TAG}str", text, style=style)


def _is_yaml_integer(text: str) -> bool:
    # A leading zero makes the number an octal one for other readers.
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and (digits == "0" or digits[0] != "0")


@dataclass(slots=True)
class _Tag:
    """An element to be written."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[_Tag] = field(default_factory=list)


def write_xml(root: Node) -> str:
    """Return the document `<grid>` with these nodes.

    Raises:
        ConfigError: a value in a list has spaces at its ends, which XML would lose, or an element
            is not in the table.
    """
    top = _Tag(TOP, {"xmlns": NAMESPACE})
    _fill(top, root, settings_shape(), ())
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _render(top, "")


def _fill(tag: _Tag, node: Node, shape: Shape, path: Path) -> None:
    """Write what stands below an element into its tag."""
    if isinstance(node, Scalar):
        tag.text = node.text or ""
        if tag.text.strip(WHITE_SPACE) != tag.text:
            message = "has spaces at its ends, which XML cannot keep in a list"
            raise ConfigError([Problem(node.place, path_text(path), message)])
        return
    if isinstance(node, Items):
        raise ConfigError([Problem(node.place, path_text(path), "is a list where none can be")])
    for name, child in node.children.items():
        below = shape.child(name)
        if below is None:
            message = "unknown element"
            raise ConfigError([Problem(node.names[name], path_text((*path, name)), message)])
        _child(tag, name, child, below, path)


def _child(tag: _Tag, name: str, node: Node, shape: Shape, path: Path) -> None:
    below, form = (*path, name), collection(shape)
    parent = shape.path.rpartition(".")[0]
    if isinstance(node, Scalar) and shape.setting is not None:
        text = _escape_spaces(node.text or "", shape.setting)
        exact = bool(text) and text.strip(WHITE_SPACE) == text
        if is_attribute(shape) or not exact:
            tag.attributes[name] = text
        elif TEXTS.get(parent) == name:
            tag.text = text
        else:
            tag.children.append(_Tag(name, text=text))
    elif form is None:
        tag.children.append(_Tag(name))
        _fill(tag.children[-1], node, shape, below)
    else:
        into = tag
        if form.wrapped:
            into = _Tag(name)
            tag.children.append(into)
        _items(into, form, node, shape, below)


def _escape_spaces(text: str, setting: Setting) -> str:
    # Only free text means something else without the spaces at its ends.
    free = setting.kind is SettingKind.STRING and not setting.choices
    return text if free else text.strip()


def _items(into: _Tag, form: Collection, node: Node, shape: Shape, path: Path) -> None:
    if isinstance(node, Items) and shape.items is not None:
        for index, item in enumerate(node.items):
            into.children.append(_Tag(form.element))
            _fill(into.children[-1], item, shape.items, (*path, index))
    elif isinstance(node, Section) and shape.any_name is not None:
        for name, item in node.children.items():
            into.children.append(_named(form, name))
            _fill(into.children[-1], item, shape.any_name, (*path, name))


def _named(form: Collection, name: str) -> _Tag:
    if form.name == NAME or not name or name.strip(WHITE_SPACE) != name:
        return _Tag(form.element, {form.name: name})
    return _Tag(form.element, children=[_Tag(form.name, text=name)])


def _render(tag: _Tag, indent: str) -> str:
    attributes = "".join(
        f' {name}="{escape(value, _ATTRIBUTE_ESCAPES)}"' for name, value in tag.attributes.items()
    )
    text = escape(tag.text, _TEXT_ESCAPES)
    begin = f"{indent}<{tag.name}{attributes}"
    if not tag.children:
        return f"{begin}>{text}</{tag.name}>\n" if text else f"{begin}/>\n"
    below = "".join(_render(child, indent + _INDENT) for child in tag.children)
    # Text beside elements, of a port, stands first; white space around it is dropped again.
    first = f"{indent}{_INDENT}{text}\n" if text else ""
    return f"{begin}>\n{first}{below}{indent}</{tag.name}>\n"
