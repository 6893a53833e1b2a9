{{/* The template of a member pod. It meets the restricted Pod Security Standard. */}}
{{- define "grid.pod" -}}
{{- $pod := .Values.pod -}}
{{- $several := gt (int64 .Values.size) 1 -}}
metadata:
  labels:
    {{- include "grid.yaml" (mustMerge (dict) (mustFromJson (include "grid.lastingLabels" .)) ($pod.labels | default dict)) | nindent 4 }}
  annotations:
    {{- include "grid.yaml" (mustMerge (dict "gridcluster.io/config-hash" (include "grid.configHash" .)) ($pod.annotations | default dict)) | nindent 4 }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Process 1 of a container does not get a SIGTERM that comes while it starts.
  shareProcessNamespace: true
  terminationGracePeriodSeconds: {{ include "grid.graceSeconds" . }}
  securityContext:
    {{- include "grid.podSecurityContext" . | nindent 4 }}
  {{- with include "grid.scheduling" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- if and $several (not (hasKey $pod "affinity")) }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "grid.yaml" (mustFromJson (include "grid.selector" .)) | nindent 16 }}
  {{- end }}
  {{- with $pod.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- include "grid.yaml" . | nindent 4 }}
  {{- end }}
  {{- with $pod.initContainers }}
  initContainers:
    {{- include "grid.yaml" . | nindent 4 }}
  {{- end }}
  {{- with $pod.dnsConfig }}
  dnsConfig:
    {{- include "grid.yaml" . | nindent 4 }}
  {{- end }}
  {{- with $pod.hostAliases }}
  hostAliases:
    {{- include "grid.yaml" . | nindent 4 }}
  {{- end }}
  containers:
    - {{ include "grid.container" . | nindent 6 | trim }}
    {{- with $pod.sidecars }}
    {{- include "grid.yaml" . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "grid.volumes" . | nindent 4 }}
{{- end }}

{{- define "grid.configHash" -}}
{{- $text := .Values.existingConfigMap | default (include "grid.config" .) -}}
{{- sha256sum $text | trunc 16 -}}
{{- end }}

{{/* From the first word of a stop to SIGKILL: a member's stop takes 37 seconds at most after its drain, and several wait for each other before. */}}
{{- define "grid.graceSeconds" -}}
{{- $drain := include "grid.drainSeconds" . | int64 -}}
{{- $grace := int64 .Values.pod.terminationGracePeriodSeconds -}}
{{- if $drain -}}
{{- $grace = max $grace (add $drain 42) -}}
{{- end -}}
{{- if eq (include "grid.waitsForSafe" .) "true" -}}
{{- $grace = add $grace (int64 .Values.update.waitForSafeSeconds) -}}
{{- end -}}
{{- $grace -}}
{{- end }}

{{/* Whether a member that is to stop first waits until the others have what it holds. */}}
{{- define "grid.waitsForSafe" -}}
{{- and (gt (int64 .Values.size) 1) (gt (int64 .Values.update.waitForSafeSeconds) 0) -}}
{{- end }}

{{- define "grid.podSecurityContext" -}}
{{- $wanted := .Values.pod.securityContext | default dict -}}
runAsNonRoot: true
runAsUser: {{ dig "runAsUser" 10001 $wanted | int64 }}
runAsGroup: {{ dig "runAsGroup" 10001 $wanted | int64 }}
fsGroup: {{ dig "fsGroup" 10001 $wanted | int64 }}
# Not on every start: a large volume would take long to walk.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "grid.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where a pod may run and by whose right: the same for all that use the members' image or volumes. */}}
{{- define "grid.scheduling" -}}
{{- $pod := .Values.pod -}}
{{- $tolerations := list -}}
{{- range $pod.tolerations -}}
{{- $tolerations = append $tolerations (mustMerge (dict) . (dict "operator" "Equal")) -}}
{{- end -}}
{{- $fields := dict
  "nodeSelector" $pod.nodeSelector
  "tolerations" $tolerations
  "affinity" $pod.affinity
  "priorityClassName" $pod.priorityClassName
  "runtimeClassName" $pod.runtimeClassName
  "serviceAccountName" $pod.serviceAccountName
  "imagePullSecrets" $pod.imagePullSecrets
-}}
{{- $given := dict -}}
{{- range $key, $value := $fields -}}
{{- if $value -}}
{{- $given = set $given $key $value -}}
{{- end -}}
{{- end -}}
{{- with $given }}{{ include "grid.yaml" . }}{{ end -}}
{{- end }}

{{/* Whether members check certificates, so that the Secret of tls has to hold the authority. */}}
{{- define "grid.needsAuthority" -}}
{{- $clients := dig "clientCertificates" "None" .Values.tls | ne "None" | toString -}}
{{- has "true" (list (include "grid.encryptsMembers" .) (include "grid.waitsForSafe" .) $clients) -}}
{{- end }}

{{- define "grid.volumes" -}}
- name: config
  configMap:
    name: {{ include "grid.configMap" . | quote }}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if hasKey .Values "tls" }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName | quote }}
    items:
      {{- $authority := eq (include "grid.needsAuthority" .) "true" }}
      {{- range concat (list "tls.crt" "tls.key") (ternary (list "ca.crt") list $authority) }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
    defaultMode: 288 # 0440
{{- end }}
{{- if hasKey .Values.persistence "backup" }}
- name: backup
  persistentVolumeClaim:
    claimName: {{ dig "claimName" (printf "%s-backup" (include "grid.name" .)) .Values.persistence.backup | quote }}
{{- end }}
{{- with .Values.pod.volumes }}
{{ include "grid.yaml" . }}
{{- end }}
{{- end }}
