package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// unreleased is the version of the chart in the repository.
const unreleased = "0.0.0"

// Release has the values that differ between releases of the chart.
type Release struct {
	Version string
	Image   string // "" if none was published
}

// static has the files that don't follow from objects.
//
//go:embed all:static
var static embed.FS

// namespace stands for the release's namespace while objects are rendered.
const namespace = "release-namespace"

// Files returns the files of the chart, by their paths.
func Files(r Release) (map[string]string, error) {
	p := render.InstallParams{Namespace: namespace}
	for i, s := range settings() {
		s.Read(&p, cmp.Or(number(s, i), "§"+s.Name+"§"))
	}
	objects, err := render.Install(p)
	if err != nil {
		return nil, err
	}
	h := &holes{}
	texts := map[string]string{}
	for _, o := range objects {
		u, err := apply.Wanted(o)
		if err != nil {
			return nil, err
		}
		kind := u.GetKind()
		if kind == "Namespace" {
			continue // Helm creates the namespace of the release before
		}
		if kind == "CustomResourceDefinition" {
			text, err := yaml.Marshal(u.Object)
			if err != nil {
				return nil, err
			}
			texts["crds/"+u.GetName()+".yaml"] = string(text)
			continue
		}
		h.cut(kind, u.Object)
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", apply.Name(o), err)
		}
		filled := h.fill(fitted(escaped(string(text))))
		if render.Optional(o) {
			filled = "{{- if $.Capabilities.APIVersions.Has \"" + u.GetAPIVersion() + "/" + kind + "\" }}\n---\n" + filled + "{{- end }}\n"
		} else if !strings.HasPrefix(filled, "{{- range") {
			filled = "---\n" + filled
		}
		texts[fileOf(kind)] += filled
	}
	if err := addStatic(texts, h.virtual); err != nil {
		return nil, err
	}
	if texts["values.schema.json"], err = schema(); err != nil {
		return nil, err
	}
	texts["values.yaml"] = values(r)
	texts["Chart.yaml"] = fmt.Sprintf(chartYAML, r.Version, r.Version)
	return texts, nil
}

const chartYAML = `apiVersion: v2
name: liqo-tui
description: Operator and node agent that connect the pod network of a cluster without Liqo with those of others
type: application
version: %s
appVersion: %q
kubeVersion: ">= 1.26.0-0"
home: https://github.com/liqo-tui/liqo-tui
sources: [https://github.com/liqo-tui/liqo-tui]
keywords: [liqo, multi-cluster, wireguard, network]
annotations:
  artifacthub.io/license: Apache-2.0
`

func fileOf(kind string) string {
	name := "settings"
	switch kind {
	case "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "ResourceQuota":
		name = "rights"
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		name = "policies"
	case "Deployment":
		name = "operator"
	case "DaemonSet":
		name = "fabric"
	case "WgGatewayServerTemplate", "WgGatewayClientTemplate":
		name = "gateways"
	}
	return "templates/" + name + ".yaml"
}

func addStatic(texts map[string]string, virtual string) error {
	fields := podFields()
	for i, f := range fields {
		fields[i] = strconv.Quote(f)
	}
	return fs.WalkDir(static, "static", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := static.ReadFile(path)
		texts[strings.TrimPrefix(path, "static/")] = strings.NewReplacer("@virtual@", virtual, "@pods@", strings.Join(fields, " ")).Replace(string(text))
		return err
	})
}

// number returns a stand-in for a number while objects are rendered; "" for a
// setting that is no number.
func number(s setting.Setting[render.InstallParams], i int) string {
	if s.Kind != setting.Number {
		return ""
	}
	return strconv.Itoa(900000 + i)
}

var (
	liqosBraces = regexp.MustCompile(`\{\{.*?\}\}`)
	// arguments that exist only for some settings; more text may come after the
	// value
	askedArgument = regexp.MustCompile(`(?m)^( *)(- --[a-z-]+=)§([a-z-]+)§(.*)\n`)
)

