"""`grid-member client wait|drain|leave|backup|check`: its arguments, output and exit codes.

Exit codes are those of gridctl: 0 done, 1 something failed, was refused or did not happen in time,
2 the command line or a file that it names is wrong. One line on standard output says what is true
now; what is waited for, and what went wrong, is on standard error.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import re
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.client.backup import Backup
from grid_member.client.check import PROBES, Expectation, check
from grid_member.client.deadline import Deadline
from grid_member.client.drain import drain
from grid_member.client.errors import ClientError, MissingFileError, UsageError
from grid_member.client.group import ORDINAL, MemberGroup, each_member, expand
from grid_member.client.leave import ScaleDown
from grid_member.client.wait import wait
from grid_member.client.wire import ConnectOptions, is_host, parse_url, tls_context
from grid_member.command.output import OutputError, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
LONGEST_S: Final = 7 * 24 * 3600
_KEY: Final = re.compile("[!-~]{1,128}")
"""As members take the header Idempotency-Key."""
_TIMEOUTS_S: Final = {"wait": 300, "drain": 60, "leave": 1800, "backup": 3600, "check": 60}
_ACTIONS: Final = {
    "wait": "wait until all members are there, ready and safe",
    "drain": "as a preStop hook: wait until the cluster can do without the member",
    "leave": "have the members from --size on leave for good, the highest ordinal first",
    "backup": "make a backup and wait for its end",
    "check": "tell line by line whether the cluster works",
}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Do what the arguments say; return the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        chosen.url = [expand(url, environment) for url in chosen.url]
        return _run(chosen, _options(chosen), Deadline(chosen.timeout, _tell))
    except MissingFileError as error:
        return _missing_file(chosen, error)
    except UsageError as error:
        _tell(str(error))
        return EXIT_USAGE
    except (ClientError, OutputError) as error:
        _tell(str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        _tell("given up; what members were asked to do goes on")
        return EXIT_FAILED


def _missing_file(chosen: argparse.Namespace, error: MissingFileError) -> int:
    """Return the exit code where a file of a Secret is missing.

    Pods do not start without the Secrets that they name, so there is no member yet that could be
    asked this way: an installation, or the upgrade that makes the Secret, is not held up.
    """
    _tell(str(error))
    if not getattr(chosen, "allow_silence", False):
        return EXIT_USAGE
    _tell("the Secret is not there yet, and no member runs without it: none is asked")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grid-member client", description="Ask members over HTTP, and wait for what they do."
    )
    verbs = parser.add_subparsers(dest="request", required=True, metavar="VERB")
    for name, does in _ACTIONS.items():
        _ADD[name](_add_common(verbs.add_parser(name, help=does, description=does), name))
    return parser


def _add_common(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    ordinals = "" if name == "drain" else f"; {ORDINAL} in it stands for each member of --size"
    parser.add_argument(
        "--url",
        action="append",
        required=True,
        metavar="URL",
        help=f"http(s)://HOST:PORT of a listener{ordinals}; ${{VARIABLES}} are replaced",
    )
    parser.add_argument(
        "--connect",
        type=_host,
        metavar="HOST",
        help="connect to this host; the certificate is still for that of the URL",
    )
    parser.add_argument(
        "--ca", type=Path, metavar="FILE", help="authority of the certificates, or they themselves"
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="DIR",
        help="directory with the files username and password, as a Secret is mounted",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=_TIMEOUTS_S[name],
        metavar="SECONDS",
        help="for all of it; default: %(default)s",
    )
    return parser


def _add_wait(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, "members that the cluster has to have")
    parser.add_argument("--ready-only", action="store_true", help="copies may still be missing")


def _add_leave(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, "members that stay", required=True)
    _add_cluster_name(parser)
    parser.add_argument(
        "--refuse",
        action="store_true",
        help="change nothing, and fail when a member would have to leave",
    )
    parser.add_argument(
        "--allow-silence",
        action="store_true",
        help="succeed when no member answers, as where there are none yet",
    )
    parser.add_argument(
        "--rest-url",
        metavar="URL",
        help="with --allow-silence: where members that do not answer at --url are looked for",
    )


def _add_backup(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, "members that can be asked")
    _add_cluster_name(parser)
    parser.add_argument(
        "--key",
        type=_key,
        metavar="KEY",
        help="the same for each attempt at one backup, as the name of a Job; default: a new one",
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, "members that the cluster has to have")
    parser.add_argument(
        "--map", type=_utf8, metavar="NAME", help="write, read and remove a value in it"
    )
    parser.add_argument(
        "--off",
        action="append",
        default=[],
        choices=sorted(PROBES),
        metavar="GROUP",
        help="endpoint group that has to be off: %(choices)s",
    )


def _add_size(parser: argparse.ArgumentParser, what: str, *, required: bool = False) -> None:
    parser.add_argument("--size", type=_count, required=required, metavar="N", help=what)


def _add_cluster_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster-name",
        type=_utf8,
        default="dev",
        metavar="NAME",
        help="given in place of credentials while security is off; default: %(default)s",
    )


_ADD: Final = {
    "wait": _add_wait,
    "drain": lambda parser: None,
    "leave": _add_leave,
    "backup": _add_backup,
    "check": _add_check,
}


def _run(chosen: argparse.Namespace, options: ConnectOptions, deadline: Deadline) -> int:
    if chosen.request == "leave":
        return _leave(chosen, options, deadline)
    if chosen.request == "drain":
        (member,) = each_member([_only_url(chosen)], None, options, "")
        text = drain(member, deadline)
        with contextlib.suppress(OutputError):  # the stop goes on all the same
            _say(text)
        return 0
    members = each_member(chosen.url, chosen.size, options, getattr(chosen, "cluster_name", ""))
    if chosen.request == "wait":
        _say(wait(members, chosen.size, ready_only=chosen.ready_only, deadline=deadline))
        return 0
    if chosen.request == "backup":
        _say(Backup(members, chosen.key or uuid.uuid4().hex).run(deadline))
        return 0
    expected = Expectation(chosen.size, chosen.map, tuple(chosen.off))
    lines = []
    for line in check(members, expected, deadline):
        _say(str(line))
        lines.append(line)
    return 0 if all(line.passed for line in lines) else EXIT_FAILED


def _leave(chosen: argparse.Namespace, options: ConnectOptions, deadline: Deadline) -> int:
    url = _only_url(chosen)
    if ORDINAL not in url:
        raise UsageError(f"--url {url}: put {ORDINAL} where the members' hosts differ")
    if chosen.size < 2 and not chosen.refuse:
        raise UsageError(
            "--size: the data of several members does not become that of one: make a backup, and "
            "begin a cluster of one with it"
        )
    parse_url(url.replace(ORDINAL, "0"))
    leaving = ScaleDown(
        MemberGroup(url, options, chosen.cluster_name),
        chosen.size,
        deadline,
        _tell,
        _other(chosen, options),
    )
    if chosen.refuse:
        _say(leaving.refuse(may_be_silent=chosen.allow_silence))
    else:
        _say(leaving.run(may_be_silent=chosen.allow_silence))
    return 0


def _other(chosen: argparse.Namespace, options: ConnectOptions) -> MemberGroup | None:
    if chosen.rest_url is None:
        return None
    if ORDINAL not in chosen.rest_url:
        raise UsageError(f"--rest-url {chosen.rest_url}: put {ORDINAL} in it as in --url")
    parse_url(chosen.rest_url.replace(ORDINAL, "0"))
    return MemberGroup(chosen.rest_url, replace(options, authorization=None), chosen.cluster_name)


def _only_url(chosen: argparse.Namespace) -> str:
    if len(chosen.url) != 1:
        raise UsageError(f"--url: {chosen.request} takes one")
    return str(chosen.url[0])


def _options(chosen: argparse.Namespace) -> ConnectOptions:
    encrypted = any(url.startswith("https:") for url in chosen.url)
    return ConnectOptions(
        chosen.connect or "",
        tls_context(chosen.ca) if encrypted else None,
        _authorization(chosen.credentials) if chosen.credentials is not None else None,
        time.monotonic() + chosen.timeout,
    )


def _authorization(directory: Path) -> str:
    """Return the value of the header Authorization."""
    username = _text(directory / "username")
    if ":" in username:
        raise UsageError(f"--credentials: {directory / 'username'}: a name with : cannot be sent")
    pair = f"{username}:{_text(directory / 'password')}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def _text(file: Path) -> str:
    try:
        # Members take no name or password that ends in a line break.
        text = file.read_bytes().decode().removesuffix("\n").removesuffix("\r")
    except FileNotFoundError as error:
        raise MissingFileError(f"--credentials: {file}: {error.strerror}") from None
    except OSError as error:
        raise UsageError(f"--credentials: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--credentials: {file}: is not UTF-8") from None
    if not text:
        raise UsageError(f"--credentials: {file}: is empty")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text}: must be seconds from 0 to {LONGEST_S}")
    return value


def _host(text: str) -> str:
    if not is_host(text):
        raise argparse.ArgumentTypeError("must be the name of a host, or an address")
    return text


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("must be UTF-8") from None
    return text


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise argparse.ArgumentTypeError("must be 1 to 128 visible characters of ASCII")
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of members from 1 to 1000")
    return int(text)


def _say(text: str) -> None:
    show(f"{text}\n")


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"grid-member client: {text}\n")
