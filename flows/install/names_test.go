package install_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// dnsServer returns the names of the DNS server's objects on a cluster.
func dnsServer(c *flowtest.Cluster) []string {
	return slices.DeleteFunc(c.Names(), func(name string) bool { return !strings.HasSuffix(name, "liqo-tui-dns") })
}

func TestTheDNSServerStaysUntilTheOperatorIsRemoved(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
		t.Fatal(err)
	}
	if got := dnsServer(pair.A); len(got) > 0 {
		t.Errorf("nobody has asked for names: got %q", got)
	}
	pair.A.PutAs("kubeadm", core(".:53 {\n    kubernetes cluster.local\n}\n")...)
	p, err := alone(t, pair, planned(render.InstallParams{Names: render.On, Services: render.On}))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := p.Step("dns-server-runs-a"); !ok {
		t.Errorf("the plan does not wait for the DNS server: %+v", s)
	}
	if got := dnsServer(pair.A); len(got) != 5 {
		t.Errorf("got %q", got)
	}
	// The setting stays, and the server gets the next image.
	next := planned(render.InstallParams{Image: "example.org/gateway:v2", Services: render.On})
	if _, err := alone(t, pair, next); err != nil {
		t.Fatal(err)
	}
	if got := dnsServer(pair.A); len(got) != 5 {
		t.Errorf("after an update: got %q", got)
	}
	pair.Forget()
	if _, err := alone(t, pair, next); err != nil {
		t.Fatal(err)
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("a second run wrote %v", log)
	}
	if _, err := alone(t, pair, install.PlanRemoval); err != nil {
		t.Fatal(err)
	}
	if got := dnsServer(pair.A); len(got) > 0 {
		t.Errorf("after the removal: got %q", got)
	}
}

// core returns the objects of a cluster's DNS.
func core(corefile string) []wire.Object {
	return []wire.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}},
		&corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"},
			Data: map[string]string{"Corefile": corefile},
		},
	}
}

// corefile returns the Corefile of a cluster.
func corefile(c *flowtest.Cluster) string {
	for _, o := range c.Objects() {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Name == "coredns" {
			return m.Data["Corefile"]
		}
	}
	return ""
}

// approving runs a plan on cluster A. It tests that the admin sees the diffs of others' objects. If decline is
// set, the admin declines plans that change such objects.
func approving(t *testing.T, pair *flowtest.Pair, plan flows.Planner, decline bool) (edits []string, err error) {
	t.Helper()
	err = engine.Run(t.Context(), plan, pair.A, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: pair.Now, Approve: func(p flows.Plan) (bool, error) {
		edits = append(edits, strings.Join(p.Edits(), ", "))
		for _, s := range p.Steps {
			if s.Edits != "" && s.Status == flows.Ready && s.Action != flows.Delete && !strings.Contains(s.Diff, "clusterset.local:53") {
				t.Errorf("the change of %s is not shown: %q", s.Edits, s.Diff)
			}
		}
		return !decline || len(p.Edits()) == 0, nil
	}})
	return edits, err
}

