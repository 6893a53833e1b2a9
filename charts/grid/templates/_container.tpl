{{/* The member container. */}}
{{- define "grid.container" -}}
{{- $values := .Values -}}
{{- $several := gt (int64 $values.size) 1 -}}
{{- $scheme := ternary "HTTPS" "HTTP" (hasKey $values "tls") -}}
name: member
image: {{ include "grid.image" . | quote }}
imagePullPolicy: {{ $values.imagePullPolicy }}
args: [--config, /etc/grid/grid.yaml]
env:
  {{- include "grid.environment" . | nindent 2 }}
{{- with $values.pod.envFrom }}
envFrom:
  {{- include "grid.yaml" . | nindent 2 }}
{{- end }}
ports:
  - name: rest
    containerPort: {{ include "grid.restPort" . }}
    protocol: TCP
  {{- if $values.management.enabled }}
  - name: management
    containerPort: 5702
    protocol: TCP
  {{- end }}
  {{- if $values.metrics.enabled }}
  - name: metrics
    containerPort: {{ int64 $values.metrics.port }}
    protocol: TCP
  {{- end }}
  {{- if $several }}
  - name: members
    containerPort: 5704
    protocol: TCP
  {{- end }}
# A large store is read before the first answer.
startupProbe:
  httpGet: {path: /grid/health/node-state, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 1
  timeoutSeconds: 2
  failureThreshold: 600
livenessProbe:
  httpGet: {path: /grid/health/node-state, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /grid/health/ready, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- if eq (include "grid.waitsForSafe" .) "true" }}
# The next member goes only when the cluster can spare it, or after that time.
lifecycle:
  preStop:
    exec:
      command:
        {{- include "grid.drainCommand" . | nindent 8 }}
{{- end }}
resources:
  {{- include "grid.resources" . | nindent 2 }}
securityContext:
  {{- include "grid.containerSecurityContext" . | nindent 2 }}
# What a start that fails says is the last line of the log.
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
  - name: config
    mountPath: /etc/grid
    readOnly: true
  - name: tmp
    mountPath: /tmp
  {{- if hasKey $values "tls" }}
  - name: tls
    mountPath: /etc/grid-tls
    readOnly: true
  {{- end }}
  {{- if $values.persistence.enabled }}
  - name: data
    mountPath: /data
  {{- end }}
  {{- if hasKey $values.persistence "backup" }}
  - name: backup
    mountPath: /backup
  {{- end }}
  {{- with $values.pod.volumeMounts }}
  {{- include "grid.yaml" . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Asks the pod's own member. Its certificate is for its name, which the pod itself may not have in DNS any more. */}}
{{- define "grid.drainCommand" -}}
{{- $port := include "grid.restPort" . -}}
- grid-member
- client
- drain
- --timeout
- {{ int64 .Values.update.waitForSafeSeconds | toString | quote }}
{{- if hasKey .Values "tls" }}
- --url
- https://${GRID_PUBLIC_ADDRESS}:{{ $port }}
- --connect
- 127.0.0.1
- --ca
- /etc/grid-tls/ca.crt
{{- else }}
- --url
- http://127.0.0.1:{{ $port }}
{{- end }}
{{- end }}

{{/* Amounts are text to Kubernetes; a number of many digits would become one with an exponent. */}}
{{- define "grid.resources" -}}
{{- $resources := dict -}}
{{- range $kind := list "requests" "limits" -}}
{{- $amounts := dict -}}
{{- range $name, $amount := dig $kind dict $.Values.pod.resources -}}
{{- $amounts = set $amounts $name (kindIs "string" $amount | ternary $amount (int64 $amount | toString)) -}}
{{- end -}}
{{- with $amounts -}}
{{- $resources = set $resources $kind . -}}
{{- end -}}
{{- end -}}
{{- include "grid.yaml" $resources -}}
{{- end }}

{{/* Kubernetes expands variables that stand above in the list. */}}
{{- define "grid.environment" -}}
{{- $values := .Values -}}
{{- $name := include "grid.name" . -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- if $values.management.enabled }}
- name: GRID_MANAGEMENT_USERNAME
  valueFrom: {secretKeyRef: {name: {{ $values.management.existingSecret | quote }}, key: username}}
- name: GRID_MANAGEMENT_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $values.management.existingSecret | quote }}, key: password}}
{{- end }}
{{- if $values.security.enabled }}
- name: GRID_IDENTITY_USERNAME
  valueFrom: {secretKeyRef: {name: {{ printf "%s-identity" $name | quote }}, key: username}}
- name: GRID_IDENTITY_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ printf "%s-identity" $name | quote }}, key: password}}
{{- range $index, $user := mustFromJson (include "grid.users" .) }}
- name: GRID_USER_{{ $index }}_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $user.secretName | quote }}, key: password}}
{{- end }}
{{- end }}
- name: GRID_DATA_DIR
  value: /data
{{- if $values.management.enabled }}
- name: GRID_PARKED_FILE
  value: /tmp/parked
{{- end }}
- name: GRID_PUBLIC_ADDRESS
  value: $(POD_NAME).{{ $name }}-members.$(POD_NAMESPACE).svc
{{- if gt (int64 $values.size) 1 }}
{{- range $ordinal := until (int $values.size) }}
- name: GRID_MEMBER_{{ $ordinal }}
  value: {{ $name }}-{{ $ordinal }}.{{ $name }}-members.$(POD_NAMESPACE).svc
{{- end }}
{{- end }}
{{- if hasKey $values.persistence "backup" }}
- name: GRID_BACKUP_DIR
  value: /backup
{{- end }}
{{- if hasKey $values "tls" }}
- name: GRID_TLS_DIR
  value: /etc/grid-tls
{{- end }}
{{- range $values.pod.env }}
{{- $variable := ternary . (dict "name" .name "value" (.value | default "")) (hasKey . "valueFrom") }}
{{ include "grid.yaml" (list (pick $variable "name" (ternary "valueFrom" "value" (hasKey . "valueFrom")))) }}
{{- end }}
{{- end }}
