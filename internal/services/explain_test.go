package services_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var present = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func read[T any](items ...T) services.List[T] { return services.List[T]{Read: true, Items: items} }

// found returns the objects of a cluster that belong to hello.
func (c *cluster) found(t *testing.T, all []*cluster) services.Found {
	t.Helper()
	f := services.Found{Services: read(*c.service), Exports: read[mcsv1beta1.ServiceExport](), Imports: read[mcsv1beta1.ServiceImport](), Slices: read[discoveryv1.EndpointSlice](), Copies: read[discoveryv1.EndpointSlice]()}
	if c.derived != nil {
		f.Services.Items = append(f.Services.Items, *c.derived)
	}
	if c.export != nil {
		e := c.export.DeepCopy()
		e.Status.Conditions = slices.Clone(c.exported.Conditions)
		if c.merged.Conflict != nil {
			e.Status.Conditions = append(e.Status.Conditions, *c.merged.Conflict)
		}
		f.Add(hello, e)
	}
	if c.merged.Import != nil {
		f.Add(hello, c.merged.Import)
	}
	for i := range c.merged.Slices {
		f.Add(hello, &c.merged.Slices[i])
	}
	for _, p := range c.world(t, all).Peers {
		for i := range p.Copies {
			f.Add(hello, &p.Copies[i])
		}
	}
	return f
}

// view is rome's view of hello, after both clusters were read.
func view(t *testing.T, rome, milan *cluster) services.View {
	all := []*cluster{rome, milan}
	settle(t, all...)
	there := milan.found(t, all)
	ours := func(context string) func(...string) command.Command {
		return func(words ...string) command.Command {
			return command.Ours(words...).On(command.Cluster{Context: context})
		}
	}
	return services.View{
		Self: rome.id, Now: present, At: present, Found: rome.found(t, all), Ours: ours("rome"), Both: ours("rome"),
		Namespace: func(string) (exists, known bool) { return true, true },
		Peers: []services.PeerView{{
			ID: milan.id, Imports: rome.policy.Allowed[milan.id], Seen: seen(rome, milan).Seen, Found: &there, At: present, Theirs: ours("milan"),
			Tunnel: services.Tunnel{State: "connected", Works: true, RoundTrip: 12 * time.Millisecond, At: present.Add(-3 * time.Second)},
			Report: &wire.ServicesReport{Received: 1, Complete: new(present.Add(-time.Hour)), Heard: new(present.Add(-4 * time.Second))},
		}},
	}
}

// importing returns rome, which exports nothing, and milan, whose hello rome imports. Both have the same pod
// range.
func importing() (rome, milan *cluster) {
	return newCluster("rome", "10.244.0.0/16", "milan"), newCluster("milan", "10.244.0.0/16", "rome").exports(5)
}

func lines(e services.Explanation) string {
	var b strings.Builder
	for _, h := range e.Hops {
		fmt.Fprintf(&b, "%-10s %s: %s", h.Look, h.What, h.Found)
		if !h.At.IsZero() {
			fmt.Fprintf(&b, " (%s)", present.Sub(h.At))
		}
		b.WriteString("\n")
		if !h.Fix.IsZero() {
			fmt.Fprintf(&b, "           -> %s\n", h.Fix)
		}
	}
	return b.String()
}

func TestTheWayFromANameToItsEndpoints(t *testing.T) {
	rome, milan := importing()
	e := services.Explain(view(t, rome, milan), hello)
	golden.Compare(t, "explain.txt", lines(e))
	if e.Broken() != nil || e.NotLooked() != 0 || e.IP != "10.96.7.114" || e.Derived != services.DerivedName(hello) {
		t.Errorf("got %+v", e)
	}
}

