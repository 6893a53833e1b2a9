{{/* The maps and queues of the configuration, left out where there is none, as JSON. */}}
{{- define "grid.config.structures" -}}
{{- $maps := dict -}}
{{- range .Values.maps -}}
{{- $maps = set $maps .name (mustFromJson (include "grid.config.map" .)) -}}
{{- end -}}
{{- $queues := dict -}}
{{- range .Values.queues -}}
{{- $queue := dict "max-size" (int64 (dig "maxSize" 0 .)) -}}
{{- $queues = set $queues .name (mustMerge $queue (mustFromJson (include "grid.config.dataPersistence" .))) -}}
{{- end -}}
{{- $structures := dict -}}
{{- with $maps -}}
{{- $structures = set $structures "map" . -}}
{{- end -}}
{{- with $queues -}}
{{- $structures = set $structures "queue" . -}}
{{- end -}}
{{- mustToJson $structures -}}
{{- end }}

{{- define "grid.config.map" -}}
{{- $element := dict
  "time-to-live-seconds" (int64 (dig "timeToLiveSeconds" 0 .))
  "max-idle-seconds" (int64 (dig "maxIdleSeconds" 0 .))
-}}
{{- $policy := dig "eviction" "policy" "None" . -}}
{{- if ne $policy "None" -}}
{{- $element = set $element "eviction" (dict
  "eviction-policy" (upper $policy)
  "max-size-policy" (dig "eviction" "maxSizePolicy" "PerNode" . | snakecase | upper)
  "size" (int64 (dig "eviction" "size" 0 .))
) -}}
{{- end -}}
{{- mustToJson (mustMerge $element (mustFromJson (include "grid.config.dataPersistence" .))) -}}
{{- end }}

{{/* What is not written to disk is not synced either: members refuse to be told both. */}}
{{- define "grid.config.dataPersistence" -}}
{{- $element := dict -}}
{{- if hasKey . "dataPersistence" -}}
{{- $enabled := dig "dataPersistence" "enabled" true . -}}
{{- $kept := dict "enabled" $enabled -}}
{{- if $enabled -}}
{{- $kept = set $kept "fsync" (dig "dataPersistence" "fsync" true .) -}}
{{- end -}}
{{- $element = set $element "data-persistence" $kept -}}
{{- end -}}
{{- mustToJson $element -}}
{{- end }}
