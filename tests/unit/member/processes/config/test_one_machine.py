"""Three members on one machine whose list has their REST ports and nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from grid_member.command import EXIT_START
from grid_member.config.model.cluster import MEMBERS_PORT_OFFSET
from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.processes.bad_days import Member
from tests.unit.ports import free_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def first() -> int:
    """The first of three REST ports."""
    return free_run(3, MEMBERS_PORT_OFFSET)


@contextlib.contextmanager
def ending(members: list[Member]) -> Iterator[list[Member]]:
    """End all processes that are in the list by then."""
    try:
        yield members
    finally:
        for member in members:
            member.kill()


def text(first: int, port: dict[str, Any], **grid: object) -> str:
    """Return a configuration that names no members' port, as JSON and so as YAML.

    The list has the ports from the first one on.
    """
    members = ",".join(f"{HOST}:{first + n}" for n in range(3))
    network = {
        "port": port,
        "interfaces": {"enabled": True, "interfaces": [HOST]},
        "rest-api": {"enabled": True, "endpoint-groups": {"DATA": {"enabled": True}}},
        "join": {"tcp-ip": {"enabled": True, "members": members}},
    }
    return json.dumps(
        {
            "grid": {
                "network": network,
                "map": {"kept": {}},
                "logging": {"format": "json"},
                **grid,
            }
        }
    )


def test_the_same_file_started_three_times_is_one_cluster(first: int, tmp_path: Path) -> None:
    same = text(first, {"port": first, "auto-increment": True})
    with ending([Member(same, tmp_path / str(n)) for n in range(3)]) as members:
        for member in members:
            member.ready()
        assert sorted(member.rest for member in members) == [first, first + 1, first + 2]
        assert members[0].put("a", "1").status == 200
        assert [member.get("a").body for member in members] == ["1"] * 3
        assert [member.members() for member in members] == [3] * 3
        lost = members.pop(1)
        lost.kill()
        members.append(Member(same, tmp_path / "again"))
        members[-1].ready()
        assert members[-1].rest == lost.rest
        assert members[-1].get("a").body == "1"
        fourth = Member(same, tmp_path / "fourth")
        assert fourth.end() == EXIT_START
        (told,) = [line["message"] for line in fourth.log if line["level"] == "error"]
        assert f"all ports {first} to {first + 2} are taken" in told


def test_files_that_differ_in_the_rest_port_keep_their_data_in_any_order(
    first: int, tmp_path: Path
) -> None:
    def started(*order: int) -> list[Member]:
        return [
            Member(
                text(
                    first,
                    {"port": first + n},
                    persistence={"enabled": True, "base-dir": str(tmp_path / f"data{n}")},
                ),
                tmp_path / str(n),
            )
            for n in order
        ]

    for number, order in enumerate([(2, 0, 1), (1, 2, 0), (0, 1, 2)]):
        with ending(started(*order)) as members:
            for n, member in zip(order, members, strict=True):
                member.ready()
                assert member.rest == first + n
            assert [member.members() for member in members] == [3] * 3
            if number:
                assert members[0].get("a").body == str(number - 1)
            assert members[0].put("a", str(number)).status == 200


def test_without_a_members_port_each_takes_another_one_of_the_list(
    first: int, tmp_path: Path
) -> None:
    same = text(first, {"port": 0})
    with ending([Member(same, tmp_path / str(n)) for n in range(3)]) as members:
        for member in members:
            member.ready()
        chosen = [
            line["port"]
            for member in members
            for line in member.log
            if line["message"] == "members' port chosen from the list"
        ]
        assert sorted(chosen) == [first, first + 1, first + 2]
        assert [member.members() for member in members] == [3] * 3
        assert members[0].put("a", "1").status == 200
        members.pop(1).kill()
        members.append(Member(same, tmp_path / "again"))
        members[-1].ready()
        assert members[-1].get("a").body == "1"
        fourth = Member(same, tmp_path / "fourth")
        assert fourth.end() == EXIT_START
        (told,) = [line["message"] for line in fourth.log if line["level"] == "error"]
        assert "all members' ports that the list has for this machine are taken" in told
        assert "network.cluster.port" in told
