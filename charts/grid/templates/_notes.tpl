{{/* What to know after an installation or upgrade of members without an operator. */}}
{{- define "grid.notes.statefulSet" -}}
{{- $name := include "grid.name" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $size := int64 .Values.size -}}
To wait for the members of {{ $name }}:

kubectl rollout status -n {{ $namespace }} --timeout=5m statefulset/{{ $name }}
{{- if .Values.test.enabled }}

Then, to see each thing that works in a line:

helm test -n {{ $namespace }} --logs {{ .Release.Name }}
{{- end }}

From this machine, whatever the NetworkPolicy says:

kubectl port-forward -n {{ $namespace }} service/{{ $name }} 5701:5701
curl {{ ternary "--insecure https" "http" (hasKey .Values "tls") }}://localhost:5701/grid/rest/cluster
{{- if gt $size 1 }}

The members count those that kubectl scale takes away as missing{{ if .Values.persistence.enabled }}, and their claims are kept{{ else }}; what all of them held in memory is lost{{ end }}. Fewer than a majority of {{ $size }}
answer 503 until it is scaled back to {{ $size }}. For fewer members for good lower size
{{- if .Values.management.enabled }}: a Job has them leave before their pods go.
{{- else }}, for which management.enabled has to be true in an upgrade before: members have to leave before their pods go.
{{- end }}
{{- end }}
{{- with include "grid.notes.leftClaims" . }}

{{ . }}
{{- end }}
{{- if .Release.IsUpgrade }}

When an upgrade fails since a pod does not become ready, Kubernetes waits for that pod in the next upgrade, too. Delete the pod when the next
upgrade brings what mends it:

kubectl get pods -n {{ $namespace }} -l app.kubernetes.io/name=grid,app.kubernetes.io/instance={{ $name }}
kubectl delete pod -n {{ $namespace }} {{ $name }}-N   # the one that is not ready
{{- end }}
{{- end }}

{{/* Claims of members that leave in this upgrade: their data is of no use, and in the way of new members. */}}
{{- define "grid.notes.leftClaims" -}}
{{- $live := mustFromJson (include "grid.live" .) -}}
{{- $left := list -}}
{{- if $live.kept -}}
{{- range $ordinal := untilStep (int .Values.size) (int $live.former) 1 -}}
{{- $left = append $left (printf "data-%s-%d" (include "grid.name" $) $ordinal) -}}
{{- end -}}
{{- end -}}
{{- with $left -}}
The claims of the members that leave stay. Their data is no longer used, and no new member starts on it: delete them when the
other members are ready, and in any case before size grows again:

kubectl delete pvc -n {{ $.Release.Namespace }} {{ join " " . }}
{{- end -}}
{{- end }}

{{/* From the StatefulSet of the release to the operator. */}}
{{- define "grid.notes.handover" -}}
{{- $live := mustFromJson (include "grid.live" .) -}}
{{- if $live.there -}}
The members of the StatefulSet stop all at once when Helm removes it. Until then the operator says that the name is taken; then it starts
as many members again{{ ternary ", on the claims that are there." "." $live.kept }}
{{- if not $live.kept }}
WARNING: nothing is kept on disk (persistence.enabled is false): what the members hold is lost with them.
{{- end }}
The way back is a backup and another release.
{{- end -}}
{{- end }}
