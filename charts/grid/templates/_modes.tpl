{{/* The values that say how members are run without an operator, with what each has to be for one, as JSON. */}}
{{- define "grid.ownOfStatefulSet" -}}
{{- mustToJson (dict
  "management" (dict "enabled" false "existingSecret" "")
  "networkPolicy" (dict "enabled" true)
  "disruption" (dict "enabled" true)
  "update" (dict "partition" 0 "waitForSafeSeconds" 60)
  "podMonitor" (dict "enabled" false "labels" dict "interval" "" "relabelings" list "metricRelabelings" list)
  "config" dict
  "existingConfigMap" ""
  "test" (dict "enabled" true)
) -}}
{{- end }}

{{/* The fields of the spec but for the image, as JSON. */}}
{{- define "grid.spec" -}}
{{- $own := mustFromJson (include "grid.ownOfStatefulSet" .) -}}
{{- $both := list "mode" "nameOverride" "global" "image" "commonLabels" "commonAnnotations" "extraObjects" -}}
{{- $spec := dict -}}
{{- range $key, $value := .Values -}}
{{- if not (or (has $key $both) (hasKey $own $key)) -}}
{{- $spec = set $spec $key $value -}}
{{- end -}}
{{- end -}}
{{- mustToJson $spec -}}
{{- end }}

{{- define "grid.refuse.withOperator" -}}
{{- range $key, $unset := mustFromJson (include "grid.ownOfStatefulSet" .) -}}
{{- $given := get $.Values $key -}}
{{- if kindIs "map" $unset -}}
{{- range $field, $value := $given -}}
{{- if ne (mustToJson $value) (mustToJson (get $unset $field)) -}}
{{- fail (printf "%s needs mode: StatefulSet: remove it, with mode: GridCluster the operator sees to that" (ternary $key (printf "%s.%s" $key $field) (eq $key "config"))) -}}
{{- end -}}
{{- end -}}
{{- else if ne $given $unset -}}
{{- fail (printf "%s needs mode: StatefulSet: remove it, with mode: GridCluster the operator sees to that" $key) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Refuses what only an operator can keep. */}}
{{- define "grid.refuse.withoutOperator" -}}
{{- $values := .Values -}}
{{- $needs := dict
  "clusterState" (hasKey $values "clusterState")
  "clusterStateDriftPolicy" (ne $values.clusterStateDriftPolicy "Report")
  "paused" $values.paused
  "pausedUntil" (hasKey $values "pausedUntil")
  "deletionProtection" $values.deletionProtection
  "persistence.backup.schedule.missedRunPolicy" (dig "backup" "schedule" "missedRunPolicy" "" $values.persistence | empty | not)
-}}
{{- range $field, $given := $needs -}}
{{- if $given -}}
{{- fail (printf "%s needs mode: GridCluster: no operator is there to keep it; remove it" $field) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $values "license" -}}
{{- fail "license needs mode: GridCluster: members take it over REST only, and no operator is there to give it; remove it, and send it to POST /grid/rest/license" -}}
{{- end -}}
{{- if hasKey $values "restoreFrom" -}}
{{- fail "restoreFrom needs mode: GridCluster: without an operator mount the backup with pod.volumes and pod.volumeMounts, and set config.persistence.restore-from to its path" -}}
{{- end -}}
{{- if eq $values.configFormat "Xml" -}}
{{- fail "configFormat: Xml needs mode: GridCluster: the chart itself writes YAML, which means the same to members; remove it" -}}
{{- end -}}
{{- if $values.management.enabled -}}
{{- if not $values.management.existingSecret -}}
{{- fail "management.enabled needs management.existingSecret: create a Secret with the keys username and password, and name it there" -}}
{{- end -}}
{{- if eq $values.management.existingSecret (printf "%s-management" (include "grid.name" .)) -}}
{{- fail (printf "management.existingSecret: %s is the name of a Secret that the operator makes, should it take the members over: choose another name" $values.management.existingSecret) -}}
{{- end -}}
{{- else if $values.management.existingSecret -}}
{{- fail "management.existingSecret has no effect while management.enabled is false" -}}
{{- end -}}
{{- if and $values.podMonitor.enabled (not $values.metrics.enabled) -}}
{{- fail "podMonitor.enabled has nothing to read while metrics.enabled is false: set metrics.enabled, or podMonitor.enabled to false" -}}
{{- end -}}
{{- if and $values.existingConfigMap $values.config -}}
{{- fail "existingConfigMap and config exclude each other: existingConfigMap brings the whole configuration" -}}
{{- end -}}
{{- end }}
