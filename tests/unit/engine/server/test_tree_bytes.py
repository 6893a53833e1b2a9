"""How large a directory is whose owner goes on with it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from grid_member.engine.shard.shards import tree_bytes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_vanishes_while_it_is_counted_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("streams/kept", "streams/msgs"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.blk").write_bytes(b"x" * 10_000)
    whole = tree_bytes(tmp_path)
    listed = os.scandir

    def purged(path: Any) -> Any:
        if str(path).endswith("msgs"):
            shutil.rmtree(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", purged)
    assert tree_bytes(tmp_path) == whole // 2 >= 10_000
