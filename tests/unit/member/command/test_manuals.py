"""The programs and variables in the manuals do what the manuals say."""

from __future__ import annotations

import argparse
import base64
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grid_member import Config, MemberHandle, start_member
from grid_member.config import ConfigError, parse_config
from grid_member.http.table import ROUTES, RoutingTable
from tests.unit.member.running import ALL_GROUPS
from tests.unit.member.wire import Reply, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DOCS = Path(__file__).parents[4] / "docs"
PYTHON_API = (DOCS / "python-api.md").read_text(encoding="utf-8")
MEMBER = (DOCS / "member.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PYTHON_API, re.DOTALL)
ANSWERS = [
    r"http://127\.0\.0\.1:[0-9]+/grid/rest/maps/default/greeting\n",
    re.escape("".join(re.findall(r"```\n([^`]*: must [^`]*)```", PYTHON_API))),
]


@pytest.mark.parametrize(("program", "answer"), list(zip(PROGRAMS, ANSWERS, strict=True)))
def test_programs_run(program: str, answer: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GRID_")}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=plain
    )
    assert done.stderr == ""
    assert re.fullmatch(answer, done.stdout)


def test_variables_lead_to_the_settings_named() -> None:
    section = CONFIGURATION.partition("## Environment overrides")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(GRID_[A-Z0-9_]+)=[^`]*` \| `([^`]+)`", section, re.MULTILINE)
    assert len(rows) == 6
    for variable, setting in rows:
        with pytest.raises(ConfigError) as caught:
            parse_config("grid: {}", "f", {variable: ""})
        told = {(str(p.place), p.path.replace("[0]", ".[]")) for p in caught.value.problems}
        assert (variable, setting) in told


CURL = re.compile(r"^\|.*`(curl [^`]*)` \| ([^|]*) \|$|^(curl .*)$", re.MULTILINE)
SECURITY = MEMBER.partition("\n## Security\n")[2].partition("\n## ")[0]
CURLS = CURL.findall(MEMBER.replace(SECURITY, ""))
SECURE_CURLS = CURL.findall(SECURITY)
FILE = """
grid:
  network:
    port: {{port: 0}}
    interfaces: {{enabled: true, interfaces: [127.0.0.1]}}
    join: {{tcp-ip: {{enabled: true}}}}
    rest-api: {{enabled: true, endpoint-groups: {{{groups}}}}}
    management: {{enabled: true, port: {{port: 0}}, realm: operators}}
  security:
{security}
    realms:
      - name: operators
        authentication: {{simple: {{users: [{{username: operator, password: PASSWORD}}]}}}}
      - name: london
        identity: {{username-password: {{username: wan, password: PASSWORD}}}}
  cp-subsystem: {{cp-member-count: 3}}
  persistence: {{enabled: true, base-dir: {place}/data, backup-dir: {place}/backups}}
  metrics: {{enabled: true, port: {{port: 0}}}}
  map: {{default: {{}}, m: {{wan-replication-ref: {{r: {{}}}}}}}}
  wan-replication:
    r:
      batch-publisher:
        london: {{cluster-name: london, target-endpoints: 127.0.0.1:1, realm: london}}
  queue: {{default: {{}}}}
"""
SECURE = "    enabled: true\n    member-authentication: {realm: operators}"


def curl(line: str) -> tuple[argparse.Namespace, str, bytes | None]:
    """Return what a curl line says: its options, the method, the body."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", dest="data")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-u", dest="user")
    parser.add_argument("-i", action="store_true")
    parser.add_argument("-I", dest="head", action="store_true")
    parser.add_argument("url")
    found = parser.parse_args(shlex.split(line)[1:])
    body = None if found.data is None else found.data.encode()
    default = "HEAD" if found.head else "GET" if body is None else "POST"
    return found, found.method or default, body


async def sent(line: str, member: MemberHandle) -> Reply:
    """Send what a curl line of the manual says to the member instead."""
    found, method, body = curl(line)
    host, _, path = found.url.partition("/")
    ports = {
        "localhost:5701": member.rest_port,
        "localhost:5702": member.management_port,
        METRICS: member.metrics_port,
    }
    port = ports[host]
    assert port is not None
    headers = {name: value.strip() for name, _, value in (h.partition(":") for h in found.headers)}
    if found.user:
        headers["Authorization"] = f"Basic {base64.b64encode(found.user.encode()).decode()}"
    async with await Wire.connect(port) as wire:
        return await wire.call(method, f"/{path}", body, **headers)


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[list[MemberHandle]]:
    """A list that keeps the members that a test starts; the last one is the one to ask."""
    started: list[MemberHandle] = []
    yield started
    for member in started:
        await member.stop()


async def running(members: list[MemberHandle], directory: Path, security: str = "") -> MemberHandle:
    """Return the last member, or a new one when that has been told to stop."""
    if not members or not members[-1].ready:
        file = directory / "grid.yaml"
        place = directory / f"member-{len(members)}"
        groups = ", ".join(f"{g}: {{enabled: true}}" for g in ALL_GROUPS)
        file.write_text(FILE.format(groups=groups, place=place, security=security))
        members.append(await start_member(Config.from_file(file, environment={})))
    return members[-1]


async def test_every_curl_line_is_answered_as_the_manual_says(
    members: list[MemberHandle], tmp_path: Path
) -> None:
    assert len(CURLS) >= 50
    for in_table, answers, alone in CURLS:
        line = in_table or alone
        member = await running(members, tmp_path)
        reply = await sent(line, member)
        if "Shutdown" in line:
            await member.wait_stopped()
        codes = re.findall(r"(?<![0-9])([2-5][0-9]{2})(?![0-9])", answers) or ["200"]
        assert str(reply.status) == codes[0], f"{line}: {reply}"
        shown = re.findall(r"`([{\[\"][^`…]*)`", answers)
        assert not shown or reply.body.decode() in shown, line


async def test_the_curl_lines_of_security_are_answered_where_it_is_on(
    members: list[MemberHandle], tmp_path: Path
) -> None:
    assert len(SECURE_CURLS) == 2
    for _, _, line in SECURE_CURLS:
        member = await running(members, tmp_path, SECURE)
        assert (await sent(line, member)).status == 200, line
        refused = await sent(line.replace("PASSWORD", "other"), member)
        assert (refused.status, refused.json["message"]) == (403, "unauthenticated"), line


def test_the_manual_has_a_curl_line_for_every_path_that_works() -> None:
    table = RoutingTable()
    asked = set()
    for in_table, _, alone in CURLS:
        found, method, _ = curl(in_table or alone)
        if found.url.startswith(METRICS):
            continue
        parts = tuple(found.url.partition("?")[0].split("/")[1:])
        match = table.match(parts)
        row = match.row(method) if match else None
        assert row is not None, found.url
        asked.add((row.path, row.operation, row.methods))
    works = {(r.path, r.operation, r.methods) for r in ROUTES if r.operation not in NO_CURL}
    assert works - asked == set()


METRICS = "localhost:5703"
NO_CURL = (None, "no_name", "health_unknown")
