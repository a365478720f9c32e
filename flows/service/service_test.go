package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// connected returns rome and milan, connected. Both have the namespace shop, and rome has the Service web in
// it.
func connected(t *testing.T) *simulated.Pair {
	t.Helper()
	p := simulated.NewPair()
	for _, c := range []*simulated.Cluster{p.A, p.B} {
		c.Behave(func(b *simulated.Behaviour) { b.Services = true })
		c.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	}
	p.A.PutAs("kubectl", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.7"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}, &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.5"}}, {Addresses: []string{"10.244.0.6"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
	})
	run(t, p, func(f flows.Facts) flows.Plan { return flows.PlanConnect(flows.Defaults(), f) })
	return p
}

// run runs a plan, and returns the facts at its end.
func run(t *testing.T, p *simulated.Pair, plan flows.Planner) flows.Facts {
	t.Helper()
	f, err := try(t, p, plan)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func try(t *testing.T, p *simulated.Pair, plan flows.Planner) (last flows.Facts, err error) {
	t.Helper()
	err = engine.Run(t.Context(), flows.Planner(func(f flows.Facts) flows.Plan { last = f; return plan(f) }), p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now})
	return last, err
}

// look reads one name in both clusters.
func look(t *testing.T, p *simulated.Pair, name types.NamespacedName) flows.Facts {
	t.Helper()
	f, err := engine.Observe(t.Context(), p.A, p.B, p.Now)
	if err == nil {
		answers := engine.Answers{Now: p.Now}
		err = answers.Ask(t.Context(), &f, [2]engine.Cluster{p.A, p.B}, service.Asks(name, flows.A, flows.B)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func exporting(e service.ExportParams) flows.Planner {
	return func(f flows.Facts) flows.Plan { return service.Export(e, f) }
}

func TestAnExportArrivesInTheOtherCluster(t *testing.T) {
	p := connected(t)
	params := service.ExportParams{Name: web}
	f := run(t, p, exporting(params))
	said, _ := service.Exported(params, f)
	e := services.Explain(service.ViewOf(f, flows.B), web)
	var hops []string
	for _, h := range e.Hops {
		hops = append(hops, fmt.Sprintf("%s %s: %s", h.Look, h.What, h.Found))
	}
	golden.Compare(t, "exported.txt", said+"\n\n"+strings.Join(hops, "\n")+"\n")
	if e.Broken() != nil || e.NotLooked() > 0 {
		t.Errorf("from milan: %s", strings.Join(hops, "\n"))
	}
	p.A.Forget()
	if run(t, p, exporting(params)); len(p.A.Log())+len(p.B.Log()) > 0 && slices.ContainsFunc(p.A.Log(), func(c flows.Change) bool { return c.Verb != flows.Unchanged }) {
		t.Errorf("a second run changes %v", p.A.Log())
	}
}

func TestAnExportIsForTheChosenPeers(t *testing.T) {
	p := connected(t)
	run(t, p, exporting(service.ExportParams{Name: web}))
	p.A.Forget()
	_, err := try(t, p, exporting(service.ExportParams{Name: web, To: []wire.ClusterID{"turin"}}))
	if err == nil || !strings.Contains(err.Error(), "no peer turin") || len(p.A.Log()) > 0 {
		t.Errorf("an unknown peer: got %v, %v", err, p.A.Log())
	}
	p.A.PutAs("kubectl", func() wire.Object {
		e := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{wire.AnnotationExportTo: "turin"}}}
		e.APIVersion, e.Kind = mcsv1beta1.GroupVersion.String(), mcsv1beta1.ServiceExportKindName
		return e
	}())
	params := service.ExportParams{Name: web, Prefer: new(wire.PreferLocal)}
	f := run(t, p, exporting(params))
	if said, next := service.Exported(params, f); !strings.Contains(said, "It goes to turin.") || !strings.Contains(said, "exported to others only") || len(next) != 1 {
		t.Errorf("got %q, %v", said, next)
	}
	if i := found(t, p, flows.B).Imports.Items; len(i) > 0 {
		t.Errorf("milan still imports %+v", i)
	}
	live := found(t, p, flows.A).Exports.Items[0]
	if live.Annotations[wire.AnnotationExportTo] != "turin" || live.Annotations[wire.AnnotationPrefer] != wire.PreferLocal {
		t.Errorf("settings that were not given have changed: %v", live.Annotations)
	}
	if _, err := try(t, p, exporting(service.ExportParams{Name: web, All: true, Prefer: new("")})); err == nil || !strings.Contains(err.Error(), "kubectl") {
		t.Errorf("another program has written the annotation: got %v", err)
	}
}

func found(t *testing.T, p *simulated.Pair, side flows.Side) services.Found {
	t.Helper()
	f := look(t, p, web)
	return *f.Sides[side].Services.Value()
}

// The definitions stay when an installation is removed, so they do not show that the operator exchanges Services.
func TestAClusterWithoutServicesByNameIsTold(t *testing.T) {
	p := connected(t)
	f := look(t, p, web)
	a := &f.Sides[flows.A]
	if why, _ := service.Off(*a); why != "" {
		t.Errorf("with an operator that exchanges Services: %s", why)
	}
	a.Operator.Services = false
	why, fix := service.Off(*a)
	if why != "rome has no Services by name: its operator exchanges no Services" || len(fix) != 1 || !strings.Contains(fix[0].String(), "install --services") {
		t.Errorf("got %q, %v", why, fix)
	}
	if plan := service.Export(service.ExportParams{Name: web}, f); plan.Failure() == nil || plan.Failure().Code != flows.CodeServicesOff {
		t.Errorf("export: got %+v", plan.Failure())
	}
}

func TestWhatCantBeExportedIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(*simulated.Pair) types.NamespacedName
		reason string
	}{
		{"no Service", func(*simulated.Pair) types.NamespacedName {
			return types.NamespacedName{Namespace: "shop", Name: "gone"}
		}, "no Service gone"},
		{"no namespace", func(*simulated.Pair) types.NamespacedName {
			return types.NamespacedName{Namespace: "blog", Name: "web"}
		}, "no Service web"},
		{"reserved", func(*simulated.Pair) types.NamespacedName {
			return types.NamespacedName{Namespace: "kube-system", Name: "web"}
		}, "not exported: clusters"},
		{"of ours", func(*simulated.Pair) types.NamespacedName {
			return types.NamespacedName{Namespace: wire.TenantNamespaceName("milan"), Name: "web"}
		}, "not exported: clusters"},
		{"ExternalName", func(p *simulated.Pair) types.NamespacedName { return changed(p, `{"type":"ExternalName"}`) }, "ExternalName"},
		{"IPv6", func(p *simulated.Pair) types.NamespacedName { return changed(p, `{"ipFamilies":["IPv6"]}`) }, "IPv6"},
		{"off", func(p *simulated.Pair) types.NamespacedName {
			p.A.Behave(func(b *simulated.Behaviour) { b.Services = false })
			return web
		}, "no Services by name"},
		{"Liqo", func(p *simulated.Pair) types.NamespacedName {
			p.A.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
			return web
		}, "Liqo connects rome"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := connected(t)
			name := c.do(p)
			p.A.Forget()
			_, err := try(t, p, exporting(service.ExportParams{Name: name}))
			if err == nil || !strings.Contains(err.Error(), c.reason) || len(p.A.Log()) > 0 {
				t.Errorf("got %v, and wrote %v", err, p.A.Log())
			}
		})
	}
}

