"""What a pod finds out by itself, as code that it runs."""

from __future__ import annotations

from typing import Final

# Prints how many streams each server leads, as the member's own nats-server knows it.
LEADERS_CODE: Final = """
import collections, glob, json, re
from grid_member.engine.nats.client.blocking import BlockingClient
(config,) = glob.glob("/tmp/grid-nats.*/nats.conf")
(ports,) = glob.glob("/tmp/grid-nats.*/*.ports")
password = re.search('user: grid, password: "([^"]*)"', open(config).read())[1]
port = json.load(open(ports))["nats"][0].rpartition(":")[2]
with BlockingClient(("127.0.0.1", int(port)), "grid", password, 10) as client:
    found = json.loads(client.request(b"$JS.API.STREAM.LIST").payload)["streams"]
print(json.dumps(collections.Counter(stream["cluster"]["leader"] for stream in found)))
"""
SERVER_CODE: Final = (
    "from grid_member.engine.server.binary import find_server; print(find_server(None))"
)
# Prints `open`, or what came of the attempt to connect.
CONNECT_CODE: Final = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
"""
