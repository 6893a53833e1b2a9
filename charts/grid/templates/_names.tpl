{{- define "grid.name" -}}
{{- .Values.nameOverride | default .Release.Name -}}
{{- end }}

{{- define "grid.image" -}}
{{- $image := .Values.image -}}
{{- if kindIs "string" $image -}}
{{- $image -}}
{{- else -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry -}}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* As JSON. */}}
{{- define "grid.labels" -}}
{{- mustToJson (mustMerge (dict
  "app.kubernetes.io/name" "grid"
  "app.kubernetes.io/instance" (include "grid.name" .)
  "app.kubernetes.io/part-of" "grid"
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
) .Values.commonLabels) -}}
{{- end }}

{{/* YAML of any value. Helm's own function makes a space of U+0085, without a word. */}}
{{- define "grid.yaml" -}}
{{- if contains "\u0085" (mustToJson .) -}}
{{- fail "Helm cannot write the character U+0085: remove it from the values" -}}
{{- end -}}
{{- toYaml . -}}
{{- end }}
