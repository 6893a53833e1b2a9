{{/* Refuses what the schema cannot say, or not in words that help. */}}
{{- define "grid.refuse" -}}
{{- if eq (toString .Values.enabled) "false" -}}
{{- fail "enabled: false is for a chart that has this one as a dependency, with condition: grid.enabled: here it takes nothing away; remove it" -}}
{{- end -}}
{{- if eq .Values.mode "GridCluster" -}}
{{- include "grid.refuse.withOperator" . -}}
{{- else -}}
{{- include "grid.refuse.withoutOperator" . -}}
{{- include "grid.refuse.live" . -}}
{{- end -}}
{{- $name := include "grid.name" . -}}
{{- if or (gt (len $name) 45) (not (mustRegexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "%q cannot name a cluster: set nameOverride to at most 45 lower-case letters, digits and hyphens that begin with a letter" $name) -}}
{{- end -}}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "gridcluster.io/cluster" "helm.sh/chart" -}}
{{- range $field, $labels := dict "commonLabels" .Values.commonLabels "podMonitor.labels" .Values.podMonitor.labels -}}
{{- range $label, $value := $labels -}}
{{- if has $label $own -}}
{{- fail (printf "%s may not hold %s, which the chart sets: remove it" $field $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $kind := list "maps" "queues" -}}
{{- range index $.Values $kind -}}
{{- if contains "\u0085" .name -}}
{{- fail (printf "%s: Helm cannot write the name %q: it holds the character U+0085" $kind .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
