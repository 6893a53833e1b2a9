{{/*
Names are the same in every release. One operator per namespace, one owner of each right and of each
object of the whole cluster: a second release that would share them is refused by Helm.
*/}}
{{- define "grid-operator.name" -}}grid-operator{{- end }}

{{- define "grid-operator.serviceAccount" -}}
{{- $default := ternary (include "grid-operator.name" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end }}

{{/* Labels by which pods are found. Those of the operator by GridClusters' network policies as well. */}}
{{- define "grid-operator.selector" -}}
app.kubernetes.io/name: {{ include "grid-operator.name" . }}
{{- end }}

{{- define "grid-operator.ownLabels" -}}
{{- mustToJson (dict
  "app.kubernetes.io/name" (include "grid-operator.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/part-of" "grid"
  "app.kubernetes.io/version" .Chart.AppVersion
) -}}
{{- end }}

{{- define "grid-operator.podLabels" -}}
{{- include "grid-operator.yaml" (mustMerge (mustFromJson (include "grid-operator.ownLabels" .)) (.Values.podLabels | default dict) (.Values.commonLabels | default dict)) -}}
{{- end }}

{{- define "grid-operator.labelTree" -}}
{{- $release := dict
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
-}}
{{- mustToJson (mustMerge $release (mustFromJson (include "grid-operator.ownLabels" .)) (.Values.commonLabels | default dict)) -}}
{{- end }}

{{- define "grid-operator.labels" -}}
{{- include "grid-operator.yaml" (mustFromJson (include "grid-operator.labelTree" .)) -}}
{{- end }}

{{- define "grid-operator.image" -}}
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

{{/* The watched namespaces, as JSON; without meaning when all are watched. */}}
{{- define "grid-operator.watched" -}}
{{- mustToJson (.Values.watch.namespaces | default (list .Release.Namespace)) -}}
{{- end }}

{{/* YAML of any value. Helm's own function makes a space of U+0085, without a word. */}}
{{- define "grid-operator.yaml" -}}
{{- if contains "\u0085" (mustToJson .) -}}
{{- fail "Helm cannot write the character U+0085: remove it from the values" -}}
{{- end -}}
{{- toYaml . -}}
{{- end }}
