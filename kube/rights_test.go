package kube

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func testDryRun(t *testing.T, c *Cluster) {
	rome := render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}
	objects := []wire.Object{
		configuration("10.245.0.0/16"), // argocd's field
		render.TenantNamespace(rome),   // new
		render.TenantNamespace(tenant), // exists already
		render.Configuration(rome, render.Networks{Pod: []networkingv1beta1.CIDR{"10.1.0.0/16"}}), // its namespace does not exist
	}
	got, err := c.DryRun(t.Context(), objects, false)
	if err != nil {
		t.Fatal(err)
	}
	var conflict *flows.ConflictError
	if !errors.As(got[0].Err, &conflict) || !slices.Equal(conflict.Managers, []string{"argocd"}) || !slices.Equal(conflict.Fields, []string{".spec.remote.cidr.pod"}) {
		t.Errorf("another's field: got %v", got[0].Err)
	}
	if got[1].Err != nil || got[1].Verb != flows.Created || !strings.Contains(got[1].Diff, "+  name: liqo-tenant-rome") {
		t.Errorf("a new object: got %+v", got[1])
	}
	if got[2].Err != nil || got[2].Verb != flows.Unchanged || got[2].Diff != "" {
		t.Errorf("an object as it is: got %+v", got[2])
	}
	if !apierrors.IsNotFound(got[3].Err) {
		t.Errorf("in a namespace that is not there: got %v", got[3].Err)
	}
	forced, err := c.DryRun(t.Context(), objects[:1], true)
	if err != nil || forced[0].Err != nil || forced[0].Verb != flows.Updated || !strings.Contains(forced[0].Diff, "-      - 10.99.0.0/16\n+      - 10.245.0.0/16") {
		t.Errorf("by force: got %+v, %v", forced, err)
	}
	f := observe(t, c)
	if f.End("rome").Namespace != nil || f.End("milan").Configuration.Spec.Remote.CIDR.Pod[0] != "10.99.0.0/16" {
		t.Error("a dry run has changed something")
	}
}

func testForce(t *testing.T, c *Cluster) {
	changes, err := c.ForceApply(t.Context(), []wire.Object{configuration("10.245.0.0/16")})
	if err != nil || !slices.Equal(verbs(changes), []flows.Verb{flows.Updated}) {
		t.Errorf("got %v, %v", changes, err)
	}
	if got := observe(t, c).End("milan").Configuration.Spec.Remote.CIDR.Pod; got[0] != "10.245.0.0/16" {
		t.Errorf("got %v", got)
	}
}

func testReview(t *testing.T, env *envtest.Environment, admin *Cluster) {
	const group = "networking.liqo.io"
	wanted := []rights.Permission{
		{Verb: "list", Group: group, Resource: "connections"},
		{Verb: "watch", Group: group, Resource: "connections"}, // repeated lists are enough
		{Verb: "patch", Group: group, Resource: "configurations", Namespace: "liqo-tenant-milan"},
		{Verb: "create", Resource: "namespaces"},
	}
	r, err := restricted(t, env, "reader", "get", "list").Review(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	if r.User != "reader" || !slices.Equal(r.Missing, wanted[2:]) {
		t.Errorf("got %+v, want user reader to miss the last two", r)
	}
	if got, want := r.Sentence(), `user "reader" may not patch configurations.networking.liqo.io in liqo-tenant-milan, create namespaces`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r, err = restricted(t, env, "updater", "get", "list", "update", "create").Review(t.Context(), wanted); err != nil || len(r.Missing) != 0 {
		t.Errorf("who may update need not patch: got %+v, %v", r, err)
	}
	if r, err = admin.Review(t.Context(), wanted); err != nil || len(r.Missing) != 0 {
		t.Errorf("an admin: got %+v, %v", r, err)
	}
}

// liqoRules returns the rules of one of Liqo's own roles, of the release that we use.
func liqoRules(t *testing.T, name string) []rbacv1.PolicyRule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(liqoModule(t), "deployments/liqo/files", name))
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}
	if err := yaml.Unmarshal(data, &role); err != nil || len(role.Rules) == 0 {
		t.Fatalf("%d rules in %s, %v", len(role.Rules), name, err)
	}
	return role.Rules
}

