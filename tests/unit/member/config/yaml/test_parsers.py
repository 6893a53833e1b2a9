"""Whatever a text says: YAML is read as a document, or refused with problems that have a place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from grid_member.config import ConfigError, Problem
from grid_member.config.convert import write_yaml
from grid_member.config.python_source import read_python
from grid_member.config.yaml.source import read_yaml
from tests.unit.member.config.trees import Tree, trees
from tests.unit.member.config.yaml.test_bad_yaml import BAD, PASSWORDS
from tests.unit.member.conformance.configurations import SETUPS, Place, configuration
from tests.unit.member.conformance.language import Role
from tests.unit.member.running import configuration as running_configuration
from tests.unit.member.security.certificates import Pair

ROOT = Path(__file__).parents[5]
LINE_ENDS = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


def is_read(text: str) -> bool:
    """Tell whether a text is a document; the place of each problem has to be in the text."""
    try:
        problems, read = read_yaml(text, "f").problems, True
    except ConfigError as error:
        problems, read = list(error.problems), False
    assert read or problems
    assert all(is_inside(text, problem) for problem in problems)
    return read


def is_inside(text: str, problem: Problem) -> bool:
    place, lines = problem.place, LINE_ENDS.split(text)
    if place is None:
        return False
    return 1 <= place.line <= len(lines) and 1 <= place.column <= len(text) + 1


def manual_examples() -> list[str]:
    found: list[str] = []
    for file in sorted((ROOT / "docs").glob("*.md")):
        found += re.findall(r"```yaml\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
    return [text for text in found if text.startswith("grid:")]


def of_the_members_under_test() -> list[str]:
    place = Place(Path("/d"), Pair(Path("/c"), Path("/k")))
    roles = [role for role in Role if role is not Role.MANAGED]
    setups = [setup for setup in SETUPS if setup.syntax == "yaml"]
    return [configuration(role, setup, place) for role in roles for setup in setups]


SAMPLES = [*manual_examples(), *of_the_members_under_test(), running_configuration()]
LONG = "k" * 1023
HOSTILE = [
    *(text for text, _ in BAD),
    *(f"grid: {{cluster-name: {password}}}" for password in PASSWORDS),
    *(
        "",
        " ",
        "\n",
        "#",
        "grid:",
        "grid:\n",
        "grid: ",
        "grid:\n  map:\n    a:",
        "? grid",
        "grid: {a: }",
    ),
    *(
        "grid: {a:}",
        "grid: {a}",
        "grid: {a, b: , c}",
        "grid: [a: , ? b, ?]",
        "grid: {? a : , b: 1}",
    ),
    *(
        "grid: [a?b]",
        "grid: a?b",
        "grid: {a: 'b?c'}",
        "grid: {a?: b}",
        "grid:\n  a: |#c\n",
        "grid: >1#",
    ),
    *(
        "grid:\n  a:\t1",
        "grid:\n\ta: 1",
        "grid: a\rb: c",
        "grid: a\r\n  b\r\nc: d",
        "grid:\r\n  a: b\r\n",
    ),
    *(
        "grid: a\x85b",
        "grid:\u2028  a: 1",
        "\u2029grid: 1",
        "grid: \ufeff",
        "\ufeffgrid: 1",
        "a\ufeffb: c",
    ),
    *(
        "grid: \U0001f600 \U0001f600: b",
        "grid: {\U0001f600: 1, é: é, a: *b}",
        "grid: \ud800",
        "grid: \ufffe",
    ),
    *(
        "%YAML 1.1\n---\ngrid: 1",
        "%YAML 1.2\n---\ngrid: 1",
        "%YAML 2.0\n---\na",
        "%TAG ! x\n---\n!a b",
        "%x",
    ),
    *(
        "---\ngrid: 1\n...",
        "---\n---",
        "grid: 1\n...\n---\nb",
        "grid: 1\n... x",
        "--- grid: 1",
        "--- |\n a",
    ),
    *(
        "grid: ! a",
        "grid: !",
        "grid: !!null x",
        "grid: !!str ~",
        "! {grid: 1}",
        "!x {grid: 1}",
        "!x grid: 1",
    ),
    *(
        "grid: &a 1\nb: &a 2",
        "grid: &a [*a, *b]",
        "*a : b",
        "&a grid: 1",
        "? &a grid\n: *a",
        "grid: {*a : 1}",
    ),
    *(
        "grid: ~\nb: null",
        "grid: Null",
        "grid: 'null'",
        "grid: nULL",
        'grid: "\\x"',
        'grid: "\\ud800"',
    ),
    *(
        "? [a]\n: !x b\ngrid: 1",
        "? {a: !x b}\n: {a: 1, a: 2}",
        "grid: 1\ngrid: {a: !x 1}",
        "<<: {a: 1}",
        "=: 1",
    ),
    *(f"{'[' * n}{']' * n}" for n in (32, 33, 34, 1200)),
    *(f"grid: {'{a: ' * n}1{'}' * n}" for n in (31, 32, 33)),
    *(f"{LONG[: -n or None]}: 1\n{LONG}\U0001f600: 1" for n in range(3)),
    *(f'grid: {{"{LONG}{tail}": 1}}' for tail in ("", "k", "kk")),
    "grid:\n" + "".join(f"  a{n}:\n" for n in range(50)),
    "grid: |\n  a\n\n  b\n   c\n\n\nx: >-\n  a\n  b\n\n  c\n",
    "grid: 'a\n\n  b'\nb: \"a \\\n   b\n  c\"\nc: a\n  b\n\n  c",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_what_is_right_is_read(text: str) -> None:
    assert read_yaml(text, "f").problems == []


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:40]) for text in HOSTILE])
def test_what_is_strange_is_a_document_or_has_problems(text: str) -> None:
    is_read(text)


PIECES = (
    *(
        "a",
        "b",
        "grid",
        "1",
        "~",
        "null",
        ": ",
        ":",
        "- ",
        "-",
        "? ",
        "?",
        "[",
        "]",
        "{",
        "}",
        ", ",
    ),
    *("\n", "\n  ", "\n    ", " ", "'", '"', "'x'", '"y"', '"\\n"', "''", "#", " # c", "|", "|\n"),
    *(">-\n", "|2\n", "!", "!x ", "!!str ", "&a ", "*a", "%YAML 1.1\n", "@", "`", "---\n", "...\n"),
    *("\t", "\r", "\r\n", "\x85", "\u2028", "\ufeff", "\x00", "\x7f", "é", "\U0001f600", "\ud800"),
    *("\\", "<<", "=", "x: y", "k: v\n", "- i\n", "a:b", "a #b", "'a\n\n b'", '"a \n b"'),
)
SOUPS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
BEGINS = st.sampled_from(
    ["", "grid: ", "grid:\n  ", "grid:\n  a: ", "grid: {a: ", "grid: [", "grid:\n  - "]
)
QUIETLY = settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow])


@QUIETLY
@given(BEGINS, SOUPS)
@example("", "grid: a\rb: c")
def test_any_text_is_a_document_or_has_problems(begin: str, soup: str) -> None:
    is_read(begin + soup)


@settings(QUIETLY, max_examples=200)
@given(trees(), SOUPS, st.integers(0), st.integers(0, 3))
def test_a_spoilt_configuration_is_a_document_or_has_problems(
    tree: Tree, soup: str, position: int, removed: int
) -> None:
    text = write_yaml(read_python(tree).root)
    begin = position % (len(text) + 1)
    assert is_read(text)
    is_read(text[:begin] + soup + text[begin + removed :])
