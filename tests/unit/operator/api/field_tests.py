"""Which test fails when a field, an annotation or a condition of the API does nothing.

`test_field_tests.py` checks that everything in the schema has a row and that the tests exist. A
test named here is about the effect: a golden file alone is none where a member, an operation or
Kubernetes does something about the value.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Table: TypeAlias = "dict[str, tuple[str, ...]]"

_FIELDS: Final = "tests/unit/operator/fields/"
NETWORK: Final = f"{_FIELDS}test_network.py::test_"
STRUCTURES: Final = f"{_FIELDS}test_structures.py::test_"
DISK: Final = f"{_FIELDS}test_disk.py::test_"
ACCESS: Final = f"{_FIELDS}test_access.py::test_"
KUBERNETES: Final = f"{_FIELDS}test_kubernetes.py::test_"
API: Final = "tests/unit/operator/api/test_gridcluster.py::test_"
RENDER: Final = "tests/unit/operator/render/test_"
CONFIGURATION: Final = "tests/unit/operator/render/configuration/test_"
DECIDE: Final = "tests/unit/operator/decide/test_"
OF_CHILDREN: Final = "tests/unit/operator/decide/children/test_"
OF_CONDITIONS: Final = "tests/unit/operator/decide/conditions/test_"
OPERATIONS: Final = "tests/unit/operator/decide/operations/test_"
SEVERAL: Final = "tests/unit/operator/decide/several/test_"
STATES: Final = "tests/unit/operator/decide/state_space/test_"
RECONCILE: Final = "tests/unit/operator/reconcile/test_"
UP: Final = "tests/unit/gridctl/test_up"
E2E: Final = "tests/e2e/test_"

_TOLD: Final = f"{KUBERNETES}kubernetes_is_told_what_the_spec_says"
_REPLACED: Final = f"{KUBERNETES}a_change_of_the_pod_replaces_it"
_RESTORING: Final = f"{KUBERNETES}the_pod_that_restores_is_made_the_same_way"
_NAMES: Final = f"{API}names_ports_and_paths_of_the_member_are_refused"
_ADDED: Final = f"{E2E}sidecars.py::test_additions_of_each_kind_reach_the_pod_and_cost_no_write"
_GROUP: Final = f"{NETWORK}an_endpoint_group_is_on_or_off_by_itself"
_EXPIRES: Final = f"{STRUCTURES}an_entry_goes_when_its_time_is_over"
_EVICTS: Final = f"{STRUCTURES}what_goes_first_is_as_the_policy_says"
_COUNTS: Final = f"{STRUCTURES}the_size_counts_megabytes_or_entries"
_ON_DISK: Final = f"{STRUCTURES}each_map_and_queue_is_written_to_disk_or_not"
_SYNCED: Final = f"{STRUCTURES}the_engine_is_told_whether_a_write_survives_a_power_loss"
_QUEUED: Final = f"{STRUCTURES}a_queue_holds_no_more_than_its_size"
_FIXED: Final = f"{DECIDE}decision.py::test_changed_volume_claim_is_told_instead_of_being_tried"
_BACKED_UP: Final = f"{DISK}backups_are_on_the_claim_that_is_named"
_RESTORED: Final = f"{DISK}data_begins_as_the_backup_that_is_named"
_DUE: Final = f"{OPERATIONS}schedule.py::test_what_is_due"
_CALLERS: Final = f"{ACCESS}with_security_callers_are_users_and_no_cluster_name"
_CERTIFICATE: Final = f"{ACCESS}both_ports_show_the_certificate_of_the_secret"
_LICENSE: Final = f"{ACCESS}members_are_given_the_license_of_the_secret_and_key"
_LOG: Final = f"{NETWORK}the_log_is_of_the_format_and_level"

WAN: Final = f"{_FIELDS}test_wan.py::test_"
_REPLICATES: Final = f"{WAN}two_clusters_replicate_both_ways"
_SHOWN: Final = f"{WAN}a_source_with_another_secret_or_not_accepted_sends_nothing"
_WAN_SERVICE: Final = f"{WAN}the_service_is_as_the_spec_says"
_SENDERS: Final = f"{WAN}those_of_the_list_reach_the_wan_port_and_nobody_else"
_TARGETS: Final = f"{WAN}members_reach_their_targets_and_no_others"
_OF_WAN: Final = f"{CONFIGURATION}wan_configuration.py::test_"
_PUBLISHES: Final = f"{_OF_WAN}a_member_knows_the_publishers_of_the_spec"
_REFERS: Final = f"{_OF_WAN}a_map_refers_to_its_replication_as_the_spec_says"
_LISTENS: Final = f"{_OF_WAN}a_member_listens_for_clusters_as_the_spec_says"
_LIVE_PUBLISHER: Final = (
    f"{RENDER}record_wan.py::test_a_new_publisher_with_a_secret_that_members_know_restarts_nobody"
)

SPEC: Final[Table] = {
    "spec.size": (
        f"{KUBERNETES}a_member_for_each_of_the_size_with_a_claim_for_each",
        f"{API}bad_spec_is_refused_with_the_field_and_the_reason",
    ),
    "spec.engine": (
        f"{API}an_engine_takes_the_sizes_that_it_is_for",
        f"{API}an_engine_that_is_named_refuses_other_sizes",
    ),
    "spec.image": (_TOLD, _REPLACED, _RESTORING),
    "spec.imagePullPolicy": (_TOLD, _RESTORING),
    "spec.clusterName": (f"{NETWORK}the_cluster_name_is_what_callers_give",),
    "spec.runState": (
        f"{UP}_operations.py::test_stopped_has_no_process_and_running_has_the_data_again",
        f"{OF_CONDITIONS}aspects.py::test_stopped_and_running_again",
    ),
    "spec.clusterState": (
        f"{UP}_operations.py::test_a_cluster_state_in_the_file_is_brought_about",
        f"{OPERATIONS}operations.py::test_steps_in_order",
        f"{OF_CONDITIONS}aspects.py::test_a_wish_is_forgotten_when_it_is_taken_back",
    ),
    "spec.clusterStateDriftPolicy": (
        f"{OF_CONDITIONS}aspects.py::test_what_is_done_about_a_state_that_somebody_changed",
    ),
    "spec.rest.port": (
        f"{NETWORK}the_rest_port_is_where_the_member_answers",
        f"{RENDER}children.py::test_every_object_follows_the_rest_port",
    ),
    "spec.rest.endpointGroups[].name": (_GROUP,),
    "spec.rest.endpointGroups[].enabled": (_GROUP,),
    "spec.advancedNetwork.enabled": (
        f"{NETWORK}the_advanced_network_has_its_own_port_and_the_same_groups",
    ),
    "spec.advancedNetwork.restPort": (
        f"{NETWORK}the_advanced_network_has_its_own_port_and_the_same_groups",
        f"{RENDER}children.py::test_every_object_follows_the_rest_port",
    ),
    "spec.metrics.enabled": (
        f"{NETWORK}metrics_are_read_at_their_port_or_nowhere",
        f"{RENDER}children.py::test_labelled_pods_of_any_namespace_reach_the_metrics_and_no_more",
        f"{E2E}gridcluster.py::test_labelled_pods_of_any_namespace_read_metrics_and_no_others",
    ),
    "spec.metrics.port": (
        f"{NETWORK}metrics_are_read_at_their_port_or_nowhere",
        f"{RENDER}children.py::test_labelled_pods_of_any_namespace_reach_the_metrics_and_no_more",
    ),
    "spec.configFormat": (
        f"{NETWORK}the_member_runs_on_a_file_of_the_format",
        f"{CONFIGURATION}member_configuration.py::test_yaml_and_xml_are_the_same_to_a_member",
    ),
    "spec.maps[].name": (_EXPIRES, _ON_DISK),
    "spec.maps[].timeToLiveSeconds": (_EXPIRES, f"{STRUCTURES}idle_is_not_old"),
    "spec.maps[].maxIdleSeconds": (_EXPIRES, f"{STRUCTURES}idle_is_not_old"),
    "spec.maps[].eviction.policy": (
        _EVICTS,
        f"{STRUCTURES}no_more_than_the_size_stays_with_any_policy_but_none",
    ),
    "spec.maps[].eviction.maxSizePolicy": (_COUNTS,),
    "spec.maps[].eviction.size": (
        _COUNTS,
        f"{STRUCTURES}no_more_than_the_size_stays_with_any_policy_but_none",
    ),
    "spec.maps[].dataPersistence.enabled": (_ON_DISK,),
    "spec.maps[].dataPersistence.fsync": (_SYNCED,),
    "spec.maps[].wan.replication": (_REPLICATES, _REFERS),
    "spec.maps[].wan.mergePolicy": (_REFERS,),
    "spec.maps[].wan.republishing": (_REFERS,),
    "spec.maps[].wan.includeKeys[]": (_REFERS,),
    "spec.maps[].wan.excludeKeys[]": (_REFERS, _REPLICATES),
    "spec.wan[].name": (_REPLICATES, _PUBLISHES),
    "spec.wan[].publishers[].id": (_PUBLISHES, _LIVE_PUBLISHER),
    "spec.wan[].publishers[].targetCluster": (_PUBLISHES, _REPLICATES),
    "spec.wan[].publishers[].endpoints[]": (_REPLICATES, _TARGETS),
    "spec.wan[].publishers[].target.namespace": (_TARGETS,),
    "spec.wan[].publishers[].target.name": (_TARGETS, _PUBLISHES),
    "spec.wan[].publishers[].target.port": (_TARGETS,),
    "spec.wan[].publishers[].secretName": (_SHOWN,),
    "spec.wan[].publishers[].state": (
        f"{WAN}a_paused_publisher_begins_paused",
        f"{RENDER}record_wan.py::test_another_state_restarts_nobody",
        f"{OPERATIONS}wan.py::test_a_state_is_told_to_every_member_once",
        f"{OPERATIONS}wan.py::test_manual_leaves_the_members_alone",
    ),
    "spec.wan[].publishers[].queueCapacity": (_PUBLISHES,),
    "spec.wan[].publishers[].queueFullBehavior": (_PUBLISHES,),
    "spec.wan[].publishers[].batchSize": (_PUBLISHES,),
    "spec.wanListener.enabled": (_REPLICATES, _WAN_SERVICE),
    "spec.wanListener.port": (_LISTENS, _WAN_SERVICE, _SENDERS),
    "spec.wanListener.secretName": (
        f"{WAN}the_secret_of_the_listener_is_made_and_the_named_one_is_taken",
    ),
    "spec.wanListener.tls.secretName": (
        f"{WAN}certificates_are_mounted_and_the_port_is_opened",
        _LISTENS,
    ),
    "spec.wanListener.tls.clientCertificates": (_LISTENS,),
    "spec.wanListener.acceptedClusters[]": (_SHOWN, _LISTENS),
    "spec.wanListener.from[].namespace": (_SENDERS,),
    "spec.wanListener.from[].name": (_SENDERS,),
    "spec.wanListener.from[].cidr": (_SENDERS,),
    "spec.wanListener.service.type": (_WAN_SERVICE,),
    "spec.wanListener.service.nodePort": (_WAN_SERVICE,),
    "spec.wanListener.service.annotations": (_WAN_SERVICE,),
    "spec.queues[].name": (_QUEUED, _ON_DISK),
    "spec.queues[].maxSize": (_QUEUED,),
    "spec.queues[].dataPersistence.enabled": (_ON_DISK,),
    "spec.queues[].dataPersistence.fsync": (_SYNCED,),
    "spec.persistence.enabled": (f"{DISK}data_outlives_the_process_or_not",),
    "spec.persistence.size": (_TOLD, _FIXED),
    "spec.persistence.storageClassName": (_TOLD, _FIXED),
    "spec.persistence.recoveryPolicy": (
        f"{DISK}the_policy_says_whether_part_of_the_data_is_enough",
    ),
    "spec.persistence.validationTimeoutSeconds": (
        f"{DISK}a_member_waits_no_longer_than_the_timeout",
    ),
    "spec.persistence.backup.volume.size": (
        _TOLD,
        f"{RENDER}volumes.py::test_backup_claim_never_shrinks",
    ),
    "spec.persistence.backup.volume.storageClassName": (_TOLD,),
    "spec.persistence.backup.volume.accessMode": (_TOLD,),
    "spec.persistence.backup.claimName": (_BACKED_UP,),
    "spec.persistence.backup.schedule.cron": (
        f"{OPERATIONS}scheduled_backups.py::test_a_backup_begins_at_its_time_once",
        f"{OPERATIONS}schedule.py::test_next_time",
    ),
    "spec.persistence.backup.schedule.timeZone": (f"{OPERATIONS}schedule.py::test_next_time",),
    "spec.persistence.backup.schedule.missedRunPolicy": (_DUE,),
    "spec.persistence.backup.schedule.startingDeadlineSeconds": (_DUE,),
    "spec.persistence.backup.schedule.concurrencyPolicy": (
        f"{OPERATIONS}scheduled_backups.py::test_a_second_backup_waits_for_the_end_of_the_first",
        f"{API}bad_spec_is_refused_with_the_field_and_the_reason",
    ),
    "spec.restoreFrom.cluster": (
        _RESTORED,
        f"{UP}_operations.py::test_a_backup_by_annotation_becomes_the_data_of_another_cluster",
    ),
    "spec.restoreFrom.claimName": (_RESTORED,),
    "spec.restoreFrom.member": (_RESTORED,),
    "spec.restoreFrom.backup": (_RESTORED,),
    "spec.security.enabled": (_CALLERS,),
    "spec.security.users[].name": (_CALLERS,),
    "spec.security.users[].secretName": (
        _CALLERS,
        f"{RECONCILE}materials.py::test_absent_secrets_of_users_and_members_are_made_once",
    ),
    "spec.security.protected[]": (f"{ACCESS}a_protected_group_asks_for_a_user_as_a_whole",),
    "spec.tls.secretName": (
        _CERTIFICATE,
        f"{RECONCILE}materials.py::test_a_rotated_authority_is_used_at_once",
    ),
    "spec.tls.clientCertificates": (
        f"{ACCESS}certificates_of_clients_are_verified_or_not_asked_for",
    ),
    "spec.tls.members": (
        f"{CONFIGURATION}member_configuration.py::test_members_speak_tls_with_each_other",
        f"{SEVERAL}members_tls.py::test_a_new_cluster_has_it_unless_the_spec_says_otherwise",
        f"{SEVERAL}identity.py::test_another_identity_is_refused_while_members_run",
        f"{UP}_tls.py::test_three_members_meet_over_tls_alone",
        f"{E2E}clusters.py::test_tls_and_its_rotation",
    ),
    "spec.license.secretName": (_LICENSE,),
    "spec.license.key": (_LICENSE,),
    "spec.exposure.type": (_TOLD,),
    "spec.exposure.nodePort": (_TOLD,),
    "spec.exposure.annotations": (_TOLD,),
    "spec.exposure.loadBalancerClass": (_TOLD,),
    "spec.exposure.allowedCidrs[]": (
        f"{KUBERNETES}networks_of_the_list_reach_the_rest_port_and_no_others",
        f"{RENDER}children.py::test_a_list_of_networks_keeps_the_addresses_that_it_is_about",
    ),
    "spec.logging.format": (_LOG,),
    "spec.logging.level": (_LOG, f"{RENDER}record.py::test_a_log_level_is_given_and_given_back"),
    "spec.shutdown.drainSeconds": (
        _TOLD,
        f"{CONFIGURATION}member_configuration.py::test_members_drain_unless_one_is_alone",
        f"{NETWORK}a_member_that_is_told_to_stop_drains",
        f"{E2E}several.py::test_a_changed_pod_takes_one_member_after_the_other",
    ),
    "spec.pod.resources.requests": (_TOLD,),
    "spec.pod.resources.limits": (_TOLD, _REPLACED, _RESTORING),
    "spec.pod.env[].name": (f"{NETWORK}a_variable_of_the_spec_is_the_processes", _REPLACED),
    "spec.pod.env[].value": (f"{NETWORK}a_variable_of_the_spec_is_the_processes", _REPLACED),
    "spec.pod.env[].valueFrom": (_TOLD, _ADDED),
    "spec.pod.envFrom[].prefix": (_TOLD, _ADDED),
    "spec.pod.volumes[].name": (_TOLD, _ADDED),
    "spec.pod.volumeMounts[].name": (_TOLD, _ADDED),
    "spec.pod.volumeMounts[].mountPath": (_TOLD, _ADDED, _NAMES),
    "spec.pod.initContainers[].name": (_TOLD, _REPLACED, _ADDED),
    "spec.pod.initContainers[].ports[].containerPort": (_TOLD, _NAMES),
    "spec.pod.initContainers[].ports[].name": (_TOLD, _NAMES),
    "spec.pod.sidecars[].name": (_TOLD, _REPLACED, _ADDED),
    "spec.pod.sidecars[].ports[].containerPort": (_TOLD, _NAMES),
    "spec.pod.sidecars[].ports[].name": (_TOLD, _NAMES),
    "spec.pod.runtimeClassName": (_TOLD, _RESTORING),
    "spec.pod.dnsConfig": (_TOLD, _ADDED),
    "spec.pod.hostAliases[]": (_TOLD, _ADDED),
    "spec.pod.nodeSelector": (_TOLD, _RESTORING),
    "spec.pod.tolerations[].key": (_TOLD,),
    "spec.pod.tolerations[].operator": (_TOLD,),
    "spec.pod.tolerations[].value": (_TOLD,),
    "spec.pod.tolerations[].effect": (_TOLD,),
    "spec.pod.tolerations[].tolerationSeconds": (_TOLD,),
    "spec.pod.annotations": (_TOLD,),
    "spec.pod.labels": (_TOLD,),
    "spec.pod.imagePullSecrets[].name": (
        _TOLD,
        f"{RENDER}volumes.py::test_the_job_runs_where_members_may_run",
    ),
    "spec.pod.affinity": (_TOLD, f"{RENDER}volumes.py::test_the_job_runs_where_members_may_run"),
    "spec.pod.topologySpreadConstraints[]": (_TOLD,),
    "spec.pod.priorityClassName": (_TOLD, _RESTORING),
    "spec.pod.serviceAccountName": (_TOLD, _RESTORING),
    "spec.pod.terminationGracePeriodSeconds": (_TOLD,),
    "spec.pod.securityContext.runAsUser": (_TOLD, _RESTORING),
    "spec.pod.securityContext.runAsGroup": (_TOLD,),
    "spec.pod.securityContext.fsGroup": (
        _TOLD,
        f"{RENDER}volumes.py::test_the_job_runs_where_members_may_run",
    ),
    "spec.deletionPolicy": (
        f"{RENDER}volumes.py::test_with_delete_the_cluster_owns_its_data_claims_and_no_others",
        f"{RENDER}volumes.py::test_with_retain_ownership_is_given_up_once",
        f"{E2E}gridcluster.py::test_deletion_with_the_volumes",
    ),
    "spec.deletionProtection": (
        f"{E2E}operations.py::test_a_protected_cluster_is_not_deleted",
        "tests/unit/operator/api/test_install.py"
        "::test_protection_speaks_of_the_field_that_the_schema_has",
    ),
    "spec.paused": (f"{DECIDE}decision.py::test_paused_cluster_is_only_looked_at",),
    "spec.pausedUntil": (
        f"{OF_CONDITIONS}aspects.py::test_a_pause_with_an_end_holds_until_then_and_wakes_in_time",
    ),
}
"""By the path in `crds/gridcluster.yaml`; `[]` is an item of a list."""