func TestTheFirstBrokenHopIsNamed(t *testing.T) {
	of := func(v *services.View) *services.Found { return &v.Found }
	for _, c := range []struct {
		name   string
		before func(rome, milan *cluster)
		damage func(*services.View)
		want   string // the hop, and a part of what was found
	}{
		{"a reserved namespace", nil, func(v *services.View) { v.Own = []string{"shop"} }, "namespace shop: neither exported nor imported"},
		{"no namespace", nil, func(v *services.View) {
			v.Namespace = func(string) (exists, known bool) { return false, true }
		}, "namespace shop: rome does not have it"},
		{"no definitions", nil, func(v *services.View) { of(v).Exports = services.List[mcsv1beta1.ServiceExport]{Undefined: true} }, "API of Services by name: does not serve"},
		{"nobody exports it", func(_, milan *cluster) { milan.export = nil }, nil, "exports: neither rome nor a peer"},
		{"what is exported is not valid", func(_, milan *cluster) { milan.service.Spec.Type = corev1.ServiceTypeExternalName }, nil, "ServiceExport of milan: ExternalName"},
		{"the operator has not judged it", nil, func(v *services.View) { v.Peers[0].Found.Exports.Items[0].Status.Conditions = nil }, "ServiceExport of milan: not judged"},
		{"another program has the name", nil, func(v *services.View) {
			e := &v.Peers[0].Found.Exports.Items[0]
			e.Status.Conditions = services.NotReady(e, services.ReasonAnotherProgram, "another program has made the ServiceImport web: a cluster has one implementation of this API")
		}, "ServiceExport of milan: one implementation"},
		{"it is for others", func(_, milan *cluster) {
			milan.export.Annotations[wire.AnnotationExportTo] = "turin"
		}, func(v *services.View) { of(v).Copies.Items = nil }, "what milan has sent: exports it to turin only"},
		{"nothing was sent", nil, func(v *services.View) { of(v).Copies.Items = nil }, "what milan has sent: nothing of this name"},
		{"what was sent was refused", nil, func(v *services.View) {
			of(v).Copies.Items = nil
			v.Peers[0].Report.Refused = []wire.RefusedExports{{Reason: "its type is FQDN\x1b[2J", Slices: 1, Example: "shop/hello-milan-x"}}
		}, "what milan has sent: its type is FQDN?[2J"},
		{"the gateways don't talk", nil, func(v *services.View) { v.Peers[0].Report.Problem = "connection refused" }, "what milan has sent: connection refused; what it said before still counts"},
		{"it may not be imported", func(rome, _ *cluster) { rome.policy.Allowed["milan"] = services.Namespaces{Names: []string{"blog"}} }, nil, "import from milan: does not allow it"},
		{"no ServiceImport", nil, func(v *services.View) { of(v).Imports.Items = nil }, "ServiceImport: rome has none"},
		{"the name of the derived Service is taken", nil, func(v *services.View) {
			of(v).Services.Items[1].Labels = nil
		}, "Service " + services.DerivedName(hello) + ": another program"},
		{"no derived Service", nil, func(v *services.View) { of(v).Services.Items = of(v).Services.Items[:1] }, "Service " + services.DerivedName(hello) + ": does not have it"},
		{"another address", nil, func(v *services.View) { of(v).Imports.Items[0].Spec.IPs = []string{"10.96.1.1"} }, "Service " + services.DerivedName(hello) + ": the ServiceImport says 10.96.1.1"},
		{"no address", nil, func(v *services.View) { of(v).Imports.Items[0].Spec.IPs = nil }, "clusterset IP: has none"},
		{"no endpoints", func(_, milan *cluster) { milan.slices = nil }, nil, "EndpointSlices: no endpoint"},
		{"no endpoint is ready", func(_, milan *cluster) { milan.slices[0].Endpoints[0].Conditions.Ready = new(false) }, nil, "EndpointSlices: milan 0 of 1"},
		{"other ranges", nil, func(v *services.View) {
			v.Peers[0].Seen = func(string) (string, bool) { return "", false }
		}, "address of an endpoint in milan: rome has none for the 1 endpoint"},
		{"a broken tunnel", nil, func(v *services.View) { v.Peers[0].Tunnel = services.Tunnel{State: "no answer to pings", At: present} }, "tunnel to milan: no answer"},
		{"an endpoint that has ended", nil, func(v *services.View) { v.Peers[0].Found.Slices.Items[0].Endpoints = nil }, "endpoint 10.244.0.5 in milan: no such endpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rome, milan := importing()
			if c.before != nil {
				c.before(rome, milan)
			}
			v := view(t, rome, milan)
			if c.damage != nil {
				c.damage(&v)
			}
			e := services.Explain(v, hello)
			hop, text, _ := strings.Cut(c.want, ": ")
			if b := e.Broken(); b == nil || b.What != hop || !strings.Contains(b.Found, text) || b.Fix.IsZero() {
				t.Errorf("got %+v, want %s\n%s", b, c.want, lines(e))
			}
		})
	}
}

