"""What reasons and steps mean for people: what happens next, and what they can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grid_operator.api.phase import Step
from grid_operator.api.status import OperationKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Advice:
    """About one reason of a condition that is not as it should be."""

    next: str = ""
    """What the operator does by itself."""
    do: str = ""
    """What the reader can do; NAME, NAMESPACE and POD are replaced."""


_FIX_SPEC: Final = "nothing is applied until the spec is changed; members keep what they run"
_AWAITED: Final = (
    "nothing is applied until the Secret is as it has to be; then the operator goes on by itself. "
    "Members keep what they run"
)
_LOGS: Final = "kubectl describe pod -n NAMESPACE POD; kubectl logs -n NAMESPACE POD -c member"

ADVICE: Final[Mapping[str, Advice]] = {
    # Ready
    "MembersNotReady": Advice(
        "the operator looks every few seconds and replaces a pod that cannot start with its "
        "present template as soon as a newer template exists",
        f"look at the member that is named: {_LOGS}",
    ),
    "MembersOutdated": Advice(
        "the operator replaces the named pods, one at a time, when that is safe",
        "see SafeToDisrupt for what it waits for",
    ),
    "ConfigInvalid": Advice(),  # ConfigValid has the reason and its advice
    "Deleting": Advice(
        "the members are shut down, then Kubernetes removes what belongs to the cluster",
        "nothing: it cannot be taken back. Data volumes stay with deletionPolicy Retain",
    ),
    "Stopped": Advice(
        "nothing: what is on disk is kept, and no member runs",
        "gridctl start NAME -n NAMESPACE brings it back",
    ),
    "Restoring": Advice(
        "a Job copies the backup into the first data volume and checks every byte; then members "
        "start, and of several nobody serves before all of it is imported",
        "kubectl logs -n NAMESPACE -l gridcluster.io/cluster=NAME --all-containers shows the copy",
    ),
    "RestoreFailed": Advice(
        "the restore is begun again after five minutes, or when the spec changes; no member is "
        "started without its data",
        "restoreFrom is fixed: delete this GridCluster and create it again with a backup that is "
        "there and whole",
    ),
    # Stalled
    "PartialStartFailed": Advice(
        "the member waits to be told what to do about its data, and nothing more is done by itself",
        "mend what the message names, and ask again under another request ID",
    ),
    "ForceStartFailed": Advice(
        "the member waits to be told what to do about its data, and nothing more is done by itself",
        "mend what the message names, and ask again under another request ID",
    ),
    # Progressing
    "Applying": Advice("objects are written until they are as the spec says"),
    "Rolling": Advice("the pod comes back with the newest revision; then the next one follows"),
    "WaitingForMembers": Advice(
        "the operator goes on as soon as the members are ready",
        f"look at the member that is named: {_LOGS}",
    ),
    "WaitingForSafety": Advice(
        "the pod is replaced, or the member leaves, as soon as every member answers, agrees and "
        "is safe",
        "mend the member that is named; the operator deletes no pod before",
    ),
    "Blocked": Advice(),  # as ConfigInvalid
    "Paused": Advice(
        "nothing is changed until the pause is over; an operation under way stays where it is",
        "set spec.paused to false, or wait until spec.pausedUntil",
    ),
    "Retrying": Advice(
        "the operation begins again at the time that is named",
        "the message says why it failed; mend that before then",
    ),
    "Stopping": Advice("the members are told to stop; then their pods go"),
    "Changing": Advice("the members are brought into the state"),
    "Unsafe": Advice(
        "nothing is taken away until every member answers, agrees and is safe",
        "mend the member that is named",
    ),
    # ConfigValid
    "InvalidQuantity": Advice(_FIX_SPEC, "correct the amount that is named"),
    "InvalidLabel": Advice(_FIX_SPEC, "correct the label, annotation or selector that is named"),
    "InvalidStructureName": Advice(_FIX_SPEC, "rename the map or queue that is named"),
    "AmbiguousWildcard": Advice(_FIX_SPEC, "make one of the two wildcard names longer"),
    "InvalidToleration": Advice(_FIX_SPEC, "correct the toleration that is named"),
    "ImmutableStorage": Advice(
        _FIX_SPEC,
        "set the volume back to what the cluster was created with; for another one back up and "
        "restore into a new cluster: gridctl restore NEW --from NAME",
    ),
    "ImmutableSize": Advice(
        _FIX_SPEC,
        "set spec.size back to what the message says. Several members may become more once the "
        "cluster is started; for several in place of one, or one in place of several, back up and "
        "create a new cluster with spec.restoreFrom",
    ),
    "ImmutableIdentity": Advice(
        _FIX_SPEC + "; a stop begins all the same, unless it is about the name of stored data",
        "set it back, or stop all members: gridctl stop NAME, and gridctl start NAME once it is "
        "stopped",
    ),
    "InvalidSchedule": Advice(_FIX_SPEC, "correct persistence.backup.schedule"),
    "InvalidWan": Advice(_FIX_SPEC, "correct the endpoint, pattern or replication that is named"),
    "InvalidNetwork": Advice(_FIX_SPEC, "correct the network that is named"),
    "SecretMissing": Advice(
        _AWAITED,
        "create the Secret that is named. One that was lost while members run is not made anew, "
        "because they go on with the old one: restore it, or stop the cluster first",
    ),
    "InvalidSecret": Advice(_AWAITED, "give the Secret the key that is named"),
    "InvalidSpec": Advice(
        _FIX_SPEC,
        "correct the field; when it is a newer one, update the operator and the "
        "CustomResourceDefinition together",
    ),
    "ApiRefused": Advice(
        "it is tried again every minute",
        "do what the API server's message says: a quota, a webhook, a right that is missing; or "
        "set the field that it names back",
    ),
    "NameTaken": Advice(
        "it is tried again every minute; nothing of the other object is touched",
        "delete or rename the object that is named, or give the GridCluster another name",
    ),
    # The others
    "Drifted": Advice(
        "nothing, as clusterStateDriftPolicy is Report",
        "gridctl set-state NAME STATE -n NAMESPACE with another state and back, or set "
        "clusterStateDriftPolicy to Correct, or to Adopt to let it be",
    ),
    "Failed": Advice(
        "a schedule begins the next one at its time",
        "mend what the message names, then gridctl backup NAME -n NAMESPACE --wait",
    ),
    "Interrupted": Advice(
        "a schedule begins the next one at its time", "gridctl backup NAME -n NAMESPACE begins one"
    ),
    "Retained": Advice(
        "nothing: data is never dropped because a map or queue left the spec",
        "put it back into the spec, or clear it over REST when nobody needs it any more",
    ),
    "Admitted": Advice(
        "the named fields stay as the API server keeps them; every five minutes the operator asks "
        "whether it still does, and writes them when it does not",
        "nothing, if a policy, a webhook or a LimitRange of the platform is meant to do so; else "
        "change that, or the field of the spec that the named one comes from",
    ),
    "Contested": Advice(
        "the operator sets the named objects back once a minute",
        "stop the other program that writes them, or change the GridCluster instead: kubectl get "
        "of the object with -o yaml --show-managed-fields tells which program it is",
    ),
    "Outdated": Advice(
        "the operator works on without the named fields; every five minutes it looks whether the "
        "API server keeps them",
        "apply the CustomResourceDefinition of the operator's version: "
        "kubectl apply -f crds/gridcluster.yaml",
    ),
    "InvalidRequest": Advice(
        "nothing is done about that request",
        "correct the annotation that is named; a new request needs a new request id",
    ),
}
"""By reason."""

_TELL: Final = "the operator tells a member, with the same key each time, so it is done once"

STEPS: Final[Mapping[tuple[OperationKind, Step], str]] = {
    (OperationKind.CHANGE_STATE, Step.CALL): f"{_TELL}; then every member has to show the state",
    (OperationKind.CHANGE_STATE, Step.CONFIRM): "every member has to show the state; then it is "
    "done",
    (OperationKind.APPLY_LIVE, Step.UPLOAD): "the member takes new maps and queues; then its log "
    "level and license",
    (OperationKind.APPLY_LIVE, Step.LOG_LEVEL): "the member takes its log level; then its license",
    (OperationKind.WAN_PUBLISHER, Step.CALL): "a member is given the publisher, or loses it",
    (OperationKind.WAN_PUBLISHER, Step.CONFIRM): "the members have to show it, or not any more",
    (OperationKind.WAN_STATE, Step.CALL): "a member is told the publisher's state",
    (OperationKind.WAN_STATE, Step.CONFIRM): "the member has to show it; then the next one is told",
    (OperationKind.APPLY_LIVE, Step.LICENSE): "the member takes its license; then it is done",
    (OperationKind.RESTART, Step.SHUT_DOWN_MEMBER): "the member stops gently; then its pod is "
    "replaced",
    (OperationKind.RESTART, Step.DELETE_POD): "the pod is deleted, and Kubernetes makes a new one",
    (OperationKind.RESTART, Step.AWAIT_READY): "the new pod has to become ready; then the next one "
    "follows, or it is done",
    (OperationKind.SHRINK, Step.LEAVE): f"{_TELL}; then it hands over what it holds and serves on",
    (OperationKind.SHRINK, Step.AWAIT_LEFT): "the others get copies of what the member holds; it "
    "stops by itself when they have them",
    (OperationKind.SHRINK, Step.REMOVE_POD): "the pod goes, and its volume with it; then the next "
    "one leaves, or the others restart with the shorter list",
    (OperationKind.STOP, Step.PASSIVE): "the cluster refuses writes from then on; then it is shut "
    "down",
    (OperationKind.STOP, Step.SHUTDOWN): "the members stop gently; then the pods go",
    (OperationKind.STOP, Step.SCALE_DOWN): "the pods have to go; the data stays",
    (OperationKind.START, Step.SCALE_UP): "pods are made again",
    (OperationKind.START, Step.AWAIT_READY): "the members have to read their data and become "
    "ready; there is no limit for it",
    (OperationKind.START, Step.RESUME): "the cluster gets the state that it had before the stop",
    (OperationKind.BACKUP, Step.BEGIN): "a member begins the backup of this moment; one that runs "
    "already is waited for",
    (OperationKind.BACKUP, Step.AWAIT_FINISH): "the member writes the backup while it goes on "
    "serving",
    (OperationKind.BACKUP, Step.INTERRUPT): "the member gives the backup up and removes what there "
    "is of it",
    (OperationKind.RESTORE, Step.COPY): "a Job copies the backup into the first data volume and "
    "checks every byte",
    (OperationKind.RESTORE, Step.CLEAN_UP): "the Job is removed; then the members start",
    (OperationKind.PARTIAL_START, Step.CALL): "a single member makes a store of what can be read, "
    "and keeps the damaged one beside it; several go on without those that are lost",
    (OperationKind.PARTIAL_START, Step.AWAIT_READY): "all members have to become ready",
    (OperationKind.FORCE_START, Step.CALL): "the members delete their data and start empty, "
    "without those that are lost",
    (OperationKind.FORCE_START, Step.AWAIT_READY): "all members have to become ready",
    (OperationKind.SHUT_DOWN, Step.PASSIVE): "the cluster refuses writes; then it is shut down. "
    "After a minute in all the deletion goes on without",
    (OperationKind.SHUT_DOWN, Step.SHUTDOWN): "the members stop gently; then the deletion goes on",
}
"""What happens in a step of an operation, and after it."""
ENDING: Final[Mapping[Step, str]] = {
    Step.FINISH: "all is done and is being written down",
    Step.GIVE_UP: "a member refused for good; that is being written down",
}
"""Steps that any operation may end with."""
_NEW_DISK: Final = (
    "kubectl delete pvc -n NAMESPACE data-NAME-{0} --wait=false and kubectl delete pod -n "
    "NAMESPACE NAME-{0}"
)
"""By the number of the member, which begins empty then."""
_CERTIFICATES: Final = (
    "correct the Secret that spec.tls.secretName names: tls.crt for servers and for clients and "
    "for the name *.NAME-members.NAMESPACE.svc, ca.crt with the authority that signed it. Members "
    "take it within two minutes, without a restart"
)
_MADE_ANEW: Final = "with deletionPolicy Retain, which keeps the claims, delete this GridCluster"
HINTS: Final[Mapping[str, str]] = {
    "PersistentVolumeClaim": "kubectl describe pvc -n NAMESPACE says what a volume waits for: a "
    "StorageClass that is not there, no default one, or a claim that nobody has made",
    "ImagePull": "correct spec.image, or name the registry's credentials in "
    "spec.pod.imagePullSecrets",
    "InvalidImageName": "correct spec.image",
    "Insufficient": "lower spec.pod.resources.requests, or add a node that has as much",
    "is forbidden": "the message has the words of what forbids the pod or the claim: give it "
    "what that asks for with spec.pod (labels, annotations, resources, the securityContext of each "
    "container that the spec adds), raise the quota, or change the policy",
    "denied the request": "an admission webhook forbids the pod or the claim, in its own words: "
    "give it what that asks for with spec.pod, or change the webhook",
    "may not list": "apply the Role of the operator's version, which may list Events; until then: "
    "kubectl get events -n NAMESPACE --field-selector type=Warning",
    "its finalizer": "what set the finalizer that is named takes it away when its work is done: "
    "look at that controller. Only when it is gone for good: kubectl edit the object that is "
    "named, and remove the finalizer from metadata.finalizers",
    "look whether node": "if the node is off for good: kubectl taint nodes NODE "
    "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute lets Kubernetes replace its pods and "
    "detach their volumes; kubectl delete pod --force -n NAMESPACE POD only when it is certain "
    "that nothing runs there any more",
    "Evicted": "the node had too little of what the message names: raise the requests in "
    "spec.pod.resources, so that a node with as much is chosen, or make room",
    "CrashLoopBackOff": "kubectl logs -n NAMESPACE POD --previous -c member says why the member "
    "ended; give the name of another container that is named in place of member",
    "CreateContainerConfigError": "kubectl describe pod -n NAMESPACE POD names the Secret, or the "
    "key in it, that is not there",
    "do not take each other: each member needs a certificate": _CERTIFICATES,
    "do not take each other: a certificate of one of them": _CERTIFICATES,
    "holds the data of a member that was alone": "claim data-NAME-0 is of a former GridCluster of "
    f"one member, and the others wait for that one. If its data is wanted: {_MADE_ANEW}, delete "
    "the claims data-NAME-1 and up, create it again with size 1, gridctl backup NAME, and gridctl "
    "restore NEW --from NAME writes one that begins as that, whose size may be another. If it is "
    f"not: {_NEW_DISK.format(0)}",
    "holds the data of one of several members": "claim data-NAME-0 is of a former GridCluster of "
    f"several members. If its data is wanted: {_MADE_ANEW}, and create it again with the size that "
    f"it had. If it is not: {_NEW_DISK.format(0)}",
}
"""What to do, by words of Kubernetes, or of a member whose start failed, in a message."""
NO_POD: Final = (
    "if the pod does not come: kubectl describe statefulset -n NAMESPACE NAME shows why Kubernetes "
    "refuses to make it, such as a quota, a missing ServiceAccount or a webhook"
)
PLAIN_MEMBERS: Final = (
    "clients speak TLS, and the members speak plain text with each other on port 5704: "
    "spec.tls.members is not set, and then members that are there go on as they are"
)
ENCRYPT_MEMBERS: Final = (
    "to encrypt what members tell each other: gridctl stop NAME; set spec.tls.members to true once "
    "it is stopped; gridctl start NAME. What they have in memory only is lost with the stop. The "
    "certificate has to be for clients as well as for servers. With spec.tls.members: false they "
    "stay as they are, and this is not said any more"
)
WAITS_FOR_START: Final = (
    "its data is damaged and it waits to be told what to do: annotate "
    "gridcluster.io/partial-start=ID,acknowledge-data-loss=UID to go on with what can be read, "
    "which needs another spec.persistence.recoveryPolicy than FullRecoveryOnly, or "
    "gridcluster.io/force-start=ID,acknowledge-data-loss=UID to delete its data and start empty"
)
"""UID is replaced by that of the GridCluster."""
DAMAGED_COPIES: Final = (
    "copies of the data are damaged: first let all members run, as one of them may hold it whole; "
    "no partial or forced start helps while they are there. Then do what the member says, whose "
    "log has all of it: where it says to empty the directory of a member, "
    f"{_NEW_DISK.format('N')}, N being that one's number; where no disk has it, gridctl restore "
    "NEW --from NAME begins another cluster with the last backup"
)
_GO_ON: Final = (
    "let the other members run: with a majority of those that have the data they go on by "
    "themselves"
)
LOST_MAJORITY: Final = (
    f"{_GO_ON}, and nothing is lost. Only when the disks of so many are lost for good: make sure "
    "that the lost members are off and stay off; delete the pods of those that ran before, which "
    "refuse it; then annotate gridcluster.io/partial-start=ID,acknowledge-data-loss=UID to go on "
    "with the data that is left, which needs another spec.persistence.recoveryPolicy than "
    "FullRecoveryOnly, or gridcluster.io/force-start=ID,acknowledge-data-loss=UID to delete the "
    "data of all members and begin empty"
)
LOST_IN_MEMORY: Final = (
    f"{_GO_ON}. Members that ended have lost what they had in memory; do not delete the pods of "
    "those that are left: they write back what they hold as soon as each pod that ended has been "
    "replaced"
)
"""NAME and NAMESPACE are replaced as well."""
