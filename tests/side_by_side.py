"""Runs the tests of a layer in several processes: `python -m tests.side_by_side LAYER [arguments]`.

The arguments go to pytest. Of the layer `unit`, the tests of several members mostly wait, for
elections and for patience that ends: four processes run them beside the one that keeps a core busy
with all others, and after those with the tests of the data path a second time, compiled. Of the
layer `e2e`, the modules that bring up a Kubernetes of their own, and the releases, run beside those
that share one.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, Final

from tests.e2e.provider.choice import NATIVE, chosen_kind

NOTHING_FOUND: Final = 5
"""Pytest's exit status when no test fits the arguments."""
PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Layer:
    """The arguments of pytest for each process that runs a part of the tests."""

    shown: tuple[tuple[str, ...], ...]
    """Those of the processes that run one after the other and print at once what they find."""
    beside: tuple[tuple[str, ...], ...]
    """Those of the processes that run beside them, whose reports come at the end."""


def _without(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--ignore={path}" for path in paths)


def _files(directory: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{directory}/test_{name}.py" for name in names)


MEMBERS: Final = "tests/unit/member/cluster"
SECOND_MEMBERS: Final = _files(
    MEMBERS,
    *("backups", "bad_days", "copies", "full_disks", "growing", "leaving_beside_a_cut"),
    *("limits", "load_balancers", "lost_disks_and_a_cut", "majority_back", "one_machine"),
    *("processes", "silent_cuts", "twins"),
)
"""About half of the time that those of processes take; new files belong to the other half."""
ENGINES: Final = "tests/unit/engine/cluster"
SERVERS: Final = ("tests/unit/engine/nats", "tests/unit/engine/server")
CONTRACT: Final = _files("tests/unit/engine", "contract", "contract_bounded", "contract_queues")
SECOND_ENGINES: Final = _files(ENGINES, "damage", "lost_disks", "lost_memory", "loss", "rescue")
"""About half of the time that those of engines with a server each take, as for processes."""
COMPILED: Final = (
    *("-p", "tests.compiled", "tests/unit/engine", "tests/unit/member/lane"),
    *_without((ENGINES, *SERVERS)),
)
UNIT: Final = Layer(
    shown=(("tests/unit", *_without((MEMBERS, ENGINES, *SERVERS, *CONTRACT))), COMPILED),
    beside=(
        (MEMBERS, *_without(SECOND_MEMBERS)),
        SECOND_MEMBERS,
        (ENGINES, *SERVERS, *CONTRACT, *_without(SECOND_ENGINES)),
        SECOND_ENGINES,
    ),
)
IN_ORDER: Final = ("-p", "no:randomly")
SECOND_E2E: Final = _files("tests/e2e", "several", "several_data", "watches", "releases", "chart")
"""About half of the time: those that bring up a Kubernetes of their own, and the releases."""
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
    with contextlib.ExitStack() as stack:
        beside: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
        for words in layer.beside:
            report = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [*PYTEST, *words, *rest], stdout=report, stderr=subprocess.STDOUT
            )
            stack.callback(_end, process)
            beside.append((process, report))
        found = [subprocess.call([*PYTEST, *words, *rest]) for words in layer.shown]
        for process, output in beside:
            found.append(process.wait())
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.buffer.flush()
    return _status(found)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _status(found: list[int]) -> int:
    """Return the status of all: some of them may have nothing to do."""
    failed = [status for status in found if status not in {0, NOTHING_FOUND}]
    if failed:
        return failed[0]
    return 0 if 0 in found else NOTHING_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
