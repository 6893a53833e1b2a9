"""examples/wan: two members that replicate to each other on one machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from grid_member.config import parse_config

EXAMPLE: Final = Path(__file__).parents[4] / "examples" / "wan"


def test_the_members_name_each_other() -> None:
    shown = {"TOKYO_PASSWORD": "a", "LONDON_PASSWORD": "b"}
    tokyo, london = (
        parse_config((EXAMPLE / f"{name}.yaml").read_text(encoding="utf-8"), "f", shown)
        for name in ("tokyo", "london")
    )
    for source, target in ((tokyo, london), (london, tokyo)):
        ((publisher,),) = (each.publishers.values() for each in source.wan.replications.values())
        listener = target.wan_listener
        assert listener is not None
        assert publisher.cluster_name == target.cluster_name
        assert publisher.target_endpoints == (("127.0.0.1", listener.port),)
        assert publisher.identity in (listener.users or ())


def test_the_program_may_have_a_relative_path(tmp_path: Path) -> None:
    member = tmp_path / "member"
    member.write_text('#!/bin/sh\ntest -f "$2" && echo "$1 $2"\n', encoding="utf-8")
    member.chmod(0o755)
    done = subprocess.run(
        [EXAMPLE / "start"],
        cwd=tmp_path,
        env=os.environ | {"GRID_MEMBER": "./member"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert sorted(done.stdout.decode().splitlines()) == [
        f"--config {EXAMPLE}/{name}.yaml" for name in ("london", "tokyo")
    ]
