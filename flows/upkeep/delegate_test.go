package upkeep_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// connectedPair are the facts of rome, the client, and milan, the server, as
// they are after a connect.
func connectedPair() flows.Facts {
	meta := func(peer string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "liqo-tenant-" + peer, Name: peer, UID: "uid-of-" + "gateway",
			Labels: map[string]string{wire.LabelRemoteCluster: peer},
		}
	}
	cluster := func(id, peer string) flows.ClusterFacts {
		return flows.ClusterFacts{
			UID: id, ID: wire.ClusterID(id), Software: flows.Operator, HasCRDs: true, Server: "https://192.0.2.1:6443",
			Networks:   render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}},
			PublicKeys: []networkingv1beta1.PublicKey{{ObjectMeta: meta(peer)}},
			Delegation: &flows.DelegationFacts{CA: []byte("CA of " + id)},
		}
	}
	rome, milan := cluster("rome", "milan"), cluster("milan", "rome")
	endpoint := networkingv1beta1.EndpointStatus{Addresses: []string{"198.51.100.7"}, Port: 31840}
	rome.Clients = []networkingv1beta1.GatewayClient{{ObjectMeta: meta("milan"), Spec: networkingv1beta1.GatewayClientSpec{Endpoint: endpoint}}}
	milan.Servers = []networkingv1beta1.GatewayServer{{ObjectMeta: meta("rome"), Status: networkingv1beta1.GatewayServerStatus{Endpoint: &endpoint}}}
	return flows.Facts{Sides: [2]flows.ClusterFacts{rome, milan}}
}

// apply does what the ready steps of the plan say, and makes the tokens.
func applyDelegation(t *testing.T, f *flows.Facts, p flows.Plan) {
	t.Helper()
	for _, s := range p.Steps {
		facts := f.Sides[flows.A].Delegation
		if s.Side == flows.B {
			facts = f.Sides[flows.B].Delegation
		}
		for _, o := range s.Objects {
			switch o := o.(type) {
			case *corev1.ServiceAccount:
				facts.Accounts = append(facts.Accounts, *o)
			case *rbacv1.Role:
				facts.Roles = append(facts.Roles, *o)
			case *rbacv1.RoleBinding:
				facts.Bindings = append(facts.Bindings, *o)
			case *corev1.Secret:
				if o.Type == corev1.SecretTypeServiceAccountToken {
					o.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("token for the peer of " + o.Namespace)}
				}
				facts.Secrets = append(facts.Secrets, *o)
			default:
				t.Fatalf("a delegation consists of no %T", o)
			}
		}
	}
}

func TestDelegationComesInThreeRounds(t *testing.T) {
	f := connectedPair()
	for round, want := range [][]string{
		{"ServiceAccount", "Role", "RoleBinding", "ServiceAccount", "Role", "RoleBinding"},
		{"Secret", "Secret"}, // tokens
		{"Secret", "Secret"}, // access
		nil,
	} {
		p := upkeep.Delegate(upkeep.DelegateParams{}, f)
		var got []string
		for _, s := range p.Steps {
			for _, o := range s.Objects {
				got = append(got, o.GetObjectKind().GroupVersionKind().Kind)
			}
		}
		if !slices.Equal(got, want) || p.Done() != (want == nil) {
			t.Fatalf("round %d: got %q, done %t, want %q", round, got, p.Done(), want)
		}
		applyDelegation(t, &f, p)
	}
	for _, side := range []struct {
		facts            *flows.DelegationFacts
		token, ca        string
		carries, outside string
	}{
		{f.Sides[flows.A].Delegation, "token for the peer of liqo-tenant-rome", "CA of milan", "key", "liqo-tenant-rome"},
		{f.Sides[flows.B].Delegation, "token for the peer of liqo-tenant-milan", "CA of rome", "endpoint and key", "liqo-tenant-milan"},
	} {
		i := slices.IndexFunc(side.facts.Secrets, func(s corev1.Secret) bool { return s.Labels[render.LabelDelegate] == render.DelegateAccess })
		access, err := render.ParsePeerAccess(&side.facts.Secrets[i])
		if err != nil {
			t.Fatal(err)
		}
		if string(access.Token) != side.token || string(access.CA) != side.ca || access.Namespace != side.outside {
			t.Errorf("got access %q to %s of %q, want %q to %s of %q", access.Token, access.Namespace, access.CA, side.token, side.outside, side.ca)
		}
		if access.Endpoint != (side.carries == "endpoint and key") {
			t.Errorf("to %s: endpoint is carried: %t, want %s", access.Namespace, access.Endpoint, side.carries)
		}
	}
}

