{{/* Labels of every object; pass the component: (dict "root" $ "component" "operator") */}}
{{- define "kais.labels" -}}
{{ include "kais.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The labels that find the pods of one component. */}}
{{- define "kais.selector" -}}
app.kubernetes.io/name: kais
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* An image of the values, with the chart's appVersion for an empty tag. */}}
{{- define "kais.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Where pods reach the knowledge service. */}}
{{- define "kais.knowledgeUrl" -}}
http://{{ .Release.Name }}-knowledge.{{ .Release.Namespace }}.svc.cluster.local:8000
{{- end }}

{{/* What both pods may do: nothing that their work does not need. */}}
{{- define "kais.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "kais.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/*
Resources of the renderer. `helm upgrade --reuse-values` keeps the values of the former chart: those from
before the renderer lack it, and get what values.yaml has.
*/}}
{{- define "kais.rendererResources" -}}
{{- dig "renderer" "resources" (include "kais.rendererDefaults" . | fromYaml) .Values.operator | toYaml }}
{{- end }}

{{- define "kais.rendererDefaults" -}}
requests:
  cpu: 100m
  memory: 128Mi
limits:
  memory: 1Gi
{{- end }}

{{/* Who may do what at the knowledge service: its administrators' account, and the people of the values. */}}
{{- define "kais.people" -}}
{{- $account := printf "system:serviceaccount:%s:%s-knowledge-admin" .Release.Namespace .Release.Name }}
{{- $admin := dict "user" $account "scope" "platform" "subtree" true "verbs" (list "admin") }}
{{- concat (list $admin) (.Values.knowledge.people | default list) | toJson }}
{{- end }}

{{/* The models of knowledge.extraction as JSON; secretKey becomes the path of the mounted key. */}}
{{- define "kais.extractionModels" -}}
{{- $models := dict }}
{{- range $name, $model := . }}
{{- $endpoint := omit $model "secretKey" }}
{{- with $model.secretKey }}
{{- $_ := set $endpoint "keyFile" (printf "/etc/kais-extraction/%s" .) }}
{{- end }}
{{- $_ := set $models $name $endpoint }}
{{- end }}
{{- toJson $models }}
{{- end }}

{{/*
Two operators of one namespace would share a Lease and the calls that wait for the knowledge service: one of
them would do nothing, and look healthy.
*/}}
{{- define "kais.requireOwnNamespace" -}}
{{- range (lookup "apps/v1" "Deployment" .Release.Namespace "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- $release := index $labels "app.kubernetes.io/instance" | default "" }}
{{- $isOperator := and (eq (index $labels "app.kubernetes.io/name" | default "") "kais") (eq (index $labels "app.kubernetes.io/component" | default "") "operator") }}
{{- if and $isOperator (ne $release $.Release.Name) }}
{{- fail (printf "the namespace %s already has the release %s of kais; install each release in a namespace of its own" $.Release.Namespace $release) }}
{{- end }}
{{- end }}
{{- end }}
