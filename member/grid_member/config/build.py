"""From what a document says to the typed model, with the checks that span several elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.config.build_cluster import cluster_config, rest_of_several
from grid_member.config.build_network import listener_settings
from grid_member.config.build_security import Realms, security_config
from grid_member.config.build_wan import map_reference, wan_config
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


def member_config(values: Values, directory: FilePath, *, whole: bool = True) -> MemberConfig:
    """Return the model. Notes problems in values.

    Args:
        values: the document.
        directory: what a relative base-dir is relative to.
        whole: whether the document is all of a member's configuration; a part may refer to
            replications that it does not declare.
    """
    persistence = values.flag(("persistence", "enabled"))
    realms = Realms(values)
    listeners = listener_settings(values, realms, directory)
    cluster = cluster_config(values, realms, listeners)
    wan = wan_config(values, realms, listeners, directory)
    structures = _Structures(values, persistence, whole)
    base = values.text(("persistence", "base-dir")) or ""
    return MemberConfig(
        cluster_name=values.text(("cluster-name",)) or "",
        instance_name=values.text(("instance-name",)),
        public_address=listeners.public_address,
        rest=rest_of_several(values, listeners.rest, cluster),
        management=listeners.management,
        metrics=listeners.metrics,
        security=security_config(values, realms),
        maps=structures.maps(),
        queues=structures.queues(),
        data_directory=directory / base if persistence else None,
        persistence=_persistence(values, directory, directory / base),
        join_members=listeners.join_members,
        cluster=cluster,
        cp_member_count=_cp_member_count(values),
        limits=Limits(
            values.number(("limits", "name-bytes")),
            values.number(("limits", "key-bytes")),
            values.number(("limits", "value-bytes")),
            values.number(("limits", "header-bytes")),
        ),
        http=_http(values),
        wan_listener=listeners.wan,
        wan=wan,
        logging=LoggingConfig(
            values.text(("logging", "format")) or "", values.text(("logging", "level")) or ""
        ),
        parked_file=_parked_file(values, directory, directory / base),
        drain_s=values.number(("shutdown", "drain-seconds")),
    )


def _http(values: Values) -> HttpConfig:
    return HttpConfig(
        fast_path=bool(values.flag(("http", "lane", "enabled"))),
        event_loop=values.text(("http", "event-loop")) or "",
        max_connections=values.number(("http", "max-connections")),
        idle_timeout_s=values.number(("http", "idle-timeout-seconds")),
        head_timeout_s=values.number(("http", "head-timeout-seconds")),
        body_timeout_s=values.number(("http", "body-timeout-seconds")),
        write_timeout_s=values.number(("http", "write-timeout-seconds")),
    )


def _persistence(values: Values, directory: FilePath, base: FilePath) -> PersistenceConfig:
    backups = values.text(("persistence", "backup-dir"))
    restored = values.text(("persistence", "restore-from"))
    if backups is not None and (directory / backups).resolve().is_relative_to(base.resolve()):
        values.complain(("persistence", "backup-dir"), "must not be inside of base-dir")
    return PersistenceConfig(
        backup_directory=None if backups is None else directory / backups,
        restore_from=None if restored is None else directory / restored,
        recovery_policy=values.text(("persistence", "cluster-data-recovery-policy")) or "",
        validation_timeout_s=values.number(("persistence", "validation-timeout-seconds")),
    )


def _parked_file(values: Values, directory: FilePath, base: FilePath) -> FilePath | None:
    path = ("shutdown", "parked-file")
    file = values.text(path)
    if file is None:
        return None
    if (directory / file).resolve().is_relative_to(base.resolve()):
        values.complain(path, "must not be inside of persistence.base-dir")
    return directory / file


def _cp_member_count(values: Values) -> int:
    path = ("cp-subsystem", "cp-member-count")
    count = values.number(path)
    if 0 < count < MIN_CP_MEMBERS:
        values.complain(path, f"must be 0 or at least {MIN_CP_MEMBERS}")
    return count


class _Structures:
    """The configured maps and queues."""

    def __init__(self, values: Values, persistence: bool, whole: bool) -> None:
        self._values = values
        self._persistence = persistence
        self._whole = whole

    def maps(self) -> dict[str, MapConfig]:
        return {
            name: MapConfig(
                *kept,
                time_to_live_s=self._values.number(("map", name, "time-to-live-seconds")),
                max_idle_s=self._values.number(("map", name, "max-idle-seconds")),
                eviction=self._eviction(("map", name, "eviction")),
                wan=map_reference(self._values, ("map", name), declared_here=self._whole),
            )
            for name, kept in self._structures("map")
        }

    def queues(self) -> dict[str, QueueConfig]:
        return {
            name: QueueConfig(*kept, self._values.number(("queue", name, "max-size")) or MAX_COUNT)
            for name, kept in self._structures("queue")
        }

    def _eviction(self, path: Path) -> EvictionConfig | None:
        values = self._values
        policy = values.text((*path, "eviction-policy")) or _NO_EVICTION
        size = values.number((*path, "size"))
        if policy == _NO_EVICTION and size:
            message = "contradicts eviction-policy NONE: choose LRU, LFU or RANDOM, or leave it out"
            values.complain((*path, "size"), message)
        elif policy != _NO_EVICTION and not values.is_written((*path, "size")):
            values.complain(path, "needs a size beside its eviction-policy")
        if policy == _NO_EVICTION or not size:
            return None
        if values.text((*path, "max-size-policy")) == _HEAP_SIZE:
            return EvictionConfig(policy, max_bytes=size * HEAP_UNIT_BYTES)
        return EvictionConfig(policy, max_entries=size)

    def _structures(self, kind: str) -> list[tuple[str, tuple[bool, bool]]]:
        names = [str(name) for name in self._values.children((kind,))]
        for name in names:
            if name.count(WILDCARD) > 1:
                self._values.complain((kind, name), "may hold one * only")
            self._check_backups((kind, name))
        for one, other in ambiguous(names):
            self._values.complain((kind, other), f"matches names that {one} matches as well")
        return [(name, self._persistence_of((kind, name, "data-persistence"))) for name in names]

    def _check_backups(self, path: Path) -> None:
        total = self._values.number((*path, "backup-count"))
        total += self._values.number((*path, "async-backup-count"))
        if total > MAX_BACKUPS_MEMBERS:
            message = f"has more than {MAX_BACKUPS_MEMBERS} backups, both counts together"
            self._values.complain(path, message)

    def _persistence_of(self, path: Path) -> tuple[bool, bool]:
        enabled = self._values.find((*path, "enabled"))
        fsync = self._values.find((*path, "fsync"))
        if enabled is True and not self._persistence:
            self._values.complain((*path, "enabled"), "needs persistence.enabled, which is off")
        if fsync is True and enabled is False:
            self._values.complain((*path, "fsync"), "contradicts enabled: false beside it")
        return enabled is not False, fsync is not False
