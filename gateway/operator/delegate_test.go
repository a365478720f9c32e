package operator

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestDelegatedChangesAreCarried has two control planes. The operator runs only on rome, which is the server.
// It changes milan's client and key.
func TestDelegatedChangesAreCarried(t *testing.T) {
	t.Parallel()
	rome, milan := newWorld(t), newWorld(t)
	rome.node("node-a", "192.0.2.11")
	rome.node("node-b", "192.0.2.12")
	rome.runOperator()
	rome.peer("milan", "10.244.0.0/16")
	server := render.GatewayServer(render.ServerParams{
		Tenant:   render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"},
		Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"}, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
	})
	rome.create(server)
	until(rome, server, "with an endpoint", func(s *networkingv1beta1.GatewayServer) bool { return s.Status.Endpoint != nil })
	server.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind))

	identity := milan.clientOfRome(server.Status.Endpoint)
	token := milan.identify(identity)
	access, err := render.Delegate{Tenant: render.Tenant{Namespace: server.Namespace, Remote: "milan"}, Gateway: server}.Access(render.PeerAccess{
		Server: milan.config.Host, CA: milan.config.CAData, Token: []byte(token), Namespace: identity.Tenant.Namespace,
		Gateway: identity.Gateway.GetName(), PublicKey: identity.PublicKey, Endpoint: true,
		Dials: render.EndpointText(*server.Status.Endpoint),
	})
	if err != nil {
		t.Fatal(err)
	}
	rome.create(access)

	t.Run("the key that rome's gateway has", func(t *testing.T) {
		secret := until(rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "gw-milan"}}, "there", func(*corev1.Secret) bool { return true })
		key := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Tenant.Namespace, Name: identity.PublicKey}}
		until(milan, key, "rome's", func(k *networkingv1beta1.PublicKey) bool {
			return bytes.Equal(k.Spec.PublicKey, secret.Data[wire.SecretPublicKey])
		})
		// A lost key pair is created again.
		if err := rome.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		until(milan, key, "the new one", func(k *networkingv1beta1.PublicKey) bool {
			return !bytes.Equal(k.Spec.PublicKey, secret.Data[wire.SecretPublicKey])
		})
	})
	t.Run("another range of rome's pods", func(t *testing.T) { rome.under(t).testCarriedRanges(milan, identity) })
	t.Run("a token that expires, instead of the first", func(t *testing.T) { rome.under(t).testRenewed(milan, identity, access, token) })
	t.Run("the endpoint, when its node fails", func(t *testing.T) {
		rome.under(t).testCarriedEndpoint(milan, identity)
	})
	t.Run("no endpoint, as long as an admin has chosen another", func(t *testing.T) {
		rome.under(t).testChosenEndpoint(milan, identity, server, access)
	})
	t.Run("and says so on the gateway", func(t *testing.T) {
		until(rome, server, "telling", func(s *networkingv1beta1.GatewayServer) bool {
			return s.Annotations[render.AnnotationDelegation] == "its endpoint and key are carried to "+milan.config.Host
		})
	})
	t.Run("the identity may do nothing else", func(t *testing.T) { milan.under(t).testNarrow(identity, token) })
	t.Run("without its right it says so", func(t *testing.T) {
		for _, o := range identity.Identity() {
			if err := milan.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil { // the first token was deleted earlier
				t.Fatal(err)
			}
		}
		rome.fail("node-a", true)
		rome.fail("node-b", false)
		until(rome, server, "telling", func(s *networkingv1beta1.GatewayServer) bool {
			return strings.HasPrefix(s.Annotations[render.AnnotationDelegation], "can't pass changes to "+milan.config.Host)
		})
	})
}

// clientOfRome creates milan's objects of the peering, with an old address and key of rome.
func (w *world) clientOfRome(endpoint *networkingv1beta1.EndpointStatus) render.Delegate {
	w.t.Helper()
	tenant := render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}
	w.create(render.TenantNamespace(tenant))
	gateway := render.GatewayClient(render.ClientParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
		Addresses: endpoint.Addresses, Port: uint16(endpoint.Port), MTU: 1340,
	})
	w.create(gateway)
	gateway.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind))
	w.create(render.PublicKey(tenant, [32]byte{1}, gateway))
	return render.Delegate{Tenant: tenant, Gateway: gateway, PublicKey: "rome"}
}

