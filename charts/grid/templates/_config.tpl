{{/*
The members' configuration, as JSON. It is built as a tree and written at once: names of maps and queues may look like
anything. What differs from member to member, and every credential, is a variable of the member's environment.
*/}}
{{- define "grid.config" -}}
{{- $values := .Values -}}
{{- $tree := dict "cluster-name" $values.clusterName "instance-name" "${POD_NAME}" -}}
{{- if $values.advancedNetwork.enabled -}}
{{- $tree = set $tree "advanced-network" (mustFromJson (include "grid.config.advancedNetwork" .)) -}}
{{- else -}}
{{- $tree = set $tree "network" (mustFromJson (include "grid.config.network" .)) -}}
{{- end -}}
{{- with mustFromJson (include "grid.config.security" .) -}}
{{- $tree = set $tree "security" . -}}
{{- end -}}
{{- if $values.persistence.enabled -}}
{{- $tree = set $tree "persistence" (mustFromJson (include "grid.config.persistence" .)) -}}
{{- end -}}
{{- with mustFromJson (include "grid.config.shutdown" .) -}}
{{- $tree = set $tree "shutdown" . -}}
{{- end -}}
{{- $tree = mustMerge $tree (mustFromJson (include "grid.config.structures" .)) -}}
{{- if $values.metrics.enabled -}}
{{- $tree = set $tree "metrics" (dict
  "enabled" true
  "port" (dict "port" (int64 $values.metrics.port) "auto-increment" false)
  "interfaces" (mustFromJson (include "grid.config.interfaces" .))
) -}}
{{- end -}}
{{- $tree = set $tree "logging" (dict "format" (lower $values.logging.format) "level" (lower $values.logging.level)) -}}
{{- include "grid.config.refuse" (dict "path" "config" "own" $tree "given" ($values.config | default dict)) -}}
{{- mustToJson (dict "grid" (mustMerge $tree (deepCopy ($values.config | default dict)))) -}}
{{- end }}

{{/* Refuses what `config` says otherwise than the chart. Takes a dict: `path`, and at that path `own` and `given`. */}}
{{- define "grid.config.refuse" -}}
{{- $path := .path -}}
{{- $own := .own -}}
{{- range $key, $value := .given -}}
{{- if hasKey $own $key -}}
{{- $below := printf "%s.%s" $path $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $own $key)) -}}
{{- include "grid.config.refuse" (dict "path" $below "own" (get $own $key) "given" $value) -}}
{{- else -}}
{{- fail (printf "%s is set by the chart: remove it, set the value that it comes from, or bring all of the configuration with existingConfigMap" $below) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "grid.config.network" -}}
{{- $values := .Values -}}
{{- $network := dict
  "port" (dict "port" (int64 $values.rest.port) "auto-increment" false)
  "public-address" "${GRID_PUBLIC_ADDRESS}"
  "interfaces" (mustFromJson (include "grid.config.interfaces" .))
  "rest-api" (mustMerge (dict "enabled" true) (mustFromJson (include "grid.config.endpointGroups" .)))
-}}
{{- if $values.management.enabled -}}
{{- $network = set $network "management" (mustMerge
  (dict "enabled" true "port" (dict "port" 5702 "auto-increment" false) "realm" "management")
  (mustFromJson (include "grid.config.ssl" .))
) -}}
{{- end -}}
{{- if gt (int64 $values.size) 1 -}}
{{- $network = set $network "join" (mustFromJson (include "grid.config.join" .)) -}}
{{- $network = set $network "cluster" (mustMerge (dict "port" (dict "port" 5704)) (mustFromJson (include "grid.config.membersSsl" .))) -}}
{{- end -}}
{{- mustToJson (mustMerge $network (mustFromJson (include "grid.config.ssl" .))) -}}
{{- end }}

