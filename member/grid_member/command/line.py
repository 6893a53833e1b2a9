"""The command line of `grid-member`: its arguments and exit codes.

Exit codes: 0 done or gracefully stopped, 2 wrong arguments or configuration, 3 cannot start or
cannot restore, 4 stopped without waiting any longer for a disk that does not answer. The verb
`client` has those of `command.client`.

Each verb loads what it needs itself: a preStop hook runs `client` at every stop of a pod.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.command import EXIT_CONFIG, EXIT_START, disable_sweep
from grid_member.command.output import OutputError
from grid_member.compiled import VARIABLE, NotCompiledError, use
from grid_member.release import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RUN: Final = "run"
_CLIENT: Final = "client"
_DOCUMENTS: Final = ("check", "convert", "schema")
_AUTHORITIES: Final = "SSL_CERT_FILE"
"""Where OpenSSL finds the authorities that the system trusts: openssl-env(7)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [_CLIENT]:
        from grid_member.command.client import main as ask

        return ask(words[1:], os.environ)
    parser = _parser()
    chosen = parser.parse_args(words)
    if chosen.config and chosen.verb != _RUN:
        parser.error("--config FILE is for running a member")
    with disable_sweep():
        from grid_member.config import ConfigError
    try:
        if chosen.verb in _DOCUMENTS:
            _documents(chosen)
        elif chosen.verb == "restore":
            # As running a member, this needs the store.
            from grid_member.command.restore import restore

            return restore(
                *(chosen.backup, chosen.into),
                newest=chosen.newest,
                once=chosen.once,
                several=chosen.several,
            )
        else:
            return _run(chosen.config)
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"{problem}\n")
        return EXIT_CONFIG
    except OutputError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_START
    except NotCompiledError as error:
        sys.stderr.write(f"cannot start: {VARIABLE}: {error}\n")
        return EXIT_START
    return 0


def _documents(chosen: argparse.Namespace) -> None:
    # Running a member needs none of what writes documents.
    from grid_member.command.documents import check, convert, schema

    if chosen.verb == "check":
        check(chosen.file, chosen.ignore_missing_variables, os.environ)
    elif chosen.verb == "convert":
        convert(chosen.file, chosen.to, chosen.output, chosen.overwrite)
    else:
        schema(chosen.format)


def _run(file: Path | None) -> int:
    from grid_member.config.load import Config

    config = Config.from_file(file) if file else Config.default()
    interpreted = use(os.environ.get(VARIABLE) or "auto")
    # Configurations are checked and converted without the HTTP server and the store.
    with disable_sweep(), _no_public_authorities():
        from grid_member.command.member import run_member
    return run_member(config, interpreted)


@contextlib.contextmanager
def _no_public_authorities() -> Iterator[None]:
    """Let what is loaded meanwhile find no certificates of the system.

    aiohttp makes TLS contexts for its client as it is loaded. To read all public authorities into
    them takes a twentieth of the start, and two MiB. Nothing uses those contexts: what a member
    makes itself, later, finds the authorities.
    """
    former = os.environ.get(_AUTHORITIES)
    os.environ[_AUTHORITIES] = os.devnull
    try:
        yield
    finally:
        del os.environ[_AUTHORITIES]
        if former is not None:
            os.environ[_AUTHORITIES] = former


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grid-member", description="Run one grid member.")
    parser.set_defaults(verb=_RUN)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file (YAML or XML)"
    )
    parser.add_argument("--version", action="version", version=f"grid-member {VERSION}")
    commands = parser.add_subparsers(metavar="{client,config,restore}")
    # For the list of verbs alone: see main.
    client = commands.add_parser(_CLIENT, help="wait, drain, leave, backup or check over HTTP")
    client.set_defaults(verb=_CLIENT)
    config = commands.add_parser("config", help="check and convert configuration files")
    _add_restore(commands.add_parser("restore", help="make a backup the data of a new member"))
    verbs = config.add_subparsers(dest="verb", required=True)
    _add_check(verbs.add_parser("check", help="tell whether a member can run with a file"))
    _add_convert(verbs.add_parser("convert", help="write a file in the other syntax"))
    of_schema = verbs.add_parser("schema", help="write the schema of configuration files")
    of_schema.add_argument("--format", choices=("json", "xsd"), required=True)
    return parser


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(verb="restore")
    parser.add_argument("backup", type=Path, metavar="BACKUP", help="a directory backup-N")
    parser.add_argument(
        "--into", type=Path, metavar="DIR", required=True, help="its persistence.base-dir"
    )
    parser.add_argument(
        "--newest",
        action="store_true",
        help="BACKUP holds directories backup-N: take the complete one of the highest number",
    )
    parser.add_argument(
        "--once", action="store_true", help="succeed when DIR began as this backup before"
    )
    parser.add_argument(
        "--several",
        action="store_true",
        help="DIR is that of one of several members, which imports the backup when all start",
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--ignore-missing-variables",
        action="store_true",
        help="accept ${VARIABLES} that only the member's environment has",
    )


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--to", choices=("xml", "yaml"), help="default: the other syntax")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing output")
