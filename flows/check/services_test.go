package check_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// sharing returns rome and milan, connected. Both have the namespace shop, and rome exports its Service web.
func sharing(t *testing.T) *flowtest.Pair {
	t.Helper()
	p := flowtest.NewPair()
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Behave(func(b *flowtest.Behaviour) { b.Services = true })
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
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.5"}}},
	})
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan {
		return service.Export(service.ExportParams{Name: types.NamespacedName{Namespace: "shop", Name: "web"}}, f)
	}))
	p.Settle()
	p.Advance(15 * time.Second) // until the gateways have reported the received exports
	p.Settle()
	return p
}

// asked returns the facts with the answers to all questions of the command check.
func asked(t *testing.T, p *flowtest.Pair) flows.Facts {
	t.Helper()
	f, answers := flowtest.Facts(p), engine.Answers{Now: p.Now}
	for asks := check.AsksNames(f); len(flows.Open(f, asks)) > 0; asks = check.AsksNames(f) {
		if err := answers.Ask(t.Context(), &f, [2]engine.Cluster{p.A, p.B}, asks...); err != nil {
			t.Fatal(err)
		}
	}
	if err := answers.Ask(t.Context(), &f, [2]engine.Cluster{p.A, p.B}, check.AsksServices(f)...); err != nil {
		t.Fatal(err)
	}
	return f
}

func ofServices(f flows.Facts) []check.Result {
	return slices.DeleteFunc(check.Diagnose(f, nil), func(r check.Result) bool { return !r.OfServices() })
}

var age = regexp.MustCompile(`[0-9]+s ago`)

