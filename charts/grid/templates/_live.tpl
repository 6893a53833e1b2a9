{{/*
Refuses changes that a StatefulSet does not take, or that members would not survive. What is there is seen by Helm only
where it has a cluster to look at: elsewhere the API server, the members or the Job before the upgrade refuse, in other
words. Nothing that is rendered depends on it.
*/}}
{{- define "grid.refuse.live" -}}
{{- $name := include "grid.name" . -}}
{{- $live := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- /* Of another one's StatefulSet Helm itself says that it is another one's. */ -}}
{{- if eq (dig "metadata" "labels" "app.kubernetes.io/name" "" $live) "grid" -}}
{{- range dig "metadata" "ownerReferences" list $live -}}
{{- if eq .kind "GridCluster" -}}
{{- fail (printf "mode: StatefulSet: an operator runs the members of the GridCluster %s, and they are not handed back: set mode: GridCluster, or another nameOverride" $name) -}}
{{- end -}}
{{- end -}}
{{- $variables := dict -}}
{{- range (index $live.spec.template.spec.containers 0).env -}}
{{- $variables = set $variables .name true -}}
{{- end -}}
{{- $seen := dict "root" . "live" $live "variables" $variables "before" (include "grid.listedMembers" $live) "runs" (gt (int64 $live.spec.replicas) 0) -}}
{{- include "grid.refuse.liveSize" $seen -}}
{{- include "grid.refuse.liveClaims" $seen -}}
{{- include "grid.refuse.liveIdentity" $seen -}}
{{- end -}}
{{- end }}

{{/* How many members the pods of a StatefulSet know. Scaled by hand they are as many as before to each other. */}}
{{- define "grid.listedMembers" -}}
{{- $listed := 0 -}}
{{- range .spec.template.spec.containers -}}
{{- if eq .name "member" -}}
{{- range .env -}}
{{- $listed = hasPrefix "GRID_MEMBER_" .name | ternary (add1 $listed) $listed -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- max 1 $listed -}}
{{- end }}

{{/* The members of now are those that the pod template lists: replicas may be 0, or changed by hand. */}}
{{- define "grid.refuse.liveSize" -}}
{{- $values := .root.Values -}}
{{- $size := int64 $values.size -}}
{{- $before := int64 .before -}}
{{- $change := printf "size: %d instead of %d" $size $before -}}
{{- $stopped := or (not .runs) (eq $values.runState "Stopped") -}}
{{- if and (ne $size $before) (or (eq $size 1) (eq $before 1)) -}}
{{- fail (printf "%s: a single member keeps its data in another way than several do: set it back to %d; for another number make a backup, and begin another release with it (config.persistence.restore-from)" $change $before) -}}
{{- end -}}
{{- if and (ne $size $before) $stopped -}}
{{- fail (printf "%s: no member joins or leaves a cluster that does not run: set it back to %d, start the members with runState: Running, and change size then" $change $before) -}}
{{- end -}}
{{- if lt $size $before -}}
{{- if not $values.management.enabled -}}
{{- fail (printf "%s: members that are gone would still count, and nothing tells them to leave before: set it back to %d, or set management.enabled, with which members leave one after the other" $change $before) -}}
{{- end -}}
{{- if not (hasKey .variables "GRID_MANAGEMENT_USERNAME") -}}
{{- fail (printf "%s: the members of now do not listen for management yet: set it back to %d, upgrade with management.enabled, and change size then" $change $before) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "grid.refuse.liveClaims" -}}
{{- $persistence := .root.Values.persistence -}}
{{- $anew := "make a backup, and begin another release with it (config.persistence.restore-from)" -}}
{{- $claim := dict -}}
{{- range dig "spec" "volumeClaimTemplates" list .live -}}
{{- if eq .metadata.name "data" -}}
{{- $claim = .spec -}}
{{- end -}}
{{- end -}}
{{- if ne (empty $claim) (not $persistence.enabled) -}}
{{- fail (printf "persistence.enabled: the claims of a StatefulSet are fixed: set it back to %t; to change it %s" (not $persistence.enabled) $anew) -}}
{{- end -}}
{{- if $claim -}}
{{- $size := $claim.resources.requests.storage -}}
{{- if ne (include "grid.bytes" $size) (include "grid.bytes" $persistence.size) -}}
{{- fail (printf "persistence.size: %s instead of %s: the claims of a StatefulSet are fixed: set it back; for larger volumes make the claims data-%s-N larger, run kubectl delete statefulset %s --cascade=orphan -n %s, and upgrade again; for smaller ones %s" $persistence.size $size .live.metadata.name .live.metadata.name .root.Release.Namespace $anew) -}}
{{- end -}}
{{- $class := dig "storageClassName" "" $claim -}}
{{- $wanted := dig "storageClassName" "" $persistence -}}
{{- if or (ne $class $wanted) (ne (hasKey $claim "storageClassName") (hasKey $persistence "storageClassName")) -}}
{{- fail (printf "persistence.storageClassName: %q instead of %q: the claims of a StatefulSet are fixed: set it back; for another class %s" $wanted $class $anew) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Several members let in only what shows the same cluster name and identity, and speaks TLS or plain text as they do. */}}
{{- define "grid.refuse.liveIdentity" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- if and (gt (int64 $values.size) 1) (not $values.existingConfigMap) -}}
{{- $config := lookup "v1" "ConfigMap" $root.Release.Namespace (printf "%s-config" (include "grid.name" $root)) -}}
{{- $text := dig "data" "grid.yaml" "" $config -}}
{{- $name := mustRegexFind `(?m)^ +cluster-name: .+$` $text | replace "cluster-name:" "" | trim | trimAll "\"'" -}}
{{- $tls := mustRegexMatch `(?m)^ +ca-file: ` $text -}}
{{- $fields := list -}}
{{- if and $name (ne $name $values.clusterName) -}}
{{- if $values.persistence.enabled -}}
{{- fail (printf "clusterName: %s instead of %s: the data of several members is of the cluster of its former name, and no member of another name starts on it: set it back; for another name make a backup, and begin another release with it (config.persistence.restore-from)" $values.clusterName $name) -}}
{{- end -}}
{{- $fields = append $fields "clusterName" -}}
{{- end -}}
{{- if ne (hasKey .variables "GRID_IDENTITY_USERNAME") $values.security.enabled -}}
{{- $fields = append $fields "security.enabled" -}}
{{- end -}}
{{- if and $text (ne $tls (eq (include "grid.encryptsMembers" $root) "true")) -}}
{{- $fields = append $fields (ternary "tls.members" "tls" (hasKey $values "tls")) -}}
{{- end -}}
{{- if and $fields .runs (ne $values.runState "Stopped") -}}
{{- $lost := ternary "" "; what they have in memory only is lost" $values.persistence.enabled -}}
{{- fail (printf "%s: members of now and members that start with the change would never join each other: set it back, or upgrade with runState: Stopped, wait until no pod is left, and upgrade with Running, so that all members change at once%s" (join " and " $fields) $lost) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A quantity as a number of bytes, in text: 1Gi is 1024Mi. */}}
{{- define "grid.bytes" -}}
{{- $text := toString . -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $number := mustRegexFind `^[0-9.]+([eE][0-9]+)?` $text -}}
{{- printf "%.0f" (mulf (float64 $number) (float64 (get $units (trimPrefix $number $text)))) -}}
{{- end }}
