"""Two clusters of one name and one identity: no member of one ever harms the other, or itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.member.processes.bad_days import Days, eventually, goes_on, three

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.bad_days import Member, Written

pytestmark = pytest.mark.timeout(400)
NUMBER = 20


def cluster(name: str, place: Path | None) -> list[Written]:
    """Return the configurations of a cluster of its own."""
    return [
        replace(
            one,
            name=f"{name}{number}",
            password="the same",
            base_dir=None if place is None else place / f"{name}{number}-data",
        )
        for number, one in enumerate(three())
    ]


def fill(members: list[Member], value: str) -> None:
    for number in range(NUMBER):
        assert members[number % 3].put(f"k{number}", value).status == 200


def holds(member: Member, value: str) -> bool:
    return all(member.get(f"k{number}").body == value for number in range(NUMBER))


def id_of(written: Written) -> str:
    assert written.base_dir is not None
    content = json.loads((written.base_dir / "cluster" / "identity.json").read_bytes())
    return str(content["clusterId"])


@pytest.mark.parametrize("durable", [True, False], ids=["disk", "memory"])
def test_a_member_of_one_is_kept_out_of_the_other(tmp_path: Path, durable: bool) -> None:
    with Days(tmp_path) as days:
        a, b = cluster("a", tmp_path if durable else None), cluster("b", tmp_path)
        ours, theirs = days.formed(a), days.formed(b)
        fill(ours, "a")
        fill(theirs, "b")
        assert len({id_of(one) for one in b}) == 1
        assert theirs[2].stop() == 0
        with goes_on(*ours), goes_on(*theirs[:2]):
            astray = days.start(replace(b[2], members=(a[0].port, a[1].port, b[2].port)))
            said = astray.said("waiting for the other members", "is of another cluster")
            place = str(b[2].base_dir)
            assert all(part in said for part in (place, id_of(b[2])[:8], "member-list"))
            if durable:
                assert id_of(a[0])[:8] in said
            ready = astray.ask("GET", "/grid/health/ready")
            assert (ready.status, "is of another cluster" in ready.error) == (503, True)
        # It goes on trying, whatever becomes of the others meanwhile.
        assert ours[1].stop() == 0
        ours[1] = days.start(a[1])
        ours[1].ready()
        assert astray.process.poll() is None
        assert astray.stop() == 0
        assert holds(ours[0], "a")
        assert holds(theirs[0], "b")
        theirs[2] = days.start(b[2])
        theirs[2].ready()
        eventually(lambda: [each.members() for each in theirs] == [3, 3, 3])
        assert holds(theirs[2], "b")
        assert [each.members() for each in ours] == [3, 3, 3]


def test_data_without_an_id_takes_that_of_its_cluster(tmp_path: Path) -> None:
    with Days(tmp_path) as days:
        written = cluster("a", tmp_path)
        members = days.formed(written)
        fill(members, "a")
        before = id_of(written[2])
        assert members[2].stop() == 0
        assert written[2].base_dir is not None
        file = written[2].base_dir / "cluster" / "identity.json"
        content = json.loads(file.read_bytes())
        del content["clusterId"]
        file.write_text(json.dumps(content))
        members[2] = days.start(written[2])
        members[2].ready()
        assert id_of(written[2]) == before
        assert holds(members[2], "a")


def test_all_of_one_stopped_and_started_know_each_other(tmp_path: Path) -> None:
    with Days(tmp_path) as days:
        written = cluster("a", tmp_path)
        members = days.formed(written)
        fill(members, "a")
        ids = [id_of(one) for one in written]
        for member in members:
            member.kill()
        members = days.formed(written)
        assert holds(members[0], "a")
        assert [id_of(one) for one in written] == ids
        assert len(set(ids)) == 1
