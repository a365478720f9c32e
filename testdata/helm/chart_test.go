// Package helm renders the chart with Helm's own library. It is a module of its own,
// so that nothing else depends on Helm.
package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

const (
	minimal     = "image: registry.example/liqo-gateway:v1\nclusterID: rome\n"
	remembered  = "liqo-tui.dev/pod-settings"
	policiesAPI = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
)

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir("../../charts/liqo-tui")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rendered are the objects that Helm makes of values, besides tests, by their names.
func rendered(t *testing.T, c *chart.Chart, namespace, text string, policies bool) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.APIVersions = slices.DeleteFunc(capabilities.APIVersions, func(v string) bool { return strings.HasPrefix(v, policiesAPI) })
	if policies {
		capabilities.APIVersions = append(capabilities.APIVersions, policiesAPI, policiesAPI+"Binding")
	}
	all, err := commonutil.ToRenderValues(c, values, common.ReleaseOptions{Name: "liqo-tui", Namespace: namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	for _, crd := range c.CRDObjects() {
		files[crd.Filename] = string(crd.File.Data)
	}
	objects := map[string]*unstructured.Unstructured{}
	for name, file := range files {
		if !strings.HasSuffix(name, ".yaml") || strings.Contains(name, "/tests/") {
			continue
		}
		for doc := range strings.SplitSeq("\n"+file, "\n---") {
			if o := parsed(t, name, doc); o != nil {
				if objects[apply.Name(o)] != nil {
					t.Errorf("%s is there twice", apply.Name(o))
				}
				objects[apply.Name(o)] = o
			}
		}
	}
	return objects, nil
}

// parsed is an object as the API server would understand it; nil of an empty text.
func parsed(t *testing.T, file, doc string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v\n%s", file, err, doc)
	}
	if string(text) == "null" {
		return nil
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, doc)
	}
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	typed, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if strings.HasSuffix(o.GetKind(), "Template") { // what is in it has no kind, so it can't be read as an object
		typed = o
	}
	if typed != o {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, doc)
		}
	}
	if o, err = apply.Wanted(typed.(wire.Object)); err != nil {
		t.Fatal(err)
	}
	return o
}

// same is an object's text, by which two are compared.
func same(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	annotations := o.GetAnnotations()
	if asked, ok := annotations[remembered]; ok { // the order of its fields is free
		pods, err := render.ParsePods([]byte(asked))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(pods)
		if err != nil {
			t.Fatal(err)
		}
		annotations[remembered] = string(text)
		if string(text) == "{}" {
			delete(annotations, remembered)
		}
		o.SetAnnotations(annotations)
		if len(annotations) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		}
	}
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compare(t *testing.T, c *chart.Chart, namespace, values string, policies bool) {
	t.Helper()
	p := render.InstallParams{Namespace: namespace}
	if err := install.ReadValues([]byte(values), &p); err != nil {
		t.Fatalf("values that are none of an installation's: %v\n%s", err, values)
	}
	objects, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		if o.GetObjectKind().GroupVersionKind().Kind == "Namespace" || render.Optional(o) && !policies {
			continue // the release's namespace is made before
		}
		u, err := apply.Wanted(o)
		if err != nil {
			t.Fatal(err)
		}
		want[apply.Name(o)] = u
	}
	got, err := rendered(t, c, namespace, values, policies)
	if err != nil {
		t.Fatalf("values are refused: %v\n%s", err, values)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("objects (-install +chart), for values\n%s\n%s", values, diff)
	}
	for name := range want {
		if got[name] == nil {
			continue
		}
		if diff := cmp.Diff(same(t, want[name]), same(t, got[name])); diff != "" {
			t.Errorf("%s (-install +chart), for values\n%s\n%s", name, values, diff)
		}
	}
}

// asked is a setting of pods for all of them and, after it, another one for one
// program.
var asked = map[string][2]string{
	"imagePullSecrets":  {`[{name: registry}]`, `[{name: own}, {name: other}]`},
	"nodeSelector":      {`{pool: edge, kubernetes.io/os: windows}`, `{pool: "7"}`},
	"tolerations":       {`[{key: dedicated, operator: Exists}]`, `[{key: a, operator: Equal, value: "true", effect: NoExecute, tolerationSeconds: 5}]`},
	"affinity":          {`{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}, {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}`, `{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: zone, operator: Exists}]}}]}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}`},
	"priorityClassName": {`common`, `own`},
	"resources":         {`{limits: {cpu: "2", memory: 1Gi}}`, `{requests: {cpu: 100m}}`},
	"labels":            {`{team: network, app.kubernetes.io/name: mine, networking.liqo.io/active: "no"}`, `{team: "1e3"}`},
	"logLevel":          {`debug`, `warn`},
	"annotations":       {`{note: "a: b # c", prometheus.io/port: "1"}`, `{note: "{{ .Name }}"}`},
}

