"""Builds the compiled modules: `python -m grid_member.compiled.build`.

Needs mypy with mypyc, setuptools and a C compiler with Python's headers: the extra `compile`, and
on Debian the packages gcc and python3-dev. Without arguments everything is built anew, with
`--if-needed` only when what is there does not fit or another mypy made it, with `--optional` a
failure is told and no failure. With both a build that failed is not tried again for these sources.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grid_member.compiled import BUILT, GROUP, MANIFEST, misfit, sources_digest
from grid_member.compiled.modules import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SOURCES: Final = Path(__file__).parents[2]
_CHECKS: Final = ("--config-file=", "--ignore-missing-imports", "--no-incremental")
"""For mypy: types are checked elsewhere, and what is not installed here is any object."""
_FLAGS: Final = ("-O1", "-g0", "-w", "-Wno-all")
"""For the compiler: optimising more, and looking for what to warn of, take three times as long and
bring nothing."""
_RUNTIME: Final = "bytes_ops.c"
"""The part of mypyc's runtime that is mended."""
_WRONG: Final = "slice_len = endn - startn;"
_RIGHT: Final = "slice_len = endn > startn ? endn - startn : 0;"
"""Else a slice of bytes that ends before it starts raises SystemError: seen of mypy 2.4."""
_PROOF: Final = """
import sys
from pathlib import Path
from grid_member.compiled import use
use("required", Path(sys.argv[1]))
from grid_member.compiled.proof import prove
prove()
"""


class SourcesChangedError(Exception):
    """The compiled modules would be of sources that never were there at one time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m grid_member.compiled.build")
    parser.add_argument("--into", type=Path, default=BUILT, metavar="DIRECTORY")
    parser.add_argument("--if-needed", action="store_true")
    parser.add_argument("--optional", action="store_true")
    chosen = parser.parse_args(arguments)
    into = chosen.into.resolve()
    began_s = time.monotonic()
    try:
        if chosen.if_needed and up_to_date(into):
            return 0
        with _alone(into):
            if chosen.if_needed and up_to_date(into):
                return 0
            _require_compiler()
            with _noted_failure(into, again=not (chosen.if_needed and chosen.optional)):
                sys.stderr.write(f"compiling {len(MODULES)} modules, for about a minute\n")
                build(into)
    except (Exception, SystemExit) as error:  # mypyc ends with the latter
        sys.stderr.write(f"not compiled, members run from their sources: {error}\n")
        return 0 if chosen.optional else 1
    sys.stderr.write(f"compiled in {time.monotonic() - began_s:.0f} s\n")
    return 0


def up_to_date(into: Path) -> bool:
    """Return whether the modules there fit and the mypy that is installed, if any, made them."""
    if misfit(into) is not None:
        return False
    made_by = json.loads((into / MANIFEST).read_bytes()).get("mypy")
    return _mypy() in {None, made_by}


def failed_before(into: Path = BUILT) -> bool:
    """Return whether the last build of these sources failed."""
    try:
        return _failure_note(into).read_text(encoding="utf-8").split()[0] == sources_digest()
    except FileNotFoundError:
        return False


def build(into: Path) -> None:
    """Compile the modules into a directory, which is replaced as a whole.

    Raises:
        Exception: whatever a missing compiler or the build ends with.
    """
    from mypyc.build import include_dir, mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    digest = sources_digest()
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=_scratch(into)) as name:
        scratch = Path(name)
        with contextlib.chdir(_SOURCES), _told_on_failure():
            extensions = mypycify(
                [*_CHECKS, f"--cache-dir={os.devnull}", *MODULES],
                target_dir=str(scratch / "c"),
                group_name=GROUP.removesuffix("__mypyc"),
            )
            for extension in extensions:
                extension.include_dirs.insert(0, str(scratch / "c"))  # before mypyc's own
                extension.extra_compile_args = list(_FLAGS)
            runtime = Path(include_dir(), _RUNTIME).read_text(encoding="utf-8")
            (scratch / "c" / _RUNTIME).write_text(runtime.replace(_WRONG, _RIGHT))
            command = build_ext(Distribution({"name": GROUP, "ext_modules": extensions}))
            command.build_lib = str(scratch / "built")
            command.build_temp = str(scratch / "objects")
            command.verbose = False
            command.ensure_finalized()
            command.run()
        if sources_digest() != digest:
            raise SourcesChangedError("the sources changed while they were compiled")
        manifest = {"suffix": EXTENSION_SUFFIXES[0], "sources": digest, "mypy": _mypy()}
        (scratch / "built" / MANIFEST).write_text(json.dumps(manifest))
        proof = [sys.executable, "-c", _PROOF, str(scratch / "built")]
        subprocess.run(proof, cwd=_SOURCES, check=True)  # noqa: S603  # it is this Python
        if into.exists():
            into.rename(scratch / "former")
        (scratch / "built").rename(into)


def _require_compiler() -> None:
    compiler, *_ = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler) is None:
        raise FileNotFoundError(f"there is no C compiler {compiler!r}; Debian's package is gcc")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not headers.exists():
        raise FileNotFoundError(f"there is no {headers}; Debian's package is python3-dev")


def _mypy() -> str | None:
    try:
        return version("mypy")
    except PackageNotFoundError:
        return None


@contextlib.contextmanager
def _noted_failure(into: Path, *, again: bool) -> Iterator[None]:
    """Note that a build of these sources fails; refuse the next one, if not wanted again."""
    note, what = _failure_note(into), f"{sources_digest()} {_mypy()}"
    if not again and note.exists() and note.read_text(encoding="utf-8") == what:
        raise FileExistsError(f"that failed before; delete {note} or use --if-needed alone")
    try:
        yield
    except SourcesChangedError:
        raise
    except (Exception, SystemExit):
        note.write_text(what, encoding="utf-8")
        raise
    note.unlink(missing_ok=True)


def _failure_note(into: Path) -> Path:
    return into.with_name(f".{into.name}.failed")


def _scratch(into: Path) -> str:
    """Return what directories begin with in which a build into that place works, and no other."""
    return f".{into.name}-build-"


@contextlib.contextmanager
def _alone(into: Path) -> Iterator[None]:
    """Wait for another build into the same place, and have none beside this one."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with into.with_name(f".{into.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in into.parent.glob(f"{_scratch(into)}*"):
            shutil.rmtree(left)  # by a build that was killed
        yield


@contextlib.contextmanager
def _told_on_failure() -> Iterator[None]:
    """Keep to themselves what compilers say while all goes well."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    except BaseException:
        sys.stderr.write(said.getvalue())
        raise


if __name__ == "__main__":
    sys.exit(main())
