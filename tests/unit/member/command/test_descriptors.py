"""Processes that were started with less than usual: descriptors, signals, directories, limits."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.running import configuration
from tests.unit.member.wire import once
from tests.unit.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[bytes]]

END_S = 20.0
EXIT_START = 3
MEMBER = (sys.executable, "-m", "grid_member")
GRIDCTL = (sys.executable, "-m", "gridctl")
CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]
UNSHARE = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
NO_TEMPORARY_DIRECTORY = """
mount -t tmpfs -o ro none /var/tmp && mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp &&
cd /tmp && exec "$@"
"""
BLOCKED = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
for number in (signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def file(tmp_path: Path, port: int) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(configuration().replace("{port: 0}", f"{{port: {port}}}", 1))
    return path


@pytest.fixture
def several(tmp_path: Path, port: int) -> Path:
    """The configuration of one of two members, the other of which is not there."""
    own, other = free_ports(2)
    members = f"""
    cluster: {{port: {{port: {own}}}}}
    join: {{tcp-ip: {{enabled: true, member-list: ["127.0.0.1:{own}", "127.0.0.1:{other}"]}}}}
    rest-api:"""
    text = configuration().replace("\n    rest-api:", members, 1)
    path = tmp_path / "several.yaml"
    path.write_text(text.replace("{port: 0}", f"{{port: {port}}}", 1))
    return path


@pytest.fixture
def start() -> Iterator[Start]:
    """Give a function that starts a program by a shell that prepares the process."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(script: str, *command: str, **options: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sh", "-c", script, "sh", *command], **options))  # type: ignore[call-overload]
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait(END_S)


async def answered(port: int, process: subprocess.Popen[bytes], path: str = "ready") -> None:
    async with asyncio.timeout(30):
        while process.poll() is None:
            try:
                if (await once(port, "GET", f"/grid/health/{path}")).status == 200:
                    return
            except ConnectionError:
                pass
            await asyncio.sleep(0.02)
    raise AssertionError(f"ended with {process.returncode}")


async def ended(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return await asyncio.to_thread(process.wait, END_S)


@pytest.mark.parametrize("closed", CLOSED)
async def test_a_member_without_standard_descriptors(
    start: Start, file: Path, port: int, closed: str
) -> None:
    process = start(f'exec "$@" {closed}', *MEMBER, "--config", str(file))
    await answered(port, process)
    for number in range(3):
        opened = os.readlink(f"/proc/{process.pid}/fd/{number}")
        assert not opened.startswith(("socket:", "anon_inode:"))
    assert await ended(process) == 0


async def test_a_member_with_a_server_without_descriptors_and_signals(
    start: Start, several: Path, port: int
) -> None:
    command = (sys.executable, "-c", BLOCKED, *MEMBER, "--config", str(several))
    process = start('exec "$@" <&- >&- 2>&-', *command)
    await answered(port, process, "node-state")
    async with asyncio.timeout(END_S):
        while True:
            if has_server(process.pid):
                break
            await asyncio.sleep(0.02)
    assert await ended(process) == 0


def has_server(pid: int) -> bool:
    return any(map(is_server, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def is_server(pid: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith("nats-server")
    except OSError:
        return False


@pytest.mark.parametrize("closed", CLOSED)
def test_a_check_without_standard_descriptors(start: Start, file: Path, closed: str) -> None:
    process = start(f'exec "$@" {closed}', *MEMBER, "config", "check", str(file))
    assert process.wait(END_S) == 0


def test_gridctl_without_standard_descriptors(start: Start, file: Path) -> None:
    command = (*GRIDCTL, "status", "--data-dir", str(file.parent), "-f", str(file))
    assert start('exec "$@" <&- >&- 2>&-', *command).wait(END_S) == 2  # it is no manifest


def test_an_output_that_takes_nothing_is_named(start: Start, file: Path) -> None:
    process = start(
        'exec "$@" > /dev/full', *MEMBER, "config", "check", str(file), stderr=subprocess.PIPE
    )
    assert process.communicate(timeout=END_S)[1] == (
        b"cannot write to standard output: No space left on device\n"
    )
    assert process.returncode == EXIT_START


async def test_blocked_and_ignored_signals_stop_a_member(
    start: Start, file: Path, port: int
) -> None:
    process = start('exec "$@"', sys.executable, "-c", BLOCKED, *MEMBER, "--config", str(file))
    await answered(port, process)
    assert await ended(process) == 0


async def test_a_terminal_that_goes_stops_a_member_gracefully(file: Path, port: int) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.execv(sys.executable, [*MEMBER, "--config", str(file)])
    reading = asyncio.get_running_loop().run_in_executor(None, drained, terminal)
    process = Child(pid)
    try:
        await answered(port, process)  # type: ignore[arg-type]
        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGHUP)
        async with asyncio.timeout(END_S):
            text = await asyncio.shield(reading)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        status = await asyncio.to_thread(process.wait)
    assert status == 0
    assert b'"stopped"' in text


def drained(terminal: int) -> bytes:
    """Read what is shown on a terminal until no process has it any more."""
    text = b""
    try:
        while part := os.read(terminal, 4096):
            text += part
    except OSError:
        pass
    os.close(terminal)
    return text


class Child:
    """A process that was forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


async def test_nohup_keeps_a_member(start: Start, file: Path, port: int) -> None:
    process = start('trap "" HUP; exec "$@"', *MEMBER, "--config", str(file))
    await answered(port, process)
    process.send_signal(signal.SIGHUP)
    assert (await once(port, "GET", "/grid/health/ready")).status == 200
    assert await ended(process) == 0


async def test_a_working_directory_that_is_gone(
    start: Start, file: Path, port: int, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    script = f'cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec "$@"'
    process = start(script, *MEMBER, "--config", str(file))
    await answered(port, process)
    assert await ended(process) == 0


def test_no_temporary_directory_is_named(start: Start, several: Path) -> None:
    process = subprocess.run(
        [*UNSHARE, NO_TEMPORARY_DIRECTORY, "sh", *MEMBER, "--config", str(several)],
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "TMPDIR"},
        timeout=60,
        check=False,
    )
    assert process.returncode == EXIT_START
    assert b"set TMPDIR to a directory that the member's user may write" in process.stderr


async def test_a_member_alone_needs_no_temporary_directory(
    start: Start, file: Path, port: int
) -> None:
    command = (*UNSHARE, NO_TEMPORARY_DIRECTORY, "sh", *MEMBER, "--config", str(file))
    process = start('exec "$@"', *command)
    await answered(port, process)
    assert await ended(process) == 0


def test_too_few_files_are_named(start: Start, file: Path) -> None:
    process = start(
        'ulimit -n 40; exec "$@"', *MEMBER, "--config", str(file), stderr=subprocess.PIPE
    )
    assert b"raise the hard limit (ulimit -Hn)" in process.communicate(timeout=END_S)[1]
    assert process.returncode == EXIT_START