// changed gives the Service web another IP family or another type.
func changed(p *simulated.Pair, what string) types.NamespacedName {
	for _, o := range p.A.Objects() {
		if s, ok := o.(*corev1.Service); ok && s.Name == "web" {
			if strings.Contains(what, "IPv6") {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
			} else {
				s.Spec.Type = corev1.ServiceTypeExternalName
			}
			s.ManagedFields = nil
			p.A.PutAs("kubectl", s)
		}
	}
	return web
}

func TestAnExportWithoutItsImportSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(*simulated.Pair)
		reason string
	}{
		{"not allowed", func(p *simulated.Pair) {
			run(t, &simulated.Pair{World: p.World, A: p.B, B: p.A}, func(f flows.Facts) flows.Plan { return service.Allow(service.AllowParams{From: "rome"}, f) })
		}, "milan does not allow rome to serve the namespace shop"},
		{"no namespace", func(p *simulated.Pair) {
			p.B.Remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		}, "milan has no namespace shop"},
		{"off", func(p *simulated.Pair) { p.B.Behave(func(b *simulated.Behaviour) { b.Services = false }) }, "milan has no Services by name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := connected(t)
			c.do(p)
			params := service.ExportParams{Name: web}
			f := run(t, p, exporting(params))
			if said, next := service.Exported(params, f); !strings.Contains(said, "rome exports shop/web: 1 of 2") || !strings.Contains(said, c.reason) || len(next) != 1 {
				t.Errorf("got %q, %v", said, next)
			}
		})
	}
}

