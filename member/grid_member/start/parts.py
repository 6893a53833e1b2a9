"""The parts of a member, made and put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from grid_member.cluster.management.config_changes import ConfigSource
from grid_member.cluster.management.management import Management
from grid_member.cluster.management.structures import ConfiguredStructures
from grid_member.cluster.member.member import Member
from grid_member.cluster.persistence.persistence import make_persistence
from grid_member.engine import open_engine
from grid_member.engine.log.log import wall_clock_ms
from grid_member.telemetry.measurements import Measurements
from grid_member.wan.agreement.part import make_wan

if TYPE_CHECKING:
    from grid_member.config import Config, MemberConfig
    from grid_member.engine import LocalEngine
    from grid_member.engine.shard.shards import LogOpener


def make_member(config: Config, name: str, version: str) -> Member:
    """Return a member that has not begun to start; version is `major.minor.patch`."""
    model = config.model
    measurements = Measurements() if model.metrics else None
    structures = ConfiguredStructures(model)
    engine: LocalEngine
    membership = waiting = None
    if model.cluster is None:
        open_log = _timed_logs(model, measurements)
        engine = open_engine(structures, model.data_directory, open_log=open_log)
    else:
        # A member that is alone need not load what talks to others.
        from grid_member.start.cluster import clustered_engine, extend_management, membership_of

        timed = None if measurements is None else measurements.count_commit
        engine = waiting = clustered_engine(
            *(model, model.cluster, name, structures, timed), lambda error: member.fail(error)
        )
        membership = membership_of(engine, model, model.cluster, name, version)
    member = Member(model, engine, name, version, membership)
    member.measurements = measurements

    def extend(extended: MemberConfig) -> None:
        member.config = extended
        engine.use_structures(ConfiguredStructures(extended))

    member.management = Management(
        member,
        engine,
        extend,
        source=None if config.file is None else ConfigSource(config.file, config.environment),
        join_members=model.join_members,
        cp=model.cp_member_count > 0,
    )
    if membership is not None and waiting is not None:
        extend_management(member, membership, waiting)
    member.management.wan = make_wan(member, engine, membership)
    member.management.persistence = make_persistence(
        model,
        engine,
        engine,
        member.management.operations,
        wall_clock_ms,
        lambda: engine.start(member.management.restore),
        membership,
        waiting,
    )
    return member


def _timed_logs(model: MemberConfig, measurements: Measurements | None) -> LogOpener | None:
    """Return what opens logs that tell how long commits take; None when nobody is to hear it."""
    if measurements is None or model.data_directory is None:
        return None
    # A member that keeps its data in memory need not load what keeps it on a disk.
    from grid_member.engine.lmdb.log import LmdbLog

    return partial(LmdbLog, report=measurements.count_commit)
