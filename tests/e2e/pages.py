"""The shell blocks of a page of the docs, and the output that the page says they have."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ENGINE: Final = "# Needs a container engine."
"""The first line of a block that makes images or the Kubernetes itself: tests do not run it."""
ANYTHING: Final = "…"
"""In an output: any text of a line, or any number of lines where it stands alone."""
REFUSED: Final = "# refused"
"""The end of a line whose command fails, as the page says."""
_BLOCK: Final = re.compile(r"^## ([^\n]+)$|^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines for a shell, and the output that follows them in the page, if any."""

    text: str
    output: str | None = None

    @property
    def needs_engine(self) -> bool:
        return self.text.startswith(f"{ENGINE}\n")

    @property
    def refusals(self) -> int:
        """How many of its commands fail."""
        return sum(line.endswith(REFUSED) for line in self.text.splitlines())


@dataclass(slots=True)
class Section:
    """A heading and the blocks below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)


def sections(page: Path) -> list[Section]:
    """Return the sections of a page that have blocks, in their order.

    Raises:
        ValueError: An output follows no shell block.
    """
    found = [Section("")]
    for title, kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        blocks = found[-1].blocks
        if title:
            found.append(Section(title))
        elif kind == "sh":
            blocks.append(Block(text))
        elif not blocks or blocks[-1].output is not None:
            raise ValueError(f"{page.name}: this output follows no shell block:\n{text}")
        else:
            blocks[-1] = Block(blocks[-1].text, text)
    return [section for section in found if section.blocks]


def fits(output: str, shown: str) -> bool:
    """Say whether an output is the one that a page shows; the width of columns does not count."""
    lines = [_narrow(line) for line in shown.strip().splitlines()]
    pattern = "".join(r"(?:.*\n)*" if line == ANYTHING else f"{_pattern(line)}\n" for line in lines)
    narrow = "".join(f"{_narrow(line)}\n" for line in output.strip().splitlines())
    return re.fullmatch(pattern, narrow) is not None


def _pattern(line: str) -> str:
    return ".+".join(map(re.escape, line.split(ANYTHING)))


def _narrow(line: str) -> str:
    return " ".join(line.split())