// testCarriedRanges adds another range of pods to rome, as install --pod-cidr with one more range does.
func (w *world) testCarriedRanges(milan *world, d render.Delegate) {
	key := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: d.Tenant.Namespace, Name: d.PublicKey}}
	until(milan, key, "with rome's ranges", func(k *networkingv1beta1.PublicKey) bool {
		return k.Annotations[render.AnnotationPeerRanges] == "10.244.0.0/16;10.70.0.0/16"
	})
	w.create(render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.244.0.0/16", "10.99.0.0/16"}, "")[1])
	until(milan, key, "with the other range, too", func(k *networkingv1beta1.PublicKey) bool {
		return k.Annotations[render.AnnotationPeerRanges] == "10.244.0.0/16,10.99.0.0/16;10.70.0.0/16"
	})
	conf := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	until(w, conf, "with it as local", func(c *networkingv1beta1.Configuration) bool { return len(c.Spec.Local.CIDR.Pod) == 2 })

	// A change of the endpoints that an admin opens to the peer adds no range, and is not sent.
	before := conf.DeepCopy()
	conf.Spec.Local.CIDR.Pod = conf.Spec.Local.CIDR.Pod[:1]
	if err := w.Patch(w.t.Context(), conf, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
	w.create(render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"", "", "10.98.0.0/16"}, "")[2])
	other := w.peer("turin", "10.50.0.0/16") // when turin has the new range, the operator has also handled milan
	if len(other.Spec.Local.CIDR.Pod) != 3 {
		until(w, other, "with all three", func(c *networkingv1beta1.Configuration) bool { return len(c.Spec.Local.CIDR.Pod) == 3 })
	}
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(conf), conf); err != nil || len(conf.Spec.Local.CIDR.Pod) != 1 {
		w.t.Errorf("got %v (%v), want what the admin has left", conf.Spec.Local.CIDR.Pod, err)
	}
	if err := milan.Get(w.t.Context(), client.ObjectKeyFromObject(key), key); err != nil || strings.Contains(key.Annotations[render.AnnotationPeerRanges], "10.98.0.0") {
		w.t.Errorf("got %v (%v), want nothing new", key.Annotations, err)
	}
}

// identify creates the identity and its token, as Kubernetes' controller would.
func (w *world) identify(d render.Delegate) string {
	w.t.Helper()
	for _, o := range d.Identity() {
		w.create(o)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.Tenant.Namespace, Name: render.DelegateName(d.Gateway.GetName())}}
	request := &authenticationv1.TokenRequest{}
	if err := w.SubResource("token").Create(w.t.Context(), account, request); err != nil {
		w.t.Fatal(err)
	}
	return request.Status.Token
}

// testRenewed lets the operator replace the token that an admin's run left, and then a token that has passed
// half of its life.
func (w *world) testRenewed(milan *world, d render.Delegate, access *corev1.Secret, first string) {
	expires := func(s *corev1.Secret) time.Time {
		a, err := render.ParsePeerAccess(s)
		if err != nil {
			w.t.Fatal(err)
		}
		if left := time.Until(a.Expires); !a.Expires.IsZero() && (left > render.DelegateTokenLife+time.Minute || string(a.Token) == first) {
			w.t.Fatalf("the token is good for %s more, and the first: %t", left, string(a.Token) == first)
		}
		return a.Expires
	}
	until(w, access, "with a token that expires", func(s *corev1.Secret) bool { return !expires(s).IsZero() })
	milan.under(w.t).untilGone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Tenant.Namespace, Name: render.DelegateTokenName(d.Gateway.GetName())}})
	soon := time.Now().Add(render.DelegateTokenLife / 3)
	w.patch(access, func() { annotate(access, "liqo-tui.dev/token-expires", soon.UTC().Format(time.RFC3339)) })
	until(w, access, "renewed", func(s *corev1.Secret) bool { return expires(s).After(soon.Add(time.Hour)) })
}

// fail makes a node ready or not.
func (w *world) fail(name string, isReady bool) {
	w.t.Helper()
	n := until(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, "there", func(*corev1.Node) bool { return true })
	n.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[isReady]
	if err := w.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) testCarriedEndpoint(milan *world, d render.Delegate) {
	start := time.Now()
	w.fail("node-a", false)
	gateway := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: d.Tenant.Namespace, Name: d.Gateway.GetName()}}
	until(milan, gateway, "dialling the other node", func(c *networkingv1beta1.GatewayClient) bool {
		return slices.Equal(c.Spec.Endpoint.Addresses, []string{"192.0.2.12"})
	})
	took := time.Since(start)
	w.t.Logf("from a node that is not ready to a client that dials another one: %s", took.Round(time.Millisecond))
	if took > 10*time.Second { // the goal is 2 s
		w.t.Errorf("it took %s", took)
	}
	if gateway.Spec.MTU != 1340 {
		w.t.Errorf("got MTU %d, want what milan's admin chose", gateway.Spec.MTU)
	}
}

