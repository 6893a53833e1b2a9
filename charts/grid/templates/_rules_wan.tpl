{{/* As JSON: which rules about spec.wan and spec.wanListener the values break. */}}
{{- define "grid.rules.wan" -}}
{{- $values := .Values -}}
{{- $listener := $values.wanListener -}}
{{- $port := int64 $listener.port -}}
{{- $restPort := int64 (ternary $values.advancedNetwork.restPort $values.rest.port $values.advancedNetwork.enabled) -}}
{{- $metricsPort := ternary (int64 $values.metrics.port) 0 $values.metrics.enabled -}}
{{- $broken := list -}}
{{- if has $port (list (int64 5702) (int64 5704)) -}}
{{- $broken = append $broken "wanListener.port: ports 5702 and 5704 belong to other listeners" -}}
{{- end -}}
{{- if and $listener.enabled (has $port (list $restPort $metricsPort)) -}}
{{- $broken = append $broken "wanListener.port is the REST port or metrics.port: choose another one" -}}
{{- end -}}
{{- if and (not $listener.enabled) (or (hasKey $listener "secretName") $listener.acceptedClusters $listener.from) -}}
{{- $broken = append $broken "wanListener.secretName, acceptedClusters and from have no effect while wanListener.enabled is false" -}}
{{- end -}}
{{- range $listener.from -}}
{{- if or (eq (hasKey . "name") (hasKey . "cidr")) (and (hasKey . "namespace") (not (hasKey . "name"))) -}}
{{- $broken = append $broken "an item of wanListener.from needs name, perhaps with namespace, or cidr" -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey $listener.service "nodePort") (eq $listener.service.type "ClusterIP") -}}
{{- $broken = append $broken "wanListener.service.nodePort needs type NodePort or LoadBalancer" -}}
{{- end -}}
{{- $replications := list -}}
{{- range $values.wan -}}
{{- if has .name $replications -}}
{{- $broken = append $broken (printf "wan: duplicate %s" .name) -}}
{{- end -}}
{{- $replications = append $replications .name -}}
{{- $ids := list -}}
{{- range .publishers -}}
{{- if has .id $ids -}}
{{- $broken = append $broken (printf "publishers: duplicate %s" .id) -}}
{{- end -}}
{{- $ids = append $ids .id -}}
{{- if eq (empty .endpoints | not) (hasKey . "target") -}}
{{- $broken = append $broken "a publisher of spec.wan needs exactly one of endpoints and target" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $values.maps -}}
{{- if and (hasKey . "wan") (not (has .wan.replication $replications)) -}}
{{- $broken = append $broken "maps[].wan.replication must be the name of one of spec.wan" -}}
{{- end -}}
{{- end -}}
{{- mustToJson $broken -}}
{{- end }}
