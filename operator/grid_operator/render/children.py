"""All children of a cluster, in the order in which they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grid_operator.api.desired import Desired, WanWish
from grid_operator.api.phase import is_copying, is_restoring, present_size, wanted_replicas
from grid_operator.render.client_service import client_service
from grid_operator.render.config_map import config_map
from grid_operator.render.configuration.wan import wished_publishers
from grid_operator.render.disruption_budget import disruption_budget
from grid_operator.render.headless_service import headless_service
from grid_operator.render.identity import has_members_tls, with_present_tls, with_settled_tls
from grid_operator.render.management_secret import management_secret
from grid_operator.render.metadata import with_rendered_hash
from grid_operator.render.network_policy import network_policy
from grid_operator.render.record import recorded_size, size_problem, start_record
from grid_operator.render.restore_job import restore_job
from grid_operator.render.secrets import generated_secret_objects, secret_problem
from grid_operator.render.statefulset import member_statefulset
from grid_operator.render.volumes import backup_claim, claim_owners, restored_claim
from grid_operator.render.wan_service import wan_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grid_operator.api.gridcluster import GridCluster
    from grid_operator.api.objects import KubeObject
    from grid_operator.render.context import RenderContext
    from grid_operator.render.record import StartRecord


def desired_state(cluster: GridCluster, context: RenderContext) -> Desired:
    """Return every child, each before those that need it, and what is given to running members.

    The NetworkPolicy comes before the first pod, so that no member is ever reachable without it.
    """
    settled = with_settled_tls(cluster, context)
    made_for = recorded_size(cluster, context)
    size = present_size(cluster, made_for)
    present = with_present_tls(settled.with_size(size), context)
    record = start_record(present, context)
    children = (
        *_foundation(present, context),
        *_volumes(present, context),
        *_pods(present, context, record),
    )
    return Desired(
        children=tuple(map(with_rendered_hash, children)),
        size=present.spec.size,
        live=record.live,
        changes=record.changes,
        wan=WanWish(tuple(wished_publishers(present)), record.gone_publishers),
        problem=size_problem(cluster, context)
        or secret_problem(settled, context)
        or record.problem,
        # Of the members that there are: the spec may ask for a number that is refused.
        members_tls=has_members_tls(cluster.with_size(made_for or size), context),
    )


def render_children(cluster: GridCluster, context: RenderContext) -> tuple[KubeObject, ...]:
    """Return the objects of `desired_state` alone."""
    return desired_state(cluster, context).children


def _foundation(cluster: GridCluster, context: RenderContext) -> Iterator[KubeObject]:
    yield management_secret(cluster, context)
    yield from generated_secret_objects(cluster, context)
    yield config_map(cluster)
    yield network_policy(cluster, context)
    yield headless_service(cluster)
    yield client_service(cluster)
    for_clusters = wan_service(cluster)
    if for_clusters is not None:
        yield for_clusters
    budget = disruption_budget(cluster)
    if budget is not None:
        yield budget


def _volumes(cluster: GridCluster, context: RenderContext) -> Iterator[KubeObject]:
    for_backups = backup_claim(cluster, context)
    if for_backups is not None:
        yield for_backups
    if is_copying(cluster):
        yield restored_claim(cluster)
    elif not is_restoring(cluster):
        yield from claim_owners(cluster, context)


def _pods(
    cluster: GridCluster, context: RenderContext, record: StartRecord
) -> Iterator[KubeObject]:
    source = cluster.spec.restore_from
    if source is not None and is_copying(cluster) and context.recorded is None:
        yield restore_job(cluster, source)
    replicas = wanted_replicas(cluster)
    if replicas is None and context.recorded is not None:
        # There are members: a restore is for new clusters, and takes nothing away from others.
        replicas = cluster.spec.size
    if replicas is not None:
        yield member_statefulset(cluster, record, replicas)
