package operator

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestClusterset exports Services, and imports those of milan. The test plays the kubelets, the controllers of
// Kubernetes, and the gateway that keeps milan's EndpointSlices.
func TestClusterset(t *testing.T) {
	w := startWorld(t)
	w.installWith(render.InstallParams{Services: render.On}, render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.244.0.0/16"}, render.StatedByInstall)...)
	w.runOperatorWith(Options{Services: "rome"})
	w.node("node-a", "192.0.2.11")
	conf := w.peer("milan", "10.244.0.0/16")
	conf.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind))
	conn := render.Gateway{Tenant: render.Tenant{Namespace: conf.Namespace, Remote: "milan"}, Name: "milan", Type: networkingv1beta1.ConnectionTypeServer, Owner: conf}.Connection()
	w.create(conn)
	w.setConnected(conn, networkingv1beta1.Connected)
	seen := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.Pod[0]))
	milan := seen.Addr().Next().Next().Next().String() // this cluster's address for 10.244.0.3 in milan
	for _, name := range []string{"shop", "bank"} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	db := types.NamespacedName{Namespace: "shop", Name: "db"}

	t.Run("an exported Service is imported here, too", func(t *testing.T) {
		w := w.under(t)
		w.create(serviceOf(db, ""))
		w.create(endpointsOf(db, "10.244.1.5", "node-a"))
		export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(db)}
		w.create(export)
		until(w, export, "ready", func(e *mcsv1beta1.ServiceExport) bool {
			return trueOf(e.Status.Conditions, "Valid") && trueOf(e.Status.Conditions, "Ready") && meta.IsStatusConditionFalse(e.Status.Conditions, "Conflict")
		})
		imported := until(w, &mcsv1beta1.ServiceImport{ObjectMeta: metaOf(db)}, "ready", func(i *mcsv1beta1.ServiceImport) bool { return trueOf(i.Status.Conditions, "Ready") })
		derived := until(w, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: services.DerivedName(db)}}, "there", func(*corev1.Service) bool { return true })
		if !slices.Equal(imported.Spec.IPs, []string{derived.Spec.ClusterIP}) || imported.Annotations[services.AnnotationDerivedService] != derived.Name {
			t.Errorf("got %+v %v, want the address %s of %s", imported.Spec, imported.Annotations, derived.Spec.ClusterIP, derived.Name)
		}
		if got, want := w.endpoints(db), map[string]string{"10.244.1.5": "rome"}; !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("a peer's Services are imported as the Configuration says", func(t *testing.T) {
		w := w.under(t)
		w.create(w.copyOf(conf, db, "10.244.0.3"))
		w.create(w.copyOf(conf, types.NamespacedName{Namespace: "bank", Name: "db"}, "10.244.0.4"))
		w.admit(conf, "shop")
		w.untilEndpoints(db, map[string]string{"10.244.1.5": "rome", milan: "milan"})
		if got := w.endpoints(types.NamespacedName{Namespace: "bank", Name: "db"}); len(got) > 0 {
			t.Errorf("imported into a namespace that is not admitted: %v", got)
		}
		w.admit(conf, "*")
		w.untilEndpoints(types.NamespacedName{Namespace: "bank", Name: "db"}, map[string]string{seen.Addr().Next().Next().Next().Next().String(): "milan"})
		imported := until(w, &mcsv1beta1.ServiceImport{ObjectMeta: metaOf(db)}, "of both", func(i *mcsv1beta1.ServiceImport) bool { return len(i.Status.Clusters) == 2 })
		if imported.Status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsPresent {
			t.Errorf("got %+v", imported.Status)
		}
	})
	t.Run("a namespace that is created later", func(t *testing.T) {
		w := w.under(t)
		late := types.NamespacedName{Namespace: "late", Name: "web"}
		w.create(w.copyOf(conf, late, "10.244.0.3"))
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
		w.untilEndpoints(late, map[string]string{milan: "milan"})
	})
	t.Run("endpoints behind a broken tunnel are withdrawn where others are ready", func(t *testing.T) {
		w := w.under(t)
		w.setConnected(conn, networkingv1beta1.ConnectionError)
		w.untilReady(db, map[string]bool{"10.244.1.5": true, milan: false})
		w.untilReady(types.NamespacedName{Namespace: "late", Name: "web"}, map[string]bool{milan: true})
		w.setConnected(conn, networkingv1beta1.Connected)
		w.untilReady(db, map[string]bool{"10.244.1.5": true, milan: true})
		for _, quiet := range []bool{true, false} { // the gateway reports silence before it changes the state
			text, err := json.Marshal(wire.Report{At: time.Now(), Interval: 10, Quiet: quiet})
			if err != nil {
				t.Fatal(err)
			}
			w.patch(conn, func() { annotate(conn, wire.AnnotationStatus, string(text)) })
			w.untilReady(db, map[string]bool{"10.244.1.5": true, milan: !quiet})
		}
	})
	t.Run("what others delete or change comes back", func(t *testing.T) {
		w := w.under(t)
		derived := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: services.DerivedName(db)}}
		imported := &mcsv1beta1.ServiceImport{ObjectMeta: metaOf(db)}
		for _, o := range []client.Object{derived, imported} {
			until(w, o, "there", func(client.Object) bool { return true })
			uid := o.GetUID()
			if err := w.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			until(w, o, "made again", func(o client.Object) bool { return o.GetUID() != uid })
		}
		until(w, imported, "with the address", func(i *mcsv1beta1.ServiceImport) bool {
			return w.Get(t.Context(), client.ObjectKeyFromObject(derived), derived) == nil && slices.Equal(i.Spec.IPs, []string{derived.Spec.ClusterIP})
		})
		w.untilEndpoints(db, map[string]string{"10.244.1.5": "rome", milan: "milan"})
	})
	t.Run("nothing is written while nothing changes", func(t *testing.T) {
		w := w.under(t)
		before := w.versions()
		conn := conn.DeepCopy()
		for i := range 3 {
			w.patch(conn, func() { conn.Annotations = map[string]string{"test": string(rune('a' + i))} })
			time.Sleep(1100 * time.Millisecond) // longer than the interval at which the operator judges the tunnels
		}
		if after := w.versions(); !maps.Equal(before, after) {
			t.Errorf("got %v, want %v", after, before)
		}
	})
	t.Run("another program's ServiceImport", func(t *testing.T) {
		w := w.under(t)
		name := types.NamespacedName{Namespace: "shop", Name: "cilium"}
		foreign := &mcsv1beta1.ServiceImport{ObjectMeta: metaOf(name), Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Port: 80}}}}
		w.create(foreign)
		w.create(serviceOf(name, ""))
		w.create(endpointsOf(name, "10.244.1.6", "node-a"))
		export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(name)}
		w.create(export)
		until(w, export, "refused", func(e *mcsv1beta1.ServiceExport) bool {
			c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == services.ReasonAnotherProgram
		})
		version := foreign.ResourceVersion
		if err := w.Get(t.Context(), name, foreign); err != nil || foreign.ResourceVersion != version || len(w.endpoints(name)) > 0 {
			t.Errorf("%v: version %s, was %s; endpoints %v", err, foreign.ResourceVersion, version, w.endpoints(name))
		}
	})
	t.Run("an export that can't be written is not ready", func(t *testing.T) {
		w := w.under(t)
		name := types.NamespacedName{Namespace: "shop", Name: "taken"}
		w.create(serviceOf(name, ""))
		dated := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(name)}
		dated.CreationTimestamp = metav1.Now()
		ours := services.Exported(serviceOf(name, ""), dated, nil, "rome", []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, nil).Slices[0]
		others := endpointsOf(name, "10.244.1.7", "node-a") // with the name of the operator's slice, so the policy refuses the change
		others.Name, others.Labels = ours.Name, nil
		w.create(others)
		export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(name)}
		w.create(export)
		until(w, export, "not ready", func(e *mcsv1beta1.ServiceExport) bool {
			c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
			return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "forbidden")
		})
		if err := w.Delete(t.Context(), others); err != nil {
			t.Fatal(err)
		}
		until(w, export, "ready", func(e *mcsv1beta1.ServiceExport) bool { return trueOf(e.Status.Conditions, "Ready") })
	})
	t.Run("a Service that becomes headless", func(t *testing.T) {
		w := w.under(t)
		w.admit(conf, "bank")
		s := &corev1.Service{ObjectMeta: metaOf(db)}
		if err := w.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		w.create(serviceOf(db, corev1.ClusterIPNone))
		until(w, &mcsv1beta1.ServiceImport{ObjectMeta: metaOf(db)}, "headless", func(i *mcsv1beta1.ServiceImport) bool {
			return i.Spec.Type == mcsv1beta1.Headless && len(i.Spec.IPs) == 0
		})
		w.untilGone(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: services.DerivedName(db)}})
	})
	t.Run("nothing is left without exports", func(t *testing.T) {
		w := w.under(t)
		for _, o := range []client.Object{&mcsv1beta1.ServiceExport{ObjectMeta: metaOf(db)}, conf} {
			if err := w.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []types.NamespacedName{db, {Namespace: "bank", Name: "db"}, {Namespace: "late", Name: "web"}} {
			w.untilGone(&mcsv1beta1.ServiceImport{ObjectMeta: metaOf(name)})
			w.untilGone(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: services.DerivedName(name)}})
			w.untilEndpoints(name, nil)
		}
		if err := w.Get(t.Context(), db, &corev1.Service{}); err != nil {
			t.Errorf("the exported Service: %v", err)
		}
	})
}

