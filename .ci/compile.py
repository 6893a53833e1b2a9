"""Compiles the data path of the members, after installing what the compiler needs.

    python .ci/compile.py        now; the output goes to the terminal
    python .ci/compile.py PID    beside that process, at the lowest priority, and no longer than it

Beside a process the output goes to build/compile.log. One process at a time compiles.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.compiled import misfit
from grid_member.compiled.build import failed_before

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build"
LOG: Final = BUILD / "compile.log"
LOCK: Final = BUILD / ".compiling.lock"
NO_COMPILER: Final = BUILD / ".no-compiler"
"""Exists when apt failed to install the compiler: without a network it would fail at each start."""
TOOLS: Final = BUILD / "compiler"
TOOLS_LOCK: Final = ROOT / "member" / "compile.lock"
END_TIMEOUT_S: Final = 10.0
LOWEST_PRIORITY: Final = 19
FIRST_VICTIM: Final = "1000"
"""The score at which the kernel, short of memory, kills a process before any member."""


class CompileError(Exception):
    """The data path was not compiled; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command; `whole` when a kill halfway would leave the machine's packages broken."""

    command: tuple[str, ...]
    whole: bool = False


def main(arguments: list[str]) -> int:
    """Compile unless the compiled modules fit the sources; return the exit code."""
    if misfit() is None:
        return 0
    try:
        BUILD.mkdir(exist_ok=True)
        if not arguments:
            compile_members(found_packages(), None)
            return 0
        with process(int(arguments[0])) as watched, alone(watched):
            if misfit() is None:
                return 0
            packages = found_packages()
            refuse_again()
            say(f"compiling them beside, for the next start: see {LOG.relative_to(ROOT)}")
            step_aside()
            compile_members(packages, watched)
    except ProcessLookupError:
        return 0  # there is no process to compile for
    except (CompileError, OSError) as error:
        say(f"not compiled: {error}")
        return 1
    return 0


def say(text: str) -> None:
    """Write a line for the user."""
    print(f"members run from their sources; {text}", file=sys.stderr, flush=True)  # noqa: T201


def missing_packages() -> tuple[str, ...]:
    """Return the Debian packages of the compiler and of Python's headers that are missing."""
    missing: list[str] = []
    if not (shutil.which("cc") or shutil.which("gcc")):
        missing += ["gcc", "libc6-dev"]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if sys.base_prefix == "/usr" and not headers.exists():
        missing.append(f"python{sys.version_info.major}.{sys.version_info.minor}-dev")
    return tuple(missing)


def found_packages() -> tuple[str, ...]:
    """Return the Debian packages that apt has to install first.

    Raises:
        CompileError: Some are missing, and apt cannot or could not install them.
    """
    packages = missing_packages()
    if packages and (os.geteuid() != 0 or shutil.which("apt-get") is None or NO_COMPILER.exists()):
        raise CompileError(f"install {' '.join(packages)}, and the next ./run compiles them")
    return packages


def refuse_again() -> None:
    """Return unless the last compilation of the same sources failed.

    Raises:
        CompileError: It failed.
    """
    if failed_before():
        raise CompileError(f"that failed before, see {LOG.relative_to(ROOT)}; try `make compiled`")


def compile_members(packages: tuple[str, ...], watched: int | None) -> None:
    """Install what is missing, then compile.

    Args:
        packages: Debian packages to install first.
        watched: file descriptor of the process at whose end this ends; None for no such process.

    Raises:
        CompileError: A step failed, or the watched process has ended.
    """
    try:
        for step in package_steps(packages):
            run(step, watched)
    except CompileError:
        if watched is None or not has_ended(watched):
            NO_COMPILER.touch()
        raise
    tools = install_tools(watched)
    path = os.pathsep.join(filter(None, (*tools, os.environ.get("PYTHONPATH"))))
    build = "-m", "grid_member.compiled.build", "--if-needed"
    run(Step(("/usr/bin/env", f"PYTHONPATH={path}", sys.executable, *build)), watched)


def package_steps(packages: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps that install packages; only the last one must not be interrupted."""
    if not packages:
        return ()
    apt = "/usr/bin/env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"
    install = *apt, "-o", "DPkg::Lock::Timeout=60", "install", "--no-install-recommends"
    return (
        Step((*apt, "update")),
        Step((*install, "--download-only", *packages)),
        Step((*install, *packages), whole=True),
    )


def install_tools(watched: int | None) -> tuple[str, ...]:
    """Install mypy and setuptools apart from what members run with.

    Returns:
        The directories that Python's path needs for them; none when the environment has them.
    """
    if find_spec("mypyc") is not None and find_spec("setuptools") is not None:
        return ()
    complete = TOOLS / ".complete"
    if not complete.exists() or complete.read_bytes() != TOOLS_LOCK.read_bytes():
        shutil.rmtree(TOOLS, ignore_errors=True)
        pip = sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
        kind = "--no-compile", "--require-hashes", "--target", str(TOOLS)
        run(Step((*pip, *kind, "-r", str(TOOLS_LOCK))), watched)
        shutil.copyfile(TOOLS_LOCK, complete)
    return (str(TOOLS),)


def run(step: Step, watched: int | None) -> None:
    """Run one command to its end.

    Raises:
        CompileError: It failed, or the watched process ended meanwhile.
    """
    with subprocess.Popen(  # noqa: S603 - the commands are the ones above
        step.command, stdin=subprocess.DEVNULL, start_new_session=True
    ) as child:
        if watched is not None:
            wait_for_either(child, watched, interrupt=not step.whole)
    if watched is not None and has_ended(watched):
        raise CompileError("the compilation ended with the process that it ran beside")
    if child.returncode != 0:
        raise CompileError(f"this failed with code {child.returncode}: {' '.join(step.command)}")


def wait_for_either(child: subprocess.Popen[bytes], watched: int, *, interrupt: bool) -> None:
    """Wait until the child ends, or until the watched process ends and the child may be stopped."""
    with process(child.pid) as own:
        poll = select.poll()
        poll.register(own, select.POLLIN)
        poll.register(watched, select.POLLIN)
        poll.poll()
    if child.poll() is not None or not interrupt:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_TIMEOUT_S)


def has_ended(watched: int, within_s: float = 0) -> bool:
    """Return whether the process of a file descriptor has ended, or ends within that time."""
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


@contextlib.contextmanager
def process(pid: int) -> Iterator[int]:
    """Hold a file descriptor that becomes readable when the process ends.

    Raises:
        ProcessLookupError: There is no such process.
    """
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(watched: int) -> Iterator[None]:
    """Hold the lock of the process that compiles; another process that holds it is waited for.

    Raises:
        ProcessLookupError: The watched process ended first.
    """
    with LOCK.open("w") as lock:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if has_ended(watched, within_s=1):
                raise ProcessLookupError
        yield


def step_aside() -> None:
    """Leave the terminal, and the processor and the memory to the members."""
    with contextlib.suppress(PermissionError):  # it leads a group of its own
        os.setsid()
    os.nice(LOWEST_PRIORITY)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_VICTIM)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