{{- define "grid.config.advancedNetwork" -}}
{{- $values := .Values -}}
{{- $interfaces := mustFromJson (include "grid.config.interfaces" .) -}}
{{- $ssl := mustFromJson (include "grid.config.ssl" .) -}}
{{- $rest := dict
  "port" (dict "port" (int64 $values.advancedNetwork.restPort) "auto-increment" false)
  "public-address" "${GRID_PUBLIC_ADDRESS}"
  "interfaces" $interfaces
-}}
{{- $rest = mustMerge $rest $ssl (mustFromJson (include "grid.config.endpointGroups" .)) -}}
{{- $network := dict "enabled" true "rest-server-socket-endpoint-config" $rest -}}
{{- if $values.management.enabled -}}
{{- $network = set $network "management-server-socket-endpoint-config" (mustMerge
  (dict "port" (dict "port" 5702 "auto-increment" false) "interfaces" $interfaces "realm" "management")
  $ssl
) -}}
{{- end -}}
{{- if gt (int64 $values.size) 1 -}}
{{- $network = set $network "join" (mustFromJson (include "grid.config.join" .)) -}}
{{- $network = set $network "member-server-socket-endpoint-config" (mustMerge
  (dict "port" (dict "port" 5704) "interfaces" $interfaces)
  (mustFromJson (include "grid.config.membersSsl" .))
) -}}
{{- end -}}
{{- mustToJson $network -}}
{{- end }}

{{/* All members, each by a name of its own: behind one name for all some might find each other and not the rest. */}}
{{- define "grid.config.join" -}}
{{- $hosts := list -}}
{{- range $ordinal := until (int .Values.size) -}}
{{- $hosts = append $hosts (printf "${GRID_MEMBER_%d}" $ordinal) -}}
{{- end -}}
{{- mustToJson (dict "tcp-ip" (dict "enabled" true "member-list" $hosts)) -}}
{{- end }}

{{- define "grid.config.interfaces" -}}
{{- mustToJson (dict "enabled" true "interfaces" (list "${GRID_BIND_ADDRESS:*}")) -}}
{{- end }}

{{- define "grid.config.endpointGroups" -}}
{{- $groups := dict -}}
{{- range .Values.rest.endpointGroups -}}
{{- $groups = set $groups (snakecase .name | upper) (dict "enabled" .enabled) -}}
{{- end -}}
{{- mustToJson (ternary (dict "endpoint-groups" $groups) dict (not (empty $groups))) -}}
{{- end }}

{{- define "grid.config.keyPair" -}}
{{- mustToJson (dict "enabled" true "certificate-file" "${GRID_TLS_DIR}/tls.crt" "key-file" "${GRID_TLS_DIR}/tls.key") -}}
{{- end }}

{{/* Of the REST port and the management listener, as an element to merge. */}}
{{- define "grid.config.ssl" -}}
{{- $element := dict -}}
{{- with .Values.tls -}}
{{- $ssl := mustFromJson (include "grid.config.keyPair" $) -}}
{{- $clients := dig "clientCertificates" "None" . -}}
{{- if ne $clients "None" -}}
{{- $ssl = mustMerge $ssl (dict "client-certificates" (lower $clients) "client-ca-file" "${GRID_TLS_DIR}/ca.crt") -}}
{{- end -}}
{{- $element = set $element "ssl" $ssl -}}
{{- end -}}
{{- mustToJson $element -}}
{{- end }}

{{- define "grid.config.membersSsl" -}}
{{- $element := dict -}}
{{- if eq (include "grid.encryptsMembers" .) "true" -}}
{{- $ssl := mustFromJson (include "grid.config.keyPair" .) -}}
{{- $element = set $element "ssl" (set $ssl "ca-file" "${GRID_TLS_DIR}/ca.crt") -}}
{{- end -}}
{{- mustToJson $element -}}
{{- end }}

{{- define "grid.encryptsMembers" -}}
{{- $values := .Values -}}
{{- and (hasKey $values "tls") (gt (int64 $values.size) 1) (dig "members" true ($values.tls | default dict)) -}}
{{- end }}

