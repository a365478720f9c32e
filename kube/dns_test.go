package kube

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/names"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestTheClustersDNSGetsItsFormerBytesBack(t *testing.T) {
	c := open(t, startAPI(t).Config)
	server := netip.MustParseAddr("10.96.0.53")
	const plain, imports = ".:53 {\n    kubernetes cluster.local\n}", ".:53 {\n    kubernetes cluster.local\n}\nimport custom/*.server\n"
	coredns := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}, Data: map[string]string{"Corefile": plain, "other": "text\n"}}
	if err := c.client.Create(t.Context(), coredns, client.FieldOwner("kubeadm")); err != nil {
		t.Fatal(err)
	}
	verdict := func(forward bool) names.Verdict {
		t.Helper()
		facts, err := c.dns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if forward {
			return names.Forward(facts, server)
		}
		return names.Withdraw(facts, server)
	}
	edit := func(v names.Verdict) error {
		for _, change := range v.Changes {
			if _, err := c.Edit(t.Context(), []wire.Object{change.Want()}); err != nil {
				return err
			}
		}
		return nil
	}
	data := func(name string) map[string]string {
		t.Helper()
		m := &corev1.ConfigMap{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, m); err != nil {
			t.Fatal(err)
		}
		return m.Data
	}
	set := func(name, key, text string) {
		t.Helper()
		m := &corev1.ConfigMap{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, m); err != nil {
			t.Fatal(err)
		}
		m.Data[key] = text
		if err := c.client.Update(t.Context(), m, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
	}

	if err := edit(verdict(true)); err != nil {
		t.Fatal(err)
	}
	if got := data("coredns"); !strings.HasPrefix(got["Corefile"], "# BEGIN liqo-tui") || !strings.HasSuffix(got["Corefile"], plain) || got["other"] != "text\n" {
		t.Errorf("got %q", got)
	}
	if v := verdict(true); len(v.Changes) > 0 {
		t.Errorf("a second run changes %+v", v)
	}
	stale := verdict(false)
	set("coredns", "other", "another text\n")
	if err := edit(stale); err == nil || !strings.Contains(err.Error(), "another program has written it") {
		t.Errorf("a change of what was written since it was shown: %v", err)
	}
	if got := data("coredns")["Corefile"]; !strings.HasPrefix(got, "# BEGIN liqo-tui") {
		t.Errorf("it was changed: %q", got)
	}
	if err := edit(verdict(false)); err != nil {
		t.Fatal(err)
	}
	if got := data("coredns"); got["Corefile"] != plain || got["other"] != "another text\n" {
		t.Errorf("taken back: got %q", got)
	}

	set("coredns", "Corefile", imports)
	if err := edit(verdict(true)); err != nil {
		t.Fatal(err)
	}
	if v := verdict(false); len(v.Changes) != 1 || !v.Changes[0].Gone {
		t.Errorf("a ConfigMap of ours would stay: %+v", v)
	}
	set("coredns-custom", "corp.server", "corp.example {\n}\n")
	if err := edit(verdict(false)); err != nil {
		t.Fatal(err)
	}
	if got := data("coredns-custom"); len(got) != 1 || got["corp.server"] == "" {
		t.Errorf("taken back: got %q, want the admin's key alone", got)
	}
	if got := data("coredns")["Corefile"]; got != imports {
		t.Errorf("got %q", got)
	}
}
