"""Compiled modules: when a process uses them, what it says, and that the answers are the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from grid_member import compiled
from grid_member.command import EXIT_START
from grid_member.compiled import (
    BUILT,
    GROUP,
    MANIFEST,
    VARIABLE,
    NotCompiledError,
    build,
    misfit,
)
from grid_member.compiled.modules import MODULES
from tests.unit.member.running import configuration, loaded
from tests.unit.member.wire import once

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.member.running import MemberProcess

COMPILED = "the data path is compiled"
INTERPRETED = "the data path is interpreted"
LOAD = """
import sys
from pathlib import Path
from grid_member.compiled import use
{before}
print(use(sys.argv[1], Path(sys.argv[2])))
import grid_member.engine.state.maps
print(grid_member.engine.state.maps.__file__)
"""


def loads(wanted: str, directory: Path = BUILT, before: str = "") -> tuple[str, str]:
    """Return why a new process interprets the sources, and where it has a module from."""
    command = [sys.executable, "-c", LOAD.format(before=before), wanted, str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    reason, file = ran.stdout.splitlines()
    return reason, Path(file).suffix


@pytest.fixture
def built() -> Path:
    """Return where compiled modules of these sources are."""
    assert misfit() is None, "make compiled"
    return BUILT


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    """Return a copy of them that may be changed."""
    return Path(shutil.copytree(built, tmp_path / "files"))


def change(directory: Path, **what: Any) -> None:
    manifest = directory / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | what))


@pytest.mark.parametrize(("wanted", "says"), [("required", COMPILED), ("off", INTERPRETED)])
async def test_a_process_runs_what_is_wanted(
    member_process: Callable[..., MemberProcess], built: Path, wanted: str, says: str
) -> None:
    member = member_process(configuration(), {VARIABLE: wanted})
    member.wait_for(says)
    member.wait_for("ready")
    assert (await once(member.port, "POST", "/grid/rest/maps/default/k", b"v")).status == 200
    assert (await once(member.port, "GET", "/grid/rest/maps/default/k")).body == b"v"
    assert (GROUP in loaded(member.process.pid)) is (wanted == "required")


def test_what_is_switched_off_is_said(member_process: Callable[..., MemberProcess]) -> None:
    member = member_process(configuration(), {VARIABLE: "off"})
    assert member.wait_for(INTERPRETED)["reason"] == "it is switched off"


def test_a_word_that_says_nothing(member_process: Callable[..., MemberProcess]) -> None:
    with pytest.raises(AssertionError, match="GRID_COMPILED: 'yes' is none of auto, off, required"):
        member_process(configuration(), {VARIABLE: "yes"}).end()


def test_the_exit_code_says_that_it_cannot_start(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(configuration())
    command = [sys.executable, "-m", "grid_member", "--config", str(file)]
    ran = subprocess.run(command, env={**os.environ, VARIABLE: "yes"}, capture_output=True)
    assert ran.returncode == EXIT_START


def test_every_module_is_compiled_once(built: Path) -> None:
    package = Path(compiled.__file__).parents[2]
    assert all((package / module).is_file() for module in MODULES)
    assert len(set(MODULES)) == len(MODULES)
    found = {
        str(file.relative_to(built).with_name(file.name.partition(".")[0]))
        for file in built.rglob("*.so")
    }
    assert found == {module.removesuffix(".py") for module in MODULES} | {GROUP}


def test_what_fits_is_used(built: Path) -> None:
    assert loads("auto", built) == loads("required", built) == ("None", ".so")


def test_nothing_was_built(tmp_path: Path) -> None:
    reason, suffix = loads("auto", tmp_path)
    assert "python -m grid_member.compiled.build" in reason
    assert suffix == ".py"


def test_built_from_other_sources(copied: Path) -> None:
    change(copied, sources="others")
    reason, suffix = loads("auto", copied)
    assert "the sources have changed since they were compiled" in reason
    assert suffix == ".py"


def test_built_for_another_python(copied: Path) -> None:
    change(copied, suffix=".cpython-39-other.so")
    reason, suffix = loads("auto", copied)
    assert "is for .cpython-39-other.so, not .cpython-3" in reason
    assert suffix == ".py"


@pytest.mark.parametrize("text", ["", "{", "[]", "\0"])
def test_a_manifest_that_is_none(copied: Path, text: str) -> None:
    (copied / MANIFEST).write_text(text)
    reason, suffix = loads("auto", copied)
    assert "nothing was built" in reason
    assert suffix == ".py"


def test_what_cannot_be_loaded(copied: Path) -> None:
    (library,) = copied.glob(f"{GROUP}*")
    library.write_bytes(b"no library")
    reason, suffix = loads("auto", copied)
    assert "what was built cannot be loaded" in reason
    assert suffix == ".py"


def test_what_is_loaded_already(built: Path) -> None:
    reason, suffix = loads("auto", built, "import grid_member.engine.api")
    assert reason.endswith("is loaded already")
    assert suffix == ".py"


def test_an_empty_word_is_none(member_process: Callable[..., MemberProcess]) -> None:
    member_process(configuration(), {VARIABLE: ""}).wait_for("ready")


def test_a_source_that_cannot_be_read(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone.py").symlink_to("nowhere")
    monkeypatch.setattr(compiled, "_PACKAGE", tmp_path)
    assert "the sources cannot be read" in str(misfit(copied))


@pytest.mark.parametrize("optional", [True, False])
def test_without_a_compiler_nothing_is_begun(tmp_path: Path, optional: bool) -> None:
    command = [sys.executable, "-m", "grid_member.compiled.build", "--into", str(tmp_path / "b")]
    command += ["--optional"] if optional else []
    environment = {**os.environ, "CC": "no-such-compiler -pthread"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == (0 if optional else 1)
    (line,) = ran.stderr.splitlines()
    assert "there is no C compiler 'no-such-compiler'" in line
    assert not (tmp_path / "b").exists()


def test_required_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotCompiledError, match="are required, and nothing was built"):
        compiled.use("required", tmp_path)


def test_a_changed_source_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_PACKAGE", tmp_path)
    digests = set()
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", ""), ("note.txt", "")):
        (tmp_path / name).write_text(text)
        digests.add(compiled.sources_digest())
    assert len(digests) == 3


def test_what_another_mypy_made_is_built_anew(copied: Path) -> None:
    assert build.up_to_date(copied)
    change(copied, mypy="0.1")
    assert misfit(copied) is None
    assert not build.up_to_date(copied)


def test_a_build_that_failed_is_not_tried_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Path] = []

    def fail(into: Path) -> None:
        tried.append(into)
        raise MemoryError("the compiler ran out of it")

    monkeypatch.setattr(build, "build", fail)
    at_start = [f"--into={tmp_path / 'x'}", "--if-needed", "--optional"]
    assert [build.main(at_start) for _ in range(3)] == [0, 0, 0]
    assert len(tried) == 1
    assert "the compiler ran out of it" in (told := capsys.readouterr().err)
    assert f"failed before; delete {tmp_path / '.x.failed'}" in told

    assert build.main(at_start[:-1]) == 1  # asked for, as `make compiled` does
    assert len(tried) == 2

    monkeypatch.setattr(build, "sources_digest", lambda: "others")
    assert build.main(at_start) == 0
    assert len(tried) == 3

    monkeypatch.setattr(build, "build", tried.append)
    assert build.main(at_start[:-1]) == 0
    assert not (tmp_path / ".x.failed").exists()


def test_a_build_leaves_what_is_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build", lambda _: None)
    for name in (".build-mine", ".y-build-running", ".x-build-killed"):
        (tmp_path / name).mkdir()
    assert build.main([f"--into={tmp_path / 'x'}"]) == 0
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_dir()) == [
        ".build-mine",
        ".y-build-running",
    ]


def test_sources_that_change_meanwhile_are_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of them would be of before the change and a part of after it."""
    into, seen = tmp_path / "x", iter(["before", "before", "after"])

    def compile_nothing(*_: object, target_dir: str, **__: object) -> list[object]:
        Path(target_dir).mkdir()
        return []

    monkeypatch.setattr("mypyc.build.mypycify", compile_nothing)
    monkeypatch.setattr(build, "sources_digest", lambda: next(seen))
    assert build.main([f"--into={into}"]) == 1
    assert "the sources changed while they were compiled" in capsys.readouterr().err
    assert not into.exists()
    assert not build.failed_before(into)  # the next build may succeed


def test_a_build_that_failed_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = tmp_path / "x"
    assert not build.failed_before(into)
    monkeypatch.setattr(build, "build", lambda _: 1 / 0)
    assert build.main([f"--into={into}"]) == 1
    assert build.failed_before(into)
    monkeypatch.setattr(build, "sources_digest", lambda: "others")
    assert not build.failed_before(into)
