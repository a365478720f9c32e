{{/* The image of all programs. A chart of a release has one. */}}
{{- define "liqo-tui.image" -}}
{{- required "this chart has no published image: push one where the nodes can pull it, and set image" .Values.image -}}
{{- end }}

{{/*
What is asked of a program's pods in one field, as YAML; nothing if it is nothing:
(list $ PROGRAM FIELD). What is said of the program counts instead of what is said of all.
*/}}
{{- define "liqo-tui.asked" -}}
{{- $values := (index . 0).Values -}}
{{- $own := index $values (index . 1) | default (dict) -}}
{{- $field := index . 2 -}}
{{- if not (or (not (hasKey $own $field)) (kindIs "invalid" (index $own $field)) (eq (index $own $field | toString) "")) -}}
{{- toYaml (index $own $field) -}}
{{- else -}}
{{- with index $values $field }}{{ toYaml . }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The affinity of a program's pods: what is asked, and never a virtual node. (list $ PROGRAM) */}}
{{- define "liqo-tui.affinity" -}}
{{- $virtual := fromJsonArray `[{"key":"liqo.io/type","operator":"NotIn","values":["virtual-node"]},{"key":"type","operator":"NotIn","values":["virtual-kubelet"]},{"key":"eks.amazonaws.com/compute-type","operator":"NotIn","values":["fargate"]}]` -}}
{{- $affinity := include "liqo-tui.asked" (list (index . 0) (index . 1) "affinity") | fromYaml -}}
{{- $node := get $affinity "nodeAffinity" | default (dict) -}}
{{- $required := get $node "requiredDuringSchedulingIgnoredDuringExecution" | default (dict "nodeSelectorTerms" (list (dict))) -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms -}}
{{- $terms = append $terms (set . "matchExpressions" (concat (.matchExpressions | default list) $virtual)) -}}
{{- end -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- toYaml (set $affinity "nodeAffinity" $node) -}}
{{- end }}

{{/* All that is asked of pods, as JSON; nothing if it is nothing. liqo-tui install reads it. */}}
{{- define "liqo-tui.pods" -}}
{{- $all := dict -}}
{{- range $key := list "affinity" "annotations" "fabric" "gateway" "imagePullSecrets" "labels" "logLevel" "nodeSelector" "operator" "priorityClassName" "resources" "tolerations" -}}
{{- with index $.Values $key }}{{ $_ := set $all $key . }}{{ end -}}
{{- end -}}
{{- with $all }}{{ toJson . }}{{ end -}}
{{- end }}
