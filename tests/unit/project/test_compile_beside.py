"""How ./run compiles beside the members: alone, at the lowest priority, no longer than they run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.timeout(300)

PATIENCE_S: Final = 120.0
"""What runs here has the lowest priority, and waits for all else that keeps the machine busy."""
Members: TypeAlias = "Callable[[], subprocess.Popen[bytes]]"
# Run as the user that the tests name, whoever runs the tests.
COMPILE: Final = """
import os, runpy, sys
os.geteuid = lambda: {user}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PACKAGE: Final = """
from pathlib import Path
HERE = Path(__file__).parent
def misfit():
    return None if (HERE / "fits").exists() else "nothing was built"
"""
# Stands in for the real build: tells who it is, and waits until the test lets it end.
BUILD: Final = """
import json, os, sys, time
from pathlib import Path
from grid_member.compiled import HERE
def failed_before():
    return (HERE / "failed").exists()
if __name__ == "__main__":
    facts = {"pid": os.getpid(), "nice": os.nice(0), "arguments": sys.argv[1:]}
    began = HERE / f"began-{os.getpid()}"
    began.with_suffix(".new").write_text(json.dumps(facts))
    began.with_suffix(".new").rename(began)
    print("the compiler's words", flush=True)
    while not (HERE / "go").exists():
        time.sleep(0.01)
    (HERE / "fits").touch()
"""
APT: Final = """#!{python}
import sys, time
from pathlib import Path
here = Path({here!r})
with (here / "apt.calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if "install" in sys.argv and "--download-only" not in sys.argv:
    while not (here / "go").exists():
        time.sleep(0.01)
    sys.exit((here / "apt.fails").exists())
"""