func TestAHopThatNobodyLookedAtIsNotGood(t *testing.T) {
	rome, milan := importing()
	v := view(t, rome, milan)
	for i, damage := range []func(*services.View){
		func(v *services.View) { v.Namespace = func(string) (exists, known bool) { return false, false } },
		func(v *services.View) { v.Found.Services = services.List[corev1.Service]{Unread: "forbidden"} },
		func(v *services.View) { v.Peers[0].Found, v.Peers[0].Unasked = nil, "no kubeconfig" },
		func(v *services.View) { v.Peers[0].Tunnel.Old = true },
	} {
		damage(&v)
		if e := services.Explain(v, hello); e.Broken() != nil || e.NotLooked() != i+1 {
			t.Errorf("after damage %d, %d hops were not looked at:\n%s", i, e.NotLooked(), lines(e))
		}
	}
	nothing := services.Explain(services.View{Self: "rome", Ours: v.Ours, Both: v.Both, Namespace: v.Namespace, Peers: []services.PeerView{{ID: "milan"}}}, hello)
	for _, h := range nothing.Hops {
		if h.Look != services.NotLooked {
			t.Errorf("nothing was read, and %s is %s: %s", h.What, h.Look, h.Found)
		}
	}
}

func TestAHeadlessServiceNeedsNoAddress(t *testing.T) {
	rome, milan := importing()
	milan.headless()
	if e := services.Explain(view(t, rome, milan), hello); e.Broken() != nil || e.NotLooked() != 0 || !e.Headless || e.IP != "" {
		t.Errorf("got\n%s", lines(e))
	}
}

func TestTheTableOfNames(t *testing.T) {
	rome, milan := importing()
	v := view(t, rome.exports(9).ports(corev1.ServicePort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}), milan)
	blog := v.Found.Copies.Items[0].DeepCopy()
	blog.Name, blog.Labels[wire.LabelServiceNamespace] = "blog.hello", "blog"
	v.Found.Add(types.NamespacedName{}, blog)
	v.Namespace = func(name string) (exists, known bool) { return name != "blog", true }
	v.Peers = append(v.Peers, services.PeerView{ID: "turin", Report: &wire.ServicesReport{Problem: "refused"}}, services.PeerView{ID: "paris"},
		services.PeerView{ID: "oslo", Report: &wire.ServicesReport{Problem: "refused"}, Tunnel: services.Tunnel{Works: true}}, services.PeerView{ID: "bern", Tunnel: services.Tunnel{Works: true}},
		services.PeerView{ID: "lodz", Report: &wire.ServicesReport{Problem: "refused", Complete: &present}, Tunnel: services.Tunnel{Works: true}})
	v.Found.Exports.Unread, v.Found.Exports.Read = "forbidden", false
	var b strings.Builder
	rows, unread, without := services.Rows(v)
	for _, r := range rows {
		fmt.Fprintf(&b, "%s by %s, from %s, %s %s, %s\n", r.Name, r.Exporters, r.From, r.Type, r.IPs, services.Text(r.Endpoints, v.Now))
		for _, p := range r.Problems {
			fmt.Fprintf(&b, "  %s\n", p)
		}
	}
	golden.Compare(t, "rows.txt", b.String()+strings.Join(unread, "\n")+"\nwithout "+strings.Join(without, "\nwithout ")+"\n")
}