{{- define "grid.config.security" -}}
{{- $security := dict -}}
{{- $realms := list -}}
{{- if .Values.management.enabled -}}
{{- $user := dict "username" "${GRID_MANAGEMENT_USERNAME}" "password" "${GRID_MANAGEMENT_PASSWORD}" -}}
{{- $realms = append $realms (dict "name" "management" "authentication" (dict "simple" (dict "users" (list $user)))) -}}
{{- end -}}
{{- if .Values.security.enabled -}}
{{- $security = dict "enabled" true "member-authentication" (dict "realm" "members") -}}
{{- with .Values.security.protected -}}
{{- $protected := list -}}
{{- range . -}}
{{- $protected = append $protected (snakecase . | upper) -}}
{{- end -}}
{{- $security = set $security "rest" (dict "protected" (mustUniq $protected | sortAlpha)) -}}
{{- end -}}
{{- $realms = append $realms (mustFromJson (include "grid.config.memberRealm" .)) -}}
{{- end -}}
{{- with $realms -}}
{{- $security = set $security "realms" . -}}
{{- end -}}
{{- mustToJson $security -}}
{{- end }}

{{- define "grid.config.memberRealm" -}}
{{- $identity := dict "username" "${GRID_IDENTITY_USERNAME}" "password" "${GRID_IDENTITY_PASSWORD}" -}}
{{- $realm := dict "name" "members" "identity" (dict "username-password" $identity) -}}
{{- $users := list -}}
{{- range $index, $user := mustFromJson (include "grid.users" .) -}}
{{- $users = append $users (dict "username" $user.name "password" (printf "${GRID_USER_%d_PASSWORD}" $index)) -}}
{{- end -}}
{{- with $users -}}
{{- $realm = set $realm "authentication" (dict "simple" (dict "users" .)) -}}
{{- end -}}
{{- mustToJson $realm -}}
{{- end }}

{{/* The users of `security` in the order of their names, as JSON: their variables are counted by it. */}}
{{- define "grid.users" -}}
{{- $secrets := dict -}}
{{- range .Values.security.users -}}
{{- $secrets = set $secrets .name .secretName -}}
{{- end -}}
{{- $users := list -}}
{{- range keys $secrets | sortAlpha -}}
{{- $users = append $users (dict "name" . "secretName" (get $secrets .)) -}}
{{- end -}}
{{- mustToJson $users -}}
{{- end }}

{{- define "grid.config.persistence" -}}
{{- $persistence := .Values.persistence -}}
{{- $element := dict
  "enabled" true
  "base-dir" "${GRID_DATA_DIR}/persistence"
  "cluster-data-recovery-policy" (snakecase $persistence.recoveryPolicy | upper)
  "validation-timeout-seconds" (int64 $persistence.validationTimeoutSeconds)
-}}
{{- if hasKey $persistence "backup" -}}
{{- /* Of several members any makes a backup of all data: one directory, in which the newest is found. */ -}}
{{- $member := ternary (printf "%s-0" (include "grid.name" .)) "${POD_NAME}" (gt (int64 .Values.size) 1) -}}
{{- $element = set $element "backup-dir" (printf "${GRID_BACKUP_DIR}/%s" $member) -}}
{{- end -}}
{{- mustToJson $element -}}
{{- end }}

{{- define "grid.drainSeconds" -}}
{{- dig "drainSeconds" (ternary 5 0 (gt (int64 .Values.size) 1)) (.Values.shutdown | default dict) | int64 -}}
{{- end }}

{{- define "grid.config.shutdown" -}}
{{- $element := dict -}}
{{- if .Values.management.enabled -}}
{{- $element = set $element "parked-file" "${GRID_PARKED_FILE}" -}}
{{- end -}}
{{- $drain := include "grid.drainSeconds" . | int64 -}}
{{- if $drain -}}
{{- $element = set $element "drain-seconds" $drain -}}
{{- end -}}
{{- mustToJson $element -}}
{{- end }}
