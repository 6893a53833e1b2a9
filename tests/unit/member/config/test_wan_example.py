"""examples/wan: two members that replicate to each other on one machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from grid_member.config import parse_config

EXAMPLE: Final = Path(__file__).parents[4] / "examples" / "wan"
STAND_IN: Final = """#!/bin/sh
test -f "$2" && echo "$1 $2" >> started
case "$2" in *london*) exec sleep 600 ;; esac
until grep -q london started; do sleep 0.1; done
exit 3
"""
"""Stands for the member: one goes on, the other one ends with 3 once both were started."""


@pytest.mark.parametrize(("directory", "members"), [(EXAMPLE, 1), (EXAMPLE / "three", 3)])
def test_the_members_name_each_other(directory: Path, members: int) -> None:
    shown = {"TOKYO_PASSWORD": "a", "LONDON_PASSWORD": "b"}
    tokyo, london = (
        parse_config((directory / f"{name}.yaml").read_text(encoding="utf-8"), "f", shown)
        for name in ("tokyo", "london")
    )
    for source, target in ((tokyo, london), (london, tokyo)):
        ((publisher,),) = (each.publishers.values() for each in source.wan.replications.values())
        listener = target.wan_listener
        assert listener is not None
        assert publisher.cluster_name == target.cluster_name
        ports = range(listener.port, listener.port + members)
        assert publisher.target_endpoints == tuple(("127.0.0.1", port) for port in ports)
        assert publisher.identity in (listener.users or ())


@pytest.mark.parametrize(("arguments", "members"), [((), 1), (("three",), 3)])
def test_a_member_that_ends_ends_the_others(
    tmp_path: Path, arguments: tuple[str, ...], members: int
) -> None:
    """The program has a relative path, as `GRID_MEMBER=.venv/bin/grid-member` has."""
    member = tmp_path / "member"
    member.write_text(STAND_IN, encoding="utf-8")
    member.chmod(0o755)
    done = subprocess.run(
        [EXAMPLE / "start", *arguments],
        cwd=tmp_path,
        env=os.environ | {"GRID_MEMBER": "./member"},
        check=False,
        timeout=60,
    )
    assert done.returncode == 3
    started = (tmp_path / "started").read_text(encoding="utf-8")
    assert sorted(started.splitlines()) == [
        f"--config {EXAMPLE.joinpath(*arguments)}/{name}.yaml"
        for name in ("london", "tokyo")
        for _ in range(members)
    ]
