"""The command line: which commands there are and what they take."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path
from typing import Final

from gridctl.changing import STATES

DESCRIPTION: Final = "Runs, shows and drives grid clusters, on this machine or on Kubernetes."
EPILOG: Final = """examples:
  gridctl up -f gridcluster.yaml       run the cluster in the file here; Ctrl-C stops it
  gridctl status                       show what runs here
  kubectl grid status -n NAMESPACE     show what runs on Kubernetes
  kubectl grid explain demo            why is it not ready, and what happens next
  kubectl grid plan -f changed.yaml    what would applying this file do
  kubectl grid backup demo --wait      back up now

exit codes: 0 success; 1 it failed, was refused, or is not there; 2 the command line or a file is
wrong
"""
UP_DESCRIPTION: Final = """Runs the GridCluster in a file on this machine, without Kubernetes:
each member is a process on a loopback address. Edits to the file are rolled out while it
runs. Ctrl-C stops every member; with persistence enabled the data stays in the data
directory and is there again the next time."""
STATUS_DESCRIPTION: Final = """Shows the columns that `kubectl get gc` shows, and why a cluster is
not ready. Without options: what `gridctl up` runs on this machine; called as `kubectl grid`,
or with an option that belongs to Kubernetes: the clusters there."""
EXPLAIN_DESCRIPTION: Final = """Says why a cluster is not ready, what is under way, what happens
next and what you can do. All of it comes from the GridCluster itself, so a file from somebody
else will do: kubectl get gc demo -o yaml | gridctl explain -f -"""
PLAN_DESCRIPTION: Final = """Says what applying a file would do to the live cluster: which fields
running members take, which restart them, and what is refused. Nothing is written, no Secret is
read."""
RESTORE_DESCRIPTION: Final = """Writes the manifest of a new GridCluster that is what another one
is, and whose data begins as a backup of it. Printed, or created with --apply."""
TIMEOUT_S: Final = 600.0
MAX_BACKUP: Final = 2**31 - 1
MAX_TIMEOUT_S: Final = 7 * 24 * 3600.0


def make_parser(data_dir: Path) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="gridctl",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("-v", "--verbose", action="store_true", help="say more")
    local = argparse.ArgumentParser(add_help=False)
    local.add_argument(
        "--data-dir",
        type=Path,
        default=data_dir,
        metavar="DIR",
        help="where local clusters keep their data (default: %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_up(commands, [shared, local])
    _add_status(commands, [shared, local])
    where = _kubernetes()
    waits = _waiting()
    _add_explain(commands, [shared, local, where])
    _add_plan(commands, [shared, where])
    _add_restore(commands, [shared, where, waits])
    _add_operations(commands, [shared, where, waits])
    return parser


def _kubernetes() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--kubeconfig", metavar="FILE", help="ask the Kubernetes of this file")
    options.add_argument("--context", help="ask the Kubernetes of this context")
    options.add_argument("-n", "--namespace", help="namespace (default: that of the context)")
    return options


def _waiting() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="how long to wait (default: %(default)g)",
    )
    return options


Commands = argparse._SubParsersAction  # the type has no public name


def _add_up(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    up = commands.add_parser(
        "up", parents=parents, help="run a GridCluster file here", description=UP_DESCRIPTION
    )
    up.add_argument("-f", "--file", type=Path, required=True, help="a file with one GridCluster")
    up.add_argument(
        "--address",
        type=_loopback,
        default="127.0.0.1",
        help="loopback address of the first member; others follow (default: %(default)s)",
    )


def _add_status(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    status = commands.add_parser(
        "status", parents=parents, help="show clusters", description=STATUS_DESCRIPTION
    )
    status.add_argument("-f", "--file", type=Path, help="show the local cluster of this file only")
    status.add_argument("--kubeconfig", metavar="FILE", help="ask the Kubernetes of this file")
    status.add_argument("--context", help="ask the Kubernetes of this context")
    where = status.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace on Kubernetes (default: all)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def _add_explain(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    explain = commands.add_parser(
        "explain",
        parents=parents,
        help="say why a cluster is not ready and what happens next",
        description=EXPLAIN_DESCRIPTION,
    )
    what = explain.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", metavar="NAME", help="a GridCluster")
    what.add_argument(
        "-f", "--file", help="a GridCluster with its status, YAML or JSON; - is standard input"
    )
    _add_output(explain)


def _add_plan(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    plan = commands.add_parser(
        "plan",
        parents=parents,
        help="say what applying a file would do",
        description=PLAN_DESCRIPTION,
    )
    plan.add_argument("-f", "--file", type=Path, required=True, help="a file with one GridCluster")
    _add_output(plan)


def _add_restore(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    restore = commands.add_parser(
        "restore",
        parents=parents,
        help="make a new cluster from a backup of another one",
        description=RESTORE_DESCRIPTION,
    )
    restore.add_argument("name", metavar="NEW", help="name of the new GridCluster")
    source = restore.add_mutually_exclusive_group(required=True)
    source.add_argument("--from", dest="source", metavar="CLUSTER", help="the live GridCluster")
    source.add_argument(
        "-f", "--file", type=Path, help="its manifest, when it does not exist any more"
    )
    restore.add_argument(
        "--backup", type=_backup_number, metavar="N", help="number of the backup (default: newest)"
    )
    restore.add_argument(
        "--member", metavar="POD", help="the pod whose backup it is (default: CLUSTER-0)"
    )
    restore.add_argument("--apply", action="store_true", help="create it instead of printing it")
    restore.add_argument("--wait", action="store_true", help="with --apply: wait until it is ready")


def _add_operations(
    commands: Commands[argparse.ArgumentParser], parents: list[argparse.ArgumentParser]
) -> None:
    backup = commands.add_parser("backup", parents=parents, help="back up a cluster now")
    backup.add_argument("name", metavar="NAME", help="a GridCluster")
    backup.add_argument("--wait", action="store_true", help="wait for its end")
    backup.add_argument(
        "--interrupt", action="store_true", help="give up the backup that is being made instead"
    )
    for name, text in (
        ("stop", "shut a cluster down and remove its pods; what is on disk is kept"),
        ("start", "bring a stopped cluster back"),
        ("restart", "replace a cluster's pods, one at a time"),
        ("set-state", "bring a cluster's members into another state"),
    ):
        command = commands.add_parser(name, parents=parents, help=text, description=text)
        command.add_argument("name", metavar="NAME", help="a GridCluster")
        if name == "set-state":
            words = ", ".join(state.value for state in STATES.values())
            command.add_argument("state", type=_state, metavar="STATE", help=f"one of {words}")
        command.add_argument(
            "--no-wait", dest="wait", action="store_false", help="do not wait for it"
        )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )


def _loopback(text: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not address.is_loopback:
        raise argparse.ArgumentTypeError(f"{text} is not an address in 127.0.0.0/8")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be from 0 to {MAX_TIMEOUT_S:g} seconds")
    return seconds


def _backup_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_BACKUP):
        raise argparse.ArgumentTypeError("must be the N of a directory backup-N")
    return int(text)


def _state(text: str) -> str:
    found = STATES.get(text.replace("_", "").replace("-", "").lower())
    if found is None:
        words = ", ".join(state.value for state in STATES.values())
        raise argparse.ArgumentTypeError(f"must be one of {words}")
    return found.value
