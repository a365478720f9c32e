package lending_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// In TestResources, rome requests resources of milan, only with our operators.
func TestResources(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	abuses.Begin(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	milan.node("node-a", "8", "16Gi")
	w := &pair{t: t, rome: rome, milan: milan, proxy: proxy(t), params: peer.Params{CPU: "2", Memory: "2Gi"}}
	before := [2][]string{rome.begun(t), milan.begun(t)}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"granted", w.testGranted},
		{"what the consumer may do", w.testSliceRights},
		{"slices that are refused", w.testRefusedSlices},
		{"more and less", w.testMoreAndLess},
		{"bounds of admins", w.testBounds},
		{"what one gives back is another's", w.testTurns},
		{"cordoned and drained", w.testNothingMore},
		{"another key", w.testSliceWithAnotherKey},
		{"the certificate is renewed", w.testSliceRenewal},
		{"the end", func(t *testing.T) { w.testResourcesEnd(t, before) }},
	} {
		if !t.Run(part.name, part.test) {
			return // the next part needs the end state of this part
		}
	}
}

// node adds a node that takes pods.
func (p *plane) node(name, cpu, memory string) {
	p.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.create(n)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := p.Status().Update(p.t.Context(), n); err != nil {
		p.t.Fatal(err)
	}
}

func slice(namespace, name string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// mine returns a ResourceSlice of rome, as its admin makes it.
func mine(name, cpu string) *authv1beta1.ResourceSlice {
	s := peering.ResourceSlice(render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}, peering.SliceParams{
		Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")},
	})
	s.Name = name
	return s
}

// answered waits until the copy's present request has this answer; "" means granted.
func (w *pair) answered(t *testing.T, p *plane, s *authv1beta1.ResourceSlice, why string) *authv1beta1.ResourceSlice {
	t.Helper()
	return until(t, p, s, "answered with "+why, func(s *authv1beta1.ResourceSlice) bool {
		c := peering.Condition(s, authv1beta1.ResourceSliceConditionTypeResources)
		if c == nil || p == w.milan && !peering.Answered(s) {
			return false
		}
		if why == "" {
			return c.Status == authv1beta1.ResourceSliceConditionAccepted
		}
		return c.Status == authv1beta1.ResourceSliceConditionDenied && strings.Contains(c.Message, why) && len(s.Status.Resources) == 0
	})
}

// fails runs peer, which has to fail, and returns the reason.
func (w *pair) fails(t *testing.T) string {
	t.Helper()
	p := w.params
	p.ProxyURL, p.VirtualNode = w.proxy, "false"
	var last flows.Plan
	err := engine.Run(t.Context(), flows.Planner(func(f flows.Facts) flows.Plan { return peer.Plan(p, nil, [2]string{}, f) }), w.rome.cluster(), w.milan.cluster(),
		func(e engine.Event) { last = e.Plan }, engine.Options{Timeout: patience})
	if err == nil || last.Failure() == nil {
		t.Fatalf("it did not fail as it should: %v", err)
	}
	return last.Failure().Reason
}

