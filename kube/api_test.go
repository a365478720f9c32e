package kube

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

var tenant = render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}

// startAPI starts a real API server for the test.
func startAPI(t *testing.T) *envtest.Environment {
	t.Helper()
	return apitest.Start(t, apitest.Options{}).Env
}

func open(t *testing.T, config *rest.Config) *Cluster {
	t.Helper()
	c, err := ForConfig(config, Options{Context: flows.ContextRef{Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func observe(t *testing.T, c *Cluster) flows.ClusterFacts {
	t.Helper()
	f, err := c.Observe(t.Context())
	if err != nil {
		t.Fatalf("Observe: %v", err)
	}
	return f
}

// await waits until holds is true. As in engine.Run, Changed wakes it.
func await(t *testing.T, c *Cluster, what string, holds func(flows.ClusterFacts) bool) flows.ClusterFacts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		f := observe(t, c)
		if holds(f) {
			return f
		}
		select {
		case <-c.Changed():
		case <-ctx.Done():
			t.Fatalf("never saw %s; last problem: %v", what, f.Problem)
		}
	}
}

// One server is used for the whole test. First the API server has no definitions of Liqo. Then it gets them,
// and the test works with them.
func TestCluster(t *testing.T) {
	env := startAPI(t)
	admin := open(t, env.Config)

	t.Run("without the definitions it says so", func(t *testing.T) {
		f := observe(t, admin)
		if f.Problem != nil || f.HasCRDs || f.UID == "" || !strings.HasPrefix(f.Version, "v1.") {
			t.Errorf("got problem %v, CRDs %t, UID %q, version %q", f.Problem, f.HasCRDs, f.UID, f.Version)
		}
		want := []string{
			"networks.ipam.liqo.io/v1alpha1", "configurations.networking.liqo.io/v1beta1", "gatewayservers.networking.liqo.io/v1beta1",
			"gatewayclients.networking.liqo.io/v1beta1", "publickeies.networking.liqo.io/v1beta1", "connections.networking.liqo.io/v1beta1",
		}
		if !slices.Equal(f.MissingKinds, want) {
			t.Errorf("got missing %q, want %q", f.MissingKinds, want)
		}
	})
	t.Run("network policies are read as far as they may be", func(t *testing.T) { testPolicies(t, env, admin) })
	t.Run("Services by name are read as far as they are there", func(t *testing.T) { testServices(t, env, admin) })
	crds, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("definitions of another version are not ours", func(t *testing.T) { testOtherVersion(t, admin, crds) })
	if _, err := admin.Apply(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	t.Run("the definitions are seen once they are served", func(t *testing.T) {
		await(t, admin, "the definitions", func(f flows.ClusterFacts) bool { return f.HasCRDs })
	})
	t.Run("what is applied is observed at once", func(t *testing.T) { testApply(t, admin) })
	t.Run("another manager's field is a conflict that names it", func(t *testing.T) { testConflict(t, admin) })
	t.Run("what somebody else made is not taken over", func(t *testing.T) { testForeign(t, admin) })
	t.Run("the wrong field is refused by the definition", func(t *testing.T) { testValidation(t, admin) })
	t.Run("a change by others wakes the observer", func(t *testing.T) { testChanged(t, admin) })
	t.Run("who may list but not watch still sees changes", func(t *testing.T) { testPolling(t, env, admin) })
	t.Run("who may not list is told what is missing", func(t *testing.T) { testForbidden(t, env) })
	t.Run("kinds of little use may fail", func(t *testing.T) { testMinorKinds(t, env) })
	t.Run("a dry run tells what would be, and changes nothing", func(t *testing.T) { testDryRun(t, admin) })
	t.Run("fields are taken over only by force", func(t *testing.T) { testForce(t, admin) })
	t.Run("rights are asked for before they are needed", func(t *testing.T) { testReview(t, env, admin) })
	t.Run("a peering user of Liqo's sees and does what it may", func(t *testing.T) { testPeeringUser(t, env, admin) })
	t.Run("delegations are read in the connection's namespace, too", func(t *testing.T) { testDelegationRights(t, env, admin) })
	t.Run("warnings about what does not work are seen", func(t *testing.T) { testWarnings(t, admin) })
	t.Run("a probe is run, measures and goes", func(t *testing.T) { testProbe(t, env, admin) })
	t.Run("an image is tried by a pod that goes", func(t *testing.T) { testImageTrial(t, env) })
	t.Run("ways are tried by pods that go", func(t *testing.T) { testReach(t, admin) })
	t.Run("a pod asks another cluster's API server", func(t *testing.T) { testAskAPI(t, admin) })
	t.Run("silence is noticed", func(t *testing.T) { testSilence(t, env.Config) })
	t.Run("what is deleted is gone at once", func(t *testing.T) { testDelete(t, admin) })
	t.Run("only what was seen is deleted", func(t *testing.T) { testDeleteAsSeen(t, admin) })
	t.Run("what our own operator wrote, an admin may change", func(t *testing.T) { testOwnOperator(t, admin) })
	t.Run("what is no longer applied goes", func(t *testing.T) { testTakeBack(t, admin) })
}

// In testOtherVersion, the API server serves Connections of another release of Liqo.
func testOtherVersion(t *testing.T, c *Cluster, crds []wire.Object) {
	i := slices.IndexFunc(crds, func(o wire.Object) bool { return o.GetName() == "connections.networking.liqo.io" })
	other := crds[i].DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
	other.Spec.Versions[0].Name = "v1alpha1"
	if _, err := c.Apply(t.Context(), []wire.Object{other}); err != nil {
		t.Fatal(err)
	}
	for served := false; !served; {
		var now apiextensionsv1.CustomResourceDefinition
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(other), &now); err != nil {
			t.Fatal(err)
		}
		served = slices.ContainsFunc(now.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	}
	if f := observe(t, c); f.HasCRDs || !slices.Contains(f.MissingKinds, "connections.networking.liqo.io/v1beta1") {
		t.Errorf("got missing %q", f.MissingKinds)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{other}); err != nil {
		t.Fatal(err)
	}
	for there := true; there; {
		there = !apierrors.IsNotFound(c.client.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	}
}

func configuration(pod ...networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	return render.Configuration(tenant, render.Networks{Pod: pod, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
}

func verbs(changes []flows.Change) []flows.Verb {
	var out []flows.Verb
	for _, c := range changes {
		out = append(out, c.Verb)
	}
	return out
}

func testApply(t *testing.T, c *Cluster) {
	objects := []wire.Object{render.TenantNamespace(tenant), configuration("10.244.0.0/16")}
	for i, want := range [][]flows.Verb{{flows.Created, flows.Created}, {flows.Unchanged, flows.Unchanged}} {
		changes, err := c.Apply(t.Context(), objects)
		if err != nil {
			t.Fatal(err)
		}
		if got := verbs(changes); !slices.Equal(got, want) {
			t.Errorf("run %d: got %v, want %v", i+1, got, want)
		}
		end := observe(t, c).End("milan")
		if end.Namespace == nil || end.Configuration == nil {
			t.Errorf("run %d: got namespace %v and Configuration %v right after applying", i+1, end.Namespace, end.Configuration)
		}
	}
	changes, err := c.Apply(t.Context(), []wire.Object{configuration("10.245.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	if got := verbs(changes); !slices.Equal(got, []flows.Verb{flows.Updated}) {
		t.Errorf("a changed CIDR: got %v, want updated", got)
	}
	if got := observe(t, c).End("milan").Configuration.Spec.Remote.CIDR.Pod; !slices.Equal(got, []networkingv1beta1.CIDR{"10.245.0.0/16"}) {
		t.Errorf("got pod CIDRs %v right after changing them", got)
	}
	for _, m := range observe(t, c).End("milan").Configuration.ManagedFields {
		if m.Manager == wire.FieldManager && strings.Contains(m.FieldsV1.GetRawString(), "f:status") {
			t.Error("applying claimed the status, which is the operator's")
		}
	}
}

func testTakeBack(t *testing.T, c *Cluster) {
	params := render.ServerParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeNodePort, Port: 51840, NodePort: 31000, MTU: 1340,
	}
	if _, err := c.Apply(t.Context(), []wire.Object{render.GatewayServer(params)}); err != nil {
		t.Fatal(err)
	}
	params.NodePort = 0
	want := []wire.Object{render.GatewayServer(params)}
	live := observe(t, c).End("milan").Server
	if d := apply.Diff(live, want[0]); !strings.Contains(d, "-    nodePort: 31000\n") {
		t.Errorf("the diff of what was observed does not show that the node port goes:\n%s", d)
	}
	tried, err := c.DryRun(t.Context(), want, false)
	if err != nil || tried[0].Verb != flows.Updated || !strings.Contains(tried[0].Diff, "-    nodePort: 31000\n") {
		t.Errorf("a dry run: got %+v, %v; want the node port to go", tried, err)
	}
	for i, want := range [][]flows.Verb{{flows.Updated}, {flows.Unchanged}} {
		changes, err := c.Apply(t.Context(), []wire.Object{render.GatewayServer(params)})
		if got := verbs(changes); err != nil || !slices.Equal(got, want) {
			t.Errorf("run %d: got %v, %v; want %v", i+1, got, err, want)
		}
	}
	live = observe(t, c).End("milan").Server
	if n := live.Spec.Endpoint.NodePort; n != nil {
		t.Errorf("got node port %d, want none", *n)
	}
	if d := apply.Diff(live, want[0]); d != "" {
		t.Errorf("afterwards, there is still a difference:\n%s", d)
	}
	// A change that does not increase the generation is a change, too.
	namespace := render.TenantNamespace(tenant)
	namespace.Labels["more"] = "yes"
	for i, more := range []bool{true, false} {
		if !more {
			delete(namespace.Labels, "more")
		}
		changes, err := c.Apply(t.Context(), []wire.Object{namespace})
		if got := verbs(changes); err != nil || !slices.Equal(got, []flows.Verb{flows.Updated}) {
			t.Errorf("a label, run %d: got %v, %v; want updated", i+1, got, err)
		}
	}
	if got := observe(t, c).End("milan").Namespace.Labels["more"]; got != "" {
		t.Errorf("the label is still there: %q", got)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{live}); err != nil {
		t.Fatal(err)
	}
}

func testConflict(t *testing.T, c *Cluster) {
	// others returns the same object, as another manager has it.
	others := func(manager string, pod networkingv1beta1.CIDR) {
		u, err := apply.Wanted(configuration(pod))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	others(wire.OperatorName, "10.98.0.0/16")
	if _, err := c.Apply(t.Context(), []wire.Object{configuration("10.245.0.0/16")}); err != nil {
		t.Errorf("what our operator has set: got %v, want it to be the admin's to change", err)
	}
	others("argocd", "10.99.0.0/16")
	_, err := c.Apply(t.Context(), []wire.Object{configuration("10.245.0.0/16")})
	var conflict *flows.ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Managers, []string{"argocd"}) {
		t.Errorf("got %v, want a conflict with argocd", err)
	}
}

// testOwnOperator changes fields that our operator wrote last. This is no conflict.
func testOwnOperator(t *testing.T, c *Cluster) {
	n := render.ClusterNetworks("default", "pod-cidr", []string{"10.1.0.0/16"}, "found")[0]
	if err := c.client.Create(t.Context(), n, client.FieldOwner(wire.OperatorName)); err != nil {
		t.Fatal(err)
	}
	stated := render.ClusterNetworks("default", "pod-cidr", []string{"10.1.0.0/16"}, "stated")
	if _, err := c.Apply(t.Context(), stated); err != nil {
		t.Errorf("the same range: got %v, want no conflict", err)
	}
	var live ipamv1alpha1.Network
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(n), &live); err != nil || live.Annotations[wire.AnnotationSource] != "stated" {
		t.Errorf("got %v (%v), want what the admin stated", live.Annotations, err)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{&live}); err != nil {
		t.Fatal(err)
	}
}

func testValidation(t *testing.T, c *Cluster) {
	server := render.GatewayServer(render.ServerParams{Tenant: tenant, ServiceType: "Carrier pigeon", Port: 51840, MTU: 1340})
	if _, err := c.Apply(t.Context(), []wire.Object{server}); err == nil || !strings.Contains(err.Error(), "serviceType") {
		t.Errorf("got %v, want serviceType refused", err)
	}
}

func testChanged(t *testing.T, c *Cluster) {
	conn := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Name: "gw-milan", Namespace: tenant.Namespace, Labels: map[string]string{wire.LabelRemoteCluster: "milan"}},
		Spec:       networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient},
	}
	if err := c.client.Create(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	conn.Status.Value = networkingv1beta1.Connected
	if err := c.client.Status().Update(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	await(t, c, "Connected", func(f flows.ClusterFacts) bool {
		p := f.End("milan")
		return p.Connection != nil && p.Connection.Status.Value == networkingv1beta1.Connected
	})
}

// restricted returns a cluster with the rights of a user who has only these verbs.
func restricted(t *testing.T, env *envtest.Environment, name string, verbs ...string) *Cluster {
	t.Helper()
	user, err := env.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	admin := open(t, env.Config)
	meta := metav1.ObjectMeta{Name: name}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, user.Config())
	// API servers see changes of roles and bindings with a delay.
	deadline := time.Now().Add(20 * time.Second)
	for _, verb := range verbs {
		for {
			r, err := c.Review(t.Context(), []rights.Permission{{Verb: verb, Resource: "namespaces"}})
			if err == nil && len(r.Missing) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("user %s may not %s: %+v, %v", name, verb, r, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return c
}

func testPolling(t *testing.T, env *envtest.Environment, admin *Cluster) {
	c := restricted(t, env, "lister", "get", "list")
	f := await(t, c, "anything", func(f flows.ClusterFacts) bool { return f.Problem == nil })
	if f.End("turin").Namespace != nil {
		t.Fatal("the namespace is there before it was made")
	}
	ns := render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"})
	if _, err := admin.Apply(t.Context(), []wire.Object{ns}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for observe(t, c).End("turin").Namespace == nil {
		if time.Now().After(deadline) {
			t.Fatal("without the right to watch, a new namespace was never seen")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func testForbidden(t *testing.T, env *envtest.Environment) {
	f := observe(t, restricted(t, env, "stranger", "get"))
	if f.Problem == nil || f.Problem.Kind != flows.Forbidden || !strings.Contains(f.Problem.Message, "cannot list") {
		t.Errorf("got problem %+v, want the missing right named", f.Problem)
	}
}

func testDelete(t *testing.T, c *Cluster) {
	conf := observe(t, c).End("milan").Configuration
	changes, err := c.Delete(t.Context(), []wire.Object{conf})
	if err != nil {
		t.Fatal(err)
	}
	if want := []flows.Change{{Verb: flows.Deleted, Object: "Configuration liqo-tenant-milan/milan"}}; !slices.Equal(changes, want) {
		t.Errorf("got %v, want %v", changes, want)
	}
	if got := observe(t, c).End("milan").Configuration; got != nil {
		t.Errorf("got %v right after deleting it", got)
	}
	changes, err = c.Delete(t.Context(), []wire.Object{conf})
	if err != nil || len(changes) != 0 {
		t.Errorf("deleting again: got %v, %v; want no change and no error", changes, err)
	}
}

// testForeign applies to an object of others that has a name of ours, and no conflicting field.
func testForeign(t *testing.T, c *Cluster) {
	want := render.PublicKey(tenant, [32]byte{3}, nil)
	want.Name = "of-others"
	theirs := want.DeepCopy()
	theirs.Labels = map[string]string{"team": "a"}
	if err := c.client.Create(t.Context(), theirs, client.FieldOwner("others")); err != nil {
		t.Fatal(err)
	}
	var foreign *flows.ForeignError
	if changes, err := c.Apply(t.Context(), []wire.Object{want}); !errors.As(err, &foreign) || len(changes) > 0 {
		t.Errorf("got %v, %v; want it refused", changes, err)
	}
	if got, err := c.DryRun(t.Context(), []wire.Object{want}, false); err != nil || !errors.As(got[0].Err, &foreign) {
		t.Errorf("dry run: got %+v, %v; want it refused", got, err)
	}
	now := &networkingv1beta1.PublicKey{}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(want), now); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("got %+v (%v), want the object as it was", now.ObjectMeta, err)
	}
	// After a forced apply, the object is changed, and does not become ours.
	if _, err := c.ForceApply(t.Context(), []wire.Object{want}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(want), now); err != nil || now.Labels[wire.LabelRemoteCluster] == "" || render.MadeByUs(now) {
		t.Errorf("by force: got labels %v (%v), want the peer's and not ours", now.Labels, err)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{now}); err != nil {
		t.Fatal(err)
	}
}

// testDeleteAsSeen deletes objects that somebody has created again, or changed, since they were observed.
func testDeleteAsSeen(t *testing.T, c *Cluster) {
	asti := render.Tenant{Namespace: "liqo-tenant-asti", Remote: "asti"}
	conf := render.Configuration(asti, render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
	if _, err := c.Apply(t.Context(), []wire.Object{render.TenantNamespace(asti), conf}); err != nil {
		t.Fatal(err)
	}
	seen := observe(t, c).End("asti")
	if err := c.client.Delete(t.Context(), seen.Configuration.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	again := conf.DeepCopy()
	if err := c.client.Create(t.Context(), again, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	changes, err := c.Delete(t.Context(), []wire.Object{seen.Configuration})
	if !apierrors.IsConflict(err) || len(changes) > 0 {
		t.Errorf("what was made again: got %v, %v; want a conflict", changes, err)
	}
	now := observe(t, c).End("asti").Configuration
	if now == nil || now.UID != again.UID {
		t.Fatalf("got %v right after that, want what was made again", now)
	}
	// A changed status does not prevent the deletion.
	reported := now.DeepCopy()
	reported.Status.Remote = &networkingv1beta1.ClusterConfig{}
	if err := c.client.Status().Update(t.Context(), reported); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{now}); err != nil {
		t.Errorf("with a newer status: got %v", err)
	}
	taken := seen.Namespace.DeepCopy()
	delete(taken.Labels, wire.LabelManagedBy)
	if err := c.client.Update(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), []wire.Object{seen.Namespace}); !apierrors.IsConflict(err) {
		t.Errorf("a namespace that was taken over: got %v, want a conflict", err)
	}
	if ns := observe(t, c).End("asti").Namespace; ns == nil || ns.DeletionTimestamp != nil || ns.Labels[wire.LabelManagedBy] != "" {
		t.Errorf("got %+v right after that, want the namespace as it is now", ns)
	}
}

func TestUnreachableIsAFact(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil { // now no program listens at this address
		t.Fatal(err)
	}
	f := observe(t, open(t, &rest.Config{Host: "https://" + address}))
	if f.Problem == nil || f.Problem.Kind != flows.Unreachable || !strings.Contains(f.Problem.Message, address) || f.Problem.Fix.IsZero() {
		t.Errorf("got problem %+v, want the address named, and what to do", f.Problem)
	}
}

// A pod that was started long ago may have a container that was started just now. The container has
// restarted, and not the pod.
func TestARestartIsTheContainersNotThePods(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	running := func(restarts int32, after time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(after))}}}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: new(metav1.NewTime(start)), ContainerStatuses: []corev1.ContainerStatus{running(0, time.Second)}}}
	if f := collect.Pod(pod); f.Restarts != 0 || !f.Restarted.IsZero() {
		t.Errorf("it was started: got %d restarts, the last at %s", f.Restarts, f.Restarted)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{running(0, time.Second), running(2, time.Hour)}
	if f := collect.Pod(pod); f.Restarts != 2 || !f.Restarted.Equal(start.Add(time.Hour)) {
		t.Errorf("a container was started anew: got %d restarts, the last at %s", f.Restarts, f.Restarted)
	}
}

func TestPodsSayWhatTheyWaitFor(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	ended := func(now corev1.ContainerState, ready bool) corev1.PodStatus {
		last := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Message: "starting\nno such file\n"}}
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "wireguard", RestartCount: 5, State: now, LastTerminationState: last, Ready: ready}}}
	}
	const often = "container wireguard has ended 5 times, the last time with exit code 255: no such file"
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"it ends each time, and waits":     {ended(waiting("CrashLoopBackOff", "back-off 10s").State, false), often},
		"it ends each time, and was begun": {ended(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, false), often},
		"it has ended often, and works":    {ended(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, true), ""},
		"not scheduled": {
			corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}},
			"0/1 nodes are available",
		},
		"the image can't be pulled, by the init step": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "no such image")},
				ContainerStatuses:     []corev1.ContainerStatus{waiting("PodInitializing", "")},
			},
			"ImagePullBackOff: no such image",
		},
		"initializing is not worth a word": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("PodInitializing", "")}}, ""},
		"running":                          {corev1.PodStatus{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := collect.Pod(&corev1.Pod{Status: c.status}).Waiting; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
