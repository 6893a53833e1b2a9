"""The C and the Python parser of YAML: the same nodes, places and problems, whatever the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from grid_member.config import ConfigError
from grid_member.config.python_source import read_python
from grid_member.config.tree import Document
from grid_member.config.write import write_yaml
from grid_member.config.yaml import events, source
from grid_member.config.yaml.source import read_slowly, read_yaml
from tests.unit.member.config.trees import Tree, trees
from tests.unit.member.config.yaml.test_bad_yaml import BAD, PASSWORDS
from tests.unit.member.conformance.configurations import SETUPS, Place, configuration
from tests.unit.member.conformance.language import Role
from tests.unit.member.running import configuration as running_configuration
from tests.unit.member.security.certificates import Pair

ROOT = Path(__file__).parents[5]
Outcome = Document | tuple[str, ...]


def quickly(text: str) -> Outcome:
    return outcome(text, quick=True)


def slowly(text: str) -> Outcome:
    return outcome(text, quick=False)


def outcome(text: str, *, quick: bool) -> Outcome:
    """Return the document, with its problems and all places, or why there is none."""
    try:
        return read_yaml(text, "f") if quick else read_slowly(text, "f")
    except ConfigError as error:
        return tuple(str(problem) for problem in error.problems)


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
def test_what_is_right_is_read_by_the_quick_parser_alone(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = slowly(text)

    def refuse(*_: object) -> None:
        raise AssertionError("the Python parser is asked")

    monkeypatch.setattr(source, "slow_source", refuse)
    assert isinstance(expected, Document)
    assert quickly(text) == expected


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:40]) for text in HOSTILE])
def test_both_say_the_same_of_what_is_strange(text: str) -> None:
    assert quickly(text) == slowly(text)


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
def test_both_read_any_text_alike(begin: str, soup: str) -> None:
    assert quickly(begin + soup) == slowly(begin + soup)


@settings(QUIETLY, max_examples=200)
@given(trees(), SOUPS, st.integers(0), st.integers(0, 3))
def test_both_read_a_spoilt_configuration_alike(
    tree: Tree, soup: str, position: int, removed: int
) -> None:
    text = write_yaml(read_python(tree).root)
    begin = position % (len(text) + 1)
    spoilt = text[:begin] + soup + text[begin + removed :]
    assert quickly(text) == slowly(text)
    assert quickly(spoilt) == slowly(spoilt)


@pytest.mark.parametrize(
    "text", ["grid:\u2028  a: 1", "grid:\n  a:\t1\r\x85  b: 2", "grid:\n  a: |#c\n"], ids=repr
)
def test_without_the_check_of_the_text_they_differ(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_READ_OTHERWISE", re.compile("(?!)"))
    assert quickly(text) != slowly(text)


def test_pyyaml_without_libyaml_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yaml.__with_libyaml__, "or nothing is shown here"
    expected = quickly(running_configuration())
    monkeypatch.setattr(events, "QUICK_LOADER", None)
    assert isinstance(expected, Document)
    assert quickly(running_configuration()) == expected
