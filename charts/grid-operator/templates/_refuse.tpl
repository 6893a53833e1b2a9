{{/* Refuses what the schema cannot say, or not in words that help. */}}
{{- define "grid-operator.refuse" -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch.all and watch.namespaces exclude each other: remove watch.namespaces, or set watch.all to false" -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (not .Values.metrics.enabled) (not .Values.podMonitor.members) -}}
{{- fail "podMonitor.enabled has nothing to read: set metrics.enabled or podMonitor.members" -}}
{{- end -}}
{{- range $key := list "commonLabels" "podLabels" -}}
{{- range $label, $value := index $.Values $key -}}
{{- if has $label (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart") -}}
{{- fail (printf "%s may not hold %s, which the chart sets: remove it" $key $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "POD_NAME" "POD_NAMESPACE") -}}
{{- fail (printf "extraEnv may not hold %s, which the chart sets: remove it" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