// Four peers have as many names as a cluster accepts. If each row searched the objects of all names, this
// would take 25 s.
func TestTheTableOfManyNamesIsMadeAtOnce(t *testing.T) {
	const names = 8000
	rome, milan := importing()
	v := view(t, rome, milan)
	imported, slice, copied := v.Found.Imports.Items[0].DeepCopy(), v.Found.Slices.Items[0].DeepCopy(), v.Found.Copies.Items[0].DeepCopy()
	for i := range names {
		imported.Name, slice.Name, copied.Name = fmt.Sprintf("web%d", i), fmt.Sprintf("web%d-1", i), fmt.Sprintf("web%d.copy", i)
		slice.Labels[mcsv1beta1.LabelServiceName], copied.Labels[wire.LabelServiceName] = imported.Name, imported.Name
		for _, o := range []metav1.Object{imported.DeepCopy(), slice.DeepCopy(), copied.DeepCopy()} {
			v.Found.Add(types.NamespacedName{}, o)
		}
	}
	began := time.Now()
	rows, _, _ := services.Rows(v)
	took := time.Since(began)
	if len(rows) != names+1 || took > 5*time.Second {
		t.Fatalf("got %d rows in %s, want %d within 5s", len(rows), took, names+1)
	}
	if r := rows[7]; len(r.Endpoints) != 1 || len(r.Exporters) != 1 {
		t.Errorf("got %+v, want endpoints of milan, which exports the Service", r)
	}
}

// Each part that resolve calls broken is a problem in the list.
func TestAnImportWithoutReadyEndpointsIsAProblemOfTheTable(t *testing.T) {
	for want, damage := range map[string]func(*services.View){
		"import: no endpoint is ready: milan 0 of 1; see why the pods are not ready": func(v *services.View) {
			for i := range v.Found.Slices.Items {
				v.Found.Slices.Items[i].Endpoints[0].Conditions.Ready = new(false)
			}
		},
		"import: no endpoint in any cluster; start pods that the Service selects": func(v *services.View) { v.Found.Slices.Items = nil },
		"": func(v *services.View) { v.Found.Slices = services.List[discoveryv1.EndpointSlice]{Unread: "forbidden"} },
	} {
		rome, milan := importing()
		v := view(t, rome, milan)
		damage(&v)
		rows, _, _ := services.Rows(v)
		if len(rows) != 1 || (len(rows[0].Problems) == 0) != (want == "") {
			t.Fatalf("%q: got %+v", want, rows)
		}
		if want != "" && !strings.HasPrefix(rows[0].Problems[0].String(), want) {
			t.Errorf("got %q, want %q", rows[0].Problems[0], want)
		}
	}
}

// A name that pods can't resolve is broken, even if all other hops are good.
func TestTheWayBeginsAtTheName(t *testing.T) {
	fix := command.Text("put it back")
	for name, c := range map[string]struct {
		served *services.Served
		look   services.Look
		result string
		calls  int
	}{
		"nobody has asked":             {nil, services.NotLooked, "nothing is broken", 2},
		"it is served":                 {&services.Served{Wanted: true}, services.Good, "nothing is broken", 2},
		"nobody wants names":           {&services.Served{}, services.Good, "nothing is broken, and rome serves no names", 1},
		"the DNS server does not run":  {&services.Served{Wanted: true, Problem: "it does not run", Fix: fix}, services.Broken, "broken at: name hello.shop.svc.clusterset.local", 2},
		"the user may not see the DNS": {&services.Served{Wanted: true, Unknown: "forbidden"}, services.NotLooked, "nothing is broken, as far as it could be read; 1 part was not looked at", 2},
	} {
		rome, milan := importing()
		v := view(t, rome, milan)
		v.Served = c.served
		e := services.Explain(v, hello)
		last := e.Hops[len(e.Hops)-1]
		if c.served != nil && (last.What != "name hello.shop.svc.clusterset.local" || last.Look != c.look) {
			t.Errorf("%s: the last part is %+v, want the name, %s", name, last, c.look)
		}
		if got := e.Result(); got != c.result || len(e.Calls()) != c.calls {
			t.Errorf("%s: got %q and %q", name, got, e.Calls())
		}
	}
}

// The advice is for the cluster that has the Service, and only the first cause is broken.
func TestAServiceThatNobodyExportsIsExportedWhereItIs(t *testing.T) {
	rome, milan := importing()
	v := view(t, rome, milan)
	v.Found.Services.Items, v.Found.Imports.Items, v.Found.Slices.Items, v.Found.Copies.Items = nil, nil, nil, nil
	v.Peers[0].Found.Exports.Items = nil
	e := services.Explain(v, hello)
	broken := 0
	for _, h := range e.Hops {
		if h.Look == services.Broken {
			broken++
		}
	}
	if b := e.Broken(); broken != 1 || b.What != "exports" || !strings.Contains(b.Fix.String(), "--context milan") {
		t.Errorf("got %+v", e.Hops)
	}
}
