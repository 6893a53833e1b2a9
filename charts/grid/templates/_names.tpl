{{/*
Takes away the values that are null: they are not set, as for the API server. Every template begins with it, since none knows
whether it is the first one. What is in a language of its own stays as it is.
*/}}
{{- define "grid.settle" -}}
{{- range $key, $value := .Values -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $.Values $key -}}
{{- else if not (has $key (list "global" "config" "extraObjects")) -}}
{{- include "grid.withoutNulls" $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "grid.withoutNulls" -}}
{{- if kindIs "map" . -}}
{{- $map := . -}}
{{- range $key, $value := . -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $map $key -}}
{{- else -}}
{{- include "grid.withoutNulls" $value -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}
{{- include "grid.withoutNulls" . -}}
{{- end -}}
{{- end -}}
{{- end }}

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

{{/* As JSON, like all labels below. */}}
{{- define "grid.labels" -}}
{{- mustToJson (mustMerge (dict
  "app.kubernetes.io/name" "grid"
  "app.kubernetes.io/instance" (include "grid.name" .)
  "app.kubernetes.io/part-of" "grid"
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
) (.Values.commonLabels | default dict)) -}}
{{- end }}

{{/* By which the member pods are found. */}}
{{- define "grid.selector" -}}
{{- mustToJson (dict
  "app.kubernetes.io/name" "grid"
  "app.kubernetes.io/instance" (include "grid.name" .)
  "app.kubernetes.io/component" "member"
) -}}
{{- end }}

{{/* Of pods and claims: nothing that changes with a version, since pods would be replaced for it and claims refuse it. */}}
{{- define "grid.lastingLabels" -}}
{{- mustToJson (mustMerge (dict
  "app.kubernetes.io/managed-by" .Release.Service
  "gridcluster.io/cluster" (include "grid.name" .)
) (mustFromJson (include "grid.selector" .))) -}}
{{- end }}

{{/*
Metadata of an object of the release. Takes a dict: `root`, `name`, and perhaps `labels` and `annotations`, which
common ones do not replace.
*/}}
{{- define "grid.metadata" -}}
{{- $root := .root -}}
{{- $labels := mustMerge (dict) (.labels | default dict) (mustFromJson (include "grid.lastingLabels" $root)) (mustFromJson (include "grid.labels" $root)) -}}
{{- $metadata := dict "name" .name "namespace" $root.Release.Namespace "labels" $labels -}}
{{- with mustMerge (dict) (.annotations | default dict) ($root.Values.commonAnnotations | default dict) -}}
{{- $metadata = set $metadata "annotations" . -}}
{{- end -}}
{{- include "grid.yaml" $metadata -}}
{{- end }}

{{/*
Labels of pods that call the members: Jobs and tests of the release. They are no members, nor of their instance: what keeps
members apart, of users as well, mostly goes by that.
*/}}
{{- define "grid.callerLabels" -}}
{{- mustToJson (dict
  "app.kubernetes.io/name" "grid-client"
  "app.kubernetes.io/instance" (printf "%s-client" (include "grid.name" .))
  "app.kubernetes.io/managed-by" .Release.Service
  "gridcluster.io/client" "true"
) -}}
{{- end }}

{{- define "grid.restPort" -}}
{{- ternary .Values.advancedNetwork.restPort .Values.rest.port .Values.advancedNetwork.enabled | int64 -}}
{{- end }}

{{/* The ConfigMap that the members read. */}}
{{- define "grid.configMap" -}}
{{- .Values.existingConfigMap | default (printf "%s-config" (include "grid.name" .)) -}}
{{- end }}

{{/* YAML of any value. Helm's own function makes a space of U+0085, without a word. */}}
{{- define "grid.yaml" -}}
{{- if contains "\u0085" (mustToJson .) -}}
{{- fail "Helm cannot write the character U+0085: remove it from the values" -}}
{{- end -}}
{{- toYaml . -}}
{{- end }}
