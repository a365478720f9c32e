package provider

import (
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A consumer's namespace is removed after a deletion that was seen, and not because an object is absent.
func TestATwinIsNotRemovedForWhatIsAbsent(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, authv1beta1.AddToScheme, offloadingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	at := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}
	asking := peering.MapCopy(&offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: at.Name, Labels: map[string]string{peering.LabelDestination: "milan"}}}, "rome", at.Namespace)
	asking.UID = "m"
	full := asking.DeepCopy()
	full.Spec.DesiredMapping = map[string]string{"demo": "demo-rome"}
	ending := func(m *offloadingv1beta1.NamespaceMap) *offloadingv1beta1.NamespaceMap {
		m = m.DeepCopy()
		m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: metav1.Unix(1, 0).Time}, []string{"of/another"}
		return m
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: "rome", UID: "t"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	drained := tenant.DeepCopy()
	drained.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	access := peering.ConsumerAccess(tenant)
	slice := &authv1beta1.ResourceSlice{ObjectMeta: at, Status: authv1beta1.ResourceSliceStatus{AuthParams: &authv1beta1.AuthParams{}}}
	const gone, stays, withdrawn = "gone", "stays", "stays without rights"
	for name, c := range map[string]struct {
		has, deleted []client.Object
		want         string
	}{
		"there is nothing":                    {nil, nil, withdrawn},
		"no map":                              {[]client.Object{tenant, access, slice}, nil, stays},
		"no map, and no slice":                {[]client.Object{tenant, access}, nil, withdrawn},
		"no map, and no access":               {[]client.Object{tenant, slice}, nil, withdrawn},
		"a map that asks was, and the slices": {[]client.Object{tenant, access}, []client.Object{full, slice}, withdrawn},
		"a map that asks ends, no slices":     {[]client.Object{tenant, access, ending(full)}, []client.Object{slice}, withdrawn},
		"a map that asks nothing ends":        {[]client.Object{tenant, access, ending(asking)}, []client.Object{slice}, gone},
		"the map was deleted":                 {[]client.Object{tenant, access, slice}, []client.Object{asking}, stays},
		"the slices were":                     {[]client.Object{tenant, access}, []client.Object{slice}, withdrawn},
		"the map was, a slice is absent":      {[]client.Object{tenant, access}, []client.Object{asking}, withdrawn},
		"the map and the slices were":         {[]client.Object{tenant, access}, []client.Object{asking, slice}, gone},
		"the map was, and one of two slices":  {[]client.Object{tenant, access, slice}, []client.Object{asking, slice}, stays},
		"the Tenant was, and there is no map": {nil, []client.Object{tenant}, gone},
		"no map, and the Tenant is drained":   {[]client.Object{drained, access, slice}, nil, gone},
		"a map, and no Tenant":                {[]client.Object{asking, slice}, nil, withdrawn},
		"a map, and the Tenant was deleted":   {[]client.Object{asking, slice}, []client.Object{tenant}, gone},
		"a map, and the Tenant is drained":    {[]client.Object{asking, drained, slice}, nil, gone},
	} {
		t.Run(name, func(t *testing.T) {
			mapped := peering.MappedNamespace(asking, "rome", "demo", "demo-rome")
			rights := peering.MappedAccess(mapped, []string{"x"})
			all := []client.Object{mapped, rights}
			for _, o := range c.has {
				all = append(all, o.DeepCopyObject().(client.Object))
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).Build()
			r := &namespaces{base: base{client: api, peers: api, reader: api, seen: control.NewDeletions(deletionsOf)}}
			for _, o := range c.deleted {
				r.seen.Set(o, true)
			}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: at.Namespace, Name: at.Name}}); err != nil {
				t.Fatal(err)
			}
			is := func(o client.Object) bool { return api.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil }
			got := gone
			switch {
			case is(mapped) && is(rights):
				got = stays
			case is(mapped):
				got = withdrawn
			}
			if got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
			if m := asking.DeepCopy(); is(m) && m.DeletionTimestamp == nil && c.want == gone {
				t.Error("the map stays")
			}
		})
	}
}

// A map removes namespaces that it has requested itself. A younger map may have been created again.
func TestAMapRemovesWhatItHasAskedFor(t *testing.T) {
	mapped := peering.MappedNamespace(&offloadingv1beta1.NamespaceMap{}, "rome", "demo", "demo-rome")
	mapped.CreationTimestamp = metav1.Unix(2, 0)
	for name, c := range map[string]struct {
		made   int64
		status map[string]offloadingv1beta1.RemoteNamespaceStatus
		want   bool
	}{
		"older":                         {1, nil, true},
		"of the same second":            {2, nil, true},
		"younger":                       {3, nil, false},
		"younger, and says it is there": {3, map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-rome"}}, true},
		"younger, with another":         {3, map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "other-rome"}}, false},
	} {
		m := &mapping{of: &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(c.made, 0)}, Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: c.status}}}
		if got := m.hasAsked(mapped); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
