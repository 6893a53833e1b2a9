{{/*
The rules of a spec over several fields, with the words of the API server, which checks them as well. Here
they are refused by `helm template`, too. Rules that compare with the GridCluster before are left to it.
*/}}
{{- define "grid.rules" -}}
{{- $values := .Values -}}
{{- $several := gt (int64 $values.size) 1 -}}
{{- $advanced := $values.advancedNetwork.enabled -}}
{{- $restPort := int64 (ternary $values.advancedNetwork.restPort $values.rest.port $advanced) -}}
{{- $metricsPort := ternary (int64 $values.metrics.port) 0 $values.metrics.enabled -}}
{{- $kept := $values.persistence.enabled -}}
{{- $broken := list -}}

{{- if gt (int64 $values.size) 9 -}}
{{- $broken = append $broken "size above 9 is not supported by this version; an odd number is best" -}}
{{- end -}}
{{- if and $several (eq $restPort 5704) -}}
{{- $broken = append $broken "with size above 1 port 5704 belongs to the members themselves: choose another REST port" -}}
{{- end -}}
{{- if and $several (eq $metricsPort 5704) -}}
{{- $broken = append $broken "with size above 1 port 5704 belongs to the members themselves: choose another metrics.port" -}}
{{- end -}}
{{- if eq $metricsPort $restPort -}}
{{- $broken = append $broken "metrics.port is the REST port: choose another one, or set metrics.enabled to false" -}}
{{- end -}}
{{- if eq $metricsPort 5702 -}}
{{- $broken = append $broken "metrics.port: port 5702 belongs to the management listener" -}}
{{- end -}}
{{- if eq (int64 $values.rest.port) 5702 -}}
{{- $broken = append $broken "rest.port: port 5702 belongs to the management listener" -}}
{{- end -}}
{{- if eq (int64 $values.advancedNetwork.restPort) 5702 -}}
{{- $broken = append $broken "advancedNetwork.restPort: port 5702 belongs to the management listener" -}}
{{- end -}}
{{- if and $advanced (ne (int64 $values.rest.port) 5701) -}}
{{- $broken = append $broken "rest.port belongs to the network section: with advancedNetwork set restPort there" -}}
{{- end -}}
{{- if and (not $advanced) (ne (int64 $values.advancedNetwork.restPort) 5701) -}}
{{- $broken = append $broken "advancedNetwork.restPort has no effect while advancedNetwork.enabled is false" -}}
{{- end -}}
{{- range $values.rest.endpointGroups -}}
{{- if and (eq .name "HealthCheck") (not .enabled) -}}
{{- $broken = append $broken "endpoint group HealthCheck cannot be disabled: the pods' probes need it" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $values.engine "Embedded") $several -}}
{{- $broken = append $broken "engine Embedded is for one member: several need JetStream, or Auto" -}}
{{- end -}}
{{- if and (eq $values.engine "JetStream") (not $several) -}}
{{- $broken = append $broken "engine JetStream is for several members: one needs Embedded, or Auto" -}}
{{- end -}}

{{- range concat ($values.maps | default list) ($values.queues | default list) -}}
{{- if and (not $kept) (hasKey . "dataPersistence") (dig "dataPersistence" "enabled" true .) -}}
{{- $broken = append $broken "dataPersistence of a map or queue needs persistence.enabled" -}}
{{- end -}}
{{- $policy := dig "eviction" "policy" "None" . -}}
{{- if ne (eq $policy "None") (eq (int64 (dig "eviction" "size" 0 .)) 0) -}}
{{- $broken = append $broken "eviction needs both a policy other than None and a size above 0" -}}
{{- end -}}
{{- end -}}

{{- if hasKey $values.persistence "backup" -}}
{{- $backup := $values.persistence.backup -}}
{{- if not $kept -}}
{{- $broken = append $broken "persistence.backup needs persistence.enabled: there is nothing to back up" -}}
{{- end -}}
{{- if eq (hasKey $backup "volume") (hasKey $backup "claimName") -}}
{{- $broken = append $broken "persistence.backup needs exactly one of volume and claimName" -}}
{{- end -}}
{{- if and $several (hasKey $backup "volume") (ne (dig "volume" "accessMode" "" $backup) "ReadWriteMany") -}}
{{- $broken = append $broken "with size above 1 persistence.backup.volume needs accessMode ReadWriteMany: members on several nodes write to it" -}}
{{- end -}}
{{- end -}}
{{- if hasKey $values "restoreFrom" -}}
{{- if not $kept -}}
{{- $broken = append $broken "restoreFrom needs persistence.enabled: there is no volume to restore to" -}}
{{- end -}}
{{- if eq (hasKey $values.restoreFrom "cluster") (hasKey $values.restoreFrom "claimName") -}}
{{- $broken = append $broken "restoreFrom needs exactly one of cluster and claimName" -}}
{{- end -}}
{{- if and (hasKey $values.restoreFrom "claimName") (not (hasKey $values.restoreFrom "member")) -}}
{{- $broken = append $broken "restoreFrom.claimName needs member: the pod name whose backup is taken" -}}
{{- end -}}
{{- end -}}

{{- if and (not $values.security.enabled) (or $values.security.users $values.security.protected) -}}
{{- $broken = append $broken "security.users and security.protected have no effect while security.enabled is false" -}}
{{- end -}}
{{- if and (hasKey $values.exposure "nodePort") (eq $values.exposure.type "ClusterIP") -}}
{{- $broken = append $broken "exposure.nodePort needs type NodePort or LoadBalancer" -}}
{{- end -}}
{{- if and (hasKey $values.exposure "loadBalancerClass") (ne $values.exposure.type "LoadBalancer") -}}
{{- $broken = append $broken "exposure.loadBalancerClass needs type LoadBalancer" -}}
{{- end -}}
{{- if hasKey $values "pausedUntil" -}}
{{- if not (mustRegexMatch "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[-+][0-9]{2}:[0-9]{2})$" $values.pausedUntil) -}}
{{- $broken = append $broken "pausedUntil: must be a time with its zone, such as 2030-01-31T08:00:00Z" -}}
{{- end -}}
{{- end -}}

{{- $broken = concat $broken (mustFromJson (include "grid.rules.pod" .)) (mustFromJson (include "grid.rules.wan" .)) -}}

{{- $named := dict
  "maps" $values.maps
  "queues" $values.queues
  "rest.endpointGroups" $values.rest.endpointGroups
  "security.users" $values.security.users
  "pod.env" $values.pod.env
  "pod.imagePullSecrets" $values.pod.imagePullSecrets
  "pod.volumes" $values.pod.volumes
  "pod.volumeMounts" $values.pod.volumeMounts
  "pod.initContainers" $values.pod.initContainers
  "pod.sidecars" $values.pod.sidecars
-}}
{{- range $list, $items := $named -}}
{{- $seen := list -}}
{{- range $items -}}
{{- $key := ternary .mountPath .name (eq $list "pod.volumeMounts") -}}
{{- if has $key $seen -}}
{{- $broken = append $broken (printf "%s: duplicate %s" $list $key) -}}
{{- end -}}
{{- $seen = append $seen $key -}}
{{- end -}}
{{- end -}}

{{- if $broken -}}
{{- fail (mustUniq $broken | join "; ") -}}
{{- end -}}
{{- end }}