// escaped protects text in Liqo's own template language from Helm.
func escaped(text string) string {
	return liqosBraces.ReplaceAllStringFunc(text, func(braces string) string { return "{{ " + strconv.Quote(braces) + " }}" })
}

// fitted replaces the stand-ins by values.
func fitted(text string) string {
	text = whole(text, namespace, "$.Release.Namespace")
	if strings.Contains(text, "reserved-§reserve§") {
		text = "{{- range $.Values.reserve }}\n---\n" + strings.NewReplacer(
			": §reserve§", ": {{ . | quote }}", "reserved-§reserve§", `reserved-{{ . | replace "." "-" | replace "/" "-" }}`).Replace(text) + "{{- end }}\n"
	}
	list := map[string]string{}
	for i, s := range settings() {
		value := "$.Values." + s.Key()
		if s.Name == "image" {
			value = `include "liqo-tui.image" $`
		}
		list[s.Name] = "."
		if s.Kind == setting.List {
			list[s.Name] = `join "," .`
		}
		if n := number(s, i); n != "" {
			text = strings.ReplaceAll(text, n, "{{ "+value+" }}")
		}
		text = askedArgument.ReplaceAllStringFunc(text, func(line string) string {
			m := askedArgument.FindStringSubmatch(line)
			if m[3] != s.Name {
				return line
			}
			return m[1] + "{{- with $.Values." + s.Key() + " }}\n" + m[1] + m[2] + "{{ " + list[s.Name] + " }}" + m[4] + "\n" + m[1] + "{{- end }}\n"
		})
		text = whole(text, "§"+s.Name+"§", value)
	}
	return text
}

// whole replaces a stand-in by an expression. If the text is nothing else, it is
// quoted, because YAML would take some texts for numbers.
func whole(text, from, expression string) string {
	text = strings.ReplaceAll(text, ": "+from+"\n", ": {{ "+expression+" | quote }}\n")
	return strings.ReplaceAll(text, from, "{{ "+expression+" }}")
}

// holes has the lines of templates that replace markers in objects. In these lines,
// INDENT stands for the indentation of a marker, and NEXT for two more.
type holes struct {
	lines   []string
	virtual string // requirements that keep pods off virtual nodes, as JSON
}

func (h *holes) mark(lines ...string) string {
	h.lines = append(h.lines, strings.Join(lines, "\n"))
	return fmt.Sprintf("zz~%d~", len(h.lines)-1) // sorts after all other fields of an object, so that the first field in a list's entry keeps its dash
}

var marker = regexp.MustCompile(`(?m)^( *)(?:- )?["']?zz~(\d+)~["']?(?::.*)?$`)

func (h *holes) fill(text string) string {
	return marker.ReplaceAllStringFunc(text, func(line string) string {
		m := marker.FindStringSubmatch(line)
		n, _ := strconv.Atoi(m[2]) // the expression matches only digits
		lines := strings.NewReplacer("INDENT", strconv.Itoa(len(m[1])), "NEXT", strconv.Itoa(len(m[1])+2)).Replace(h.lines[n])
		return m[1] + strings.ReplaceAll(lines, "\n", "\n"+m[1])
	})
}

// cut puts markers into an object where the settings of pods belong.
func (h *holes) cut(kind string, o map[string]any) {
	switch kind {
	case "Deployment":
		at(o, "metadata", "annotations")[h.mark(`{{- with include "liqo-tui.pods" $ }}`, `liqo-tui.dev/pod-settings: {{ . | quote }}`, `{{- end }}`)] = ""
		h.cutPod("operator", at(o, "spec", "template"))
	case "DaemonSet":
		h.cutPod("fabric", at(o, "spec", "template"))
	case "WgGatewayServerTemplate", "WgGatewayClientTemplate":
		h.cutPod("gateway", at(o, "spec", "template", "spec", "deployment", "spec", "template"))
	case "Role":
		// Only the operator reads pull secrets. An empty list of names would mean all Secrets.
		if at(o, "metadata")["name"] != wire.OperatorName+"-home" {
			return
		}
		o["rules"] = append(o["rules"].([]any), h.mark(`{{- with include "liqo-tui.asked" (list $ "gateway" "imagePullSecrets") | fromYamlArray }}`,
			`- apiGroups: [""]`, `  resources: [secrets]`, `  resourceNames:`, `  {{- range . }}`, `  - {{ .name }}`, `  {{- end }}`, `  verbs: [get]`, `{{- end }}`))
	}
}

