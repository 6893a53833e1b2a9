{{/* Refuses what the schema cannot say, or not in words that help. */}}
{{- define "grid-operator.refuse" -}}
{{- if eq (toString .Values.enabled) "false" -}}
{{- fail "enabled: false is for a chart that has this one as a dependency, with condition: grid-operator.enabled: here it takes nothing away; remove it" -}}
{{- end -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch.all and watch.namespaces exclude each other: remove watch.namespaces, or set watch.all to false" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.metrics.enabled) (not .Values.podMonitor.members) -}}
{{- fail "podMonitor.enabled has nothing to read: set metrics.enabled or podMonitor.members" -}}
{{- end -}}
{{- $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels -}}
{{- range $key := list "podMonitor" "rules" "dashboards" -}}
{{- $_ := set $labels (printf "%s.labels" $key) (index $.Values $key).labels -}}
{{- end -}}
{{- range $key, $given := $labels -}}
{{- range $label, $value := $given -}}
{{- if has $label (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- fail (printf "%s may not hold %s, which the chart sets: remove it" $key $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $label := list "severity" "alertname" -}}
{{- if hasKey ($.Values.rules.alertLabels | default dict) $label -}}
{{- fail (printf "rules.alertLabels may not hold %s, which the rules set: remove it" $label) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "POD_NAME" "POD_NAMESPACE") -}}
{{- fail (printf "extraEnv may not hold %s, which the chart sets: remove it" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