// A URL that the admin reaches may lead nowhere for the operator, which says so.
func TestDelegationEndsWithTheFirstSuccess(t *testing.T) {
	f, params := connectedPair(), upkeep.DelegateParams{Wait: true}
	for range 3 {
		applyDelegation(t, &f, upkeep.Delegate(params, f))
	}
	for _, c := range []struct {
		said   string
		status flows.Status
		reason string
	}{
		{"", flows.Waiting, "the operator has not used it yet"},
		{"its key is carried to https://198.51.100.1:6443", flows.Waiting, "the operator has not used it yet"},
		{"can't renew its token at https://192.0.2.1:6443: connection refused", flows.Waiting, "the operator can't renew its token at https://192.0.2.1:6443: connection refused"},
		{"its key is carried to https://192.0.2.1:6443", flows.Done, "its key is carried to https://192.0.2.1:6443"},
		{"its key is passed to https://192.0.2.1:6443; its endpoint is not", flows.Done, "its key is passed to https://192.0.2.1:6443; its endpoint is not"},
	} {
		f.Sides[flows.A].Clients[0].Annotations = map[string]string{render.AnnotationDelegation: c.said}
		plan := upkeep.Delegate(params, f)
		if s, _ := plan.Step("delegate-reaches-a"); s.Status != c.status || s.Reason != c.reason {
			t.Errorf("%q: got %v, %q, want %v, %q", c.said, s.Status, s.Reason, c.status, c.reason)
		}
		if plan.Done() {
			t.Errorf("%q: done, and milan's operator has said nothing", c.said)
		}
	}
	f.Sides[flows.B].Servers[0].Annotations = map[string]string{render.AnnotationDelegation: "its endpoint and key are carried to https://192.0.2.1:6443"}
	if plan := upkeep.Delegate(params, f); !plan.Done() {
		t.Errorf("both have reached the other one: got %+v", plan.Steps)
	}
}

// A kubeconfig may lead through a proxy, whose certificates no other URL has.
func TestCertificatesAreThoseOfTheURL(t *testing.T) {
	f := connectedPair()
	params := upkeep.DelegateParams{APIServer: [2]string{flows.B: "https://203.0.113.7:6443"}}
	for range 3 {
		p := upkeep.Delegate(params, f)
		applyDelegation(t, &f, p)
		for i := range f.Sides[flows.B].Delegation.Secrets {
			if s := &f.Sides[flows.B].Delegation.Secrets[i]; s.Type == corev1.SecretTypeServiceAccountToken {
				s.Data[corev1.ServiceAccountRootCAKey] = []byte("the cluster's own CA")
			}
		}
	}
	for side, want := range []string{flows.A: "the cluster's own CA", flows.B: "CA of rome"} {
		secrets := f.Sides[side].Delegation.Secrets
		i := slices.IndexFunc(secrets, func(s corev1.Secret) bool { return s.Labels[render.LabelDelegate] == render.DelegateAccess })
		access, err := render.ParsePeerAccess(&secrets[i])
		if err != nil || string(access.CA) != want {
			t.Errorf("side %d: got %s, %q, %v; want %q", side, access.Server, access.CA, err, want)
		}
	}
}

// TestATokenThatExpiresIsKeptAsLongAsItIsGood has the operators replace the tokens,
// as they do, and then be away for longer than these are good for.
func TestATokenThatExpiresIsKeptAsLongAsItIsGood(t *testing.T) {
	f := connectedPair()
	f.At = time.Unix(1e9, 0)
	for range 3 {
		applyDelegation(t, &f, upkeep.Delegate(upkeep.DelegateParams{}, f))
	}
	for _, facts := range []*flows.DelegationFacts{f.Sides[flows.A].Delegation, f.Sides[flows.B].Delegation} {
		facts.Secrets = slices.DeleteFunc(facts.Secrets, func(s corev1.Secret) bool { return s.Type == corev1.SecretTypeServiceAccountToken })
		facts.Secrets[0].Annotations["liqo-tui.dev/token-expires"] = f.At.Add(render.DelegateTokenLife).UTC().Format(time.RFC3339)
	}
	if p := upkeep.Delegate(upkeep.DelegateParams{}, f); !p.Done() {
		t.Errorf("while they are good, got %+v", p.Steps)
	}
	f.At = f.At.Add(render.DelegateTokenLife)
	p := upkeep.Delegate(upkeep.DelegateParams{}, f)
	for _, id := range []flows.StepID{"delegate-token-secret-a", "delegate-token-secret-b"} {
		if s, ok := p.Step(id); !ok || s.Status != flows.Ready {
			t.Errorf("%s when they are over: got %v, want it ready", id, s.Status)
		}
	}
}

func TestAnAddressThatAnAdminChoseStays(t *testing.T) {
	f := connectedPair()
	f.Sides[flows.A].Clients[0].Spec.Endpoint.Addresses = []string{"203.0.113.1"} // of a router in front of milan
	for range 3 {
		applyDelegation(t, &f, upkeep.Delegate(upkeep.DelegateParams{}, f))
	}
	for _, s := range f.Sides[flows.B].Delegation.Secrets {
		if access, err := render.ParsePeerAccess(&s); err == nil && access.Endpoint {
			t.Error("milan's operator would overwrite the address with its own")
		}
	}
}

