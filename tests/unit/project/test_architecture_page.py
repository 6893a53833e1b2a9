"""The page about the architecture names what is in the tree, and leaves no folder out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "architecture.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
ROOTS: Final = ("", "member", "member/grid_member", "operator", "operator/grid_operator")
"""Where a path of the page may begin."""
PACKAGES: Final = ("member/grid_member", "operator/grid_operator", "operator/gridctl")
UNCHECKED: Final = re.compile(r"^/|^gridcluster\.io/|[\s<>…{}()=]")
"""Paths of URLs, annotations, and all that is more than a path."""
FILE_NAME: Final = re.compile(r"[\w.-]+\.(py|md|toml|yaml|tpl|json|mod)")
BUILT: Final = re.compile(r"(^|/)(built|\.)")
"""Folders that `make compiled` makes."""
FENCES: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """Return the text from a heading to the next one of the same level."""
    start = TEXT.index(f"\n## {title}\n")
    return TEXT[start : TEXT.find("\n## ", start + 1)]


def tokens(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", FENCES.sub("", text))


def named_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield each path with the name of a definition in it, or an empty one."""
    for token in tokens(text):
        path, _, name = token.partition("::")
        if not UNCHECKED.search(path) and ("/" in path or FILE_NAME.fullmatch(path)):
            yield path, name


def places(path: str) -> list[Path]:
    """Return what the path may mean; a star stands for a part of a name."""
    return [found for root in ROOTS for found in (ROOT / root).glob(path)]


def folders() -> list[str]:
    """Return the folders with modules, each as the page has to name it."""
    found = list(PACKAGES)
    for place in (ROOT / package for package in PACKAGES):
        below = {path.parent.relative_to(place) for path in place.rglob("*.py")}
        found += sorted(str(one) for one in below if one.parts and not BUILT.search(str(one)))
    return found


def contracts() -> list[dict[str, Any]]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return [one for one in linter["importlinter"]["contracts"] if one["type"] == "layers"]


def layers(contract: dict[str, Any]) -> list[list[str]]:
    """Return the modules of each layer, from top to bottom, optional ones in parentheses."""
    (container,) = contract.get("containers", [""])
    found = []
    for layer in contract["layers"]:
        names = [name.strip() for name in layer.split("|")]
        if container:
            names = [
                f"({container}.{name[1:-1]})" if name.startswith("(") else f"{container}.{name}"
                for name in names
            ]
        found.append(names)
    return found


def spellings(module: str) -> list[str]:
    """Return how the page may write a module's path, the longest first."""
    if module.startswith("("):
        return [module, *spellings(module[1:-1])]
    package, _, rest = module.partition(".")
    below = rest.replace(".", "/")
    return [f"{start}{below}{end}" for start in (f"{package}/", "") for end in (".py", "")]


def in_the_map(module: str) -> tuple[int, int | None]:
    """Return where the map has a module, -1 for nowhere, and the number of its row, if any."""
    text = section("Map")
    for spelling in spellings(module):
        row = re.search(rf"^\| (\d+) \| `{re.escape(spelling)}` \|", text, re.MULTILINE)
        if row is not None:
            return row.start(), int(row[1])
    return max(text.find(f"`{spelling}`") for spelling in spellings(module)), None


def test_the_page_is_read_with_all_its_names() -> None:
    assert len(list(named_paths(TEXT))) > 300
    assert len(folders()) > 40


def test_every_path_is_there() -> None:
    assert sorted({path for path, _ in named_paths(TEXT) if not places(path)}) == []


def test_every_definition_is_there() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in named_paths(TEXT)
        if name
        and not any(
            re.search(rf"^\s*(?:(?:async )?def |class )?{name}\b", file.read_text(), re.MULTILINE)
            for file in places(path)
        )
    ]
    assert missing == []


def test_every_link_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", TEXT)
    assert len(links) > 10
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_every_link_into_a_page_leads_to_a_heading() -> None:
    for link, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", TEXT):
        page = (PAGE.parent / link) if link else PAGE
        headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
        assert anchor in slugs, f"{link}#{anchor}"


def test_the_map_names_every_folder() -> None:
    named = set(tokens(section("Map")))
    assert [one for one in folders() if one not in named] == []


def test_the_map_names_what_lies_at_the_root() -> None:
    made = {"build", "dist", "data"}
    present = {place.name for place in ROOT.iterdir() if place.is_dir()} - made
    named = set(tokens(section("Map")))
    assert [name for name in sorted(present) if name[0] != "." and name not in named] == []


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: str(contract["name"]))
def test_the_map_has_the_order_of_the_contract(contract: dict[str, Any]) -> None:
    last_place, last_number = -1, 0
    for layer in layers(contract):
        found = [in_the_map(module) for module in layer]
        assert min(place for place, _ in found) > last_place, f"{layer} is not below the one before"
        last_place = max(place for place, _ in found)
        numbers = {number for _, number in found if number is not None}
        assert len(numbers) <= 1, f"the rows of {layer} have the numbers {numbers}"
        for number in numbers:
            assert number > last_number, f"{layer} has no greater number than the layer before"
            last_number = number


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_readers_are_led_to_the_page(page: str) -> None:
    assert "(docs/architecture.md)" in (ROOT / page).read_text(encoding="utf-8")
