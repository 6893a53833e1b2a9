"""The command line tool. The only place of `gridctl` that reads the environment.

Exit codes: 0 success; 1 something failed or nothing was found; 2 the command line or the file is
wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_operator.ports.errors import OperatorError
from grid_operator.reconcile.reconciler import utc_now
from gridctl.columns import cluster_row, problem_lines, table
from gridctl.local_state import AlreadyRunningError
from gridctl.manifest import DEFAULT_NAMESPACE, ManifestError, read_manifest
from gridctl.status import fetch_kubernetes, fetch_local
from gridctl.up import CannotStartError, UpOptions, run_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grid_operator.api.objects import KubeObject

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

DESCRIPTION: Final = "Runs and shows grid clusters, on this machine or on Kubernetes."
EPILOG: Final = """examples:
  gridctl up -f gridcluster.yaml       run the cluster in the file here; Ctrl-C stops it
  gridctl status                       show what runs here
  kubectl grid status -n NAMESPACE     show what runs on Kubernetes
"""
UP_DESCRIPTION: Final = """Runs the GridCluster in a file on this machine, without Kubernetes:
each member is a process on a loopback address. Edits to the file are rolled out while it
runs. Ctrl-C stops every member; with persistence enabled the data stays in the data
directory and is there again the next time."""
STATUS_DESCRIPTION: Final = """Shows the columns that `kubectl get gc` shows, and why a cluster is
not ready. Without options: what `gridctl up` runs on this machine; called as `kubectl grid`,
or with an option that belongs to Kubernetes: the clusters there."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    environment = os.environ
    parser = make_parser(default_data_dir(environment))
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="[gridctl] %(levelname)s %(message)s",
    )
    try:
        if options.command == "up":
            return _up(options, environment)
        return _status(options, environment)
    except ManifestError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except (AlreadyRunningError, CannotStartError, OperatorError) as error:
        print(f"gridctl: {error}", file=sys.stderr)
        return EXIT_FAILED


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """Return where data lives by default (XDG base directory specification)."""
    home = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "grid"


def make_parser(data_dir: Path) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EPILOG, formatter_class=raw, allow_abbrev=False
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("-v", "--verbose", action="store_true", help="say more")
    shared.add_argument(
        "--data-dir",
        type=Path,
        default=data_dir,
        metavar="DIR",
        help="where local clusters keep their data (default: %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", parents=[shared], help="run a GridCluster file here", description=UP_DESCRIPTION
    )
    up.add_argument("-f", "--file", type=Path, required=True, help="a file with one GridCluster")
    up.add_argument(
        "--address",
        type=_loopback,
        default="127.0.0.1",
        help="loopback address of the first member; others follow (default: %(default)s)",
    )
    status = commands.add_parser(
        "status", parents=[shared], help="show clusters", description=STATUS_DESCRIPTION
    )
    status.add_argument("-f", "--file", type=Path, help="show the local cluster of this file only")
    status.add_argument("--kubeconfig", metavar="FILE", help="ask the Kubernetes of this file")
    status.add_argument("--context", help="ask the Kubernetes of this context")
    where = status.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace on Kubernetes (default: all)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    return parser


def _loopback(text: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not address.is_loopback:
        raise argparse.ArgumentTypeError(f"{text} is not an address in 127.0.0.0/8")
    return text


def _up(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    asyncio.run(
        run_up(
            UpOptions(
                file=options.file,
                data_dir=options.data_dir.absolute(),
                environment=environment,
                first_address=options.address,
            )
        )
    )
    return 0


def _status(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    clusters = _clusters(options, environment)
    if options.file is not None:
        meta = read_manifest(options.file)["metadata"]
        wanted = (meta["namespace"] or DEFAULT_NAMESPACE, meta["name"])
        clusters = [c for c in clusters if _names(c) == wanted]
    if not clusters:
        print("no cluster is running", file=sys.stderr)
        return EXIT_FAILED
    now = utc_now()
    print(table([cluster_row(cluster, now) for cluster in sorted(clusters, key=_names)]))
    for line in (line for cluster in clusters for line in problem_lines(cluster)):
        print(line)
    return 0


def _names(cluster: KubeObject) -> tuple[str, str]:
    return cluster["metadata"]["namespace"], cluster["metadata"]["name"]


def _clusters(options: argparse.Namespace, environment: Mapping[str, str]) -> list[KubeObject]:
    if options.file is not None or not _means_kubernetes(options):
        return fetch_local(options.data_dir)
    default = environment.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    kubeconfig = options.kubeconfig or default
    return asyncio.run(fetch_kubernetes(kubeconfig, options.context, options.namespace))


def _means_kubernetes(options: argparse.Namespace) -> bool:
    named = options.kubeconfig or options.context or options.namespace or options.all_namespaces
    return bool(named) or Path(sys.argv[0]).name == "kubectl-grid"


if __name__ == "__main__":
    sys.exit(main())