func TestServicesThatAreFinePass(t *testing.T) {
	var got []string
	for _, r := range ofServices(asked(t, sharing(t))) {
		got = append(got, strings.Join([]string{string(r.ID), sideOf(r), r.State.String(), age.ReplaceAllString(r.Summary, "N s ago")}, " "))
	}
	want := []string{
		"LT-S001 A,B pass the gateways of both do",
		"LT-S002 A→B pass 0 EndpointSlices of milan, as of N s ago",
		"LT-S002 B→A pass 1 EndpointSlice of rome, as of N s ago",
		"LT-S003 A pass 1 ServiceExport",
		"LT-S003 B pass 0 ServiceExports",
		"LT-S004 A→B pass rome has received no export of milan",
		"LT-S004 B→A pass milan imports what rome exports",
		"LT-S005 A pass 1 ServiceImport",
		"LT-S005 B pass 1 ServiceImport",
		"LT-S006 A pass no other program makes ServiceImports",
		"LT-S006 B pass no other program makes ServiceImports",
		"LT-S007 A pass names are not wanted: pods call derived Services",
		"LT-S007 B pass names are not wanted: pods call derived Services",
		"LT-S008 A→B pass no third cluster exports a name of milan without being its peer",
		"LT-S008 B→A pass no third cluster exports a name of rome without being its peer",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Clusters that exchange no Services are not asked about Services, and have no results about them.
func TestNothingIsSaidOfServicesWhereThereAreNone(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	p.Settle()
	f := flowtest.Facts(p)
	if got, asks := ofServices(f), append(check.AsksNames(f), check.AsksServices(f)...); len(got)+len(asks) > 0 {
		t.Errorf("got %v, asks %v", got, asks)
	}
}

func TestServicesThatNobodyCouldLookAtNeverPass(t *testing.T) {
	p := sharing(t)
	refused := asked(t, p)
	for _, side := range []flows.Side{flows.A, flows.B} {
		flows.Read(service.Asks(types.NamespacedName{}, side)[0].(flows.AskServices), services.Unread("this user may not read them")).Store(&refused, refused.At)
		flows.Unknown(flows.AskInstallation{Side: side}, "this user may not read it").Store(&refused, refused.At)
	}
	for name, f := range map[string]flows.Facts{"nobody has asked": flowtest.Facts(p), "refused": refused} {
		for _, r := range ofServices(f) {
			if r.ID > check.ExportsArrive && r.State != check.Inconclusive {
				t.Errorf("%s: %s %s: got %v, %q", name, r.ID, sideOf(r), r.State, r.Summary)
			}
		}
	}
}

func TestWhatIsWrongWithServicesIsNamed(t *testing.T) {
	report := func(side flows.Side, edit func(*wire.ServicesReport)) func(*flows.Facts) {
		return func(f *flows.Facts) {
			says(&f.Sides[side], f.At, func(r *wire.Report) {
				now := f.At
				r.Reason, r.Services = wire.ReasonPinged, &wire.ServicesReport{Complete: &now, Heard: &now}
				edit(r.Services)
			})
		}
	}
	found := func(side flows.Side, edit func(*services.Found)) func(*flows.Facts) {
		return func(f *flows.Facts) { edit(f.Sides[side].Services.Value()) }
	}
	names := func(edit func(*flows.InstallationFacts), dns ...*unstructured.Unstructured) func(*flows.Facts) {
		return func(f *flows.Facts) {
			i := flows.InstallationFacts{Objects: []wire.Object{
				&corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: wire.DNSName}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.53", ClusterIPs: []string{"10.96.0.53"}}},
				&appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: wire.DNSName}, Status: appsv1.DeploymentStatus{AvailableReplicas: 2}},
			}}
			edit(&i)
			flows.Read(flows.AskInstallation{Side: flows.B}, i).Store(f, f.At)
			flows.Read(flows.AskDNS{Side: flows.B}, dns).Store(f, f.At)
		}
	}
	corefile := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "kube-system", "name": "coredns"}, "data": map[string]any{"Corefile": text},
		}}
	}
	none := func(*flows.InstallationFacts) {}
	const plain = ".:53 {\n    kubernetes cluster.local\n    reload\n}\n"
	for name, tc := range map[string]struct {
		damage func(*flows.Facts)
		id     flows.Code
		where  string
		state  check.Outcome
		says   string
		fix    string
	}{
		"off in milan": {func(f *flows.Facts) {
			says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Reason = wire.ReasonPinged })
		}, check.BothExchange, "A,B", check.Warn, "rome exchanges Services, and the gateway of milan does not", "install --services"},
		"Liqo connects milan": {func(f *flows.Facts) {
			says(&f.Sides[flows.B], f.At, func(r *wire.Report) { r.Reason = wire.ReasonPinged })
			f.Sides[flows.B].Software = flows.Liqo
		}, check.BothExchange, "A,B", check.Warn, "Liqo connects milan", ""},
		"nothing is served": {report(flows.A, func(r *wire.ServicesReport) { r.ServeProblem = "address in use" }), check.ExportsArrive, "B→A", check.Fail, "rome serves nothing: address in use", "logs"},
		"nothing is read":   {report(flows.B, func(r *wire.ServicesReport) { r.Problem = "connection refused" }), check.ExportsArrive, "B→A", check.Fail, "nothing is received from rome now: connection refused", "logs"},
		"not read yet":      {report(flows.B, func(r *wire.ServicesReport) { r.Complete = nil }), check.ExportsArrive, "B→A", check.Inconclusive, "was not read yet", ""},
		"refused": {
			report(flows.B, func(r *wire.ServicesReport) {
				r.Refused = []wire.RefusedExports{{Reason: "too many", Slices: 3, Example: "shop/web-x"}}
			}), check.ExportsArrive, "B→A", check.Warn, "milan refuses 3 EndpointSlices of rome, such as shop/web-x: too many", "admin of rome",
		},
		"an export that is not valid": {found(flows.A, func(f *services.Found) {
			f.Exports.Items[0].Status.Conditions = []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse, Message: "there is no Service web"}}
		}), check.ExportsWork, "A", check.Warn, "shop/web: export: it can't be exported: there is no Service web", "change the Service"},
		"a conflict": {found(flows.A, func(f *services.Found) {
			f.Exports.Items[0].Status.Conditions = append(f.Exports.Items[0].Status.Conditions[:2:2], metav1.Condition{Type: "Conflict", Status: metav1.ConditionTrue, Reason: "PortConflict", Message: "different in milan"})
		}), check.ExportsWork, "A", check.Warn, "the exporters disagree (PortConflict): different in milan", ""},
		"not allowed": {func(f *flows.Facts) {
			c := *f.End(flows.B).Configuration.DeepCopy()
			c.Annotations[wire.AnnotationImport] = "blog"
			f.Sides[flows.B].Configurations = append(f.Sides[flows.B].Configurations[:0:0], c)
		}, check.ImportsAllowed, "B→A", check.Warn, "rome exports shop/web, and milan does not import it into these namespaces", "service allow --from rome --context kind-milan --namespace blog,shop"},
		"no namespace": {func(f *flows.Facts) {
			f.Sides[flows.B].Services.Value().Imports.Items = nil
			f.Sides[flows.B].Namespaces = slices.DeleteFunc(slices.Clone(f.Sides[flows.B].Namespaces), func(n corev1.Namespace) bool { return n.Name == "shop" })
		}, check.ImportsAllowed, "B→A", check.Warn, "milan has no namespace shop", ""},
		"no import":   {found(flows.B, func(f *services.Found) { f.Imports.Items = nil }), check.ImportsWork, "B", check.Fail, "shop/web: not imported yet", "see the operator"},
		"no endpoint": {found(flows.B, func(f *services.Found) { f.Slices.Items = nil }), check.ImportsWork, "B", check.Warn, "no endpoint in any cluster", "start pods"},
		"another program": {found(flows.B, func(f *services.Found) {
			f.Imports.Items[0].Labels = nil
			f.Imports.Items[0].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "cilium-operator"}}
		}), check.OneProgram, "B", check.Warn, "ServiceImport shop/web: cilium-operator", "one implementation"},
		"names are served":          {names(none, corefile(plain+"clusterset.local:53 {\n    forward . 10.96.0.53\n}\n")), check.NamesServed, "B", check.Pass, "forwards to it", ""},
		"the forward is gone":       {names(none, corefile(plain)), check.NamesServed, "B", check.Fail, "the cluster's DNS (CoreDNS) does not forward clusterset.local", "install --names"},
		"another DNS":               {names(none), check.NamesServed, "B", check.Inconclusive, "not known whether the cluster's DNS asks", "10.96.0.53"},
		"the server's pods are not": {names(func(i *flows.InstallationFacts) { i.Objects[1].(*appsv1.Deployment).Status.AvailableReplicas = 0 }), check.NamesServed, "B", check.Fail, "the DNS server does not run", "describe"},
		"the server is gone":        {names(func(i *flows.InstallationFacts) { i.Objects = i.Objects[:1] }), check.NamesServed, "B", check.Fail, "a part of the DNS server is gone", "install --names"},
		"exporters do not meet": {found(flows.B, func(f *services.Found) {
			turin := f.Copies.Items[0].DeepCopy()
			turin.Namespace, turin.Labels[wire.LabelRemoteCluster] = wire.TenantNamespaceName("turin"), "turin"
			f.Copies.Items = append(f.Copies.Items, *turin)
		}), check.ExportersMeet, "B→A", check.Warn, "rome and turin both export shop/web, and are not connected", "network connect"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sharing(t)
			if name == "exporters do not meet" { // turin is a peer of milan, and not of rome
				c := flowtest.Facts(p).End(flows.B).Configuration.DeepCopy()
				c.APIVersion, c.Kind = networkingv1beta1.GroupVersion.String(), networkingv1beta1.ConfigurationKind
				c.Namespace, c.Name, c.Labels[wire.LabelRemoteCluster], c.ManagedFields = wire.TenantNamespaceName("turin"), "turin", "turin", nil
				p.B.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}, c)
			}
			f := asked(t, p)
			tc.damage(&f)
			for _, r := range ofServices(f) {
				if r.ID != tc.id || sideOf(r) != tc.where {
					continue
				}
				if text := r.Summary + fmt.Sprint(r.Evidence); r.State != tc.state || !strings.Contains(text, tc.says) || !strings.Contains(fmt.Sprint(r.Fix), tc.fix) || (len(r.Fix) == 0) != (tc.fix == "") {
					t.Errorf("got %v, %q, %v", r.State, text, r.Fix)
				}
				if v := check.Verdict(f, []check.Result{r}); v.State == view.Degraded {
					t.Errorf("the connection is %v", v)
				}
				return
			}
			t.Error("there is no such result")
		})
	}
}