// newPeeringUser creates the user that "liqoctl generate peering-user" makes for turin's admin. It has no
// watch, no patch, and only one tenant's namespace.
func newPeeringUser(t *testing.T, env *envtest.Environment, admin *Cluster) *Cluster {
	t.Helper()
	const name = "liqo-peer-user-turin-0123456789abcdef0123456789abcdef"
	user, err := env.AddUser(envtest.User{Name: name, Groups: []string{"liqo.io"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "User", Name: name}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wire.DefaultNamespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: wire.ClusterIDConfigMap, Namespace: wire.DefaultNamespace, Labels: map[string]string{wire.LabelAppName: wire.ClusterIDAppName}},
			Data:       map[string]string{wire.ClusterIDKey: "rome"},
		},
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "peering-user", Namespace: wire.DefaultNamespace},
			Rules:      liqoRules(t, "liqo-peering-user-liqo-ns-Role.yaml"),
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "peering-user", Namespace: wire.DefaultNamespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "peering-user"},
		},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "peering-user-tenant"},
			Rules:      liqoRules(t, "liqo-peering-user-tenant-ns-ClusterRole.yaml"),
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "peering-user", Namespace: "liqo-tenant-turin"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "peering-user-tenant"},
		},
	} {
		if err := admin.client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return open(t, user.Config())
}

func testPeeringUser(t *testing.T, env *envtest.Environment, admin *Cluster) {
	turin := render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}
	c := newPeeringUser(t, env, admin)
	f := await(t, c, "its tenant namespace, by polling", func(f flows.ClusterFacts) bool {
		return f.End("turin").Namespace != nil && slices.Contains(f.Polled, "Configuration")
	})
	if f.Problem != nil || f.ID != "rome" || f.UID == "" || !f.HasCRDs || len(f.Namespaces) != 1 {
		t.Errorf("got problem %v, ID %q, UID %q, missing %v, %d tenants", f.Problem, f.ID, f.UID, f.MissingKinds, len(f.Namespaces))
	}
	conf := func(pod networkingv1beta1.CIDR) []wire.Object {
		return []wire.Object{render.Configuration(turin, render.Networks{Pod: []networkingv1beta1.CIDR{pod}})}
	}
	for _, step := range []struct {
		pod  networkingv1beta1.CIDR
		want flows.Verb
	}{{"10.1.0.0/16", flows.Created}, {"10.1.0.0/16", flows.Unchanged}, {"10.2.0.0/16", flows.Updated}} {
		changes, err := c.Apply(t.Context(), conf(step.pod))
		if err != nil || !slices.Equal(verbs(changes), []flows.Verb{step.want}) {
			t.Fatalf("apply %s: got %v, %v; want %s", step.pod, changes, err, step.want)
		}
		if got := observe(t, c).End("turin").Configuration; got == nil || got.Spec.Remote.CIDR.Pod[0] != step.pod {
			t.Errorf("right after applying %s: got %v", step.pod, got)
		}
	}
	testPeeringUserTakesBack(t, admin, c, conf("10.2.0.0/16"))
	testPeeringUserConflict(t, admin, c, conf)
	r, err := c.Review(t.Context(), []rights.Permission{
		{Verb: "patch", Group: "networking.liqo.io", Resource: "gatewayservers", Namespace: turin.Namespace},
		{Verb: "list", Group: "networking.liqo.io", Resource: "connections"},
		{Verb: "create", Resource: "namespaces"},
	})
	if err != nil || len(r.Missing) != 1 || r.Missing[0].Resource != "namespaces" || !strings.HasPrefix(r.User, "liqo-peer-user-turin-") {
		t.Errorf("review: got %+v, %v", r, err)
	}
	if _, err := c.Apply(t.Context(), []wire.Object{render.Configuration(tenant, render.Networks{})}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "liqo-tenant-milan") {
		t.Errorf("in another tenant's namespace: got %v", err)
	}
	if changes, err := c.Delete(t.Context(), []wire.Object{observe(t, c).End("turin").Configuration}); err != nil || !slices.Equal(verbs(changes), []flows.Verb{flows.Deleted}) {
		t.Errorf("delete: got %v, %v", changes, err)
	}
}

// Without the right to patch, fields that are not wanted any more are removed, too.
func testPeeringUserTakesBack(t *testing.T, admin, c *Cluster, conf []wire.Object) {
	more := conf[0].DeepCopyObject().(wire.Object)
	more.GetLabels()["more"] = "yes"
	if _, err := admin.Apply(t.Context(), []wire.Object{more}); err != nil {
		t.Fatal(err)
	}
	await(t, c, "the label", func(f flows.ClusterFacts) bool { return f.End("turin").Configuration.Labels["more"] != "" })
	for i, want := range []flows.Verb{flows.Updated, flows.Unchanged} {
		changes, err := c.Apply(t.Context(), conf)
		if err != nil || !slices.Equal(verbs(changes), []flows.Verb{want}) {
			t.Errorf("without the label, run %d: got %v, %v; want %s", i+1, changes, err, want)
		}
	}
	if got := observe(t, c).End("turin").Configuration; got.Labels["more"] != "" || got.Labels[wire.LabelRemoteCluster] == "" {
		t.Errorf("got the labels %v, want the one gone and the others kept", got.Labels)
	}
}

