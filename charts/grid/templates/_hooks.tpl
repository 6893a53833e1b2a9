{{/* Pods of the release that ask members, or look at their configuration: with the members' own image. */}}

{{/* Annotations of a hook. Takes a dict: `on` and `weight`. A hook that failed stays, with its log, for a day. */}}
{{- define "grid.hook" -}}
{{- mustToJson (dict
  "helm.sh/hook" .on
  "helm.sh/hook-weight" (toString .weight)
  "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded"
  "helm.sh/hook-output-log-policy" "hook-failed"
) -}}
{{- end }}

{{/*
The pod template of such a pod. Takes a dict: `root`, `args`, and perhaps `env` (as text) and `envFrom`, `configMap`,
`credentials` (whether it shows those of the management listener) and `authority` (whether it asks members, by TLS where
they have it).
*/}}
{{- define "grid.caller" -}}
metadata:
  labels:
    {{- include "grid.yaml" (mustFromJson (include "grid.callerLabels" .root)) | nindent 4 }}
spec:
  {{- include "grid.callerSpec" . | nindent 2 }}
{{- end }}

{{- define "grid.callerSpec" -}}
{{- $root := .root -}}
{{- $tls := and .authority (hasKey $root.Values "tls") -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "grid.podSecurityContext" $root | nindent 2 }}
{{- with include "grid.callerScheduling" $root }}
{{ . }}
{{- end }}
containers:
  - name: client
    image: {{ include "grid.image" $root | quote }}
    imagePullPolicy: {{ $root.Values.imagePullPolicy }}
    args:
      {{- include "grid.yaml" .args | nindent 6 }}
    {{- with .env }}
    env:
      {{- . | nindent 6 }}
    {{- end }}
    {{- with .envFrom }}
    envFrom:
      {{- include "grid.yaml" . | nindent 6 }}
    {{- end }}
    resources:
      requests: {cpu: 50m, memory: 64Mi}
      {{- /* A quota of limits.cpu refuses pods without one: where members have one, so have these. */}}
      limits: {memory: 128Mi
        {{- with dig "resources" "limits" "cpu" "" $root.Values.pod }}, cpu: {{ toString . | quote }}{{ end }}}
    securityContext:
      {{- include "grid.containerSecurityContext" $root | nindent 6 }}
    terminationMessagePolicy: FallbackToLogsOnError
    {{- if or .configMap .credentials $tls }}
    volumeMounts:
      {{- if .configMap }}
      - {name: config, mountPath: /etc/grid, readOnly: true}
      {{- end }}
      {{- if .credentials }}
      - {name: credentials, mountPath: /etc/grid-management, readOnly: true}
      {{- end }}
      {{- if $tls }}
      - {name: tls, mountPath: /etc/grid-tls, readOnly: true}
      {{- end }}
    {{- end }}
{{- if or .configMap .credentials $tls }}
volumes:
  {{- if .configMap }}
  - name: config
    configMap:
      name: {{ .configMap | quote }}
      # Without it the check says so at once, and does not wait.
      optional: true
  {{- end }}
  {{- if .credentials }}
  - name: credentials
    secret:
      secretName: {{ $root.Values.management.existingSecret | quote }}
      optional: true
      defaultMode: 288 # 0440
  {{- end }}
  {{- if $tls }}
  - name: tls
    secret:
      secretName: {{ $root.Values.tls.secretName | quote }}
      items:
        - key: {{ include "grid.trustedKey" $root }}
          path: {{ include "grid.trustedKey" $root }}
      # Where this upgrade makes it, such as by cert-manager, no member runs with it that could be asked.
      optional: true
      defaultMode: 288 # 0440
  {{- end }}
{{- end }}
{{- end }}

{{/* As for members, but for what keeps members apart: with a member on each node no node would be left. */}}
{{- define "grid.callerScheduling" -}}
{{- $pod := deepCopy .Values.pod -}}
{{- with $pod.affinity -}}
{{- $pod = set $pod "affinity" (pick . "nodeAffinity") -}}
{{- end -}}
{{- include "grid.scheduling" (dict "Values" (dict "pod" $pod)) -}}
{{- end }}

{{/* What tells that a member is one: the authority where the Secret has to hold it, else the members' certificate itself. */}}
{{- define "grid.trustedKey" -}}
{{- ternary "ca.crt" "tls.crt" (eq (include "grid.needsAuthority" .) "true") -}}
{{- end }}

{{/* The URL of the REST port of each member, with its ordinal left open. */}}
{{- define "grid.memberUrl" -}}
{{- $name := include "grid.name" . -}}
{{- printf "%s://%s-{ordinal}.%s-members.%s.svc:%s" (ternary "https" "http" (hasKey .Values "tls")) $name $name .Release.Namespace (include "grid.restPort" .) -}}
{{- end }}

{{/* Arguments that say where members are and what they trust, as JSON: their management listener where there is one. */}}
{{- define "grid.managementArguments" -}}
{{- $url := include "grid.memberUrl" . -}}
{{- $arguments := list -}}
{{- if .Values.management.enabled -}}
{{- $url = regexReplaceAll ":[0-9]+$" $url ":5702" -}}
{{- $arguments = list "--credentials" "/etc/grid-management" -}}
{{- else -}}
{{- $arguments = list "--cluster-name" .Values.clusterName -}}
{{- end -}}
{{- mustToJson (concat (list "--url" $url) (mustFromJson (include "grid.trustArguments" .)) $arguments) -}}
{{- end }}

{{- define "grid.trustArguments" -}}
{{- $arguments := list -}}
{{- if hasKey .Values "tls" -}}
{{- $arguments = list "--ca" (printf "/etc/grid-tls/%s" (include "grid.trustedKey" .)) -}}
{{- end -}}
{{- mustToJson $arguments -}}
{{- end }}

{{/* The endpoint groups of the REST port that are on, of those that the values decide about, as JSON. */}}
{{- define "grid.groupsOn" -}}
{{- $on := dict "ClusterRead" true "ClusterWrite" false "HealthCheck" true "Persistence" false "Wan" false "Data" false "Cp" false -}}
{{- range .Values.rest.endpointGroups -}}
{{- $on = set $on .name .enabled -}}
{{- end -}}
{{- mustToJson $on -}}
{{- end }}
