"""What a running `gridctl up` leaves for `gridctl status`: a lock and a copy of the cluster.

The kernel drops the lock when the process ends, however it ends, so that a stale copy is never
taken for a running cluster.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from grid_operator.api.objects import KubeObject

LOCK_NAME: Final = ".lock"
STATE_NAME: Final = ".state.json"
RUN_NAME: Final = ".run"
MEMORY_NAME: Final = ".cluster.json"
KEPT_STATUS: Final = (
    *("operation", "lastOperations", "handledRequests", "appliedClusterState"),
    *("stopped", "resumeState", "restoredFrom", "importing", "backup"),
)
"""What of a status is about what was done, and not about what was seen."""
LOCK_ATTEMPTS: Final = 10
LOCK_PAUSE_S: Final = 0.02


class AlreadyRunningError(Exception):
    """Another `gridctl up` runs this cluster in this data directory."""


@dataclass(frozen=True, slots=True)
class LocalState:
    """The directory of one local cluster: `DATA_DIR/<namespace>/<name>`."""

    directory: Path

    @classmethod
    def of(cls, data_dir: Path, namespace: str, name: str) -> LocalState:
        """Return the directory of one cluster."""
        return cls(data_dir / namespace / name)

    @classmethod
    def all_in(cls, data_dir: Path) -> list[LocalState]:
        """Return the directories of all clusters that a data directory has ever held."""
        return sorted(
            (cls(path.parent) for path in data_dir.glob(f"*/*/{LOCK_NAME}")),
            key=lambda state: state.directory,
        )

    @property
    def run_dir(self) -> Path:
        """Where pods keep what dies with them."""
        return self.directory / RUN_NAME

    def kept_size(self) -> int:
        """Return the number of members whose data is kept, 0 without any."""
        pattern = re.compile(rf"{re.escape(self.directory.name)}-([0-9]+)")
        found = (pattern.fullmatch(path.name) for path in self.directory.glob("*/"))
        return max((int(match[1]) + 1 for match in found if match), default=0)

    def make_room(self, size: int) -> None:
        """Make the directories of all members: the last tells the size, and comes first."""
        for ordinal in reversed(range(size)):
            place = self.directory / f"{self.directory.name}-{ordinal}"
            place.mkdir(parents=True, exist_ok=True, mode=0o700)

    def acquire(self) -> IO[str]:
        """Take the lock and hold it until the returned file is closed.

        Raises:
            AlreadyRunningError: Somebody holds it.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (self.directory / LOCK_NAME).open("w", encoding="utf-8")
        for _ in range(LOCK_ATTEMPTS):  # `gridctl status` holds it for a moment
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(LOCK_PAUSE_S)
            else:
                return lock
        lock.close()
        raise AlreadyRunningError(f"another gridctl runs this cluster in {self.directory}")

    def write(self, cluster: KubeObject) -> None:
        """Replace the copy of the cluster at once, never half of it."""
        self._replace(STATE_NAME, cluster)
        self.remember(cluster)

    def _replace(self, name: str, content: KubeObject) -> None:
        fresh = self.directory / f"{name}.new"
        fresh.write_text(json.dumps(content), encoding="utf-8")
        fresh.replace(self.directory / name)

    def clear(self) -> None:
        """Remove the copy: the cluster is stopped."""
        (self.directory / STATE_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def remember(self, cluster: KubeObject) -> None:
        """Keep what an API server would know of the cluster the next time it runs here."""
        status = cluster.get("status", {})
        kept = {key: status[key] for key in KEPT_STATUS if key in status}
        self._replace(MEMORY_NAME, {**cluster, "status": kept})

    def recall(self) -> KubeObject | None:
        """Return what `remember` kept, None when nothing can be told."""
        try:
            found = json.loads((self.directory / MEMORY_NAME).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "metadata" in found else None

    def read_running(self) -> KubeObject | None:
        """Return the copy of the cluster if it runs now, else None."""
        try:
            with (self.directory / LOCK_NAME).open(encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # nobody holds it
        except BlockingIOError:
            pass
        except FileNotFoundError:
            return None
        try:
            cluster: KubeObject = json.loads((self.directory / STATE_NAME).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return cluster


def running_clusters(data_dir: Path) -> list[KubeObject]:
    """Return the clusters that `gridctl up` runs now from this data directory."""
    running = (state.read_running() for state in LocalState.all_in(data_dir))
    return [cluster for cluster in running if cluster is not None]
