"""A configuration from one syntax to the other."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from grid_member.config.load import raise_problems, read_document
from grid_member.config.settings.shape import Shape, settings_shape
from grid_member.config.tree import Items, Node, Section
from grid_member.config.validate import collect
from grid_member.config.write import write_xml, write_yaml

Syntax: TypeAlias = Literal["xml", "yaml"]

_WRITERS: Final = {"xml": write_xml, "yaml": write_yaml}


def convert(text: str, file: str, to: Syntax) -> str:
    """Return the document in the syntax `to`, xml or yaml; file is what problems name.

    Values are kept as they are written, variables too; comments and the order of attributes and
    elements beside each other are lost, and so is what is refused unless it is off. Elements, types
    and ranges are checked first, but not what
    spans several elements: that may hang on variables.

    Raises:
        ConfigError: the document cannot be read, or does not fit the table of settings.
    """
    document = read_document(text, file)
    raise_problems([*document.problems, *collect(document.root, None).problems])
    return _WRITERS[to](_drop_refused(document.root, settings_shape()))


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
