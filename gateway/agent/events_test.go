package agent

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestAnEventTellsOfATroubleThatLasts(t *testing.T) {
	const yes, no = networkingv1beta1.Connected, networkingv1beta1.Connecting
	type look struct {
		after  time.Duration
		value  networkingv1beta1.ConnectionStatusValue
		reason wire.Reason
		due    bool
	}
	for name, c := range map[string]struct {
		earlier past
		looks   []look
	}{
		"a new connection": {past{}, []look{
			{0, no, wire.ReasonNoKey, false},
			{4 * time.Second, no, wire.ReasonNoHandshake, false},
			{8 * time.Second, yes, wire.ReasonPinged, true},
			{10 * time.Second, yes, wire.ReasonPinged, false},
		}},
		"a firewall": {past{}, []look{
			{0, no, wire.ReasonNoHandshake, false},
			{8 * time.Second, no, wire.ReasonNoHandshake, false},
			{10 * time.Second, no, wire.ReasonNoHandshake, true},
			{60 * time.Second, no, wire.ReasonNoHandshake, false},
			{62 * time.Second, no, wire.ReasonKeyMismatch, false},
			{72 * time.Second, no, wire.ReasonKeyMismatch, true},
			{74 * time.Second, yes, wire.ReasonPinged, true},
		}},
		"an interruption that passes": {past{}, []look{
			{0, yes, wire.ReasonPinged, true},
			{2 * time.Second, no, wire.ReasonPeerSilent, false},
			{11 * time.Second, no, wire.ReasonPeerSilent, false},
			{12 * time.Second, yes, wire.ReasonPinged, false},
			{13 * time.Second, no, wire.ReasonPeerSilent, false},
			{23 * time.Second, no, wire.ReasonPeerSilent, true},
			{24 * time.Second, yes, wire.ReasonPinged, true},
		}},
		"another process goes on": {past{report: wire.Report{Reason: wire.ReasonPinged}, value: yes, term: 1}, []look{
			{0, no, wire.ReasonNoHandshake, false},
			{4 * time.Second, yes, wire.ReasonPinged, false},
		}},
		"another process finds the trouble": {past{report: wire.Report{Reason: wire.ReasonPeerSilent}, value: no, term: 1}, []look{
			{0, no, wire.ReasonPeerSilent, false},
			{10 * time.Second, no, wire.ReasonPeerSilent, true},
		}},
	} {
		var h reporting
		h.follow(c.earlier)
		start := time.Now()
		for i, l := range c.looks {
			due := h.told.due(start.Add(l.after), l.value, l.reason)
			if due != l.due {
				t.Errorf("%s: look %d, after %s, at %s: due is %v", name, i, l.after, l.reason, due)
			}
			if due {
				h.told.reason = l.reason
			}
		}
	}
}

// counted counts the requests that change objects.
type counted struct {
	next   http.RoundTripper
	writes *atomic.Int32
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/events") {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// A gateway records Events with the rights of its Role. A connection that fails and recovers again and again
// causes no more Events than a stable connection.
func TestEventsOfAConnection(t *testing.T) {
	a := startAPI(t)
	tenant := render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}
	a.create(render.TenantNamespace(tenant))
	owner := render.GatewayClient(render.ClientParams{Tenant: tenant, Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340})
	a.create(owner)
	owner.GetObjectKind().SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind))
	g := render.Gateway{Tenant: tenant, Name: "milan", Type: networkingv1beta1.ConnectionTypeClient, Owner: owner}
	a.create(g.Connection())
	for _, o := range []client.Object{g.Role(), g.RoleBinding()} {
		a.create(o)
	}
	var writes atomic.Int32
	config := a.as(tenant.Namespace, "milan")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, &writes} })
	mgr, err := newManager(config, "0", cache.Options{DefaultNamespaces: map[string]cache.Config{tenant.Namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stop := a.run(ctx, cancel, mgr)
	defer stop()
	agent := &gatewayAgent{options: TunnelOptions{Gateway: g}, client: mgr.GetClient(), events: mgr.GetEventRecorder(wire.GatewayReporter)}
	say := func(value networkingv1beta1.ConnectionStatusValue, reason wire.Reason, message string) {
		said := wire.Report{Reason: reason, Message: message}
		conn, err := agent.write(t.Context(), value, said)
		if err != nil {
			t.Fatal(err)
		}
		record(agent.events, conn, value, said)
	}
	const rounds = 30
	for range rounds {
		say(networkingv1beta1.Connecting, wire.ReasonKeyMismatch, strings.Repeat("no packet was encrypted with a known key ", 50))
		say(networkingv1beta1.Connected, wire.ReasonPinged, "the peer's gateway answers pings")
	}
	var conn networkingv1beta1.Connection
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(g.Connection()), &conn); err != nil {
		t.Fatal(err)
	}
	var list corev1.EventList
	series := func() bool {
		if err := a.List(t.Context(), &list, client.InNamespace(tenant.Namespace)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) >= 2 && !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Series == nil })
	}
	for deadline := time.Now().Add(untilLate); !series() && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
	}
	kinds := map[string]string{"KeyMismatch": corev1.EventTypeWarning, "Connected": corev1.EventTypeNormal}
	for _, e := range list.Items {
		if e.Type != kinds[e.Reason] || e.InvolvedObject.UID != conn.UID || e.Series == nil || !wire.IsOwnEvent(&e) || len(list.Items) != 2 {
			t.Errorf("one of %d events, want one of 2, of something that repeats: %+v", len(list.Items), e)
		}
	}
	if n := writes.Load(); n > 8 { // 2 for each Event, and 2 more if its second write overtook the first
		t.Errorf("%d changes made %d writes, want 8 at most", 2*rounds, n)
	}
	var roles rbacv1.RoleList
	if err := mgr.GetAPIReader().List(t.Context(), &roles, client.InNamespace(metav1.NamespaceDefault)); err == nil {
		t.Error("the account may more than a gateway: this test shows nothing of its rights")
	}
}