// testChosenEndpoint lets milan's admin dial an address translation, and then again the endpoint of rome's
// server. It begins and ends on node-b.
func (w *world) testChosenEndpoint(milan *world, d render.Delegate, server *networkingv1beta1.GatewayServer, access client.Object) {
	gateway := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: d.Tenant.Namespace, Name: d.Gateway.GetName()}}
	dial := func(address string, port int32) {
		w.t.Helper()
		until(milan, gateway, "there", func(*networkingv1beta1.GatewayClient) bool { return true })
		before := gateway.DeepCopy()
		gateway.Spec.Endpoint.Addresses, gateway.Spec.Endpoint.Port = []string{address}, port
		if err := milan.Patch(w.t.Context(), gateway, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
	dial("nat.example", 40000)
	w.fail("node-a", true)
	w.fail("node-b", false)
	until(w, server, "telling what the client dials", func(s *networkingv1beta1.GatewayServer) bool {
		return slices.Equal(s.Status.Endpoint.Addresses, []string{"192.0.2.11"}) &&
			strings.HasSuffix(s.Annotations[render.AnnotationDelegation], "its endpoint is not, because the client there was told to dial UDP nat.example:40000")
	})
	until(milan, gateway, "there", func(*networkingv1beta1.GatewayClient) bool { return true })
	if got := render.EndpointText(gateway.Spec.Endpoint); got != "nat.example:40000" {
		w.t.Fatalf("the client dials %s, want what its admin chose", got)
	}

	dial(server.Status.Endpoint.Addresses[0], server.Status.Endpoint.Port)
	before := access.DeepCopyObject().(client.Object)
	annotate(access, "example.org/look", "now") // starts a reconciliation now instead of in a minute
	if err := w.Patch(w.t.Context(), access, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
	until(milan, gateway, "following again", func(c *networkingv1beta1.GatewayClient) bool {
		return c.Annotations[render.AnnotationCarried] == render.EndpointText(*server.Status.Endpoint)
	})
	w.fail("node-b", true)
	w.fail("node-a", false)
	until(milan, gateway, "dialling the other node", func(c *networkingv1beta1.GatewayClient) bool {
		return slices.Equal(c.Spec.Endpoint.Addresses, []string{"192.0.2.12"})
	})
}

// testNarrow reads all rights of the identity from the API server, and tries the most dangerous requests.
func (w *world) testNarrow(d render.Delegate, token string) {
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = token
	everybody := w.rulesOf(w.server.As("system:serviceaccount:default:nobody", "system:serviceaccounts"), d.Tenant.Namespace)
	got := slices.DeleteFunc(w.rulesOf(config, d.Tenant.Namespace), func(rule string) bool { return slices.Contains(everybody, rule) })
	want := []string{
		"[create] [] [serviceaccounts/token] [rome-delegate]",
		"[delete] [] [secrets] [rome-delegate-token]",
		"[get patch] [networking.liqo.io] [gatewayclients] [rome]",
		"[get patch] [networking.liqo.io] [publickeies] [rome]",
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("in the tenant namespace it may %q, want %q", got, want)
	}
	c, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	if err != nil {
		w.t.Fatal(err)
	}
	for what, err := range map[string]error{
		"read Secrets":              c.List(w.t.Context(), &corev1.SecretList{}, client.InNamespace(d.Tenant.Namespace)),
		"list gateways":             c.List(w.t.Context(), &networkingv1beta1.GatewayClientList{}, client.InNamespace(d.Tenant.Namespace)),
		"delete its gateway":        c.Delete(w.t.Context(), d.Gateway),
		"read the cluster's ranges": c.Get(w.t.Context(), client.ObjectKey{Namespace: "liqo", Name: "liqo-clusterid-configmap"}, &corev1.ConfigMap{}),
	} {
		if err == nil {
			w.t.Errorf("it may %s", what)
		}
	}
}

// rulesOf returns the rights of a user in a namespace, as the API server lists them, sorted.
func (w *world) rulesOf(user *rest.Config, namespace string) []string {
	w.t.Helper()
	c, err := kubernetes.NewForConfig(user)
	if err != nil {
		w.t.Fatal(err)
	}
	review, err := c.AuthorizationV1().SelfSubjectRulesReviews().Create(w.t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var rules []string
	for _, r := range review.Status.ResourceRules {
		rules = append(rules, fmt.Sprint(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames))
	}
	slices.Sort(rules)
	return rules
}
