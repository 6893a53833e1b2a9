"""A client that writes all the time, as the code of a pod, and what is asked of it afterwards.

Every write has a key of its own and is repeated until it is answered with 200; only then it counts.
"""

from __future__ import annotations

from typing import Final

WRITE_CODE: Final = """
import http.client, os, sys, threading, time
host, threads, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
answered = open("/tmp/answered", "a", buffering=1)

def connected():
    return http.client.HTTPConnection(host, 5701, timeout=5)

def write(thread):
    connection, number = connected(), 0
    while not os.path.exists("/tmp/stop"):
        try:
            path = f"/grid/rest/maps/default/{thread}-{number}"
            connection.request("POST", path, body=str(number))
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            status = 0
        if status != 200 or number % 20 == 0:
            # A new connection may go to another member.
            connection.close()
            connection = connected()
        if status == 200:
            answered.write(f"{thread}-{number} {time.time():.3f}\\n")
            number += 1
        time.sleep(pause)

all_of_them = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
for one in all_of_them:
    one.start()
for one in all_of_them:
    one.join()
open("/tmp/stopped", "w").close()
time.sleep(100000)
"""

LONGEST_GAP_CODE: Final = """
import sys, time
since = float(sys.argv[1])
times = sorted(float(line.split()[1]) for line in open("/tmp/answered") if line.endswith("\\n"))
times = [since, *(t for t in times if t >= since), time.time()]
print(max(b - a for a, b in zip(times, times[1:])))
"""
"""Prints the longest time without an answer since a moment."""

NOW_CODE: Final = "import time; print(time.time())"

CHECK_CODE: Final = """
import http.client, sys, threading
hosts, wrong = sys.argv[1:] * 4, []
lines = [line.split()[0] for line in open("/tmp/answered")]

def check(host, keys):
    connection = http.client.HTTPConnection(host, 5701, timeout=15)
    for key in keys:
        connection.request("GET", f"/grid/rest/maps/default/{key}")
        answer = connection.getresponse()
        body = answer.read().decode()
        if (answer.status, body) != (200, key.split("-")[1]):
            wrong.append((host, key, answer.status, body))

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
