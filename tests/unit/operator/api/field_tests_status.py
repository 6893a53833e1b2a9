"""Which test fails when the status, a condition or an annotation says or does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.unit.operator.api.field_tests import (
    DECIDE,
    KUBERNETES,
    OF_CHILDREN,
    OF_CONDITIONS,
    OPERATIONS,
    RECONCILE,
    RENDER,
    SEVERAL,
    STATES,
    UP,
)

if TYPE_CHECKING:
    from tests.unit.operator.api.field_tests import Table

STATUS: Final = "tests/unit/operator/fields/test_status.py::test_"
REQUESTS: Final = f"{OPERATIONS}annotation_requests.py::test_"
REAL: Final = "tests/unit/operator/ports/members/test_real_member.py::test_"

_SHOWN: Final = f"{DECIDE}decision.py::test_status_shows_the_members_as_they_see_themselves"
_MEMBER: Final = f"{STATUS}a_member_is_shown_with_its_address_and_version"
_SILENT: Final = f"{STATUS}a_member_that_is_silent_keeps_its_identity_alone"
_TURNED: Final = f"{STATUS}conditions_carry_the_generation_and_the_time_of_their_turn"
_STEPS: Final = f"{OPERATIONS}operations.py::test_steps_in_order"
_COUNTED: Final = f"{OPERATIONS}operations.py::test_a_call_is_counted_before_it_is_sent"
_BEGAN: Final = f"{STATUS}an_operation_tells_when_it_and_its_step_began_and_was_tried"
_OVER: Final = f"{STATUS}an_ended_operation_tells_what_it_was_done_to_and_when"
_NEVER: Final = f"{OPERATIONS}operation_faults.py::test_a_member_that_never_does_it"
_ONCE: Final = f"{REQUESTS}a_request_is_carried_out_once"
_REFUSED: Final = f"{REQUESTS}what_cannot_be_done_is_refused_at_once_and_never_done"
_MALFORMED: Final = f"{REQUESTS}what_asks_for_nothing_is_told_and_nothing_is_done"
_WISH: Final = f"{OF_CONDITIONS}aspects.py::test_what_is_done_about_a_state_that_somebody_changed"
_STOPPED: Final = f"{OF_CONDITIONS}aspects.py::test_stopped_and_running_again"
_SCHEDULED: Final = f"{OPERATIONS}scheduled_backups.py::test_a_backup_begins_at_its_time_once"
_FAILED_BACKUP: Final = f"{STATUS}a_failed_backup_tells_when_and_takes_no_success_away"
_RESTORED: Final = f"{STATUS}a_restored_cluster_tells_where_its_data_came_from"
_DAMAGED: Final = f"{REAL}damaged_data_waits_and_is_started_from_once"

_WAITING: Final = f"{STATES}waiting.py::test_"
_ADMISSION: Final = f"{RECONCILE}admission.py::test_"
_ADMITTED: Final = f"{_ADMISSION}a_rewritten_image_is_admitted_and_told_once_and_costs_nothing_more"

STATUS_FIELDS: Final[Table] = {
    "status.observedGeneration": (_TURNED, f"{STATES}state_space.py::test_every_state"),
    "status.conditions[].type": (_STOPPED, _TURNED),
    "status.conditions[].status": (_STOPPED, f"{STATES}state_space.py::test_every_state"),
    "status.conditions[].reason": (_STOPPED,),
    "status.conditions[].message": (
        f"{DECIDE}decision.py::test_roll_waits_behind_the_gate_and_says_who_says_what",
        f"{DECIDE}decision.py::test_message_says_why_a_pod_is_not_ready",
    ),
    "status.conditions[].observedGeneration": (_TURNED,),
    "status.conditions[].lastTransitionTime": (
        _TURNED,
        f"{DECIDE}decision.py::test_member_that_stops_answering_turns_ready_false_once",
    ),
    "status.size": (_SHOWN, f"{STATUS}the_size_is_that_of_the_pods"),
    "status.readyMembers": (_SHOWN, _SILENT),
    "status.selector": (_SHOWN,),
    "status.clusterState": (
        f"{STATUS}the_cluster_state_is_shown_as_the_spec_writes_it",
        _SILENT,
    ),
    "status.clusterVersion": (
        f"{STATUS}the_cluster_state_is_shown_as_the_spec_writes_it",
        _SILENT,
    ),
    "status.members[].pod": (_SHOWN, _MEMBER),
    "status.members[].address": (_MEMBER, _SILENT),
    "status.members[].uuid": (_MEMBER, _SILENT),
    "status.members[].version": (_MEMBER, _SILENT),
    "status.members[].nodeState": (_MEMBER, _SILENT),
    "status.members[].ready": (_MEMBER, _SILENT),
    "status.members[].liveDigest": (
        f"{OPERATIONS}operation_faults.py::test_a_member_with_another_identity_is_given_everything_again",
        f"{OPERATIONS}operation_faults.py::test_a_member_that_does_not_answer_for_a_while_is_given_nothing_again",
    ),
    "status.operation.id": (
        f"{STATUS}the_id_and_step_of_the_journal_are_the_key_of_the_call",
        f"{OPERATIONS}journal.py::test_ids_fit_and_differ",
    ),
    "status.operation.kind": (_STEPS, _BEGAN),
    "status.operation.step": (_STEPS, _BEGAN),
    "status.operation.target": (
        f"{OPERATIONS}operation_faults.py::test_another_spec_is_not_made_to_wait",
        _OVER,
    ),
    "status.operation.targetUid": (
        f"{OPERATIONS}operation_faults.py::test_a_restart_never_deletes_the_pod_that_came_after",
        f"{OPERATIONS}operation_faults.py::test_a_forced_start_is_not_repeated_in_another_pod",
    ),
    "status.operation.digest": (
        f"{OPERATIONS}operation_faults.py::test_live_content_that_changes_in_between_begins_anew",
    ),
    "status.operation.memberOperation": (
        f"{SEVERAL}shrinking.py::test_the_status_says_what_a_leaving_member_waits_for",
        f"{SEVERAL}shrinking.py::test_a_member_that_gives_up_is_asked_again_a_minute_later",
    ),
    "status.operation.request": (
        f"{OPERATIONS}scheduled_backups.py"
        "::test_the_time_is_dealt_with_in_the_write_that_begins_the_backup",
        _ONCE,
    ),
    "status.operation.started": (_BEGAN,),
    "status.operation.stepStarted": (_BEGAN, _NEVER),
    "status.operation.attempts": (_COUNTED, _BEGAN),
    "status.operation.lastAttempt": (
        _BEGAN,
        f"{OPERATIONS}journal.py::test_attempts_come_ever_later",
    ),
    "status.operation.lastError": (
        f"{STATUS}the_error_of_an_attempt_is_told",
        f"{OPERATIONS}journal.py::test_the_outcome_of_a_call_is_written_down",
    ),
    "status.lastOperations[].id": (
        _OVER,
        f"{OPERATIONS}journal.py::test_the_newest_operations_are_kept_each_once",
    ),
    "status.lastOperations[].kind": (_OVER,),
    "status.lastOperations[].target": (_OVER,),
    "status.lastOperations[].request": (_SCHEDULED, _ONCE),
    "status.lastOperations[].outcome": (_NEVER, _STEPS),
    "status.lastOperations[].message": (_NEVER,),
    "status.lastOperations[].started": (_OVER,),
    "status.lastOperations[].finished": (
        _OVER,
        f"{OPERATIONS}operation_faults.py"
        "::test_an_operation_that_failed_begins_again_after_a_minute_and_says_when",
    ),
    "status.observedUid": (
        f"{OPERATIONS}former_requests.py::test_what_came_with_the_object_is_refused_and_told",
        f"{OPERATIONS}former_requests.py::test_a_status_of_another_object_lets_nothing_be_carried_out",
    ),
    "status.handledRequests[].annotation": (_ONCE,),
    "status.handledRequests[].request": (_ONCE, _REFUSED),
    "status.handledRequests[].outcome": (_ONCE, _REFUSED),
    "status.handledRequests[].message": (_REFUSED,),
    "status.appliedClusterState": (
        f"{STATUS}what_was_brought_about_tells_a_new_wish_from_drift",
        _WISH,
    ),
    "status.stopped": (_STOPPED, f"{RENDER}children.py::test_replicas_follow_the_phase"),
    "status.resumeState": (
        f"{OPERATIONS}operation_faults.py::test_a_start_brings_back_the_state_from_before_the_stop",
    ),
    "status.restoredFrom": (
        _RESTORED,
        f"{RENDER}volumes.py::test_after_a_restore_there_are_members_and_no_job",
    ),
    "status.importing": (
        f"{SEVERAL}several_backups.py"
        "::test_several_members_are_restored_when_one_has_imported_the_backup",
        f"{RENDER}several.py"
        "::test_the_others_wait_for_the_import_and_nobody_restarts_when_it_is_over",
    ),
    "status.membersTls": (
        f"{SEVERAL}members_tls.py::test_a_new_cluster_has_it_unless_the_spec_says_otherwise",
        f"{SEVERAL}members_tls.py::test_a_lost_record_is_no_new_cluster",
    ),
    "status.backup.lastScheduledTime": (_SCHEDULED,),
    "status.backup.nextScheduledTime": (_SCHEDULED,),
    "status.backup.lastSuccessfulTime": (_SCHEDULED, _FAILED_BACKUP),
    "status.backup.lastFailedTime": (_FAILED_BACKUP,),
    "status.admitted[].object": (_ADMITTED, f"{_ADMISSION}drift_elsewhere_names_no_admitted_field"),
    "status.admitted[].field": (
        _ADMITTED,
        f"{_ADMISSION}when_the_policy_goes_away_the_field_heals_once",
    ),
    "status.admitted[].digest": (
        f"{_ADMISSION}what_somebody_changes_in_an_admitted_field_is_drift",
    ),
}
"""By the path in `crds/gridcluster.yaml`."""

CONDITIONS: Final[Table] = {
    "Ready": (_STOPPED, f"{STATES}state_space.py::test_every_state"),
    "Progressing": (_STOPPED, f"{STATES}state_space.py::test_every_state"),
    "ConfigValid": (
        f"{DECIDE}decision.py::test_invalid_spec_applies_nothing_and_keeps_the_members",
    ),
    "SafeToDisrupt": (
        f"{OF_CONDITIONS}aspects.py::test_disruption_is_not_safe_while_a_member_says_so",
    ),
    "Stopped": (_STOPPED,),
    "ClusterStateAsDesired": (_WISH, f"{OF_CONDITIONS}aspects.py::test_no_wish_no_condition"),
    "StructuresMatch": (f"{OF_CONDITIONS}aspects.py::test_structures_that_left_the_spec_show",),
    "ChildrenMatch": (
        _ADMITTED,
        f"{RECONCILE}contests.py::test_whoever_fights_is_answered_once_a_minute_and_told_of",
    ),
    "DefinitionMatches": (
        f"{RECONCILE}old_definition.py::test_dropped_fields_are_told_once_and_cost_no_more_writes",
    ),
    "RequestsValid": (
        _MALFORMED,
        f"{REQUESTS}a_request_that_waits_says_for_what",
    ),
    "BackupSucceeded": (_SCHEDULED, _FAILED_BACKUP),
    "Restored": (
        _RESTORED,
        f"{OPERATIONS}operation_faults.py"
        "::test_a_restore_that_failed_makes_no_member_and_tries_again_later",
    ),
    "Reconciling": (
        f"{STATES}state_space.py::test_every_state",
        f"{_WAITING}what_comes_about_by_itself_is_waited_for",
    ),
    "Stalled": (
        f"{STATES}state_space.py::test_every_state",
        f"{_WAITING}what_only_a_person_can_mend_is_stalled",
    ),
}
"""By the type."""

METADATA: Final[Table] = {
    "gridcluster.io/backup": (
        _STEPS,
        f"{UP}_operations.py::test_a_backup_by_annotation_becomes_the_data_of_another_cluster",
        f"{REAL}a_backup_tells_its_operation_and_is_begun_once",
    ),
    "gridcluster.io/backup-interrupt": (
        f"{OPERATIONS}backups.py::test_a_backup_is_interrupted_on_request",
    ),
    "gridcluster.io/restart": (
        f"{UP}_operations.py::test_a_request_is_carried_out_once_across_runs",
        f"{RECONCILE}calls.py::test_a_restart_replaces_the_pod_after_its_member_was_told",
    ),
    "gridcluster.io/partial-start": (_STEPS, _DAMAGED, _MALFORMED),
    "gridcluster.io/force-start": (
        _STEPS,
        _DAMAGED,
        _MALFORMED,
        f"{STATES}state_space.py::test_nothing_gives_up_data_that_does_not_name_this_cluster",
    ),
    "gridcluster.io/rendered-hash": (
        f"{KUBERNETES}what_left_the_rendering_is_noticed_by_the_digest",
    ),
    "gridcluster.io/template-hash": (
        f"{DECIDE}decision.py"
        "::test_a_field_that_leaves_the_template_makes_the_pods_outdated_at_once",
    ),
    "gridcluster.io/structures": (
        f"{OF_CHILDREN}convergence.py::test_changed_configuration_replaces_the_pod_once",
        f"{RENDER}record.py::test_a_new_structure_is_given",
    ),
    "gridcluster.io/config-hash": (
        f"{OF_CHILDREN}convergence.py::test_changed_configuration_replaces_the_pod_once",
    ),
    "gridcluster.io/cluster": (
        "tests/unit/operator/ports/kubernetes/test_kube.py"
        "::test_children_are_listed_by_label_in_pages_and_only_owned_ones_count",
        f"{RENDER}children.py::test_every_child_is_labelled_and_in_the_namespace",
    ),
    "gridcluster.io/client": (f"{KUBERNETES}pods_with_the_label_of_clients_reach_the_rest_port",),
    "gridcluster.io/metrics": (
        f"{RENDER}children.py::test_labelled_pods_of_any_namespace_reach_the_metrics_and_no_more",
        "tests/e2e/test_gridcluster.py"
        "::test_labelled_pods_of_any_namespace_read_metrics_and_no_others",
    ),
    "gridcluster.io/shutdown": (
        f"{RECONCILE}calls.py::test_deletion_with_the_finalizer_shuts_the_members_down_and_lets_go",
    ),
}
"""Annotations, labels and the finalizer."""