func TestNothingButTheExportGoes(t *testing.T) {
	p := connected(t)
	before := p.A.Names()
	there := p.B.Names()
	run(t, p, exporting(service.ExportParams{Name: web}))
	run(t, p, func(f flows.Facts) flows.Plan { return service.Unexport(web, f) })
	p.Settle()
	if !slices.Equal(p.A.Names(), before) || !slices.Equal(p.B.Names(), there) {
		t.Errorf("rome has %v, not %v; milan %v, not %v", p.A.Names(), before, p.B.Names(), there)
	}
	run(t, p, func(f flows.Facts) flows.Plan { return service.Unexport(web, f) }) // there is nothing to do
}

func TestAllowedNamespacesChangeNothingElse(t *testing.T) {
	p := connected(t)
	allow := func(n services.Namespaces) flows.Facts {
		return run(t, p, func(f flows.Facts) flows.Plan {
			return service.Allow(service.AllowParams{From: "milan", Namespaces: n}, f)
		})
	}
	conf := func(f flows.Facts) (map[string]string, string) {
		c := f.End(flows.A).Configuration
		return c.Annotations, fmt.Sprint(c.Spec.Remote, c.Labels)
	}
	before := look(t, p, web)
	was, spec := conf(before)
	if was[wire.AnnotationImport] != wire.ImportAll {
		t.Errorf("connect allows %q", was[wire.AnnotationImport])
	}
	for _, n := range []services.Namespaces{{Names: []string{"blog", "shop"}}, {}, {All: true}} {
		f := allow(n)
		now, nowSpec := conf(f)
		if now[wire.AnnotationImport] != n.String() || nowSpec != spec {
			t.Errorf("%v: got %q, %s, was %s", n, now[wire.AnnotationImport], nowSpec, spec)
		}
		for key, value := range was {
			if key != wire.AnnotationImport && now[key] != value {
				t.Errorf("%v: annotation %s was %q, is %q", n, key, value, now[key])
			}
		}
	}
	run(t, p, func(f flows.Facts) flows.Plan { return service.Allow(service.AllowParams{From: "milan"}, f) })
	run(t, p, func(f flows.Facts) flows.Plan { return flows.PlanConnect(flows.Defaults(), f) })
	if now, _ := conf(look(t, p, web)); now[wire.AnnotationImport] != "" {
		t.Errorf("connect undoes `service allow --none`: %q", now[wire.AnnotationImport])
	}
	for reason, params := range map[string]service.AllowParams{
		"no connection with turin": {From: "turin", Namespaces: services.Namespaces{All: true}},
		"namespace kube-system":    {From: "milan", Namespaces: services.Namespaces{Names: []string{"kube-system"}}},
	} {
		if _, err := try(t, p, func(f flows.Facts) flows.Plan { return service.Allow(params, f) }); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v", reason, err)
		}
	}
}

func TestNamesThatAreNoLongerImportedAreNamed(t *testing.T) {
	p := connected(t)
	run(t, p, exporting(service.ExportParams{Name: web}))
	other := &simulated.Pair{World: p.World, A: p.B, B: p.A}
	plan := service.Allow(service.AllowParams{From: "rome", Namespaces: services.Namespaces{Names: []string{"blog"}}}, look(t, other, types.NamespacedName{}))
	if s := plan.Steps[0]; s.Interrupts != "pods of milan no longer reach the endpoints of rome under shop/web" || !strings.Contains(s.Diff, "+    liqo-tui.dev/import: blog") {
		t.Errorf("got %+v", s)
	}
}
