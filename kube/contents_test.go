package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// testOthersNamespaces installs into existing namespaces and into a new one, and removes everything again.
func testOthersNamespaces(t *testing.T, env *envtest.Environment, admin *Cluster) {
	in := func(namespace string) *Cluster {
		c, err := ForConfig(env.Config, Options{Context: flows.ContextRef{Name: "test"}, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	namespace := func(name string) *corev1.Namespace {
		var ns corev1.Namespace
		if err := admin.client.Get(t.Context(), client.ObjectKey{Name: name}, &ns); err != nil {
			t.Fatal(err)
		}
		return &ns
	}
	uninstall := func(c *Cluster) (kept string) {
		p, err := planned(t, c, install.PlanRemoval, engine.Options{})
		if err != nil || !p.Done() {
			t.Fatalf("got %v, %+v", err, p.Steps)
		}
		return install.KeptNamespace(p)
	}

	infra := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "infra", Labels: map[string]string{"team": "infra"}}}
	precious := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "precious"}}
	// The object has a name of ours, and belongs to another program.
	identity := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: wire.ClusterIDConfigMap}}
	for _, o := range []client.Object{infra, precious, identity} {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	before := namespace("infra")
	c := in("infra")
	applied(t, c)
	if got := namespace("infra"); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("install changed a namespace that was there before: labels %v, annotations %v", got.Labels, got.Annotations)
	}
	kept := uninstall(c)
	if got := namespace("infra"); got.ResourceVersion != before.ResourceVersion || got.DeletionTimestamp != nil {
		t.Errorf("uninstall changed, or deleted, a namespace that was there before: %v", got.ObjectMeta)
	}
	if kept != "liqo-tui did not create it" {
		t.Errorf("uninstall says %q of the namespace", kept)
	}
	for _, o := range []client.Object{precious, identity} {
		if err := admin.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("uninstall deleted what was there before: %v", err)
		}
	}
	left, err := c.Inspect(t.Context(), render.Tenant{Namespace: "infra"})
	if err != nil || strings.Join(left.Others, ", ") != "ConfigMap "+wire.ClusterIDConfigMap+", Secret precious" || left.Unknown != "" {
		t.Errorf("in the namespace after uninstall: %+v, %v", left, err)
	}

	c = in("ours")
	applied(t, c)
	if !render.CreatedByUs(namespace("ours")) {
		t.Error("nothing records that install created the namespace")
	}
	late := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "late"}}
	if err := admin.client.Create(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	if kept := uninstall(c); kept != "it holds Secret late" {
		t.Errorf("with somebody's Secret in it, uninstall says %q", kept)
	}
	if err := admin.client.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	if kept := uninstall(c); kept != "" || namespace("ours").DeletionTimestamp == nil {
		t.Errorf("with nothing else in it: kept %q", kept)
	}

	// A user who can't read all objects of a namespace must not conclude that it is empty.
	user, err := env.AddUser(envtest.User{Name: "grace"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	blind, err := ForConfig(user.Config(), Options{Context: flows.ContextRef{Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(blind.Close)
	if got, err := blind.Inspect(t.Context(), render.Tenant{Namespace: "default"}); err != nil || !strings.HasPrefix(got.Unknown, "you may not list ") {
		t.Errorf("a user without rights: got %+v, %v, want to be told what is unknown", got, err)
	}
}
