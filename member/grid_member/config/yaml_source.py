"""YAML text to neutral nodes, with the places kept and the traps of the syntax refused."""

from __future__ import annotations

from typing import Final, Protocol

import yaml

from grid_member.config.tree import ConfigError, Items, Node, Place, Problem, Scalar, Section

MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_DEPTH_LEVELS: Final = 32
_NULL_TAG: Final = "tag:yaml.org,2002:null"
_STANDARD_TAG: Final = "tag:yaml.org,2002:"


def read_yaml(text: str, file: str) -> Node | None:
    """Return the only document of the text as nodes, None when it is empty.

    Raises:
        ConfigError: not YAML, an alias or a tag of its own (an alias can multiply a small file
            into a huge one), a name twice in one mapping, too long or too deep.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_DOCUMENT_BYTES:
        raise ConfigError([Problem(Place(file, 1, 1), "", "the file is longer than 1 MiB")])
    try:
        problems = _traps(text, file)
        if problems:
            raise ConfigError(problems)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from None
    if root is None:
        return None
    node = _node(root, file, "", problems)
    if problems:
        raise ConfigError(problems)
    return node


def _syntax_problem(error: yaml.YAMLError, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return Problem(_place(mark, file), "", f"not YAML: {reason}")


class _Mark(Protocol):
    """Where the parser was; the C and the Python parser have a class of their own each."""

    line: int
    column: int


def _place(mark: _Mark | None, file: str) -> Place:
    if mark is None:
        return Place(file, 1, 1)
    return Place(file, mark.line + 1, mark.column + 1)


def _traps(text: str, file: str) -> list[Problem]:
    problems: list[Problem] = []
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = _place(event.start_mark, file)
        if isinstance(event, yaml.AliasEvent):
            problems.append(Problem(place, "", "aliases are not allowed, write the value again"))
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if documents > 1 or depth > MAX_DEPTH_LEVELS:
            message = "one document is allowed" if documents > 1 else "nested too deep"
            return [*problems, Problem(place, "", message)]
    return problems


def _node(node: yaml.Node, file: str, path: str, problems: list[Problem]) -> Node:
    place = _place(node.start_mark, file)
    if not node.tag.startswith(_STANDARD_TAG):
        problems.append(Problem(place, path, f"the tag {node.tag} is not known"))
    if isinstance(node, yaml.MappingNode):
        return _section(node, file, path, problems)
    if isinstance(node, yaml.SequenceNode):
        items = [
            _node(item, file, f"{path}[{index}]", problems) for index, item in enumerate(node.value)
        ]
        return Items(place, tuple(items))
    return Scalar(place, None if node.tag == _NULL_TAG else str(node.value))


def _section(node: yaml.MappingNode, file: str, path: str, problems: list[Problem]) -> Section:
    children: dict[str, Node] = {}
    names: dict[str, Place] = {}
    for name_node, value_node in node.value:
        place = _place(name_node.start_mark, file)
        if not isinstance(name_node, yaml.ScalarNode):
            problems.append(Problem(place, path, "a name must be a plain word"))
            continue
        name = str(name_node.value)
        below = f"{path}.{name}" if path else name
        if name in children:
            first = names[name]
            problems.append(Problem(place, below, f"is there twice, first in line {first.line}"))
            continue
        children[name] = _node(value_node, file, below, problems)
        names[name] = place
    return Section(_place(node.start_mark, file), children, names)
