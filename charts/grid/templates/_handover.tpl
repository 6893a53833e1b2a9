{{/*
What the live StatefulSet of the release says, as JSON: whether Helm sees one, `former` members, `replicas`, whether its claims
are `kept` and whether they go with it. Members are counted by their environment, too: scaled down by hand they are as many as
before to each other.

Helm sees nothing in `helm template`, and so where Argo CD renders: this makes refusals earlier and messages better.
*/}}
{{- define "grid.live" -}}
{{- $found := dict "there" false "former" 0 "replicas" 0 "kept" false "deletesClaims" false -}}
{{- $live := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "grid.name" .) -}}
{{- if and $live (eq (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" $live) .Release.Service) -}}
{{- $replicas := int64 (dig "spec" "replicas" 0 $live) -}}
{{- $known := include "grid.listedMembers" $live | int64 -}}
{{- $found = dict
  "there" true
  "former" (max $replicas $known)
  "replicas" $replicas
  "kept" (not (empty (dig "spec" "volumeClaimTemplates" list $live)))
  "deletesClaims" (eq (dig "spec" "persistentVolumeClaimRetentionPolicy" "whenDeleted" "Retain" $live) "Delete")
-}}
{{- end -}}
{{- mustToJson $found -}}
{{- end }}

{{/* Refuses fewer members than Helm left running: those that are scaled away cannot leave. Takes a dict: `root` and `live`. */}}
{{- define "grid.refuse.scaledAway" -}}
{{- $former := int64 .live.former -}}
{{- if lt (int64 .live.replicas) $former -}}
{{- fail (printf "size: %d instead of %d, and the StatefulSet was scaled to %d: only members that run can leave: upgrade with size: %d first" (int64 .root.Values.size) $former (int64 .live.replicas) $former) -}}
{{- end -}}
{{- end }}

{{/* Refuses to hand members over to the operator where their data would be lost. Takes a dict: `root` and `live`. */}}
{{- define "grid.refuse.handover" -}}
{{- $size := int64 .root.Values.size -}}
{{- $former := int64 .live.former -}}
{{- if and .live.kept .live.deletesClaims -}}
{{- fail "mode: GridCluster: the claims of the members would be deleted with their StatefulSet: set deletionPolicy: Retain in an upgrade of its own with mode: StatefulSet first" -}}
{{- end -}}
{{- if ne $size $former -}}
{{- fail (printf "mode: GridCluster: the operator takes %d members over as they are: leave size at %d, and change it afterwards" $former $former) -}}
{{- end -}}
{{- if ne .live.kept .root.Values.persistence.enabled -}}
{{- fail (printf "mode: GridCluster: the operator takes members over as they are: leave persistence.enabled at %t, and change nothing else of it" .live.kept) -}}
{{- end -}}
{{- end }}
