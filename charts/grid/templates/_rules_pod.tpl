{{/*
The rules of `pod`, as JSON of the words of those that are broken. What is added to the pods is Kubernetes' own, and its
API server checks the rest of it.
*/}}
{{- define "grid.rules.pod" -}}
{{- $pod := .Values.pod -}}
{{- $broken := concat
  (mustFromJson (include "grid.rules.variables" $pod))
  (mustFromJson (include "grid.rules.volumes" $pod))
  (mustFromJson (include "grid.rules.containers" .))
-}}
{{- mustToJson ($broken | default list) -}}
{{- end }}

{{- define "grid.rules.variables" -}}
{{- $own := "POD_NAME, POD_NAMESPACE, POD_IP and names that start with GRID_ are the operator's own, but for GRID_COMPILED: choose another name" -}}
{{- $broken := list -}}
{{- range .env -}}
{{- $reserved := and (hasPrefix "GRID_" .name) (ne .name "GRID_COMPILED") -}}
{{- if or $reserved (has .name (list "POD_NAME" "POD_NAMESPACE" "POD_IP")) -}}
{{- $broken = append $broken $own -}}
{{- end -}}
{{- if and .value (hasKey . "valueFrom") -}}
{{- $broken = append $broken "value and valueFrom exclude each other" -}}
{{- end -}}
{{- end -}}
{{- range .envFrom -}}
{{- if hasPrefix "GRID_" (.prefix | default "") -}}
{{- $broken = append $broken "names that start with GRID_ are the operator's own: choose another prefix" -}}
{{- end -}}
{{- end -}}
{{- mustToJson $broken -}}
{{- end }}

{{- define "grid.rules.volumes" -}}
{{- $broken := list -}}
{{- $names := list -}}
{{- range .volumes -}}
{{- $names = append $names .name -}}
{{- if or (hasPrefix "grid-" .name) (has .name (list "config" "tmp" "tls" "data" "backup")) -}}
{{- $broken = append $broken "volumes config, tmp, tls, data, backup and those that start with grid- are the operator's own: choose another name" -}}
{{- end -}}
{{- end -}}
{{- range .volumeMounts -}}
{{- $path := .mountPath -}}
{{- if not (has .name $names) -}}
{{- $broken = append $broken "volumeMounts: each needs the name of one of spec.pod.volumes" -}}
{{- end -}}
{{- if not (mustRegexMatch `^(/([^/:.]|[.][^/:.]|[.][.][^/:])[^/:]*)+$` $path) -}}
{{- $broken = append $broken "mountPath must be an absolute path without a colon, empty parts, . and .., and without a slash at its end" -}}
{{- end -}}
{{- range $directory := list "/etc/grid" "/etc/grid-tls" "/etc/grid-wan-tls" "/data" "/backup" "/tmp" "/opt/grid" -}}
{{- $meet := or (hasPrefix (printf "%s/" $directory) (printf "%s/" $path)) (hasPrefix (printf "%s/" $path) (printf "%s/" $directory)) -}}
{{- if $meet -}}
{{- $broken = append $broken "/etc/grid, /etc/grid-tls, /etc/grid-wan-tls, /data, /backup, /tmp, /opt/grid and what is above and below them are the member's own: choose another mountPath" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- mustToJson $broken -}}
{{- end }}

{{- define "grid.rules.containers" -}}
{{- $values := .Values -}}
{{- $ports := list 5702 5704 (include "grid.restPort" . | int) -}}
{{- if $values.metrics.enabled -}}
{{- $ports = append $ports (int $values.metrics.port) -}}
{{- end -}}
{{- if $values.wanListener.enabled -}}
{{- $ports = append $ports (int $values.wanListener.port) -}}
{{- end -}}
{{- $broken := list -}}
{{- range concat ($values.pod.initContainers | default list) ($values.pod.sidecars | default list) -}}
{{- if or (eq .name "member") (hasPrefix "grid-" .name) -}}
{{- $broken = append $broken "container member and those that start with grid- are the operator's own: choose another name" -}}
{{- end -}}
{{- range .ports -}}
{{- if has (.name | default "") (list "rest" "management" "metrics" "members") -}}
{{- $broken = append $broken "ports rest, management, metrics, members are the member's own: choose another name" -}}
{{- end -}}
{{- if has (int .containerPort) $ports -}}
{{- $broken = append $broken "pod: the REST port, the metrics port, the WAN port, 5702 and 5704 are the member's own: all containers of a pod share its ports, choose another containerPort" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $first := $values.pod.initContainers -}}
{{- range $values.pod.sidecars -}}
{{- if eq .name $first.name -}}
{{- $broken = append $broken "initContainers and sidecars: containers of one pod need different names" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- mustToJson $broken -}}
{{- end }}