// Without the right to patch, others' fields still stay.
func testPeeringUserConflict(t *testing.T, admin, c *Cluster, conf func(networkingv1beta1.CIDR) []wire.Object) {
	u, err := apply.Wanted(conf("10.3.0.0/16")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("argocd"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	_, err = c.Apply(t.Context(), conf("10.2.0.0/16"))
	var conflict *flows.ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Managers, []string{"argocd"}) || !slices.Equal(conflict.Fields, []string{".spec.remote.cidr.pod"}) {
		t.Errorf("got %v, want a conflict with argocd", err)
	}
	if changes, err := c.ForceApply(t.Context(), conf("10.2.0.0/16")); err != nil || !slices.Equal(verbs(changes), []flows.Verb{flows.Updated}) {
		t.Errorf("by force: got %v, %v", changes, err)
	}
	// Polling finds changes of others.
	if _, err := admin.ForceApply(t.Context(), conf("10.4.0.0/16")); err != nil {
		t.Fatal(err)
	}
	await(t, c, "another's change", func(f flows.ClusterFacts) bool {
		return f.End("turin").Configuration.Spec.Remote.CIDR.Pod[0] == "10.4.0.0/16"
	})
	if _, err := c.Apply(t.Context(), conf("10.2.0.0/16")); err != nil {
		t.Fatal(err)
	}
}

func testWarnings(t *testing.T, c *Cluster) {
	server := render.GatewayServer(render.ServerParams{Tenant: tenant, ServiceType: corev1.ServiceTypeLoadBalancer, Port: 51840, MTU: 1340})
	if _, err := c.Apply(t.Context(), []wire.Object{server}); err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Now())
	for name, kind := range map[string]string{"pending": corev1.EventTypeWarning, "ensuring": corev1.EventTypeNormal} {
		err := c.client.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: tenant.Namespace, Name: "gw-milan"},
			Type:           kind, Reason: "SyncLoadBalancerFailed", Message: "no quota for addresses", Count: 3, LastTimestamp: now,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f := await(t, c, "the warning", func(f flows.ClusterFacts) bool { return len(f.Events) > 0 })
	want := flows.EventFacts{Object: "Service liqo-tenant-milan/gw-milan", Reason: "SyncLoadBalancerFailed", Message: "no quota for addresses", Count: 3, At: now.Rfc3339Copy().Time}
	if len(f.Events) != 1 || f.Events[0].At.Unix() != want.At.Unix() {
		t.Fatalf("got %+v, want only the warning", f.Events)
	}
	f.Events[0].At = want.At
	if f.Events[0] != want {
		t.Errorf("got %+v, want %+v", f.Events[0], want)
	}
}

// In testDelegationRights, an admin may read the Secrets of one connection's namespace, and no other Secrets.
func testDelegationRights(t *testing.T, env *envtest.Environment, admin *Cluster) {
	const name = "namespaced"
	user, err := env.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	see := []string{"get", "list", "watch"}
	meta, here := metav1.ObjectMeta{Name: name}, metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name}
	subjects := []rbacv1.Subject{{Kind: "User", Name: name}}
	gateway := render.GatewayServer(render.ServerParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"}, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
	})
	token := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "delegate", Labels: map[string]string{render.LabelDelegate: "identity"}}}
	}
	made := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces", "configmaps", "pods"}, Verbs: see},
			{APIGroups: []string{"apps", "networking.liqo.io", "ipam.liqo.io"}, Resources: []string{"*"}, Verbs: see},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
		&rbacv1.Role{ObjectMeta: here, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"", rbacv1.GroupName}, Resources: []string{"secrets", "serviceaccounts", "roles", "rolebindings"}, Verbs: see},
		}},
		&rbacv1.RoleBinding{ObjectMeta: here, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
		gateway, token(tenant.Namespace), token("default"),
	}
	for _, o := range made {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, o := range made {
			if err := admin.client.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, named := range []string{"", tenant.Namespace} {
		c, err := ForConfig(user.Config(), Options{Delegation: true, Tenant: named})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		f := observe(t, c)
		if f.Problem != nil || len(f.Delegation.Secrets) != 1 || f.Delegation.Secrets[0].Namespace != tenant.Namespace {
			t.Errorf("namespace %q named: got problem %+v and Secrets %v, want the one of the connection", named, f.Problem, f.Delegation.Secrets)
		}
	}
}
