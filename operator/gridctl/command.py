"""What the command line tool does. The only place of `gridctl` that reads the environment.

Exit codes: 0 success; 1 something failed, was refused or was not found; 2 the command line or the
file is wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_operator.api.lifecycle import ClusterState
from grid_operator.ports.errors import OperatorError
from grid_operator.ports.inherited import home_directory
from grid_operator.ports.output import unblocked
from grid_operator.reconcile.reconciler import utc_now
from gridctl import changing, requesting
from gridctl.arguments import make_parser
from gridctl.changing import Following
from gridctl.columns import cluster_row, problem_lines, table
from gridctl.documents import STDIN, manifest_yaml, read_clusters
from gridctl.explain import explain
from gridctl.judging import SpecJudge, StatusError, is_ready
from gridctl.kubernetes import Access, NotFoundError, clusters_of, fetch_all
from gridctl.local_state import AlreadyRunningError, running_clusters
from gridctl.manifest import ManifestError, read_manifest
from gridctl.plan import make_plan
from gridctl.requesting import NotPossibleError
from gridctl.restoring import CannotRestoreError, restored_manifest
from gridctl.up import CannotStartError, UpOptions, run_up
from gridctl.waiting import Ended, await_end, progress_on

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from grid_operator.api.objects import KubeObject
    from gridctl.kubernetes import Clusters

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
PLUGIN_NAME: Final = "kubectl-grid"
_REFUSALS: Final = (
    AlreadyRunningError,
    CannotStartError,
    CannotRestoreError,
    NotFoundError,
    NotPossibleError,
    OperatorError,
    StatusError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    environment = os.environ
    options = make_parser(default_data_dir(environment)).parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.WARNING,
        format="[gridctl] %(levelname)s %(message)s",
    )
    try:
        code = _run(options, environment)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read has seen enough; the interpreter must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except ManifestError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except _REFUSALS as error:
        print(f"gridctl: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("gridctl: given up; the operator goes on", file=sys.stderr)
        return EXIT_FAILED


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    if options.command == "up":
        return _up(options, environment)
    if options.command == "status":
        return _status(options, environment)
    if options.command == "explain":
        return _explain(options, environment)
    return asyncio.run(_on_kubernetes(options, environment))


def default_data_dir(environment: Mapping[str, str]) -> Path:
    """Return where data lives by default (XDG base directory specification)."""
    home = environment.get("XDG_DATA_HOME") or str(home_directory() / ".local" / "share")
    return Path(home) / "grid"


def _up(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    wanted = UpOptions(
        file=options.file,
        data_dir=options.data_dir.absolute(),
        environment=environment,
        first_address=options.address,
    )
    # Members, signals and the file are looked after while nothing reads what is shown.
    with unblocked():
        asyncio.run(run_up(wanted))
    return 0


def _nothing_found(options: argparse.Namespace) -> str:
    if options.file is None and _means_kubernetes(options):
        return "there is no GridCluster"
    found = "no cluster is running"
    if options.file is not None:
        found = f"the cluster of {options.file} is not running"
    return f"{found} with its data in {options.data_dir}: was it started with another --data-dir?"


def _status(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    if options.file is not None or not _means_kubernetes(options):
        clusters = running_clusters(options.data_dir)
    else:
        clusters = asyncio.run(fetch_all(_access(options, environment)))
    if options.file is not None:
        meta = read_manifest(options.file)["metadata"]
        wanted = (meta["namespace"], meta["name"])
        clusters = [c for c in clusters if _names(c) == wanted]
    if not clusters:
        print(_nothing_found(options), file=sys.stderr)
        return EXIT_FAILED
    now = utc_now()
    print(table([cluster_row(cluster, now) for cluster in sorted(clusters, key=_names)]))
    for line in (line for cluster in clusters for line in problem_lines(cluster)):
        print(line)
    return 0


def _explain(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    if options.file == STDIN:
        clusters = read_clusters(sys.stdin.buffer, "standard input")
    elif options.file is not None:
        clusters = _read_file(Path(options.file))
    else:
        clusters = [_named(options, environment)]
    told = [explain(cluster, utc_now()) for cluster in clusters]
    if options.output == "json":
        print(json.dumps([one.document() for one in told], indent=2))
    else:
        print("\n\n".join(one.text() for one in told))
    return 0


def _named(options: argparse.Namespace, environment: Mapping[str, str]) -> KubeObject:
    """Return the cluster that runs here when there is one of the name, else that on Kubernetes."""
    if not _means_kubernetes(options):
        for cluster in running_clusters(options.data_dir):
            if cluster["metadata"]["name"] == options.name:
                return cluster

    async def fetch() -> KubeObject:
        async with clusters_of(_access(options, environment)) as clusters:
            return await clusters.fetch(options.name)

    return asyncio.run(fetch())


def _read_file(path: Path) -> list[KubeObject]:
    try:
        with path.open("rb") as stream:
            return read_clusters(stream, str(path))
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error


async def _on_kubernetes(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    manifest = read_manifest(options.file, None) if getattr(options, "file", None) else None
    named = None if manifest is None else manifest["metadata"].get("namespace")
    if options.command == "plan" and options.namespace and named not in (None, options.namespace):
        raise ManifestError(
            f"{options.file}: metadata.namespace is {named}, and -n says {options.namespace}: "
            "kubectl would not apply it there"
        )
    async with clusters_of(_access(options, environment, named)) as clusters:
        if manifest is not None:
            manifest["metadata"]["namespace"] = clusters.namespace
        if options.command == "plan" and manifest is not None:
            return await _plan(clusters, manifest, as_json=options.output == "json")
        if options.command == "restore":
            return await _restore(clusters, manifest, options)
        return _told(await _operation(clusters, options))


async def _plan(clusters: Clusters, manifest: KubeObject, *, as_json: bool) -> int:
    plan = await make_plan(clusters, manifest)
    print(json.dumps(plan.document(), indent=2) if as_json else plan.text())
    return EXIT_FAILED if plan.refused else 0


async def _restore(
    clusters: Clusters, manifest: KubeObject | None, options: argparse.Namespace
) -> int:
    source = manifest or await clusters.fetch(options.source)
    found = restored_manifest(source, options.name, options.backup, options.member)
    found.manifest["metadata"]["namespace"] = clusters.namespace
    for note in found.notes:
        print(f"gridctl: {note}", file=sys.stderr)
    if not options.apply:
        print(manifest_yaml(found.manifest), end="")
        return 0
    made = await clusters.create(found.manifest)
    if not options.wait:
        return _told(Ended(True, f"{options.name} was created"))
    generation = int(made["metadata"].get("generation", 0))
    ready = f"{options.name} is Ready"
    judge = SpecJudge(generation, frozenset(), frozenset(), is_ready, ready, utc_now)
    return _told(
        await await_end(
            lambda: clusters.fetch(options.name), judge, progress_on(sys.stderr), options.timeout
        )
    )


async def _operation(clusters: Clusters, options: argparse.Namespace) -> Ended:
    following = Following(options.wait, options.timeout, progress_on(sys.stderr), utc_now)
    if options.command == "stop":
        return await changing.stop(clusters, options.name, following)
    if options.command == "start":
        return await changing.start(clusters, options.name, following)
    if options.command == "set-state":
        state = ClusterState(options.state)
        return await changing.set_state(clusters, options.name, state, following)
    annotation = requesting.RESTART
    if options.command == "backup":
        annotation = requesting.INTERRUPT if options.interrupt else requesting.BACKUP
    return await requesting.request(clusters, options.name, annotation, following)


def _told(ended: Ended) -> int:
    """Print how it ended; return the exit code."""
    if ended.succeeded:
        print(ended.text)
        return 0
    print(f"gridctl: {ended.text}", file=sys.stderr)
    return EXIT_FAILED


def _names(cluster: KubeObject) -> tuple[str, str]:
    return cluster["metadata"]["namespace"], cluster["metadata"]["name"]


def _access(
    options: argparse.Namespace,
    environment: Mapping[str, str],
    in_file: str | None = None,
) -> Access:
    default = environment.get("KUBECONFIG") or str(home_directory() / ".kube" / "config")
    return Access(options.kubeconfig or default, options.context, options.namespace or in_file)


def _means_kubernetes(options: argparse.Namespace) -> bool:
    named = options.kubeconfig or options.context or options.namespace
    everywhere = getattr(options, "all_namespaces", False)
    return bool(named or everywhere) or Path(sys.argv[0]).name == PLUGIN_NAME
