"""A new cluster begins when all of the list are there: one that is missing may have its data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.engine.cluster.clusters import HOST
from tests.unit.member.processes.bad_days import Days, eventually, three

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.member.processes.bad_days import Member, Written

NEW = "a new cluster begins when all members of the list are there"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    with Days(tmp_path) as started:
        yield started


def configured(tmp_path: Path, *, durable: bool) -> list[Written]:
    """Return the configurations of three members, whose directories are empty."""
    written = three()
    if not durable:
        return written
    return [replace(one, base_dir=tmp_path / f"data-{one.name}") for one in written]


def waits_for(member: Member, missing: Written) -> bool:
    """Tell whether a member says that the cluster is new, and who is missing."""
    ready = member.ask("GET", "/grid/health/ready")
    absent = f"no answer from {HOST}:{missing.port};"
    return ready.status == 503 and NEW in ready.error and absent in ready.error


def serve_each_other(members: list[Member]) -> None:
    """See that all are full members: what one takes all have."""
    eventually(lambda: all(member.members() == len(members) for member in members))
    for number, member in enumerate(members):
        assert member.put(f"k{number}", "v").status == 200
        assert {one.get(f"k{number}").body for one in members} == {"v"}
    eventually(lambda: all(member.safe() for member in members))


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
def test_a_majority_of_new_members_waits_for_the_last_one(
    days: Days, tmp_path: Path, durable: bool
) -> None:
    written = configured(tmp_path, durable=durable)
    members = [days.start(one) for one in written[:2]]
    for member in members:
        eventually(lambda member=member: waits_for(member, written[2]))  # type: ignore[misc]
        assert "partialStart" not in member.ask("GET", "/grid/health/ready").error
    members.append(days.start(written[2]))
    for member in members:
        member.ready()
    serve_each_other(members)


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
def test_those_that_are_there_begin_without_the_last_one_when_their_lists_do(
    days: Days, tmp_path: Path, durable: bool
) -> None:
    written = configured(tmp_path, durable=durable)
    there = tuple(one.port for one in written[:2])
    members = days.formed([replace(one, members=there) for one in written[:2]])
    members.append(days.start(written[2]))
    members[2].ready()
    serve_each_other(members)


def test_new_members_do_not_take_members_with_data_for_new_ones(days: Days, tmp_path: Path) -> None:
    written = configured(tmp_path, durable=True)
    for member in days.formed(written):
        member.kill()
    lost = replace(written[1], name="m1-anew", called="m1", base_dir=tmp_path / "empty")
    with_data, new = days.start(written[0]), days.start(lost)
    for member in (with_data, new):
        eventually(
            lambda member=member: (  # type: ignore[misc]
                "partialStart" in member.ask("GET", "/grid/health/ready").error
            )
        )
