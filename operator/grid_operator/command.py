"""The operator's command line; the only place that reads the environment."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from grid_operator.handlers.ending import end_in_time
from grid_operator.handlers.log_format import configure_logging
from grid_operator.handlers.operator import OperatorOptions, run_operator
from grid_operator.ports.errors import OperatorError
from grid_operator.ports.inherited import home_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXIT_FAILED: Final = 1
HEALTH_PORT: Final = 8080
METRICS_PORT: Final = 8081
LEASE_NAME: Final = "grid-operator"
MAX_PORT: Final = 65535
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

DESCRIPTION: Final = """Turns GridClusters into running members. Serves the namespace of its own pod
unless told otherwise. Of several, one works: the one that holds the Lease. GET /healthz on the
health port answers 200 while it lives and hears from the API server, with the watches that fail;
GET /metrics on the metrics port is for Prometheus."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator until a stop signal; return the exit code."""
    parsed = make_parser().parse_args(arguments)
    configure_logging(parsed.log_format, parsed.log_level)
    try:
        options = make_options(parsed, os.environ)
        asyncio.run(run_operator(options, lambda: end_in_time(EXIT_FAILED)))
    except OperatorError as error:
        print(f"grid-operator: {error}", file=sys.stderr)  # noqa: T201 - why it ends
        return EXIT_FAILED
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="grid-operator", description=DESCRIPTION, allow_abbrev=False
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NS",
        help="serve this namespace; may be repeated (default: the operator's own)",
    )
    where.add_argument(
        "--all-namespaces", action="store_true", help="serve all; needs cluster-wide rights"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="use this file, also in a pod")
    parser.add_argument("--context", help="use this context of the kubeconfig")
    parser.add_argument("--log-format", choices=("text", "json"), default="json")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")
    parser.add_argument(
        "--health-port",
        type=_port,
        default=HEALTH_PORT,
        metavar="PORT",
        help="port of GET /healthz (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=METRICS_PORT,
        metavar="PORT",
        help="port of GET /metrics, 0: none (default: %(default)s)",
    )
    election = parser.add_mutually_exclusive_group()
    election.add_argument(
        "--lease",
        default=LEASE_NAME,
        metavar="NAME",
        help="Lease in the operator's own namespace; operators that serve the same namespaces have "
        "to share one, others must not (default: %(default)s)",
    )
    election.add_argument(
        "--no-leader-election",
        action="store_true",
        help="work without a Lease: for one-off runs, when no other operator is at work",
    )
    return parser


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number up to {MAX_PORT}")
    return number


def make_options(parsed: argparse.Namespace, environment: Mapping[str, str]) -> OperatorOptions:
    """Return the options: the command line first, then the environment, then defaults."""
    in_pod = "KUBERNETES_SERVICE_HOST" in environment
    default = environment.get("KUBECONFIG") or str(home_directory() / ".kube" / "config")
    return OperatorOptions(
        kubeconfig=parsed.kubeconfig or (None if in_pod else default),
        context=parsed.context,
        namespaces=tuple(parsed.namespace),
        all_namespaces=parsed.all_namespaces,
        own_namespace=environment.get("POD_NAMESPACE"),
        own_name=environment.get("POD_NAME") or socket.gethostname(),
        health_port=parsed.health_port,
        metrics_port=parsed.metrics_port or None,
        lease=None if parsed.no_leader_election else parsed.lease,
    )
