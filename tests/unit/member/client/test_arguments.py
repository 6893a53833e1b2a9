"""`grid-member client`: wrong arguments are told with what to change, before anything is asked."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grid_member.client.deadline import Deadline
from grid_member.client.errors import PassingError
from grid_member.command.client import main
from grid_member.command.line import main as whole_command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.client.running import Command

UNUSED = "http://127.0.0.1:1"
HEAVY = ("aiohttp", "asyncio", "yaml", "lmdb", "grid_member.config", "grid_member.engine")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["drain", "--url", "demo:5701"], "--url demo:5701: write it as http://HOST:PORT"),
        (["drain", "--url", "http://a:b"], "--url http://a:b: Port could not be cast"),
        (["drain", "--url", "http://a/grid"], "give scheme, host and port alone"),
        (["drain", "--url", "http://u:p@a"], "give scheme, host and port alone"),
        (["drain", "--url", "http://a b:1"], "a b is no name of a host, nor an address"),
        (["drain", "--url", f"http://{'a' * 64}.b:1"], "is no name of a host, nor an address"),
        (["drain", "--url", "http://\u00e9:1"], "is no name of a host, nor an address"),
        (["drain", "--url", "http://a..b:1"], "is no name of a host, nor an address"),
        (["drain", "--url", "http://[a::g]:1"], "--url http://[a::g]:1: "),
        (["drain", "--url", "http://${NONE}:1"], "the environment variable NONE is not set"),
        (["drain", "--url", UNUSED, "--url", UNUSED], "--url: drain takes one"),
        (["wait", "--url", "http://a-{ordinal}:1"], "say with --size how many members"),
        (["leave", "--url", UNUSED, "--size", "2"], "put {ordinal} where the members' hosts"),
        (["leave", "--url", "http://a-{ordinal}:1", "--size", "1"], "make a backup, and begin"),
        (["drain", "--url", "https://a:1", "--ca", "/none"], "--ca /none: No such file"),
        (["wait", "--url", UNUSED, "--credentials", "/none"], "/none/username: No such file"),
    ],
)
def test_wrong_arguments_name_what_to_change(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, {}) == 2
    said, told = capsys.readouterr()
    assert problem in told
    assert (said, told.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["drain"], "--url"),
        (["leave", "--url", UNUSED], "--size"),
        (["wait", "--url", UNUSED, "--size", "0"], "0: must be a number of members"),
        (["wait", "--url", UNUSED, "--size", "many"], "many: must be a number of members"),
        (["wait", "--url", UNUSED, "--timeout", "-1"], "-1: must be seconds from 0"),
        (["wait", "--url", UNUSED, "--timeout", "nan"], "nan: must be seconds from 0"),
        (["backup", "--url", UNUSED, "--key", "a\nb"], "must be 1 to 128 visible characters"),
        (["check", "--url", UNUSED, "--map", "\ud800"], "must be UTF-8"),
        (["leave", "--url", UNUSED, "--cluster-name", "\ud800"], "must be UTF-8"),
        (["wait", "--url", UNUSED, "--connect", "a..b"], "must be the name of a host"),
        (["backup", "--url", UNUSED, "--key", ""], "must be 1 to 128 visible characters"),
        (["check", "--url", UNUSED, "--off", "data"], "choose from 'CLUSTER_READ'"),
        ([], "VERB"),
    ],
)
def test_the_parser_refuses_the_rest(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words, {})
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("username", "", "username: is empty"),
        ("username", "a:b", "username: a name with : cannot be sent"),
        ("password", "", "password: is empty"),
    ],
)
def test_credentials_that_cannot_be_sent(
    name: str, text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in ("username", "password"):
        (tmp_path / file).write_text(text if file == name else "s3cret")
    assert main(["wait", "--url", UNUSED, "--credentials", str(tmp_path)], {}) == 2
    told = capsys.readouterr().err
    assert problem in told
    assert "s3cret" not in told


def test_an_authority_that_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("none")
    assert main(["drain", "--url", "https://a:1", "--ca", str(tmp_path / "ca")], {}) == 2


def test_a_hook_loads_no_more_than_it_needs() -> None:
    # Loaded at each stop of a pod: what a member itself needs would take several times as long.
    code = (
        "import sys; from grid_member.__main__ import main; "
        f"code = main(['client', 'drain', '--url', '{UNUSED}']); "
        f"print(code, [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0 []", "")


def test_the_command_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        whole_command(["--help"])
    assert "wait, drain, leave, backup or check over HTTP" in capsys.readouterr().out


async def test_variables_in_a_url_are_replaced(command: Command) -> None:
    found = await command.run("drain", "--url", "http://${HOST}:1", HOST="127.0.0.1")
    assert (found.code, found.told) == (0, "")
    assert found.said.startswith("the stop goes on: 127.0.0.1:1 cannot be reached")


def test_what_is_waited_for_is_told_once_for_each_change() -> None:
    now_s, answers, told = [0.0], iter("aab"), list[str]()

    def pause(seconds: float) -> None:
        now_s[0] += seconds

    def ask() -> str:
        text = next(answers, None)
        if text is not None:
            raise PassingError(text)
        return "done"

    patience = Deadline(60, told.append, clock_s=lambda: now_s[0], pause=pause)
    assert patience.until(ask) == "done"
    assert (told, now_s) == (["a", "b"], [3.0])