func TestTheChartMakesWhatInstallMakes(t *testing.T) {
	c := load(t)
	set := map[string]string{
		"nothing more":      "",
		"ranges of pods":    "podCIDR: [10.244.0.0/16, 10.245.0.0/16]",
		"range of services": "serviceCIDR: 10.96.0.0/12",
		"external range":    "externalCIDR: 10.71.0.0/16",
		"reserved ranges":   "reserve: [10.1.0.0/16, 192.168.7.0/24]",
		"pools":             "pools: [10.0.0.0/8, 172.16.0.0/12]",
		"replicas":          "gatewayReplicas: 3",
		"operator replicas": "operatorReplicas: 2",
	}
	all := ""
	for _, text := range set {
		all += text + "\n"
	}
	set["every setting"] = all
	for name, text := range set {
		t.Run(name, func(t *testing.T) {
			compare(t, c, "liqo", minimal+text, true)
			compare(t, c, "123", minimal+text, false)
		})
	}
	for field, values := range asked {
		t.Run(field, func(t *testing.T) {
			common := fmt.Sprintf("%s: %s\n", field, values[0])
			compare(t, c, "liqo", minimal+all+common, true)
			for _, program := range []string{"operator", "fabric", "gateway"} {
				for _, own := range []string{values[1], values[0]} {
					text := fmt.Sprintf("%s: {%s: %s}\n", program, field, own)
					compare(t, c, "liqo", minimal+text, true)
					compare(t, c, "liqo", minimal+text+common, true)
				}
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		text, own := minimal+all, ""
		for field, values := range asked {
			text += fmt.Sprintf("%s: %s\n", field, values[0])
			own += fmt.Sprintf("  %s: %s\n", field, values[1])
		}
		compare(t, c, "elsewhere", text+"operator:\n"+own+"fabric:\n"+own+"gateway:\n"+own, true)
	})
	for _, id := range []string{"null", "on", "1e3", "0x1f", "a-b"} {
		t.Run("cluster "+id, func(t *testing.T) {
			compare(t, c, "liqo", "image: x\nclusterID: "+fmt.Sprintf("%q", id), true)
		})
	}
}

// Each setting of pods is in the table above, so that a new one is compared too.
func TestAllSettingsOfPodsAreCompared(t *testing.T) {
	values := load(t).Values
	for key := range values {
		isSetting := slices.ContainsFunc(install.Settings(), func(s setting.Setting[render.InstallParams]) bool { return s.Key() == key })
		_, compared := asked[key]
		if !isSetting && !compared && !slices.Contains([]string{"operator", "fabric", "gateway"}, key) {
			t.Errorf("value %s is compared nowhere", key)
		}
	}
}

func TestValuesThatAreWrongAreRefused(t *testing.T) {
	c := load(t)
	for text, want := range map[string]string{
		"image: x":                                            "clusterID",
		"clusterID: rome":                                     "this chart has no published image",
		minimal + "clusterId: rome":                           "clusterId",
		minimal + "podCIDR: 10.0/8":                           "podCIDR",
		minimal + "podCIDR: [10/8]":                           "podCIDR",
		minimal + "gatewayReplicas: 9":                        "gatewayReplicas",
		minimal + "operator: {nodeSelctor: {a: b}}":           "nodeSelctor",
		minimal + "tolerations: [{key: a, efect: NoExecute}]": "efect",
		minimal + "affinity: {nodeAffinity: {required: {}}}":  "required",
		minimal + "fabric: {resources: {limit: {cpu: 1}}}":    "limit",
		minimal + "nodeSelector: [a]":                         "nodeSelector",
		"image: x\nclusterID: Rome":                           "clusterID",
		"image: x\nclusterID: 12":                             "clusterID",
	} {
		if _, err := rendered(t, c, "liqo", text, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want an error about %s", text, err, want)
		}
	}
}

// helm test has no other rights than to look.
func TestThePodOfHelmTest(t *testing.T) {
	c := load(t)
	all, err := commonutil.ToRenderValues(c, map[string]any{"image": "x", "clusterID": "rome"}, common.ReleaseOptions{Name: "r", Namespace: "liqo"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for doc := range strings.SplitSeq(files["liqo-tui/templates/tests/ready.yaml"], "\n---\n") {
		o := parsed(t, "ready.yaml", doc)
		if o == nil {
			continue
		}
		kinds = append(kinds, o.GetKind())
		if o.GetAnnotations()["helm.sh/hook"] != "test" {
			t.Errorf("%s is no part of the test alone", apply.Name(o))
		}
	}
	if got, want := strings.Join(kinds, " "), "ServiceAccount Role RoleBinding Pod"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
