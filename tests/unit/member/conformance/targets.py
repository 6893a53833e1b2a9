"""Paths that many rows ask for. `{map}` and `{queue}` are names that no other row uses."""

from __future__ import annotations

MAP = "/grid/rest/maps/{map}"
KEY = f"{MAP}/k"
QUEUE = "/grid/rest/queues/{queue}"
POLL = f"{QUEUE}/0"
SIZE = f"{QUEUE}/size"
CLUSTER = "/grid/rest/management/cluster"
STATE = f"{CLUSTER}/state"
CHANGE = f"{CLUSTER}/changeState"