func metaOf(name types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
}

func trueOf(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }

func serviceOf(name types.NamespacedName, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metaOf(name), Spec: corev1.ServiceSpec{
		ClusterIP: ip, Selector: map[string]string{"app": name.Name}, Ports: []corev1.ServicePort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP}},
	}}
}

// endpointsOf returns the slice that Kubernetes makes for a Service's pods.
func endpointsOf(name types.NamespacedName, address, node string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name + "-x7k2p", Labels: map[string]string{
			discoveryv1.LabelServiceName: name.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("sql"), Port: new(int32(5432)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
}

// copyOf returns the gateway's copy of a peer's slice with one endpoint.
func (w *world) copyOf(conf *networkingv1beta1.Configuration, name types.NamespacedName, address string) *discoveryv1.EndpointSlice {
	w.t.Helper()
	id := wire.ClusterID(conf.Labels[wire.LabelRemoteCluster])
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(name)}
	export.CreationTimestamp = metav1.Now()
	made := services.Exported(serviceOf(name, ""), export, []discoveryv1.EndpointSlice{*endpointsOf(name, address, "node-a")}, id, pods, nil)
	if len(made.Slices) != 1 {
		w.t.Fatalf("exported as %+v", made)
	}
	kept, problems := services.Admit(&made.Slices[0], services.Peer{ID: id, Ranges: pods})
	if len(problems) > 0 {
		w.t.Fatalf("not admitted: %q", problems)
	}
	kept.Namespace = conf.Namespace
	return kept
}

func (w *world) admit(conf *networkingv1beta1.Configuration, namespaces string) {
	w.t.Helper()
	until(w, conf, "there", func(*networkingv1beta1.Configuration) bool { return true })
	w.patch(conf, func() { annotate(conf, wire.AnnotationImport, namespaces) })
}

func (w *world) setConnected(conn *networkingv1beta1.Connection, value networkingv1beta1.ConnectionStatusValue) {
	w.t.Helper()
	until(w, conn, "there", func(*networkingv1beta1.Connection) bool { return true })
	conn.Status.Value = value
	if err := w.Status().Update(w.t.Context(), conn); err != nil {
		w.t.Fatal(err)
	}
}

// written returns the slices that the operator has for a name.
func (w *world) written(name types.NamespacedName) []discoveryv1.EndpointSlice {
	w.t.Helper()
	var all discoveryv1.EndpointSliceList
	of := client.MatchingLabels{mcsv1beta1.LabelServiceName: name.Name, discoveryv1.LabelManagedBy: wire.ManagedBy}
	if err := w.List(w.t.Context(), &all, client.InNamespace(name.Namespace), of); err != nil {
		w.t.Fatal(err)
	}
	return all.Items
}

// endpoints returns the cluster of each endpoint of a name, by the address here.
func (w *world) endpoints(name types.NamespacedName) map[string]string {
	w.t.Helper()
	got := map[string]string{}
	for _, s := range w.written(name) {
		for _, e := range s.Endpoints {
			got[e.Addresses[0]] = s.Labels[mcsv1beta1.LabelSourceCluster]
		}
	}
	return got
}

func (w *world) untilEndpoints(name types.NamespacedName, want map[string]string) {
	w.t.Helper()
	untilEqual(w, name, want, func() map[string]string { return w.endpoints(name) })
}

// untilReady waits until the endpoints of a name are ready, or are not, by the address here.
func (w *world) untilReady(name types.NamespacedName, want map[string]bool) {
	w.t.Helper()
	untilEqual(w, name, want, func() map[string]bool {
		got := map[string]bool{}
		for _, s := range w.written(name) {
			for _, e := range s.Endpoints {
				got[e.Addresses[0]] = *e.Conditions.Ready
			}
		}
		return got
	})
}

func untilEqual[V comparable](w *world, name types.NamespacedName, want map[string]V, get func() map[string]V) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for got := get(); !maps.Equal(got, want); got = get() {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: got %v, want %v", name, got, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// versions returns the versions of all objects that the controller writes.
func (w *world) versions() map[string]string {
	w.t.Helper()
	got := map[string]string{}
	for _, list := range []client.ObjectList{&mcsv1beta1.ServiceExportList{}, &mcsv1beta1.ServiceImportList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}} {
		if err := w.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range objects {
			if o, ok := o.(client.Object); ok && o.GetNamespace() != "default" {
				got[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return got
}

// TestClustersetRights sends the requests about others' Services that an attacker could send with the
// operator's token, or with the rights to write EndpointSlices and no ServiceExports.
func TestClustersetRights(t *testing.T) {
	abuses.Begin(t)
	w := startWorld(t)
	w.installWith(render.InstallParams{Services: render.On})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	db := types.NamespacedName{Namespace: "shop", Name: "db"}
	w.create(serviceOf(db, ""))
	slice := endpointsOf(db, "10.244.1.5", "node-a")
	w.create(slice)
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(db)}
	export.CreationTimestamp = metav1.Now()
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	merged := services.Merge(services.World{
		Name: db, Self: "rome", Export: export, ImportUID: "uid",
		Own: services.Exported(serviceOf(db, ""), export, []discoveryv1.EndpointSlice{*slice}, "rome", ranges, nil).Slices,
	})
	foreign := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cilium"}, Spec: merged.Import.Spec}
	untilEqual(w, db, map[string]bool{"served": true}, func() map[string]bool { // the API server needs a moment for new definitions
		return map[string]bool{"served": w.Create(t.Context(), foreign.DeepCopy()) == nil}
	})

	operator, user := w.account("liqo", wire.OperatorName), w.account("shop", "developer")
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "developer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "developer"}},
	})
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "slices"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{"create"},
	}}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "slices"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "slices"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "developer"}},
	})
	create := func(o client.Object, change func(client.Object)) func(client.Client) error {
		o = o.DeepCopyObject().(client.Object)
		change(o)
		return func(c client.Client) error { return c.Create(t.Context(), o.DeepCopyObject().(client.Object)) }
	}
	as := func(client.Object) {}
	in := func(namespace string) func(client.Object) { return func(o client.Object) { o.SetNamespace(namespace) } }
	remove := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(t.Context(), o) }
	}
	patch := func(o client.Object, text string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Patch(t.Context(), o.DeepCopyObject().(client.Object), merge(text))
		}
	}
	exported := merged.Slices[0]
	draws := create(merged.Service, func(o client.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "db"} })
	for deadline := time.Now().Add(time.Minute); draws(client.NewDryRunClient(operator)) == nil || create(&exported, as)(client.NewDryRunClient(w)) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) { // an API server acts on a new policy a moment later
			t.Fatal("no policy judges Services and EndpointSlices")
		}
	}
	w.permitted("the operator", operator, []abuse{
		{name: "imports a Service", do: create(merged.Import, as)},
		{name: "makes a derived Service", do: create(merged.Service, as)},
		{name: "writes the EndpointSlices of an export", do: create(&exported, as)},
	})
	w.refused("the operator", operator, []abuse{
		{name: "has a derived Service lead to pods of its choice", do: draws},
		{name: "takes over another's Service", do: patch(&corev1.Service{ObjectMeta: metaOf(db)}, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"liqo-tui"}},"spec":{"selector":null}}`)},
		{name: "deletes another's Service", do: remove(&corev1.Service{ObjectMeta: metaOf(db)})},
		{name: "makes a Service of Kubernetes' own namespace", do: create(merged.Service, in("kube-system"))},
		{name: "adds endpoints to another's Service", do: create(slice, func(o client.Object) { o.SetName("more"); o.SetResourceVersion("") })},
		{name: "changes another's endpoints", do: patch(slice, `{"endpoints":[]}`)},
		{name: "deletes another's endpoints", do: remove(slice)},
		{name: "adds an export's endpoints to another's Service", nobody: true, do: create(&exported, func(o client.Object) { o.GetLabels()[discoveryv1.LabelServiceName] = "db" })},
		{name: "imports into Kubernetes' own namespace", nobody: true, do: create(&exported, in("kube-system"))},
		{name: "makes an import that nobody knows as its own", do: create(merged.Import, func(o client.Object) { o.SetLabels(nil) })},
		{name: "changes another program's import", do: patch(foreign, `{"spec":{"ips":["10.0.0.1"]}}`)},
		{name: "deletes another program's import", do: remove(foreign)},
	})
	w.permitted("a user", user, []abuse{{name: "writes EndpointSlices", do: create(slice, func(o client.Object) { o.SetName("mine"); o.SetResourceVersion("") })}})
	w.refused("a user", user, []abuse{
		{name: "exports addresses without a ServiceExport", nobody: true, do: create(&exported, as)},
	})
}