def wait_for(holds: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it did not come about"
        time.sleep(0.01)


class Checkout:
    """A checkout with a build that does nothing but wait, and an apt that installs nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "member" / "grid_member" / "compiled"
        self.programs = root / "programs"
        self.package.mkdir(parents=True)
        self.programs.mkdir()
        (root / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "compile.py", root / ".ci")
        (self.package.parent / "__init__.py").touch()
        (self.package / "__init__.py").write_text(PACKAGE)
        (self.package / "build.py").write_text(BUILD)
        self.program("cc", "#!/bin/sh\n")
        self.program("apt-get", APT.format(python=sys.executable, here=str(self.package)))

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    @contextmanager
    def compiling(self, beside: int | None, user: int = 0) -> Iterator[subprocess.Popen[str]]:
        command = [
            sys.executable,
            "-c",
            COMPILE.format(user=user),
            str(self.root / ".ci/compile.py"),
        ]
        command += [] if beside is None else [str(beside)]
        environment = {"PATH": str(self.programs), "PYTHONPATH": str(self.root / "member")}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as ran:
            try:
                yield ran
            finally:
                ran.kill()

    def builds(self) -> list[dict[str, object]]:
        return [json.loads(file.read_text()) for file in self.package.glob("began-*[0-9]")]

    def let_go(self) -> None:
        (self.package / "go").touch()

    def log(self) -> str:
        return (self.root / "build" / "compile.log").read_text()


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    made.let_go()


@pytest.fixture
def members() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return what starts processes to run beside."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "1000"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_alive(pid: object) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_it_says_one_line_and_stands_aside(checkout: Checkout, members: Members) -> None:
    with checkout.compiling(members().pid) as ran:
        wait_for(checkout.builds)
        (built,) = checkout.builds()
        checkout.let_go()
        assert ran.wait(PATIENCE_S) == 0
        assert ran.stderr is not None
        (line,) = ran.stderr.read().splitlines()
    assert line == (
        "members run from their sources; compiling them beside, for the next start: "
        "see build/compile.log"
    )
    assert built["nice"] == 19
    assert built["arguments"] == ["--if-needed"]
    assert "the compiler's words" in checkout.log()


def test_nothing_is_said_of_what_fits(checkout: Checkout, members: Members) -> None:
    (checkout.package / "fits").touch()
    with checkout.compiling(members().pid) as ran:
        assert ran.wait(PATIENCE_S) == 0
        assert ran.stderr is not None
        assert ran.stderr.read() == ""
    assert not (checkout.root / "build").exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_the_process_beside(
    checkout: Checkout, members: Members, end: signal.Signals
) -> None:
    member = members()
    with checkout.compiling(member.pid) as ran:
        wait_for(checkout.builds)
        (built,) = checkout.builds()
        member.send_signal(end)
        member.wait()
        assert ran.wait(PATIENCE_S) == 1
    assert not is_alive(built["pid"])
    assert "ended with the process that it ran beside" in checkout.log()


def test_one_compiles_and_the_other_takes_over(checkout: Checkout, members: Members) -> None:
    first, second = members(), members()
    with checkout.compiling(first.pid) as one:
        wait_for(checkout.builds)
        with checkout.compiling(second.pid) as other:
            first.kill()
            first.wait()
            assert one.wait(PATIENCE_S) == 1
            wait_for(lambda: len(checkout.builds()) == 2)
            assert len([built for built in checkout.builds() if is_alive(built["pid"])]) == 1
            checkout.let_go()
            assert other.wait(PATIENCE_S) == 0


def test_who_waited_does_not_compile_again(checkout: Checkout, members: Members) -> None:
    with checkout.compiling(members().pid) as one:
        wait_for(checkout.builds)
        with checkout.compiling(members().pid) as other:
            checkout.let_go()
            assert [one.wait(PATIENCE_S), other.wait(PATIENCE_S)] == [0, 0]
            assert other.stderr is not None
            assert len(other.stderr.read().splitlines()) < 2
    assert len(checkout.builds()) == 1


def test_packages_are_never_half_installed(checkout: Checkout, members: Members) -> None:
    (checkout.programs / "cc").unlink()
    calls, member = checkout.package / "apt.calls", members()
    with checkout.compiling(member.pid) as ran:
        wait_for(lambda: calls.exists() and len(calls.read_text().splitlines()) == 3)
        member.kill()
        member.wait()
        checkout.let_go()
        assert ran.wait(PATIENCE_S) == 1
    update, download, install = calls.read_text().splitlines()
    assert update.endswith("update")
    assert "--download-only" in download
    assert "gcc libc6-dev" in install
    assert checkout.builds() == []
    assert not (checkout.root / "build" / ".no-compiler").exists()


def test_apt_that_fails_is_not_asked_again(checkout: Checkout, members: Members) -> None:
    (checkout.programs / "cc").unlink()
    (checkout.package / "apt.fails").touch()
    checkout.let_go()
    with checkout.compiling(members().pid) as ran:
        assert ran.wait(PATIENCE_S) == 1
    assert "this failed with code 1" in checkout.log()
    asked = (checkout.package / "apt.calls").read_text()
    with checkout.compiling(members().pid) as ran:
        assert ran.wait(PATIENCE_S) == 1
        assert ran.stderr is not None
        assert "install gcc libc6-dev, and the next ./run" in ran.stderr.read()
    assert (checkout.package / "apt.calls").read_text() == asked


def test_without_the_right_to_install(checkout: Checkout, members: Members) -> None:
    (checkout.programs / "cc").unlink()
    with checkout.compiling(members().pid, user=1000) as ran:
        assert ran.wait(PATIENCE_S) == 1
        assert ran.stderr is not None
        assert "install gcc libc6-dev, and the next ./run" in ran.stderr.read()
    assert not (checkout.package / "apt.calls").exists()


def test_what_failed_is_not_compiled_again(checkout: Checkout, members: Members) -> None:
    (checkout.package / "failed").touch()
    with checkout.compiling(members().pid) as ran:
        assert ran.wait(PATIENCE_S) == 1
        assert ran.stderr is not None
        assert "that failed before, see build/compile.log" in ran.stderr.read()
    assert checkout.builds() == []


def test_now_and_on_the_terminal(checkout: Checkout) -> None:
    checkout.let_go()
    with checkout.compiling(None) as ran:
        assert ran.wait(PATIENCE_S) == 0
    assert len(checkout.builds()) == 1
    assert not (checkout.root / "build" / "compile.log").exists()


def test_a_checkout_that_takes_no_files_is_said_in_a_line(
    checkout: Checkout, members: Members
) -> None:
    (checkout.root / "build").touch()
    with checkout.compiling(members().pid) as ran:
        _, said = ran.communicate(timeout=PATIENCE_S)
    assert said.count("\n") == 1
    assert said.startswith("members run from their sources; not compiled: ")
