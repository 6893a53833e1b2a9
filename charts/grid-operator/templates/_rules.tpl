{{/* What the operator needs wherever it looks after GridClusters. Takes a dict with `everywhere`. */}}
{{- define "grid-operator.rules" -}}
# With patch for its finalizers alone, which the operator sets only where it looks after all namespaces.
- apiGroups: [gridcluster.io]
  resources: [gridclusters]
  verbs: [get, list, watch{{ if .everywhere }}, patch{{ end }}]
- apiGroups: [gridcluster.io]
  resources: [gridclusters/status]
  verbs: [patch]
# Children name their GridCluster as an owner that blocks deletion; where the API server checks
# the right to say so, this is that right.
- apiGroups: [gridcluster.io]
  resources: [gridclusters/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps, secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
# Without the right to delete: no volume goes because of a mistake of the operator.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# Whether it is being deleted; in a Role, of its own namespace alone.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# To list: Events alone say what forbids a pod, and what a volume waits for.
- apiGroups: [""]
  resources: [events]
  verbs: [create, list]
{{- end }}

{{- define "grid-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "grid-operator.serviceAccount" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
