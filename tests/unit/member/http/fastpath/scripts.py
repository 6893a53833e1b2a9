"""Sequences of requests on one connection, and a model of what is answered to them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st

from tests.unit.member.http.fastpath.peers import request

KEYS = ("a", "b", "%C3%A4")
VALUES = (b"", b"1", b"22", b"\r\n\r\n", b"\xff" * 300)
TYPES = (None, "a/b", "text/plain; charset=UTF-8")
TEXT = "text/plain"
BINARY = "application/octet-stream"
WAIT_S = 60
"""How long a poll waits for an item that certainly comes."""

Stored: TypeAlias = tuple[bytes, str | None]
Answer: TypeAlias = tuple[int, bytes, str | None]
"""Status, body, content type."""
NOTHING: Answer = (204, b"", None)
OK: Answer = (200, b"", None)


@dataclass(frozen=True, slots=True)
class Step:
    """One request. The verbs of RARE are not plain: aiohttp takes over."""

    verb: str
    key: str = ""
    value: bytes = b""
    content_type: str | None = None
    swift: bool = False
    """Whether it is for the map or queue in memory, which answers sooner than those on a disk."""

    def data(self, name: str) -> bytes:
        """Return its bytes, for the maps and queues whose names end so."""
        name = f"{'swift' if self.swift else 'default'}{name}"
        one, queue = f"/grid/rest/maps/{name}/{self.key}", f"/grid/rest/queues/{name}"
        typed = () if self.content_type is None else (f"Content-Type: {self.content_type}",)
        lines = {
            "get": f"GET {one}",
            "remove": f"DELETE {one}",
            "poll": f"DELETE {queue}/0",
            "wait": f"DELETE {queue}/{WAIT_S}",
            "size": f"GET {queue}/size",
            "head": f"HEAD {one}",
            "query": f"GET {one}?a=b",
            "slash": f"GET {one}/",
            "instance": "GET /grid/rest/instance",
            "clear": f"DELETE /grid/rest/maps/{name}",
        }
        if self.verb in lines:
            return request(lines[self.verb])
        if self.verb == "chunked":
            chunk = b"%x\r\n%b\r\n" % (len(self.value), self.value) if self.value else b""
            return (
                request(f"POST {one}", *typed, "Transfer-Encoding: chunked") + chunk + b"0\r\n\r\n"
            )
        line = f"POST {queue}" if self.verb == "offer" else f"POST {one}"
        return request(line, *typed, body=self.value)


PLAIN = ("put", "get", "remove", "offer", "poll", "size")
RARE = ("head", "chunked", "query", "slash", "instance", "clear")


def steps(*verbs: str) -> st.SearchStrategy[Step]:
    """Make steps of these verbs."""
    return st.builds(
        Step,
        st.sampled_from(verbs),
        st.sampled_from(KEYS),
        st.sampled_from(VALUES),
        st.sampled_from(TYPES),
        st.booleans(),
    )


@dataclass
class Model:
    """Maps and queues, by the book."""

    entries: dict[tuple[bool, str], Stored] = field(default_factory=dict)
    items: dict[bool, deque[Stored]] = field(
        default_factory=lambda: {False: deque(), True: deque()}
    )

    def answer(self, step: Step) -> Answer:
        """Carry the step out."""
        stored, key = (step.value, step.content_type), (step.swift, step.key)
        if step.verb in ("put", "chunked"):
            self.entries[key] = stored
        elif step.verb == "offer":
            self.items[step.swift].append(stored)
        elif step.verb == "remove":
            self.entries.pop(key, None)
        elif step.verb == "clear":
            self.entries = {k: v for k, v in self.entries.items() if k[0] != step.swift}
        else:
            return self._read(step)
        return OK

    def _read(self, step: Step) -> Answer:
        items = self.items[step.swift]
        if step.verb == "size":
            return 200, b"%d" % len(items), TEXT
        if step.verb == "instance":
            return 200, b'{"name":"tester"}', "application/json"
        if step.verb in ("poll", "wait"):
            return self._polled(*items.popleft()) if items else NOTHING
        if (step.swift, step.key) not in self.entries:
            return NOTHING
        value, content_type = self.entries[step.swift, step.key]
        return 200, b"" if step.verb == "head" else value, content_type

    def _polled(self, value: bytes, content_type: str | None) -> Answer:
        if content_type is None:
            try:
                value.decode()
            except UnicodeDecodeError:
                content_type = BINARY
        return 200, value, content_type or TEXT


def read(answer: bytes) -> Answer:
    """Return what an answer says."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    types = [line.partition(": ")[2] for line in lines if line.startswith("Content-Type: ")]
    return int(status.split(" ")[1]), body, types[0] if types else None
