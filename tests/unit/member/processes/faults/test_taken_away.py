"""A directory that is taken away from one of three members while all of them run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grid_member.command import EXIT_START
from tests.unit.member.processes.bad_days import Days, eventually, goes_on, three

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.member.processes.bad_days import Member

pytestmark = pytest.mark.timeout(400)


def names(member: Member, path: str, base: Path, method: str = "GET") -> bool:
    """Tell whether a call is 503 and names the directory."""
    answer = member.ask(method, path, "v" if method == "POST" else None)
    return answer.status == 503 and str(base) in answer.error


def test_a_member_without_its_directory_takes_nothing_and_the_others_go_on(tmp_path: Path) -> None:
    with Days(tmp_path) as days:
        written = [replace(one, base_dir=tmp_path / f"{one.name}-data") for one in three()]
        members = days.formed(written)
        eventually(lambda: all(each.safe() for each in members))
        victim, base = members[1], written[1].base_dir
        assert base is not None
        with goes_on(members[0], members[2]):
            base.rename(base.with_name("elsewhere"))
            shutil.copytree(base.with_name("elsewhere"), base)
            eventually(lambda: names(victim, "/grid/health/ready", base))
            assert names(victim, "/grid/health/cluster-safe", base)
            assert names(victim, "/grid/rest/maps/kept/k", base, "POST")
            assert names(victim, "/grid/rest/maps/kept/k", base)
            assert names(victim, "/grid/rest/queues/q/1", base, "DELETE")
            victim.said(str(base), "was removed, replaced or unmounted")
        assert victim.stop() == 0
        shutil.rmtree(base)
        members[1] = days.start(written[1])
        members[1].ready()
        (base / "lock").unlink()
        second = days.start(replace(written[1], name="second"))
        assert second.end() == EXIT_START
        second.said(str(base), "in use", "was removed")