func TestTheClustersDNSIsChangedAfterAQuestionOfItsOwn(t *testing.T) {
	const plain, imports = ".:53 {\n    kubernetes cluster.local\n    reload\n}", ".:53 {\n    kubernetes cluster.local\n    reload\n}\nimport custom/*.server\n"
	const begin = "# BEGIN liqo-tui"
	withNames, withoutNames := planned(render.InstallParams{Names: render.On, Services: render.On}), planned(render.InstallParams{Services: render.On})
	t.Run("ConfigMap of another program", func(t *testing.T) {
		pair := flowtest.NewPair()
		pair.A.Bare()
		pair.A.PutAs("kubeadm", core(plain)...)
		if edits, err := approving(t, pair, withNames, true); !errors.Is(err, engine.ErrDeclined) || !slices.Equal(edits, []string{"", "the cluster's DNS (CoreDNS)"}) {
			t.Errorf("declined: got questions %q, %v", edits, err)
		}
		if got := corefile(pair.A); got != plain {
			t.Errorf("declined: got %q", got)
		}
		if edits, err := approving(t, pair, withoutNames, false); err != nil || strings.Join(edits, "") != "" || corefile(pair.A) != plain {
			t.Errorf("without --names: got questions %q, %v, %q", edits, err, corefile(pair.A))
		}
		if edits, err := approving(t, pair, withNames, false); err != nil || !slices.Equal(edits, []string{"the cluster's DNS (CoreDNS)"}) {
			t.Errorf("got questions %q, %v", edits, err)
		}
		if got := corefile(pair.A); !strings.HasPrefix(got, begin) || !strings.Contains(got, "forward . 10.96.0.53\n") || !strings.HasSuffix(got, plain) {
			t.Errorf("got %q", got)
		}
		pair.Forget()
		for _, plan := range []flows.Planner{withNames, withoutNames} {
			if edits, err := approving(t, pair, plan, false); err != nil || len(edits) > 0 || len(pair.Log()) > 0 {
				t.Errorf("again: got questions %q, %v, writes %v", edits, err, pair.Log())
			}
		}
		if edits, err := approving(t, pair, install.PlanRemoval, false); err != nil || len(edits) == 0 || edits[0] != "the cluster's DNS" {
			t.Errorf("removal: got questions %q, %v", edits, err)
		}
		if got := corefile(pair.A); got != plain || len(dnsServer(pair.A)) > 0 {
			t.Errorf("after the removal: got %q, %q", got, dnsServer(pair.A))
		}
	})
	for name, off := range map[string]render.InstallParams{
		"names switched off": {Names: render.Off, Services: render.On}, "Services switched off": {Services: render.Off},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Bare()
			pair.A.PutAs("kubeadm", core(plain)...)
			if _, err := approving(t, pair, withNames, false); err != nil {
				t.Fatal(err)
			}
			if edits, err := approving(t, pair, planned(off), true); !errors.Is(err, engine.ErrDeclined) || !slices.Contains(edits, "the cluster's DNS") || corefile(pair.A) == plain || len(dnsServer(pair.A)) != 5 {
				t.Errorf("declined: got questions %q, %v, %q, %q", edits, err, corefile(pair.A), dnsServer(pair.A))
			}
			if edits, err := approving(t, pair, planned(off), false); err != nil || !slices.Contains(edits, "the cluster's DNS") {
				t.Errorf("got questions %q, %v", edits, err)
			}
			if got := corefile(pair.A); got != plain || len(dnsServer(pair.A)) > 0 {
				t.Errorf("got %q, %q", got, dnsServer(pair.A))
			}
			pair.Forget()
			if edits, err := approving(t, pair, planned(render.InstallParams{Services: off.Services}), false); err != nil || len(edits) > 0 || len(pair.Log()) > 0 {
				t.Errorf("again: got questions %q, %v, writes %v", edits, err, pair.Log())
			}
		})
	}
	t.Run("ConfigMap of our own", func(t *testing.T) {
		pair := flowtest.NewPair()
		pair.A.Bare()
		pair.A.PutAs("k3s", core(imports)...)
		if _, err := approving(t, pair, withNames, false); err != nil {
			t.Fatal(err)
		}
		custom := func() bool { return slices.Contains(pair.A.Names(), "ConfigMap kube-system/coredns-custom") }
		if !custom() || corefile(pair.A) != imports {
			t.Errorf("got %q, %q", pair.A.Names(), corefile(pair.A))
		}
		if _, err := approving(t, pair, install.PlanRemoval, false); err != nil || custom() {
			t.Errorf("after the removal: %v, %q", err, pair.A.Names())
		}
	})
	t.Run("another program answers for the zone", func(t *testing.T) {
		pair := flowtest.NewPair()
		pair.A.Bare()
		other := plain + "\nclusterset.local:53 {\n    forward . 10.96.0.99\n}\n"
		pair.A.PutAs("submariner", core(other)...)
		edits, err := approving(t, pair, withNames, false)
		var step *flows.StepError
		if !errors.As(err, &step) || step.Code() != flows.CodeOwnership || !strings.Contains(flows.HintOf(err).String(), "10.96.0.53") {
			t.Errorf("got %v, hint %s", err, flows.HintOf(err))
		}
		if !slices.Equal(edits, []string{""}) || corefile(pair.A) != other || len(dnsServer(pair.A)) != 5 {
			t.Errorf("got questions %q, %q, %q", edits, corefile(pair.A), dnsServer(pair.A))
		}
	})
	t.Run("no Services", func(t *testing.T) {
		pair := flowtest.NewPair()
		pair.A.Bare()
		_, err := approving(t, pair, planned(render.InstallParams{Names: render.On}), false)
		if err == nil || !strings.Contains(err.Error(), "the cluster exchanges none") || len(pair.Log()) > 0 {
			t.Errorf("got %v, writes %v", err, pair.Log())
		}
	})
}

