"""From what a document says to the typed model, with the checks that span several elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.build_cluster import cluster_config, rest_of_several
from grid_member.config.build_network import listening
from grid_member.config.build_security import Realms, security_config
from grid_member.config.model.member import (
    EvictionConfig,
    HttpConfig,
    Limits,
    LoggingConfig,
    MapConfig,
    MemberConfig,
    PersistenceConfig,
    QueueConfig,
)
from grid_member.config.names import WILDCARD, ambiguous
from grid_member.config.settings.setting import HEAP_UNIT_BYTES, MAX_BACKUPS_MEMBERS, MAX_COUNT

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from grid_member.config.settings.shape import Path
    from grid_member.config.values import Values

MIN_CP_MEMBERS: Final = 3
_NO_EVICTION: Final = "NONE"
_HEAP_SIZE: Final = "USED_HEAP_SIZE"


def member_config(found: Values, directory: FilePath) -> MemberConfig:
    """Return the model; a relative base-dir is taken from directory. Notes problems in found."""
    persistence = found.flag(("persistence", "enabled"))
    realms = Realms(found)
    listeners = listening(found, realms, directory)
    cluster = cluster_config(found, realms, listeners)
    structures = _Structures(found, persistence)
    base = found.text(("persistence", "base-dir")) or ""
    return MemberConfig(
        cluster_name=found.text(("cluster-name",)) or "",
        instance_name=found.text(("instance-name",)),
        public_address=listeners.public_address,
        rest=rest_of_several(found, listeners.rest, cluster),
        management=listeners.management,
        metrics=listeners.metrics,
        security=security_config(found, realms),
        maps=structures.maps(),
        queues=structures.queues(),
        data_directory=directory / base if persistence else None,
        persistence=_persistence(found, directory, directory / base),
        join_members=listeners.join_members,
        cluster=cluster,
        cp_member_count=_cp_member_count(found),
        limits=Limits(
            found.number(("limits", "name-bytes")),
            found.number(("limits", "key-bytes")),
            found.number(("limits", "value-bytes")),
            found.number(("limits", "header-bytes")),
        ),
        http=_http(found),
        logging=LoggingConfig(
            found.text(("logging", "format")) or "", found.text(("logging", "level")) or ""
        ),
        parked_file=_parked_file(found, directory, directory / base),
        drain_s=found.number(("shutdown", "drain-seconds")),
    )


def _http(found: Values) -> HttpConfig:
    return HttpConfig(
        fast_path=bool(found.flag(("http", "lane", "enabled"))),
        event_loop=found.text(("http", "event-loop")) or "",
        max_connections=found.number(("http", "max-connections")),
        idle_timeout_s=found.number(("http", "idle-timeout-seconds")),
        head_timeout_s=found.number(("http", "head-timeout-seconds")),
        body_timeout_s=found.number(("http", "body-timeout-seconds")),
        write_timeout_s=found.number(("http", "write-timeout-seconds")),
    )


def _persistence(found: Values, directory: FilePath, base: FilePath) -> PersistenceConfig:
    backups = found.text(("persistence", "backup-dir"))
    restored = found.text(("persistence", "restore-from"))
    if backups is not None and (directory / backups).resolve().is_relative_to(base.resolve()):
        found.complain(("persistence", "backup-dir"), "must not be inside of base-dir")
    return PersistenceConfig(
        backup_directory=None if backups is None else directory / backups,
        restore_from=None if restored is None else directory / restored,
        recovery_policy=found.text(("persistence", "cluster-data-recovery-policy")) or "",
        validation_timeout_s=found.number(("persistence", "validation-timeout-seconds")),
    )


def _parked_file(found: Values, directory: FilePath, base: FilePath) -> FilePath | None:
    path = ("shutdown", "parked-file")
    file = found.text(path)
    if file is None:
        return None
    if (directory / file).resolve().is_relative_to(base.resolve()):
        found.complain(path, "must not be inside of persistence.base-dir")
    return directory / file


def _cp_member_count(found: Values) -> int:
    path = ("cp-subsystem", "cp-member-count")
    count = found.number(path)
    if 0 < count < MIN_CP_MEMBERS:
        found.complain(path, f"must be 0 or at least {MIN_CP_MEMBERS}")
    return count


class _Structures:
    """The configured maps and queues."""

    def __init__(self, found: Values, persistence: bool) -> None:
        self._found = found
        self._persistence = persistence

    def maps(self) -> dict[str, MapConfig]:
        return {
            name: MapConfig(
                *kept,
                time_to_live_s=self._found.number(("map", name, "time-to-live-seconds")),
                max_idle_s=self._found.number(("map", name, "max-idle-seconds")),
                eviction=self._eviction(("map", name, "eviction")),
            )
            for name, kept in self._structures("map")
        }

    def queues(self) -> dict[str, QueueConfig]:
        return {
            name: QueueConfig(*kept, self._found.number(("queue", name, "max-size")) or MAX_COUNT)
            for name, kept in self._structures("queue")
        }

    def _eviction(self, path: Path) -> EvictionConfig | None:
        found = self._found
        policy = found.text((*path, "eviction-policy")) or _NO_EVICTION
        size = found.number((*path, "size"))
        if policy == _NO_EVICTION and size:
            message = "contradicts eviction-policy NONE: choose LRU, LFU or RANDOM, or leave it out"
            found.complain((*path, "size"), message)
        elif policy != _NO_EVICTION and not found.written((*path, "size")):
            found.complain(path, "needs a size beside its eviction-policy")
        if policy == _NO_EVICTION or not size:
            return None
        if found.text((*path, "max-size-policy")) == _HEAP_SIZE:
            return EvictionConfig(policy, max_bytes=size * HEAP_UNIT_BYTES)
        return EvictionConfig(policy, max_entries=size)

    def _structures(self, kind: str) -> list[tuple[str, tuple[bool, bool]]]:
        names = [str(name) for name in self._found.children((kind,))]
        for name in names:
            if name.count(WILDCARD) > 1:
                self._found.complain((kind, name), "may hold one * only")
            self._check_backups((kind, name))
        for one, other in ambiguous(names):
            self._found.complain((kind, other), f"matches names that {one} matches as well")
        return [(name, self._kept((kind, name, "data-persistence"))) for name in names]

    def _check_backups(self, path: Path) -> None:
        total = self._found.number((*path, "backup-count"))
        total += self._found.number((*path, "async-backup-count"))
        if total > MAX_BACKUPS_MEMBERS:
            message = f"has more than {MAX_BACKUPS_MEMBERS} backups, both counts together"
            self._found.complain(path, message)

    def _kept(self, path: Path) -> tuple[bool, bool]:
        enabled = self._found.said((*path, "enabled"))
        fsync = self._found.said((*path, "fsync"))
        if enabled is True and not self._persistence:
            self._found.complain((*path, "enabled"), "needs persistence.enabled, which is off")
        if fsync is True and enabled is False:
            self._found.complain((*path, "fsync"), "contradicts enabled: false beside it")
        return enabled is not False, fsync is not False