// sliceConfig returns the access with which rome uses the resources.
func (w *pair) sliceConfig(t *testing.T) *rest.Config {
	t.Helper()
	s := until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.KubeconfigName("resourceslice-milan")}}, "there", func(*corev1.Secret) bool { return true })
	if s.Labels[peering.LabelIdentityType] != "ResourceSlice" || s.Labels[wire.LabelRemoteCluster] != "milan" {
		t.Errorf("the kubeconfig is not found by Liqo's programs: %v", s.Labels)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[peering.KeyKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (w *pair) testGranted(t *testing.T) {
	changed, took := w.peer(t)
	t.Logf("figure: resources from nothing in %s", took.Round(time.Millisecond))
	if !changed {
		t.Error("the first run changed nothing")
	}
	if changed, _ := w.peer(t); changed {
		t.Error("the second run changed something")
	}
	s := w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
	want := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if diff := cmp.Diff(want, s.Status.Resources); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	config := w.sliceConfig(t)
	c, err := peering.Certificate(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	// Liqo's controllers use the same name.
	if c.Subject.CommonName != peering.SliceUser("milan", "rome").User || len(c.Subject.Organization) != 1 || c.Subject.Organization[0] != "rome" || len(c.Subject.Names) != 2 {
		t.Errorf("the certificate is for %v", c.Subject)
	}
	if config.Host != w.milan.server || c.NotAfter.Sub(c.NotBefore) > peering.CertificateLife+time.Hour {
		t.Errorf("it is for %s, until %s", config.Host, c.NotAfter)
	}
	// The certificate allows nothing yet.
	nobody := w.consumerClient(t, config)
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &corev1.PodList{}, &corev1.SecretList{}, &authv1beta1.RenewList{}} {
		if err := nobody.List(t.Context(), list, client.InNamespace("liqo-tenant-rome")); !apierrors.IsForbidden(err) {
			t.Errorf("with a slice's certificate, %T: got %v", list, err)
		}
	}
	w.access = w.config(t)
}

// testSliceRights makes an attacker's requests with the consumer's real credentials. The first row proves
// that the later requests reach the API server.
func (w *pair) testSliceRights(t *testing.T) {
	w.rome.stop() // rome's operator would delete copies that it has not made
	c, ctx := w.consumerClient(t, w.access), t.Context()
	copyOf := func(name string) *authv1beta1.ResourceSlice {
		return peering.SliceCopy(mine(name, "1"), "rome", "liqo-tenant-rome")
	}
	rome := corev1beta1.ClusterID("rome")
	good := func(change func(*authv1beta1.ResourceSlice)) *authv1beta1.ResourceSlice {
		s := copyOf("attempt")
		s.Spec.ConsumerClusterID = &rome
		change(s)
		return s
	}
	allowed := good(func(*authv1beta1.ResourceSlice) {})
	abuses.Permitted(t, "the consumer", "a ResourceSlice", c.Create(ctx, allowed))
	// This is milan's own request to rome, as if milan used rome's resources too.
	milans := peering.ResourceSlice(render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, peering.SliceParams{})
	w.milan.create(milans)
	w.milan.create(render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}))
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	create := func(change func(*authv1beta1.ResourceSlice)) func() error {
		return func() error {
			s := good(change)
			s.Name = "attempt-2"
			return c.Create(ctx, s)
		}
	}
	patch := func(text string) func() error {
		return func() error { return c.Patch(ctx, slice("liqo-tenant-rome", "milan"), merge(text)) }
	}
	mapped := func(change func(*offloadingv1beta1.NamespaceMap)) func() error {
		return func() error {
			m := peering.MapCopy(peering.NamespaceMap(render.Tenant{Remote: "milan"}, map[string]string{"a": "b"}), "rome", "liqo-tenant-rome")
			change(m)
			return c.Create(ctx, m, client.DryRunAll)
		}
	}
	abuses.Permitted(t, "the consumer", "a NamespaceMap", mapped(func(*offloadingv1beta1.NamespaceMap) {})())
	milansMap := peering.NamespaceMap(render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, map[string]string{"a": "b"})
	milansMap.Labels[wire.LabelManagedBy] = "somebody" // the operator would delete it
	w.milan.create(milansMap)
	w.refused(t, "the consumer", map[string]attempt{
		"a map of another's namespace": mapped(func(m *offloadingv1beta1.NamespaceMap) { m.Namespace = "liqo-tenant-turin" }),
		"a map that is no copy":        mapped(func(m *offloadingv1beta1.NamespaceMap) { delete(m.Labels, peering.LabelReplicated) }),
		"a map of another":             mapped(func(m *offloadingv1beta1.NamespaceMap) { m.Labels[peering.LabelOrigin] = "turin" }),
		"a map to be replicated":       mapped(func(m *offloadingv1beta1.NamespaceMap) { m.Labels[peering.LabelReplication] = "true" }),
		"a map with a finalizer":       mapped(func(m *offloadingv1beta1.NamespaceMap) { m.Finalizers = []string{"x.io/y"} }),
		"a map with an annotation":     mapped(func(m *offloadingv1beta1.NamespaceMap) { m.Annotations = map[string]string{"a": "b"} }),
		"the provider's own map":       func() error { return c.Patch(ctx, milansMap, merge(`{"spec":{"desiredMapping":{"kube-system":"x"}}}`)) },
		"the provider's own map, taken over": func() error {
			return c.Patch(ctx, milansMap, merge(`{"metadata":{"labels":{"liqo.io/originID":"rome","liqo.io/replicated":"true","liqo.io/replication":"false"}}}`))
		},
		"the provider's own map, deleted": func() error { return c.Delete(ctx, milansMap) },
		"a namespace that it has": func() error {
			return c.Status().Patch(ctx, milansMap, merge(`{"status":{"currentMapping":{"a":{"remoteNamespace":"kube-system","phase":"Accepted"}}}}`))
		},
		"a ShadowPod": func() error {
			return c.Create(ctx, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "x"}})
		},
		"its own grant": func() error {
			return c.Status().Patch(ctx, slice("liqo-tenant-rome", "milan"), merge(`{"status":{"resources":{"cpu":"1000"}}}`))
		},
		"its own grant, whole": func() error {
			s := slice("liqo-tenant-rome", "milan")
			if err := c.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			s.Status.Resources[corev1.ResourceCPU] = resource.MustParse("1000")
			return c.Status().Update(ctx, s)
		},
		"another tenant's namespace": create(func(s *authv1beta1.ResourceSlice) { s.Namespace = "liqo-tenant-turin" }),
		"the operator's namespace":   create(func(s *authv1beta1.ResourceSlice) { s.Namespace = "liqo" }),
		"any namespace":              create(func(s *authv1beta1.ResourceSlice) { s.Namespace = "default" }),
		"all namespaces' slices":     func() error { return c.List(ctx, &authv1beta1.ResourceSliceList{}) },
		"another's slices": func() error {
			return c.List(ctx, &authv1beta1.ResourceSliceList{}, client.InNamespace("liqo-tenant-turin"))
		},
		"a slice for another tenant": create(func(s *authv1beta1.ResourceSlice) { s.Spec.ConsumerClusterID = new(corev1beta1.ClusterID("turin")) }),
		"a slice for nobody":         create(func(s *authv1beta1.ResourceSlice) { s.Spec.ConsumerClusterID = nil }),
		"a slice of the provider's":  create(func(s *authv1beta1.ResourceSlice) { s.Labels[peering.LabelReplication] = "true" }),
		"a slice that is no copy":    create(func(s *authv1beta1.ResourceSlice) { delete(s.Labels, peering.LabelReplicated) }),
		"another's copy":             create(func(s *authv1beta1.ResourceSlice) { s.Labels[peering.LabelOrigin] = "turin" }),
		"a copy in another's list":   create(func(s *authv1beta1.ResourceSlice) { s.Labels[wire.LabelRemoteCluster] = "turin" }),
		"a finalizer from the start": create(func(s *authv1beta1.ResourceSlice) { s.Finalizers = []string{"x.io/y"} }),
		"a judgement":                create(func(s *authv1beta1.ResourceSlice) { s.Annotations = map[string]string{peering.AnnotationJudged: "1"} }),
		"another judgement":          patch(`{"metadata":{"annotations":{"liqo-tui.dev/judged":"99"}}}`),
		"no judgement":               patch(`{"metadata":{"annotations":null}}`),
		"a finalizer":                patch(`{"metadata":{"finalizers":["x.io/y"]}}`),
		"an owner":                   patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`),
		"out of the provider's list": patch(`{"metadata":{"labels":{"liqo.io/replicated":null}}}`),
		"over to another tenant":     patch(`{"spec":{"consumerClusterID":"turin"}}`),
		"the provider's own slice":   func() error { return c.Patch(ctx, milans, merge(`{"spec":{"resources":{"cpu":"99"}}}`)) },
		"the provider's own slice, taken over": func() error {
			return c.Patch(ctx, milans, merge(`{"metadata":{"labels":{"liqo.io/originID":"rome","liqo.io/replicated":"true","liqo.io/replication":"false"}},"spec":{"consumerClusterID":"rome"}}`))
		},
		"the provider's own slice, deleted": func() error { return c.Delete(ctx, milans) },
		"all slices at once": func() error {
			return c.DeleteAllOf(ctx, &authv1beta1.ResourceSlice{}, client.InNamespace("liqo-tenant-rome"))
		},
		"its bound": func() error {
			return c.Delete(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}})
		},
		"a higher bound": func() error {
			return c.Patch(ctx, tenantIn(w.milan), merge(`{"metadata":{"annotations":{"liqo-tui.dev/lend":"cpu=1000"}}}`))
		},
		"more in its role": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: wire.ConsumerAccessName}}, merge(`{"rules":[]}`))
		},
	})
	// A full etcd would be an attack.
	var err error
	made := 0
	for ; made < 2*peering.MostSlices && err == nil; made++ {
		err = c.Create(ctx, good(func(s *authv1beta1.ResourceSlice) { s.Name = fmt.Sprintf("flood-%d", made) }))
	}
	if !apierrors.IsForbidden(err) || made > peering.MostSlices {
		t.Errorf("slice %d: got %v", made, err)
	}
	w.milan.runDelete(t, milans)
	w.milan.runDelete(t, milansMap)
	w.milan.runDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-turin"}})
	w.rome.runOperator(render.PeeringConsumer)
	// Its operator has not seen the deletion of these slices, so an admin has to remove them.
	var left authv1beta1.ResourceSliceList
	if err := w.milan.List(ctx, &left, client.InNamespace("liqo-tenant-rome")); err != nil {
		t.Fatal(err)
	}
	for i := range left.Items {
		if o := &left.Items[i]; o.Name == allowed.GetName() || strings.HasPrefix(o.Name, "flood-") {
			w.milan.runDelete(t, o)
		}
	}
}

// testRefusedSlices creates slices that the API server accepts and the operator refuses. The consumer's own
// operator is away, because it would correct them.
func (w *pair) testRefusedSlices(t *testing.T) {
	w.rome.stop()
	defer w.rome.runOperator(render.PeeringConsumer)
	keys := &corev1.Secret{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: peering.KeysName}, keys); err != nil {
		t.Fatal(err)
	}
	private := keys.Data[wire.SecretPrivateKey]
	request := func(c consumer, s peering.Subject) []byte {
		t.Helper()
		r, err := s.Request(c.private, noRandom{})
		if err != nil {
			t.Fatal(err)
		}
		return r.CSR
	}
	rome, other := consumer{private: private}, newConsumer(t, "rome")
	c := w.consumerClient(t, w.access)
	for name, row := range map[string]struct {
		csr    []byte
		change func(*authv1beta1.ResourceSlice)
		why    string // "" if it is accepted
	}{
		"a control":              {request(rome, peering.SliceUser("attempt", "rome")), nil, ""},
		"no request":             {nil, nil, "not one request"},
		"replayed, of another":   {request(other, peering.SliceUser("attempt", "rome")), nil, "for another key than the Tenant's"},
		"replayed, of the plane": {request(rome, peering.ControlPlane("rome")), nil, `is for user "rome"`},
		"replayed, of a slice":   {request(rome, peering.SliceUser("milan", "rome")), nil, "is for user"},
		"the user of the plane":  {request(rome, peering.Subject{User: "rome", Group: "rome"}), nil, "is for user"},
		"a group of admins":      {request(rome, peering.Subject{User: peering.SliceUser("attempt", "rome").User, Group: "system:masters"}), nil, "is for the groups"},
		"another tenant's group": {request(rome, peering.Subject{User: peering.SliceUser("attempt", "rome").User, Group: "turin"}), nil, "is for the groups"},
		"another provider": {request(rome, peering.SliceUser("attempt", "rome")), func(s *authv1beta1.ResourceSlice) {
			s.Spec.ProviderClusterID = new(corev1beta1.ClusterID("turin"))
		}, "it asks cluster turin"},
		"a long name":   {request(rome, peering.SliceUser(strings.Repeat("a", 64), "rome")), func(s *authv1beta1.ResourceSlice) { s.Name = strings.Repeat("a", 64) }, "at most 63 letters"},
		"another class": {request(rome, peering.SliceUser("attempt", "rome")), func(s *authv1beta1.ResourceSlice) { s.Spec.Class = "gold" }, `class "gold"`},
		"more than there is": {request(rome, peering.SliceUser("attempt", "rome")), func(s *authv1beta1.ResourceSlice) {
			s.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("7")
		}, "cpu: 7 asked for; the nodes of milan have 8, of which 6 are not lent yet"},
		"less than nothing": {request(rome, peering.SliceUser("attempt", "rome")), func(s *authv1beta1.ResourceSlice) {
			s.Spec.Resources[corev1.ResourceMemory] = resource.MustParse("-1Gi")
		}, "less than nothing"},
		"a name that has rights": {request(rome, peering.SliceUser("known", "rome")), func(s *authv1beta1.ResourceSlice) {
			s.Name = "known"
			w.milan.create(&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "known"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: peering.SliceUser("known", "rome").User}},
			})
		}, "RoleBinding default/known gives rights"},
	} {
		t.Run(name, func(t *testing.T) {
			s := peering.SliceCopy(mine("attempt", "1"), "rome", "liqo-tenant-rome")
			s.Spec.ConsumerClusterID, s.Spec.CSR = new(corev1beta1.ClusterID("rome")), row.csr
			if row.change != nil {
				row.change(s)
			}
			if err := c.Create(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			w.answered(t, w.milan, s, row.why)
			certificate := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.SliceCertificateName(s.Name)}}
			authenticated := peering.Condition(s, authv1beta1.ResourceSliceConditionTypeAuthentication).Status == authv1beta1.ResourceSliceConditionAccepted
			if err := w.milan.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate); authenticated != (err == nil) || authenticated != (s.Status.AuthParams != nil) {
				t.Errorf("authenticated %v, its certificate: %v", authenticated, err)
			}
			if err := c.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			untilGone(t, w.milan, certificate)
		})
	}
	w.milan.runDelete(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "known"}})
}

// noRandom is for keys that need no random numbers.
type noRandom struct{}

func (noRandom) Read([]byte) (int, error) { return 0, fmt.Errorf("this key needs no randomness") }

func (w *pair) testMoreAndLess(t *testing.T) {
	was := w.params
	w.params.CPU = "5"
	w.peer(t)
	if s := w.answered(t, w.milan, slice("liqo-tenant-rome", "milan"), ""); s.Status.Resources.Cpu().String() != "5" {
		t.Errorf("granted: %v", s.Status.Resources)
	}
	w.params.CPU = "100"
	if why := w.fails(t); !strings.Contains(why, "milan denies the resources: cpu: 100 asked for; the nodes of milan have 8, of which 8 are not lent yet") {
		t.Errorf("got %q", why)
	}
	// The answer for an earlier request does not count for the present one.
	w.params = was
	w.peer(t)
}

func (w *pair) lend(t *testing.T, text string) {
	t.Helper()
	if err := w.milan.Patch(t.Context(), tenantIn(w.milan), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, peering.AnnotationLend, text))); err != nil {
		t.Fatal(err)
	}
}

// testBounds tests that an admin's limit for lending also applies to granted resources.
func (w *pair) testBounds(t *testing.T) {
	there := slice("liqo-tenant-rome", "milan")
	w.lend(t, `"cpu=1"`)
	w.answered(t, w.milan, there, "cpu: 2 asked for; rome may have 1")
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "rome may have 1")
	w.lend(t, `"cpu=1 and a half"`)
	w.answered(t, w.milan, there, "annotation liqo-tui.dev/lend of its Tenant")
	w.lend(t, `"cpu=2,memory=4Gi"`)
	w.answered(t, w.milan, there, "")
	w.lend(t, `null`)
	w.milan.stop()
	w.milan.lend = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	w.milan.runOperator(render.PeeringProvider)
	w.answered(t, w.milan, there, "memory: 2Gi asked for; all consumers together may have 1Gi")
	w.milan.stop()
	w.milan.lend = nil
	w.milan.runOperator(render.PeeringProvider)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
}

// testTurns tests two consumers that request all resources: one gets them, and then the other. The loss of a
// node takes nothing from the consumer that has them.
func (w *pair) testTurns(t *testing.T) {
	w.rome.create(mine("second", "6"))
	second, third := slice("liqo-tenant-rome", "second"), slice("liqo-tenant-rome", "third")
	w.answered(t, w.milan, second, "")
	w.rome.create(mine("third", "6"))
	w.answered(t, w.milan, third, "of which 0 are not lent yet")
	node := until(t, w.milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, "there", func(*corev1.Node) bool { return true })
	node.Spec.Unschedulable = true
	if err := w.milan.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.answered(t, w.milan, third, "the nodes of milan have none")
	w.answered(t, w.milan, second, "")
	until(t, w.milan, node, "there", func(*corev1.Node) bool { return true })
	node.Spec.Unschedulable = false
	if err := w.milan.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.answered(t, w.milan, third, "of which 0 are not lent yet")
	w.rome.runDelete(t, slice("liqo-tenant-milan", "second"))
	untilGone(t, w.milan, second)
	w.answered(t, w.milan, third, "")
	w.answered(t, w.rome, slice("liqo-tenant-milan", "third"), "")
	w.rome.runDelete(t, slice("liqo-tenant-milan", "third"))
	untilGone(t, w.milan, third)
	untilGone(t, w.rome, &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "resourceslice-third"}})
	// If a slice is deleted on milan, rome requests it again.
	w.milan.runDeleteNow(t, slice("liqo-tenant-rome", "milan"))
	w.answered(t, w.milan, slice("liqo-tenant-rome", "milan"), "")
}

func (p *plane) runDeleteNow(t *testing.T, o client.Object) {
	t.Helper()
	if err := p.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (w *pair) testNothingMore(t *testing.T) {
	there := slice("liqo-tenant-rome", "milan")
	w.condition(t, authv1beta1.TenantConditionCordoned)
	w.rome.create(mine("second", "1"))
	w.answered(t, w.milan, slice("liqo-tenant-rome", "second"), "an admin has cordoned tenant rome")
	w.answered(t, w.milan, there, "") // the slice keeps its resources
	w.condition(t, authv1beta1.TenantConditionDrained)
	untilGone(t, w.milan, there)
	w.condition(t, authv1beta1.TenantConditionActive)
	w.answered(t, w.milan, there, "")
	w.answered(t, w.milan, slice("liqo-tenant-rome", "second"), "")
	w.rome.runDelete(t, slice("liqo-tenant-milan", "second"))
	untilGone(t, w.milan, slice("liqo-tenant-rome", "second"))
}

// testSliceWithAnotherKey tests that a new installation requests again.
func (w *pair) testSliceWithAnotherKey(t *testing.T) {
	old := w.sliceConfig(t)
	w.rome.stop()
	w.rome.runDelete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}})
	w.rome.runOperator(render.PeeringConsumer)
	until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made again", func(*corev1.Secret) bool { return true })
	w.peer(t)
	until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.KubeconfigName("resourceslice-milan")}}, "of the other key", func(s *corev1.Secret) bool {
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[peering.KeyKubeconfig])
		return err == nil && string(config.KeyData) != string(old.KeyData)
	})
}

// testSliceRenewal gives the slice a certificate in the last third of its life.
func (w *pair) testSliceRenewal(t *testing.T) {
	now, err := peering.Certificate(w.sliceConfig(t).CertData)
	if err != nil {
		t.Fatal(err)
	}
	old, err := w.milan.authority.sign(now.PublicKey, now.Subject, time.Now().Add(-21*24*time.Hour), time.Now().Add(9*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	stored := until(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.SliceCertificateName("milan")}}, "there", func(*corev1.Secret) bool { return true })
	stored.Data[peering.KeyCertificate] = old
	if err := w.milan.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.KubeconfigName("resourceslice-milan")}}, "renewed", func(s *corev1.Secret) bool {
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[peering.KeyKubeconfig])
		if err != nil {
			return false
		}
		c, err := peering.Certificate(config.CertData)
		return err == nil && c.SerialNumber.Cmp(now.SerialNumber) != 0 && time.Until(c.NotAfter) > 25*24*time.Hour
	})
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
}

// testResourcesEnd tests that no object is left on either side.
func (w *pair) testResourcesEnd(t *testing.T, before [2][]string) {
	w.run(t, peer.Removal{RemoveOptions: peer.RemoveOptions{Consumer: flows.A}})
	for i, p := range []*plane{w.rome, w.milan} {
		p.untilLike(t, before[i])
	}
}

// begun returns the objects that exist after the operator's own start.
func (p *plane) begun(t *testing.T) []string {
	t.Helper()
	for _, name := range []string{"pod-cidr", "service-cidr"} {
		until(t, p, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}}, "made", func(*ipamv1alpha1.Network) bool { return true })
	}
	return p.objects()
}

// untilLike waits until the objects are the same as before.
func (p *plane) untilLike(t *testing.T, before []string) {
	t.Helper()
	var left string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if left = cmp.Diff(before, p.objects()); left == "" {
			return
		}
	}
	t.Errorf("%s: left (-before +after):\n%s", p.id, left)
}
