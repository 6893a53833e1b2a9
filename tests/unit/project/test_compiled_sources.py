"""What compiled modules must not have, as the compiler makes something else of it than Python."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member import compiled
from grid_member.compiled.modules import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(compiled.__file__).parents[2]
WAITS = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
OTHERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def inside(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what is in statements, but for functions in them."""
    left: list[ast.AST] = list(nodes)
    while left:
        node = left.pop()
        if not isinstance(node, OTHERS):
            yield node
            left += ast.iter_child_nodes(node)


def waits_in_handlers(text: str) -> list[int]:
    """Return the lines that wait, or give way, while an exception may be handled.

    Compiled, that exception stays the thread's present one while others run: it becomes the context
    of theirs, and a bare `raise` there may raise it.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Try, ast.TryStar)):
            bodies = [node.finalbody, *(handler.body for handler in node.handlers)]
            found += [n.lineno for body in bodies for n in inside(body) if isinstance(n, WAITS)]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_nothing_waits_while_an_exception_is_handled(module: str) -> None:
    assert waits_in_handlers((SOURCES / module).read_text(encoding="utf-8")) == []


HANDLES = """
async def f():
    try:
        {body}
    except ValueError:
        {handler}
    else:
        {other}
    finally:
        {end}
"""


@pytest.mark.parametrize(
    ("where", "lines"), [("body", []), ("handler", [6]), ("other", []), ("end", [10])]
)
@pytest.mark.parametrize("wait", ["await g()", "yield", "async with g(): pass"])
def test_a_planted_wait_is_seen(where: str, lines: list[int], wait: str) -> None:
    parts = dict.fromkeys(("body", "handler", "other", "end"), "pass") | {where: wait}
    assert waits_in_handlers(HANDLES.format(**parts)) == lines


def test_what_a_function_in_a_handler_waits_for_is_no_matter() -> None:
    inner = "async def h(): await g()"
    text = HANDLES.format(body="pass", handler=inner, other="pass", end="pass")
    assert waits_in_handlers(text) == []