// The server's endpoint may be on its way to the client when somebody delegates
// again.
func TestDelegatingAgainDoesNotEndWhatIsCarried(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient)
		want   bool
	}{
		"nothing new":  {func(*networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient) {}, true},
		"moved":        {func(s *networkingv1beta1.GatewayServer, _ *networkingv1beta1.GatewayClient) { s.Status.Endpoint.Port++ }, true},
		"has none now": {func(s *networkingv1beta1.GatewayServer, _ *networkingv1beta1.GatewayClient) { s.Status.Endpoint = nil }, true},
		"moved twice, and was carried once": {func(s *networkingv1beta1.GatewayServer, c *networkingv1beta1.GatewayClient) {
			c.Spec.Endpoint.Port++
			c.Annotations = map[string]string{render.AnnotationCarried: render.EndpointText(c.Spec.Endpoint)}
			s.Status.Endpoint.Port += 2
		}, true},
		"an admin chose": {func(_ *networkingv1beta1.GatewayServer, c *networkingv1beta1.GatewayClient) {
			c.Annotations = map[string]string{render.AnnotationCarried: render.EndpointText(c.Spec.Endpoint)}
			c.Spec.Endpoint.Addresses = []string{"203.0.113.1"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := connectedPair()
			for range 3 {
				applyDelegation(t, &f, upkeep.Delegate(upkeep.DelegateParams{}, f))
			}
			server, client := &f.Sides[flows.B].Servers[0], &f.Sides[flows.A].Clients[0]
			server.Status.Endpoint = server.Status.Endpoint.DeepCopy()
			tc.change(server, client)
			plan := upkeep.Delegate(upkeep.DelegateParams{}, f)
			if plan.Done() != tc.want {
				t.Errorf("got done %t, want %t", plan.Done(), tc.want)
			}
			for _, s := range plan.Steps {
				for _, o := range s.Objects {
					access, err := render.ParsePeerAccess(o.(*corev1.Secret))
					if err != nil || access.Endpoint != tc.want {
						t.Errorf("%s: got endpoint %t, %v; want %t", s.Title, access.Endpoint, err, tc.want)
					}
				}
			}
		})
	}
}

func TestDelegationIsRefusedBeforeAnythingIsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*flows.Facts, *upkeep.DelegateParams)
		want   string
	}{
		"Liqo on one side": {func(f *flows.Facts, _ *upkeep.DelegateParams) { f.Sides[flows.B].Software = flows.Liqo }, "milan is connected by Liqo"},
		"not connected":    {func(f *flows.Facts, _ *upkeep.DelegateParams) { f.Sides[flows.A].Clients = nil }, "rome has no gateway with a public key for milan"},
		"a local address":  {func(f *flows.Facts, _ *upkeep.DelegateParams) { f.Sides[flows.A].Server = "https://127.0.0.1:6443" }, "rome's API server is https://127.0.0.1:6443"},
		"no https":         {func(_ *flows.Facts, p *upkeep.DelegateParams) { p.APIServer[flows.B] = "milan.example" }, `milan's API server "milan.example" is not an https:// URL`},
		"overridden, fine": {func(f *flows.Facts, p *upkeep.DelegateParams) {
			f.Sides[flows.A].Server, p.APIServer[flows.A] = "https://localhost", "https://rome.example"
		}, ""},
		"its name is local": {func(f *flows.Facts, _ *upkeep.DelegateParams) { f.Sides[flows.A].Server = "https://localhost:6443" }, "which another machine can't reach"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := connectedPair(), upkeep.DelegateParams{}
			c.change(&f, &p)
			plan := upkeep.Delegate(p, f)
			got := ""
			if failed := plan.Failure(); failed != nil {
				got = failed.Reason
				if failed.Hint().IsZero() || failed.Kind != flows.FailedPreflight {
					t.Errorf("got hint %q and kind %d, want a hint, and that nothing was changed", failed.Hint(), failed.Kind)
				}
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestNoTokenIsShown looks at all that a screen or a log gets of a plan.
func TestNoTokenIsShown(t *testing.T) {
	f := connectedPair()
	for range 3 {
		p := upkeep.Delegate(upkeep.DelegateParams{}, f)
		for _, s := range p.Steps {
			if text := fmt.Sprint(s.Title, s.Reason, s.Diff, s.Evidence); strings.Contains(text, "token for") || strings.Contains(text, "dG9rZW4gZm9y") {
				t.Errorf("step %s shows a token: %s", s.ID, text)
			}
		}
		applyDelegation(t, &f, p)
	}
}