// An admin may have allowed all namespaces before the installation had Services.
func TestSwitchingServicesOnNamesThePeersThatMayServeAllNamespaces(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	f := flowtest.Facts(pair)
	on := planned(render.InstallParams{Services: render.On})
	if kept := strings.Join(on(f).Kept, "|"); !strings.Contains(kept, "all namespaces of rome: milan.") || !strings.Contains(kept, "service allow") {
		t.Errorf("the plan says %q", kept)
	}
	if kept := planned(render.InstallParams{})(f).Kept; len(kept) > 0 {
		t.Errorf("without Services, the plan says %q", kept)
	}
	f.Sides[flows.A].Operator.Services = true
	if kept := on(f).Kept; len(kept) > 0 {
		t.Errorf("Services are on, and the plan says %q", kept)
	}
}

// The end of each step is reported, also if the next plan has no such step any more.
func TestTheEndOfNamesIsTold(t *testing.T) {
	for name, off := range map[string]flows.Planner{
		"off": planned(render.InstallParams{Names: render.Off, Services: render.On}), "removal": install.PlanRemoval,
	} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		pair.A.PutAs("kubeadm", core(".:53 {\n    kubernetes cluster.local\n}\n")...)
		if _, err := approving(t, pair, planned(render.InstallParams{Names: render.On, Services: render.On}), false); err != nil {
			t.Fatal(err)
		}
		var told []string
		var last engine.Event
		err := engine.Run(t.Context(), off, pair.A, engine.Absent{}, func(e engine.Event) {
			for _, r := range engine.Narrate(last, e) {
				if r.Type == engine.RecordEnd {
					told = append(told, r.Text)
				}
			}
			last = e
		}, engine.Options{Now: pair.Now})
		for _, want := range []string{"the cluster's DNS without our forward of clusterset.local updated", "DNS server for names of imported Services deleted"} {
			if n := len(slices.DeleteFunc(slices.Clone(told), func(text string) bool { return text != want })); err != nil || n != 1 {
				t.Errorf("%s: %q was told %d times, %v, in\n%s", name, want, n, err, strings.Join(told, "\n"))
			}
		}
	}
}

// A dry run shows the change of the cluster's DNS, although the DNS server has no address yet. Before the
// change itself, the admin is asked again.
func TestADryRunShowsTheChangeOfTheClustersDNS(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	pair.A.PutAs("kubeadm", core(".:53 {\n    kubernetes cluster.local\n}\n")...)
	e, err := engine.DryRun(t.Context(), planned(render.InstallParams{Names: render.On, Services: render.On}), pair.A, engine.Absent{}, false, engine.Options{Now: pair.Now})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := e.Plan.Step("cluster-dns-a")
	for _, want := range []string{"+    clusterset.local:53 {", "forward . 0.0.0.0", "0.0.0.0 stands for"} {
		if !strings.Contains(s.Diff, want) {
			t.Errorf("got %q, want %q", s.Diff, want)
		}
	}
	if s.Status != flows.Blocked || len(e.Plan.Edits()) > 0 {
		t.Errorf("got %s, edits %q", s.Status, e.Plan.Edits())
	}
}
