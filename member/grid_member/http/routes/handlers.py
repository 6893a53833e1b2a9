"""The handler of each operation, by the name that the routing table gives the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grid_member.http.routes import (
    config_changes,
    cp,
    data,
    departure,
    health,
    information,
    join_list,
    licenses,
    log_levels,
    management,
    persistence,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grid_member.http.routes.calls import HttpCall
    from grid_member.http.wire.answers import Answer

HANDLERS: Final[dict[str, Callable[[HttpCall], Awaitable[Answer]]]] = {
    handler.__name__: handler
    for handler in (
        *(data.no_name, data.map_put, data.map_get, data.map_remove, data.map_clear),
        *(data.queue_offer, data.queue_poll, data.queue_size),
        *(health.health, health.health_ready, health.health_node_state),
        *(health.health_cluster_state, health.health_cluster_safe),
        *(health.health_migration_queue_size, health.health_cluster_size),
        *(health.health_unknown, information.cluster, information.instance),
        *(information.cluster_state, information.cluster_version, departure.member_shutdown),
        information.openapi,
        *(management.change_state, management.change_version, management.cluster_shutdown),
        *(management.nodes, management.operations, management.usage),
        *(licenses.license_get, licenses.license_set),
        *(log_levels.log_level_get, log_levels.log_level_set, log_levels.log_level_reset),
        *(config_changes.config_reload, config_changes.config_upload),
        *(join_list.member_list_get, join_list.member_list_set),
        *(persistence.force_start, persistence.partial_start),
        *(persistence.backup, persistence.backup_interrupt),
        *(persistence.hot_backup, persistence.hot_backup_interrupt),
        *(cp.cp_groups, cp.cp_group, cp.cp_group_remove, cp.cp_sessions, cp.cp_session_remove),
        *(cp.cp_members, cp.cp_promote, cp.cp_member_local, cp.cp_member_remove, cp.cp_reset),
    )
}
