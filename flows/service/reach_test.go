package service_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
)

func serviceOf(namespace, name string, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.9"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 5432}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func offers(t *testing.T, p *simulated.Pair) (all []service.Offer, left []string) {
	t.Helper()
	f, err := engine.Observe(t.Context(), p.A, p.B, p.Now)
	if err == nil {
		answers := engine.Answers{Now: p.Now}
		err = answers.Ask(t.Context(), &f, [2]engine.Cluster{p.A, p.B}, service.AskOffers()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return service.Offers(f)
}

func TestWhatCannotBeExportedIsNoOffer(t *testing.T) {
	p := connected(t)
	for _, name := range []string{"default", "kube-system", "here"} {
		p.A.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	p.A.PutAs("kubectl",
		serviceOf("default", "kubernetes", nil), serviceOf("kube-system", "kube-dns", nil),
		serviceOf("shop", "old", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
		serviceOf("here", "db", nil),
	)
	run(t, p, exporting(service.ExportParams{Name: web})) // makes a derived Service, which can't be exported
	all, left := offers(t, p)
	want := []service.Offer{
		{Side: flows.A, Name: types.NamespacedName{Namespace: "here", Name: "db"}, Missing: "milan has no namespace here"},
		{Side: flows.A, Name: web, Exported: true},
	}
	if !slices.Equal(all, want) {
		t.Errorf("got %+v, want %+v", all, want)
	}
	if got, want := strings.Join(left, "\n"), "Not listed of rome: shop/old (a Service of type ExternalName has no endpoints); 2 Services of default, kube-… and liqo-tui, which are never exported."; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// call returns the result of a call by a pod of milan.
func call(t *testing.T, p *simulated.Pair, name types.NamespacedName) service.Answer {
	t.Helper()
	a, err := engine.CallService(t.Context(), name, simulated.Equipped{Cluster: p.A}, simulated.Equipped{Cluster: p.B}, p.Now, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheFirstAnswerNamesItsRequest(t *testing.T) {
	p := connected(t)
	run(t, p, exporting(service.ExportParams{Name: web}))
	a := call(t, p, web)
	if !a.Came() || !strings.HasPrefix(a.Call.Host, "10.97.") || a.Curl() != "curl http://"+a.Call.Host {
		t.Errorf("got %+v, %q", a.Call, a.Curl())
	}
	if got, want := strings.Join(a.Lines(), "\n"), "First answer from rome to a pod of milan: GET http://"+a.Call.Host+", HTTP status 200, after 4ms."; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Without an answer to a pod, the text never claims one.
func TestWithoutAnAnswerTheBrokenPartIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*simulated.Pair)
		name    types.NamespacedName
		want    []string
	}{
		"not exported": {func(*simulated.Pair) {}, web, []string{"No pod of milan has called it: milan does not import it.", "The way is broken at: exports", "To do: export it"}},
		"no pods": {func(p *simulated.Pair) {
			run(t, p, exporting(service.ExportParams{Name: web}))
			p.B.Behave(func(b *simulated.Behaviour) { b.NoPods = "pods are forbidden" })
		}, web, []string{"No pod of milan has called it: milan: pods are forbidden."}},
		"only UDP": {func(p *simulated.Pair) {
			p.A.PutAs("kubectl", serviceOf("shop", "dns", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }))
			run(t, p, exporting(service.ExportParams{Name: types.NamespacedName{Namespace: "shop", Name: "dns"}}))
		}, types.NamespacedName{Namespace: "shop", Name: "dns"}, []string{"it has no TCP port"}},
		"no endpoint": {func(p *simulated.Pair) {
			p.A.PutAs("kubectl", serviceOf("shop", "db", nil))
			run(t, p, exporting(service.ExportParams{Name: types.NamespacedName{Namespace: "shop", Name: "db"}}))
		}, types.NamespacedName{Namespace: "shop", Name: "db"}, []string{"No answer to a pod of milan: a TCP connection to 10.97.", "connection refused.", "The way is broken at: EndpointSlices"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := connected(t)
			c.prepare(p)
			a := call(t, p, c.name)
			got := strings.Join(a.Lines(), "\n")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwithout %q", got, want)
				}
			}
			if a.Came() || strings.Contains(got, "First answer") {
				t.Errorf("got an answer:\n%s", got)
			}
		})
	}
}

func TestOneClusterWithoutServicesIsSaid(t *testing.T) {
	p := connected(t)
	see := func() flows.Facts {
		f, err := engine.Observe(t.Context(), p.A, p.B, p.Now)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if both, why, _ := service.Exchange(see()); !both || why != "" {
		t.Errorf("got %t, %q", both, why)
	}
	p.B.Behave(func(b *simulated.Behaviour) { b.Services = false })
	p.Advance(simulated.TickLength * 60)
	both, why, fix := service.Exchange(see())
	if both || why != "To reach a Service by name, milan has to exchange Services, too:" || len(fix) != 1 || !strings.HasPrefix(fix[0].String(), "liqo-tui install --services") {
		t.Errorf("got %t, %q, %v", both, why, fix)
	}
}
