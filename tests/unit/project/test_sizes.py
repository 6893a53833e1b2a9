"""No folder, file, class or module is more than one reader can hold in mind."""

from __future__ import annotations

from pathlib import Path, PurePath
from textwrap import dedent
from typing import TYPE_CHECKING, Final

import pytest

from tests.unit.project import size_exceptions as exceptions
from tests.unit.project.size_rules import (
    CLASS_ATTRIBUTES,
    CLASS_LINES,
    FAN_OUT,
    LONE_BASES,
    MAX_FILE_LINES,
    MAX_FILES_IN_FOLDER,
    PRIVATE_NAMES,
    Rule,
    files_by_folder,
    violations,
)
from tests.unit.project.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[3]
EVERYWHERE: Final = ("member", "operator", "tests", "bench")
RULES: Final = (
    (CLASS_LINES, exceptions.CLASS_LINES),
    (CLASS_ATTRIBUTES, exceptions.CLASS_ATTRIBUTES),
    (LONE_BASES, exceptions.LONE_BASES),
    (PRIVATE_NAMES, exceptions.PRIVATE_NAMES),
    (FAN_OUT, exceptions.FAN_OUT),
)
NAMES: Final = ("class lines", "class attributes", "lone bases", "private names", "fan-out")


def files() -> list[Path]:
    return [path for part in EVERYWHERE for path in sorted((ROOT / part).rglob("*.py"))]


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources.below(ROOT / "member", ROOT / "operator")


def test_folders_have_few_files() -> None:
    found = files_by_folder(file.relative_to(ROOT) for file in files())
    assert len(found) > 100
    advice = "give those of one subject a folder"
    assert violations(found, MAX_FILES_IN_FOLDER, {}, advice) == {}


def test_files_are_as_long_as_one_idea() -> None:
    found = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in files()
    }
    assert len(found) > 1000
    assert violations(found, MAX_FILE_LINES, {}, "give each idea a file") == {}


@pytest.mark.parametrize(("rule", "but"), RULES, ids=NAMES)
def test_modules_and_classes_are_small(
    sources: Sources, rule: Rule, but: Mapping[str, int]
) -> None:
    found = rule.measured(sources)
    assert len(found) > 10
    assert violations(found, rule.at_most, but, rule.advice) == {}


def figure(rule: Rule, name: str, **texts: str) -> int:
    modules = {module.replace("__", "."): dedent(text) for module, text in texts.items()}
    return rule.measured(Sources(modules)).get(name, 0)


def over(rule: Rule, name: str, **texts: str) -> bool:
    return figure(rule, name, **texts) > rule.at_most


def test_files_are_counted_in_the_folder_that_they_stand_in() -> None:
    places = [PurePath("a/one.py"), PurePath("a/b/two.py"), PurePath("a/b/three.py")]
    assert files_by_folder(places) == {"a": 1, "a/b": 2}


def test_a_class_is_as_long_as_all_that_it_inherits() -> None:
    base = "class Base:\n" + "    x = 1\n" * 299
    first = "from p import Base\n\nclass First(Base):\n" + "    x = 1\n" * 199
    assert figure(CLASS_LINES, "m.First", p=base, m=first) == 500
    assert not over(CLASS_LINES, "m.First", p=base, m=first)
    assert over(CLASS_LINES, "m.First", p=base, m=first + "    x = 1\n")
    through_a_package = first.replace("from p import", "from p.shown import")
    shown = "from p import Base\n"
    assert figure(CLASS_LINES, "m.First", p=base, p__shown=shown, m=through_a_package) == 500


def test_attributes_are_what_is_declared_what_slots_name_and_what_is_assigned() -> None:
    text = """
        class Base:
            __slots__ = ("a", "b")

        class First(Base):
            c: int
            d = 4

            def __init__(self):
                self.e: int = 5
                self.a, self.f = 1, 6

            def work(self, other):
                self.e += 1
                self.f.g = other.h = local = self.i
        """
    assert figure(CLASS_ATTRIBUTES, "m.First", m=text) == len("abcdef")
    many = "class First:\n" + "".join(f"    x{number}: int\n" for number in range(25))
    assert not over(CLASS_ATTRIBUTES, "m.First", m=many)
    assert over(CLASS_ATTRIBUTES, "m.First", m=many + "    x25: int\n")


