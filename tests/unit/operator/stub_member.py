"""A stand-in for a member process: the few endpoints that the operator and probes ask."""

import base64
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ADDRESS = os.environ["GRID_BIND_ADDRESS"]
EXPECTED = "Basic " + base64.b64encode(
    (
        os.environ["GRID_MANAGEMENT_USERNAME"] + ":" + os.environ["GRID_MANAGEMENT_PASSWORD"]
    ).encode()
).decode()
ANSWERS: dict[str, object] = {
    "/grid/health": {
        "nodeState": "ACTIVE",
        "clusterState": "ACTIVE",
        "clusterSafe": True,
        "migrationQueueSize": 0,
        "clusterSize": 1,
    },
    "/grid/rest/cluster": {
        "members": [
            {
                "address": f"{ADDRESS}:5701",
                "liteMember": False,
                "localMember": True,
                "uuid": "0d8f9f9e-0f6a-4b7c-8a55-2f4ac8e6a111",
                "memberVersion": "0.1.0",
            }
        ],
        "connectionCount": 0,
        "allConnectionCount": 0,
    },
    "/grid/rest/management/cluster/version": {"status": "success", "version": "0.1"},
    "/grid/health/ready": "",
    "/config": sys.argv[1:],
    "/pid": os.getpid(),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        protected = self.server.server_address[1] == 5702 and self.path != "/grid/health/ready"
        if protected and self.headers.get("Authorization") != EXPECTED:
            self._answer(401, b"")
        elif self.path in ANSWERS:
            self._answer(200, json.dumps(ANSWERS[self.path]).encode())
        else:
            self._answer(400, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    config = Path(sys.argv[sys.argv.index("--config") + 1]).read_text(encoding="utf-8")
    print("configuration has", len(config), "characters", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    servers = [ThreadingHTTPServer((ADDRESS, port), Handler) for port in (5701, 5702)]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
