"""Pages of the docs are read and run as their readers read and run them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.pages import Block, Section, fits, sections
from tests.e2e.terminal import Ran, Terminal, open_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
TUTORIAL = ROOT / "docs" / "tutorial-kubernetes.md"
HELM = "helm "

PAGE = """# Title

## First

```sh
# Needs a container engine.
kind create cluster
```

```sh
echo a
```

Text.

```text
a
```

## Without blocks

```yaml
a: b
```

## Second

```sh
false   # refused
```
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with open_terminal(tmp_path, os.environ) as shell:
        yield shell


def test_a_page_has_its_blocks_and_outputs_in_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    engine = Block("# Needs a container engine.\nkind create cluster\n")
    refused = Block("false   # refused\n")

    assert sections(page) == [
        Section("First", [engine, Block("echo a\n", "a\n")]),
        Section("Second", [refused]),
    ]
    assert engine.needs_engine
    assert not refused.needs_engine
    assert (engine.refusals, refused.refusals) == (0, 1)


@pytest.mark.parametrize("page", ["```text\na\n```\n", "```sh\na\n```\n" + "```text\na\n```\n" * 2])
def test_an_output_of_no_block_is_refused(tmp_path: Path, page: str) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(ValueError, match="follows no shell block"):
        sections(tmp_path / "page.md")


@pytest.mark.parametrize(
    ("output", "shown", "expected"),
    [
        ("a\n", "a\n", True),
        ("NAME   AGE\ndemo   5s\n", "NAME AGE\ndemo     …\n", True),
        ("demo\n", "demo…\n", False),
        ("a\nb\nc\nd\n", "a\n…\nd\n", True),
        ("a\nd\n", "a\n…\nd\n", True),
        ("a\nb\n", "a\n", False),
        ("a\nb\n", "a\n…\nc\n", False),
        ("axb\n", "a.b\n", False),
        ("", "a\n", False),
    ],
)
def test_an_output_fits_what_the_page_shows(output: str, shown: str, *, expected: bool) -> None:
    assert fits(output, shown) is expected


def test_blocks_share_a_shell_and_their_failures_are_named(terminal: Terminal) -> None:
    assert terminal.run("a=1\ncat\n", 10) == Ran("\n", ())
    assert terminal.run('echo "$a"; echo b >&2\nls /none 2>/dev/null\nfalse\n', 10) == Ran(
        "1\nb\n\n", ("ls /none 2> /dev/null", "false")
    )
    assert terminal.run("if false; then :; fi; true\n", 10).failed == ()


def test_a_block_that_hangs_or_ends_the_shell_is_an_error(terminal: Terminal) -> None:
    with pytest.raises(TimeoutError, match="begun"):
        terminal.run("echo begun; sleep 60\n", 1)


def test_a_block_that_ends_the_shell_is_an_error(terminal: Terminal) -> None:
    with pytest.raises(EOFError, match="last words"):
        terminal.run("echo last words; exit 0\n", 10)


def helm_commands(page: Path) -> list[set[str]]:
    """Return the words of each command for Helm on a page."""
    blocks = [block for section in sections(page) for block in section.blocks]
    lines = [line for block in blocks for line in block.text.splitlines()]
    return [set(line.split()) for line in lines if line.startswith(HELM)]


def test_helm_commands_of_the_readme_are_run_with_the_tutorial() -> None:
    commands, tried = helm_commands(ROOT / "README.md"), helm_commands(TUTORIAL)

    assert len(commands) == 3
    assert [command for command in commands if not any(command <= one for one in tried)] == []


def test_the_tutorial_leaves_out_only_what_makes_images_and_the_kubernetes() -> None:
    blocks = [block for section in sections(TUTORIAL) for block in section.blocks]
    left_out = [line for block in blocks if block.needs_engine for line in block.text.splitlines()]

    assert {line.split()[0] for line in left_out} == {"#", "docker", "kind", "kill"}