func (h *holes) cutPod(program string, pod map[string]any) {
	asked := func(field string) string {
		return fmt.Sprintf(`include "liqo-tui.asked" (list $ %q %q)`, program, field)
	}
	// entries in addition to the program's own
	union := func(of map[string]any, field string) {
		own, _ := of[field].(map[string]any)
		var names []string
		for _, name := range slices.Sorted(maps.Keys(own)) {
			names = append(names, strconv.Quote(name))
		}
		with := strings.TrimSpace(fmt.Sprintf(`{{- with omit (%s | fromYaml) %s`, asked(field), strings.Join(names, " "))) + " }}"
		if len(own) > 0 {
			own[h.mark(with, `{{- toYaml . | nindent INDENT }}`, `{{- end }}`)] = ""
		} else {
			of[h.mark(with, field+":", `  {{- toYaml . | nindent NEXT }}`, `{{- end }}`)] = ""
		}
	}
	meta, spec := at(pod, "metadata"), at(pod, "spec")
	union(meta, "labels")
	union(meta, "annotations")
	union(spec, "nodeSelector")
	for _, field := range []string{"imagePullSecrets", "tolerations"} {
		with := `{{- with ` + asked(field) + ` | fromYamlArray }}`
		if own, ok := spec[field].([]any); ok {
			spec[field] = append(own, h.mark(with, `{{- toYaml . | nindent INDENT }}`, `{{- end }}`))
		} else {
			spec[h.mark(with, field+":", `  {{- toYaml . | nindent NEXT }}`, `{{- end }}`)] = ""
		}
	}
	node := at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")["nodeSelectorTerms"].([]any)[0]
	h.virtual = toJSON(node.(map[string]any)["matchExpressions"])
	delete(spec, "affinity")
	spec[h.mark(`affinity:`, `  {{- include "liqo-tui.affinity" (list $ "`+program+`") | nindent NEXT }}`)] = ""
	spec[h.mark(`priorityClassName: {{ `+asked("priorityClassName")+` | default `+strconv.Quote(spec["priorityClassName"].(string))+` }}`)] = ""
	delete(spec, "priorityClassName")
	for _, c := range spec["containers"].([]any) {
		c := c.(map[string]any)
		c[h.mark(`resources:`, `  {{- `+asked("resources")+" | fromYaml | mergeOverwrite (fromJson `"+toJSON(c["resources"])+"`) | toYaml | nindent NEXT }}")] = ""
		delete(c, "resources")
		level := `{{- with ` + asked("logLevel") + ` }}`
		if own, ok := c["env"].([]any); ok {
			c["env"] = append(own, h.mark(level, `- name: LOG_LEVEL`, `  value: {{ . }}`, `{{- end }}`))
		} else {
			c[h.mark(level, `env:`, `- name: LOG_LEVEL`, `  value: {{ . }}`, `{{- end }}`)] = ""
		}
	}
}

// at returns the map at a path. It makes missing maps.
func at(o map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := o[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[key] = next
		}
		o = next
	}
	return o
}

func toJSON(value any) string {
	text, _ := json.Marshal(value) // a value from YAML can always be encoded
	return string(text)
}

// podFields returns the names of the settings of pods: those of all programs, and
// those of single programs.
func podFields() []string {
	var names []string
	for name := range properties(render.ProgramSettings{}) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
