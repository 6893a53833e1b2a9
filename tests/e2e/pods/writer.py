"""A client that writes all the time, as the code of a pod, and what is asked of it afterwards.

Every write has a key of its own and is repeated until it is answered with 200; only then it counts,
and is read. Well-behaved clients repeat what is answered 503 with advice to do so, or not at all.
"""

from __future__ import annotations

from typing import Final

WRITE_CODE: Final = """
import http.client, os, sys, threading, time
host, threads, pause, patience = sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:5])
answered = open("/tmp/answered", "a", buffering=1)
failed = open("/tmp/failed", "a", buffering=1)

def tell(what):
    failed.write(f"{time.time():.3f} {what}\\n")

class Client:
    def __init__(self):
        self.connect()

    def connect(self):
        # A new connection may go to another member.
        self.connection = http.client.HTTPConnection(host, 5701, timeout=5)

    def ask(self, method, path, body=None):
        began = time.time()
        while not os.path.exists("/tmp/stop"):
            try:
                self.connection.request(method, path, body=body)
                answer = self.connection.getresponse()
                text = answer.read().decode()
                if answer.status != 503:
                    return answer.status, text
                if not answer.getheader("Retry-After"):
                    tell(f"{method} {path}: 503 without advice")
            except (OSError, http.client.HTTPException):
                pass
            if time.time() - began > patience:
                tell(f"{method} {path}: no answer for {patience} s")
                began = time.time()
            self.connection.close()
            self.connect()
            time.sleep(pause)
        return 0, ""

def write(thread):
    client, number = Client(), 0
    while not os.path.exists("/tmp/stop"):
        path, body = f"/grid/rest/maps/default/{thread}-{number}", str(number)
        status, _ = client.ask("POST", path, body)
        if status == 200:
            answered.write(f"{thread}-{number} {time.time():.3f}\\n")
            number += 1
            status, read = client.ask("GET", path)
            if (status, read) not in ((200, body), (0, "")):
                tell(f"GET {path}: {status} {read}")
        elif status:
            tell(f"POST {path}: {status}")
        if number % 20 == 0:
            client.connection.close()
            client.connect()
        time.sleep(pause)

all_of_them = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
for one in all_of_them:
    one.start()
for one in all_of_them:
    one.join()
open("/tmp/stopped", "w").close()
time.sleep(100000)
"""

FAILED_CODE: Final = """
import sys
print([line for line in open("/tmp/failed") if float(line.split()[0]) >= float(sys.argv[1])][:10])
"""
"""Prints what a well-behaved client calls failed since a moment."""

LONGEST_GAP_CODE: Final = """
import sys, time
since = float(sys.argv[1])
of_threads = {str(thread): [since] for thread in range(int(sys.argv[2]))}
for line in open("/tmp/answered"):
    key, _, time_s = line.partition(" ")
    if line.endswith("\\n") and float(time_s) >= since:
        of_threads[key.split("-")[0]].append(float(time_s))
together = [sorted(sum(of_threads.values(), [])), *of_threads.values()]
print(*(max(b - a for a, b in zip(times, [*times[1:], time.time()])) for times in together))
"""
"""Prints the longest time without an answer since a moment, of all threads together and of each."""

NOW_CODE: Final = "import time; print(time.time())"

CHECK_CODE: Final = """
import http.client, sys, threading
hosts, wrong = sys.argv[1:] * 4, []
# The last line may be half-written: the client may go on meanwhile.
lines = [line.split()[0] for line in open("/tmp/answered") if line.endswith("\\n")]

def check(host, keys):
    connection = http.client.HTTPConnection(host, 5701, timeout=15)
    for key in keys:
        try:
            connection.request("GET", f"/grid/rest/maps/default/{key}")
            answer = connection.getresponse()
            found = answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            found = 0, repr(error)
            connection.close()
        if found != (200, key.split("-")[1]):
            wrong.append((host, key, *found))

parts = [(host, lines[n :: len(hosts)]) for n, host in enumerate(hosts)]
threads = [threading.Thread(target=check, args=part) for part in parts]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(lines), wrong[:10])
"""
"""Reads whatever was answered, a part of it from each host; prints how much it was, and what is not
there."""
