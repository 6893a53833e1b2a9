"""A client that makes a connection for each request and repeats none, as the code of a pod.

It goes on until a file tells it to leave, empties its queue, and prints what it was answered.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.e2e.installation import CHANGE_TIMEOUT_S, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.installation import Installation

VISITOR: Final = "visitor"
MOST_ENDING_S: Final = 60.0
ENOUGH: Final = 500
"""Requests, while a member is replaced."""

VISIT_CODE: Final = """
import http.client, json, os, sys, threading, time
host, began = sys.argv[1], time.time()
asked, failed, offered, polled = [], [], [], []

def ask(method, path, *wanted, body=None):
    connection = http.client.HTTPConnection(host, 5701, timeout=30)
    asked.append(method)
    try:
        connection.request(method, "/grid/rest/" + path, body=body)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        found = 0, repr(error)
    finally:
        connection.close()
    if found[0] not in wanted:
        failed.append(f"{time.time() - began:.2f} {method} {path}: {found}")
    return found

def use_map(name, turn):
    path, value = f"maps/default/visit-{name}-{turn % 7}", str(turn)
    ask("POST", path, 200, body=value)
    if ask("GET", path, 200)[1] != value:
        failed.append(f"GET {path}: not {value}")

def offer(name, turn):
    if ask("POST", "queues/default", 200, body=f"{name}-{turn}")[0] == 200:
        offered.append(f"{name}-{turn}")

def poll(name, turn):
    status, text = ask("DELETE", f"queues/default/{turn % 3}", 200, 204)
    if status == 200:
        polled.append(text)
    return status

def repeat(step, name):
    turn = 0
    while not os.path.exists("/tmp/leave"):
        step(name, turn)
        turn += 1
        time.sleep(0.02)

threads = [
    threading.Thread(target=repeat, args=(step, f"{step.__name__}-{number}"))
    for step in (use_map, offer, poll) for number in range(2)
]
for one in threads:
    one.start()
print("visits", flush=True)
for one in threads:
    one.join()
while poll("last", 0) == 200:
    pass
os.remove("/tmp/leave")
print(json.dumps({
    "asked": len(asked), "failed": failed, "offers": len(offered),
    "items": sorted(offered) == sorted(polled),
}))
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a client met that repeats nothing."""

    asked: int
    """Requests, each on a connection of its own."""
    failed: list[str]
    offers: int
    items: bool
    """Whether every item that was offered came out once."""

    def check(self) -> None:
        """See that a member that stops fails no request, though the client repeats none."""
        assert self.failed == [], f"of {self.asked} requests"
        assert self.items, f"of {self.offers} offers"
        assert self.asked > ENOUGH, "the client hardly asked"


@contextlib.contextmanager
def visiting(grid: Installation, host: str) -> Iterator[list[Visit]]:
    """Let a client ask a Service while the block runs; what it met is in the list then."""
    found: list[Visit] = []
    grid.start_pod(VISITOR, client=True)
    command = ("exec", VISITOR, "--", "python3", "-c", VISIT_CODE, host)
    with subprocess.Popen(
        [*grid.kube.provider.kubectl, "-n", NAMESPACE, *command], stdout=subprocess.PIPE, text=True
    ) as visit:
        try:
            assert visit.stdout is not None
            assert visit.stdout.readline() == "visits\n"
            yield found
            leave = "open('/tmp/leave', 'w')"
            grid.kubectl("exec", VISITOR, "--", "python3", "-c", leave)
            found.append(Visit(**json.loads(visit.communicate(timeout=MOST_ENDING_S)[0])))
        finally:
            visit.kill()
            grid.kubectl("delete", "pod", VISITOR, f"--timeout={CHANGE_TIMEOUT_S:.0f}s")
