"""promtool is the machine's own, or unpacked from Debian's package without installing it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.provider.base import MissingPartError
from tests.prometheus.program import promtool_program

if TYPE_CHECKING:
    from pathlib import Path

CONTROL = """\
Package: prometheus
Version: 1
Architecture: all
Maintainer: Nobody <nobody@example.com>
Description: made by a test
"""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def telling(version: str) -> str:
    return f'echo "promtool, version {version} (branch: debian/sid)"'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of the PATH, but for what runs programs."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("sh", "cp", "echo", "dpkg-deb", "tar", "xz", "zstd"):
        if (found := shutil.which(name)) is not None:
            (place / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(place))
    return place


def offer(programs: Path, version: str) -> Path:
    """Have apt-get download a package whose promtool is of this version; return what it wrote."""
    root = programs.parent / "package"
    write_program(root / "usr/bin/promtool", telling(version))
    (root / "DEBIAN").mkdir(exist_ok=True)
    (root / "DEBIAN/control").write_text(CONTROL)
    package, log = programs.parent / "prometheus_1_all.deb", programs.parent / "asked"
    build = (shutil.which("dpkg-deb") or "", "--build", "--root-owner-group", root, package)
    subprocess.run(build, check=True, capture_output=True, env={"PATH": os.defpath})
    write_program(programs / "apt-get", f'echo "$@" >>{log}\ncp {package} .')
    return log


def test_the_machines_own_is_taken(programs: Path, tmp_path: Path) -> None:
    write_program(programs / "promtool", telling("2.53.1+ds1"))

    assert promtool_program(tmp_path / "cache") == programs / "promtool"


def test_an_older_one_is_not_and_debians_is_fetched_once(programs: Path, tmp_path: Path) -> None:
    write_program(programs / "promtool", telling("2.24.1+ds"))
    log = offer(programs, "2.42.0+ds")

    first = promtool_program(tmp_path / "cache")
    assert promtool_program(tmp_path / "cache") == first == tmp_path / "cache/prometheus/promtool"
    assert [line.split()[-2:] for line in log.read_text().splitlines()] == [
        ["download", "prometheus"]
    ]
    assert sorted(path.name for path in first.parent.iterdir()) == ["lock", "promtool"]


def test_a_package_that_is_too_old_is_refused(programs: Path, tmp_path: Path) -> None:
    offer(programs, "2.33.5+ds1")

    with pytest.raises(MissingPartError, match=r"prometheus_1_all\.deb has no promtool"):
        promtool_program(tmp_path / "cache")


@pytest.mark.usefixtures("programs")
def test_without_debian_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingPartError, match=r"promtool 2\.42 or newer is missing: install"):
        promtool_program(tmp_path / "cache")
