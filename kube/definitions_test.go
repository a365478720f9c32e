package kube

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestInstallOnWhatLiqoLeftBehind begins with the definitions of Liqo's own chart, which Helm does not
// remove.
func TestInstallOnWhatLiqoLeftBehind(t *testing.T) {
	env := startAPI(t)
	c := open(t, env.Config)
	charts := liqoDefinitions(t)
	asHelm := func(u *unstructured.Unstructured) {
		t.Helper()
		u = u.DeepCopy()
		if err := c.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	older := charts["gatewayclients.networking.liqo.io"].DeepCopy()
	versions, _, _ := unstructured.NestedSlice(older.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "mtu")
	if err := unstructured.SetNestedSlice(older.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	for name, u := range charts {
		if name == older.GetName() {
			u = older
		}
		asHelm(u)
	}
	t.Run("one that lacks a field is named, and nothing is applied", func(t *testing.T) {
		const why = "in its version v1beta1, field .spec.mtu is missing or different"
		_, err := installed(t, c, render.InstallParams{}, false)
		failed, ok := errors.AsType[*flows.StepError](err)
		if !ok || failed.Step.Kind != flows.FailedPreflight || failed.Step.Reason != "definition gatewayclients.networking.liqo.io is helm's: "+why || failed.Hint().IsZero() {
			t.Errorf("got %v", err)
		}
		if err := c.client.Get(t.Context(), client.ObjectKey{Name: "liqo"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v for namespace liqo, want that it was not made", err)
		}
		i := slices.IndexFunc(observe(t, c).Definitions, func(d flows.DefinitionFacts) bool { return d.Unusable == why })
		if i < 0 {
			t.Error("an observation does not tell of it")
		}
	})
	asHelm(charts[older.GetName()])
	before := definitionVersions(t, c)

	t.Run("those that serve us are left alone", func(t *testing.T) {
		f := await(t, c, "the definitions as Liqo's release has them", func(f flows.ClusterFacts) bool {
			return !slices.ContainsFunc(f.Definitions, func(d flows.DefinitionFacts) bool { return d.Unusable != "" })
		})
		for _, d := range f.Definitions {
			if d.Manager != "helm" {
				t.Errorf("got %+v, want it to be helm's", d)
			}
		}
		wanted, err := render.CRDs()
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Definitions) != len(wanted) {
			t.Errorf("got %d definitions of others, want all %d", len(f.Definitions), len(wanted))
		}
		plan := applied(t, c)
		if step, _ := plan.Step("definitions-a"); step.Reason != "12 definitions are helm's and stay as they are" {
			t.Errorf("the plan says %q of them", step.Reason)
		}
		if after := definitionVersions(t, c); !maps.Equal(before, after) {
			t.Errorf("the definitions were changed: got %v, want %v", after, before)
		}
	})

	t.Run("uninstall leaves them, too", func(t *testing.T) {
		if p, err := planned(t, c, install.PlanRemoval, engine.Options{}); err != nil || !p.Done() {
			t.Fatalf("got %v, %+v", err, p.Steps)
		}
		if after := definitionVersions(t, c); !maps.Equal(before, after) {
			t.Errorf("the definitions were changed: got %v, want %v", after, before)
		}
	})
}

// definitionVersions returns, for each definition, its UID, the number of its changes, and their managers.
// The API server itself writes only the status.
func definitionVersions(t *testing.T, c *Cluster) map[string]string {
	t.Helper()
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := c.client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for i := range all.Items {
		o := &all.Items[i]
		version := fmt.Sprintf("%s %d %v", o.UID, o.Generation, o.Labels)
		for _, e := range o.ManagedFields {
			if e.Subresource == "" {
				version += " " + e.Manager
			}
		}
		versions[o.Name] = version
	}
	return versions
}

// liqoDefinitions returns the definitions in the chart of the release that we use, by name.
func liqoDefinitions(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(liqoModule(t), "deployments/liqo/charts/liqo-crds/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[u.GetName()] = u
	}
	return all
}

// liqoModule returns the folder of the release of Liqo that we use.
func liqoModule(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}
