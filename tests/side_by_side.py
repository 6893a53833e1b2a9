"""Runs the tests of a layer in several processes: `python -m tests.side_by_side LAYER [arguments]`.

The arguments go to pytest. Of the layer `unit`, the tests of several members mostly wait, for
elections and for patience that ends: four processes run them beside the one that runs all others.
As soon as one of the four has ended, another runs the tests of the operator, of the charts and of
monitoring, and the next those of the data path a second time, compiled. Of the layer `e2e`, half of
the modules run beside the other half.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.e2e.provider.choice import NATIVE, chosen_kind

NOTHING_FOUND: Final = 5
"""Pytest's exit status when no test fits the arguments."""
AT_ONCE: Final = 4
"""How many processes run beside the one whose tests are shown."""
PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Layer:
    """The arguments of pytest for each process that runs a part of the tests."""

    shown: tuple[tuple[str, ...], ...]
    """Those of the processes that run one after the other and print at once what they find."""
    beside: tuple[tuple[str, ...], ...]
    """Those of the processes beside them, AT_ONCE at a time; their reports come at the end."""


def _without(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--ignore={path}" for path in paths)


def _files(directory: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{directory}/test_{name}.py" for name in names)


MEMBERS: Final = "tests/unit/member/processes"
SECOND_MEMBERS: Final = (
    *_files(f"{MEMBERS}/balancers", "load_balancers"),
    *_files(f"{MEMBERS}/config", "bad_days", "one_machine"),
    *_files(f"{MEMBERS}/faults", "full_disks", "lost_disks_and_a_cut", "majority_back"),
    *_files(f"{MEMBERS}/faults", "processes", "silent_cuts"),
    *_files(f"{MEMBERS}/management", "backups", "limits"),
    *_files(f"{MEMBERS}/membership", "copies", "growing", "leaving_beside_a_cut", "twins"),
)
"""About half of the time that those of processes take; new files belong to the other half."""
ENGINES: Final = tuple(
    f"tests/unit/engine/{name}"
    for name in (
        *("bootstrap", "cluster", "integrity", "jetstream", "lost_memory", "nats", "replicas"),
        *("replicated/engine", "replicated/faults", "replicated/shard", "replicated/start"),
        "server",
    )
)
CONTRACT: Final = "tests/unit/engine/contract"
SECOND_ENGINES: Final = (
    "tests/unit/engine/integrity/test_damaged_disks.py",
    "tests/unit/engine/lost_memory/test_lost_memory.py",
    *_files("tests/unit/engine/replicated/faults", "loss", "lost_disks", "rescue"),
)
"""About half of the time that those of engines with a server each take, as for processes."""
OPERATOR: Final = tuple(
    f"tests/unit/{name}" for name in ("operator", "gridctl", "charts", "monitoring")
)
COMPILED: Final = (
    *("-p", "tests.compiled", "tests/unit/engine", "tests/unit/member/http/fastpath"),
    *_without(ENGINES),
)
UNIT: Final = Layer(
    shown=(("tests/unit", *_without((MEMBERS, *ENGINES, CONTRACT, *OPERATOR))),),
    beside=(
        (MEMBERS, *_without(SECOND_MEMBERS)),
        SECOND_MEMBERS,
        (*ENGINES, CONTRACT, *_without(SECOND_ENGINES)),
        SECOND_ENGINES,
        OPERATOR,
        COMPILED,
    ),
)
IN_ORDER: Final = ("-p", "no:randomly")
SECOND_E2E: Final = _files(
    "tests/e2e", "several", "several_data", "tutorial", "watches", "releases"
)
"""About half of the time. A third process at once would keep two cores busier than probes bear."""
E2E: Final = Layer(
    shown=((*IN_ORDER, "tests/e2e", *_without(SECOND_E2E)),),
    beside=((*IN_ORDER, *SECOND_E2E),),
)
ONE_KUBERNETES: Final = Layer(shown=((*IN_ORDER, "tests/e2e"),), beside=())


def layer_named(name: str) -> Layer:
    """Return how the tests of a layer run here."""
    if name == "unit":
        return UNIT
    if name == "e2e":
        # Other providers may have one Kubernetes for all, or no room for two.
        return E2E if chosen_kind() == NATIVE else ONE_KUBERNETES
    raise SystemExit(f"{name} is no layer of the tests: want unit or e2e")


def main(arguments: list[str]) -> int:
    """Run all processes of a layer; return the exit status."""
    if not arguments:
        raise SystemExit("name a layer of the tests: unit or e2e")
    layer, rest = layer_named(arguments[0]), arguments[1:]
    running: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        stack.callback(_end, threads, running)
        reports = [threads.submit(_report, running, [*words, *rest]) for words in layer.beside]
        found = [subprocess.call([*PYTEST, *words, *rest]) for words in layer.shown]
        for report in reports:
            status, output = report.result()
            found.append(status)
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
    return _status(found)


def _report(running: list[subprocess.Popen[bytes]], words: list[str]) -> tuple[int, bytes]:
    """Run a process to its end; return its status and what it wrote.

    It writes to a file: a pipe would be open for as long as a process that a test left behind.
    """
    with tempfile.TemporaryFile() as report:
        process = subprocess.Popen([*PYTEST, *words], stdout=report, stderr=subprocess.STDOUT)
        running.append(process)
        status = process.wait()
        report.seek(0)
        return status, report.read()


def _end(threads: ThreadPoolExecutor, running: list[subprocess.Popen[bytes]]) -> None:
    threads.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.kill()


def _status(found: list[int]) -> int:
    """Return the status of all: some of them may have nothing to do."""
    failed = [status for status in found if status not in {0, NOTHING_FOUND}]
    if failed:
        return failed[0]
    return 0 if 0 in found else NOTHING_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
