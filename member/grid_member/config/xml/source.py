"""XML elements to neutral nodes, by the table of settings and its forms in XML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grid_member.config.settings.shape import Path, Shape, path_text, settings_shape
from grid_member.config.tree import Document, Items, Node, Problem, Scalar, Section, SourcePosition
from grid_member.config.validate import VARIABLE
from grid_member.config.xml.elements import Element, read_elements
from grid_member.config.xml.forms import TEXTS, WHITE_SPACE, Collection, collection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_member.config.settings.refusal import RefusedSetting


def read_xml(text: str, file: str) -> Document:
    """Return what stands in the element `grid`; an element's text is without spaces at its ends.

    Raises:
        ConfigError: not XML, a document type declaration, too deep, or another top element.
    """
    problems: list[Problem] = []
    top = read_elements(text, file, problems)
    return Document(_Converter(problems).section(top, settings_shape(), ()), problems)


@dataclass(slots=True)
class _SectionParts:
    """The children of one section while it is read."""

    shape: Shape
    path: Path
    children: dict[str, Node] = field(default_factory=dict)
    names: dict[str, SourcePosition] = field(default_factory=dict)
    lists: dict[str, list[Node]] = field(default_factory=dict)
    by_name: dict[str, _SectionParts] = field(default_factory=dict)


@dataclass(slots=True)
class _Converter:
    problems: list[Problem]

    def section(self, element: Element, shape: Shape, path: Path, name_in: str = "") -> Node:
        """Read an element that holds further ones; one that has only text is given as a value.

        What holds the element's name, an attribute or a child of the name `name_in`, is left out.
        """
        text = _text(element)
        into = _SectionParts(shape, path)
        text_child = TEXTS.get(shape.path)
        if text and text_child:
            self._add(into, text_child, Scalar(element.place, text), element.place)
        elif text and not element.children and not element.attributes:
            return Scalar(element.place, text)
        elif text:
            self._complain(element.place, path, "text is not allowed beside elements")
        for name, (value, place) in element.attributes.items():
            if name != name_in:
                self._add(into, name, Scalar(place, value), place)
        for child in element.children:
            if child.name != name_in:
                self._child(into, child)
        return _section(element.place, into)

    def _complain(self, place: SourcePosition, path: Path, message: str) -> None:
        self.problems.append(Problem(place, path_text(path), message))

    def _add(self, into: _SectionParts, name: str, node: Node, place: SourcePosition) -> None:
        known = into.shape.below.get(name)
        if name not in into.children:
            into.children[name] = node
            into.names[name] = place
        elif known is None:
            return
        elif known.refusal is None:
            self._twice(place, (*into.path, name), into.names[name])
        elif not _is_switched_on(into.children[name], known.refusal):
            # One of them that is on is refused.
            into.children[name], into.names[name] = node, place

    def _twice(self, place: SourcePosition, path: Path, first: SourcePosition) -> None:
        self._complain(place, path, f"is there twice, first in line {first.line}")

    def _child(self, into: _SectionParts, child: Element) -> None:
        name, form, is_item = _meaning(child.name, into.shape)
        below = into.shape.below.get(name)
        if below is None or below.refusal is not None:
            self._add(into, name, _raw(child), child.place)
        elif form is None:
            self._add(into, name, self._node(child, below, (*into.path, name)), child.place)
        elif is_item:
            self._item(into, name, child, form)
        else:
            self._wrapper(into, name, child, form)

    def _node(self, element: Element, shape: Shape, path: Path) -> Node:
        if shape.setting is None:
            return self.section(element, shape, path)
        if element.children or element.attributes:
            return Section(element.place, {}, {})
        return Scalar(element.place, _text(element))

    def _wrapper(self, into: _SectionParts, name: str, wrapper: Element, form: Collection) -> None:
        path = (*into.path, name)
        if name in into.names:
            self._twice(wrapper.place, path, into.names[name])
            return
        for attribute, (_, place) in wrapper.attributes.items():
            self._complain(place, (*path, attribute), "unknown attribute")
        if _text(wrapper):
            self._complain(wrapper.place, path, f"must hold {form.element} elements, not text")
        shape = into.shape.below[name]
        self._open(into, name, shape, wrapper.place)
        for child in wrapper.children:
            if child.name == form.element:
                self._item_of(into, name, child, form)
            else:
                message = f"unknown element, only {form.element} is allowed here"
                self._complain(child.place, (*path, child.name), message)
        into.children[name] = Section(wrapper.place, {}, {})

    def _item(self, into: _SectionParts, name: str, item: Element, form: Collection) -> None:
        if name in into.children:
            self._twice(item.place, (*into.path, name), into.names[name])
            return
        self._open(into, name, into.shape.below[name], item.place)
        self._item_of(into, name, item, form)

    def _open(self, into: _SectionParts, name: str, shape: Shape, place: SourcePosition) -> None:
        into.names.setdefault(name, place)
        if shape.items is not None:
            into.lists.setdefault(name, [])
        else:
            into.by_name.setdefault(name, _SectionParts(shape, (*into.path, name)))

    def _item_of(self, into: _SectionParts, name: str, item: Element, form: Collection) -> None:
        shape = into.shape.below[name]
        if shape.items is not None:
            items = into.lists[name]
            items.append(self._node(item, shape.items, (*into.path, name, len(items))))
        elif shape.any_name is not None:
            self._named_item(into.by_name[name], item, shape.any_name, form)

    def _named_item(
        self, into: _SectionParts, item: Element, shape: Shape, form: Collection
    ) -> None:
        names = list(_names(item, form.name))
        if form.default_name and not any(name for name, _ in names):
            names = list(_names(item, form.default_name))[:1]
            if names and VARIABLE.search(names[0][0]):
                where = f"where its {form.default_name} has a variable"
                message = f"a {item.name} needs a {form.name} {where}"
                self._complain(item.place, into.path, message)
                return
        if not names:
            self._complain(item.place, into.path, f"every {item.name} needs a {form.name}")
            return
        name, _ = names[0]
        path = (*into.path, name)
        for _, place in names[1:]:
            self._twice(place, (*path, form.name), names[0][1])
        if name in into.children:
            self._twice(item.place, path, into.names[name])
            return
        into.children[name] = self.section(item, shape, path, name_in=form.name)
        into.names[name] = item.place


def _raw(element: Element) -> Node:
    """Return what stands in an element that the table does not know further."""
    if not element.children and not element.attributes:
        return Scalar(element.place, _text(element) or None)
    found: dict[str, tuple[Node, SourcePosition]] = {
        name: (Scalar(place, value), place) for name, (value, place) in element.attributes.items()
    }
    if text := _text(element):
        found[""] = (Scalar(element.place, text), element.place)
    for number, child in enumerate(element.children):
        name = child.name if child.name not in found else f"{child.name} {number}"
        found[name] = (_raw(child), child.place)
    children = {name: node for name, (node, _) in found.items()}
    return Section(element.place, children, {name: place for name, (_, place) in found.items()})


def _is_switched_on(node: Node, refused: RefusedSetting) -> bool:
    return not refused.is_off(node, lambda text: None if VARIABLE.search(text) else text)


def _section(place: SourcePosition, gathered: _SectionParts) -> Section:
    children: dict[str, Node] = {}
    for name, name_place in gathered.names.items():
        if name in gathered.lists:
            children[name] = Items(name_place, tuple(gathered.lists[name]))
        elif name in gathered.by_name:
            children[name] = _section(name_place, gathered.by_name[name])
        else:
            children[name] = gathered.children[name]
    return Section(place, children, gathered.names)


def _text(element: Element) -> str:
    return "".join(element.text).strip(WHITE_SPACE)


def _names(item: Element, name_in: str) -> Iterator[tuple[str, SourcePosition]]:
    if name_in in item.attributes:
        yield item.attributes[name_in]
    for child in item.children:
        if child.name == name_in:
            yield _text(child), child.place


def _meaning(element: str, shape: Shape) -> tuple[str, Collection | None, bool]:
    """Return the name in the table that an element stands for, and whether it is one of many."""
    for name, below in shape.below.items():
        form = collection(below)
        if form is not None and element == form.element:
            return name, form, True
        if form is not None and element == name:
            return name, form, False
    return element, None, False