def test_members_of_enums_and_fields_of_the_api_are_no_attributes() -> None:
    body = "".join(f"    x{number} = {number}\n" for number in range(30))
    assert over(CLASS_ATTRIBUTES, "m.First", m="class First:\n" + body)
    enum = "import enum\n\nclass First(enum.Enum):\n" + body
    assert not over(CLASS_ATTRIBUTES, "m.First", m=enum)
    model = "from pydantic import BaseModel\n\nclass Base(BaseModel): ...\n"
    assert not over(
        CLASS_ATTRIBUTES, "m.First", p=model, m="import p\n\nclass First(p.Base):\n" + body
    )


def test_a_base_class_has_two_subclasses() -> None:
    base, first = "class Base: ...\n", "from p import Base\n\nclass First(Base): ...\n"
    assert over(LONE_BASES, "p.Base", p=base, m=first)
    second = "import p\n\nclass Second(p.Base): ...\n"
    assert not over(LONE_BASES, "p.Base", p=base, m=first, n=second)
    assert not over(LONE_BASES, "p.Base", p=base, m="from p import Base\n")
    generic = base + "class First(Base[int]): ...\n"
    assert over(LONE_BASES, "p.Base", p=generic)
    below = base + "class First(Base): ...\nclass Second(First): ...\nclass Third(First): ...\n"
    assert over(LONE_BASES, "p.Base", p=below)


@pytest.mark.parametrize(
    "base",
    [
        "from typing import Protocol\n\nclass Base(Protocol): ...\n",
        "import typing\n\nclass Base(typing.Protocol[int]): ...\n",
        "from typing import TypedDict\n\nclass Base(TypedDict): ...\n",
        "class Base(OSError): ...\n",
        "from kopf import TemporaryError\n\nclass Base(TemporaryError): ...\n",
    ],
)
def test_shapes_and_errors_are_bases_of_few(base: str) -> None:
    assert not over(LONE_BASES, "m.Base", m=base + "\nclass First(Base): ...\n")


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("from p import name\n", 0),
        ("from p import name as _name\n", 0),
        ("from p import __version__\n", 0),
        ("import p\n\np.name\nself._name\nother._name\n", 0),
        ("from p import _name\n", 1),
        ("from p import _name as name\n", 1),
        ("from elsewhere import _name\n", 1),
        ("def work():\n    from p import _one, _two\n", 2),
        ("import p\n\np._name\n", 1),
        ("from p import q as other\n\nother._name\n", 1),
    ],
)
def test_private_names_stay_in_their_module(text: str, private: int) -> None:
    assert figure(PRIVATE_NAMES, "m", m=text, p="_name = 1\n", p__q="_name = 1\n") == private


def test_the_fan_out_of_a_module_is_the_modules_that_it_imports() -> None:
    text = """
        from __future__ import annotations

        import os
        from typing import TYPE_CHECKING

        from p import a, name
        from p.a import First

        if TYPE_CHECKING:
            from p.b import Second

        def work():
            import p.c
        """
    modules = dict.fromkeys(("p", "p__a", "p__b", "p__c", "p__d"), "")
    assert figure(FAN_OUT, "m", m=text, **modules) == len(("p", "p.a", "p.b", "p.c"))
    many = dict.fromkeys((f"p{number}" for number in range(21)), "")
    imports = [f"import p{number}\n" for number in range(21)]
    assert not over(FAN_OUT, "m", m="".join(imports[:20]), **many)
    assert over(FAN_OUT, "m", m="".join(imports), **many)


@pytest.mark.parametrize(
    ("found", "excepted", "names"),
    [
        ({"a": 20}, {}, set()),
        ({"a": 21}, {}, {"a"}),
        ({"a": 25, "b": 3}, {"a": 25}, set()),
        ({"a": 26}, {"a": 25}, {"a"}),
        ({"a": 24}, {"a": 25}, {"a"}),
        ({"a": 20}, {"a": 25}, {"a"}),
        ({}, {"a": 25}, {"a"}),
    ],
    ids=["kept", "broken", "excepted", "grown", "shrunk", "kept-again", "gone"],
)
def test_exceptions_only_shrink(
    found: dict[str, int], excepted: dict[str, int], names: set[str]
) -> None:
    assert violations(found, 20, excepted).keys() == names
