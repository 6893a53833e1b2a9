{{/* The values that say how members are run without an operator, with what each has to be for one, as JSON. */}}
{{- define "grid.ownOfStatefulSet" -}}
{{- mustToJson (dict
  "management" (dict "enabled" false "existingSecret" "")
  "networkPolicy" (dict "enabled" true)
  "disruption" (dict "enabled" true)
  "update" (dict "partition" 0 "waitForSafeSeconds" 60)
  "podMonitor" (dict "enabled" false "labels" dict "interval" "" "relabelings" list "metricRelabelings" list)
  "rules" (dict "enabled" false "labels" dict "disabled" list "alertLabels" dict "runbookUrl" "")
  "dashboard" (dict "enabled" false "labels" (dict "grafana_dashboard" "1") "annotations" dict)
  "config" dict
  "existingConfigMap" ""
  "test" (dict "enabled" true)
) -}}
{{- end }}

{{/* The fields of the spec but for the image, as JSON. */}}
{{- define "grid.spec" -}}
{{- $own := mustFromJson (include "grid.ownOfStatefulSet" .) -}}
{{- $both := list "mode" "enabled" "nameOverride" "global" "image" "commonLabels" "commonAnnotations" "extraObjects" -}}
{{- $spec := dict -}}
{{- range $key, $value := .Values -}}
{{- if not (or (has $key $both) (hasKey $own $key)) -}}
{{- $spec = set $spec $key $value -}}
{{- end -}}
{{- end -}}
{{- with $spec.tls -}}
{{- $spec = set $spec "tls" (omit . "certManager") -}}
{{- end -}}
{{- mustToJson $spec -}}
{{- end }}

{{- define "grid.refuse.withOperator" -}}
{{- range $key, $unset := mustFromJson (include "grid.ownOfStatefulSet" .) -}}
{{- $given := get $.Values $key -}}
{{- if $unset -}}
{{- range $field, $value := $given -}}
{{- if ne (mustToJson $value) (mustToJson (get $unset $field)) -}}
{{- fail (printf "%s.%s needs mode: StatefulSet: remove it" $key $field) -}}
{{- end -}}
{{- end -}}
{{- else if $given -}}
{{- fail (printf "%s needs mode: StatefulSet: remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* As JSON: the keys that nothing of a user's may take. Takes a map of labels or annotations. */}}
{{- define "grid.reserved" -}}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/managed-by" "controller-revision-hash" -}}
{{- $found := list -}}
{{- range $key, $value := . -}}
{{- if or (has $key $own) (mustRegexMatch `^([^/]+\.)?(gridcluster\.io|statefulset\.kubernetes\.io|apps\.kubernetes\.io)/` $key) -}}
{{- $found = append $found $key -}}
{{- end -}}
{{- end -}}
{{- mustToJson $found -}}
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
{{- $keyed := dict "pod.labels" $values.pod.labels "pod.annotations" $values.pod.annotations "exposure.annotations" $values.exposure.annotations -}}
{{- range $field, $entries := $keyed -}}
{{- range mustFromJson (include "grid.reserved" $entries) -}}
{{- fail (printf "%s may not hold %s, which belongs to the chart or to Kubernetes: remove it" $field .) -}}
{{- end -}}
{{- end -}}
{{- $maps := list -}}
{{- range $values.maps -}}{{- if hasKey . "wan" -}}{{- $maps = append $maps .name -}}{{- end -}}{{- end -}}
{{- if or $values.wan $maps $values.wanListener.enabled (hasKey $values.wanListener "tls") -}}
{{- fail "wan, of a map too, or wanListener needs mode: GridCluster: without an operator write network.wan and wan-replication into config; remove it" -}}
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
{{- if and (has "HealthCheck" ($values.security.protected | default list)) (eq (include "grid.waitsForSafe" .) "true") -}}
{{- fail "security.protected: HealthCheck: a member that is to stop could not ask any more whether the others have what it holds: remove it, or set update.waitForSafeSeconds to 0" -}}
{{- end -}}
{{- if and $values.podMonitor.enabled (not $values.metrics.enabled) -}}
{{- fail "podMonitor.enabled has nothing to read while metrics.enabled is false: set metrics.enabled, or podMonitor.enabled to false" -}}
{{- end -}}
{{- range $switch := list "rules" "dashboard" -}}
{{- if and (get $values $switch).enabled (not $values.metrics.enabled) -}}
{{- fail (printf "%s.enabled has nothing to go by while metrics.enabled is false: set metrics.enabled, or %s.enabled to false" $switch $switch) -}}
{{- end -}}
{{- end -}}
{{- range $label := list "severity" "alertname" -}}
{{- if hasKey ($values.rules.alertLabels | default dict) $label -}}
{{- fail (printf "rules.alertLabels may not hold %s, which the rules set: remove it" $label) -}}
{{- end -}}
{{- end -}}
{{- if and $values.existingConfigMap $values.config -}}
{{- fail "existingConfigMap and config exclude each other: existingConfigMap brings the whole configuration" -}}
{{- end -}}
{{- end }}
