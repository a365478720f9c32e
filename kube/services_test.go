package kube

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// testServices reads Services by name before and after an API server serves their kinds.
func testServices(t *testing.T, env *envtest.Environment, admin *Cluster) {
	ask := func(c *Cluster, name types.NamespacedName) services.Found {
		t.Helper()
		f, err := c.Services(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := ask(admin, types.NamespacedName{}); !f.Exports.Undefined || !f.Imports.Undefined || f.Exports.Read || !f.Slices.Read || !f.Copies.Read {
		t.Errorf("without the definitions: got %+v", f)
	}
	for _, text := range [][]byte{mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD} {
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if err := admin.client.Create(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.client.Delete(t.Context(), &d) })
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the API server needs a moment to serve a new definition
		if f := ask(admin, types.NamespacedName{}); f.Exports.Read && f.Imports.Read {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the definitions are not served")
		}
	}
	slice := func(namespace, name string, labels map[string]string) *discoveryv1.EndpointSlice {
		labels[discoveryv1.LabelManagedBy] = wire.ManagedBy
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4}
	}
	merged := func(of string) map[string]string {
		return map[string]string{mcsv1beta1.LabelServiceName: of, mcsv1beta1.LabelSourceCluster: "rome"}
	}
	copied := func(of string) map[string]string {
		return map[string]string{wire.LabelServiceNamespace: "mall", wire.LabelServiceName: of, wire.LabelRemoteCluster: "milan"}
	}
	web, tea := types.NamespacedName{Namespace: "mall", Name: "web"}, metav1.ObjectMeta{Namespace: "mall", Name: "tea"}
	port := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mall"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "copies"}},
		&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: "web"}}, &mcsv1beta1.ServiceExport{ObjectMeta: tea},
		&mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: "web"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Port: 80}}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: "web"}, Spec: port}, &corev1.Service{ObjectMeta: tea, Spec: port},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mall", Name: services.DerivedName(web)}, Spec: port},
		slice("mall", "web-rome-1", merged("web")), slice("mall", "tea-rome-1", merged("tea")), slice("mall", "web-of-kubernetes", map[string]string{discoveryv1.LabelServiceName: "web"}),
		slice("copies", "mall.web-1", copied("web")), slice("copies", "mall.tea-1", copied("tea")),
	} {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	names := func(f services.Found) (all []string) {
		for _, l := range [][]string{namesOf(f.Exports.Items), namesOf(f.Imports.Items), namesOf(f.Services.Items), namesOf(f.Slices.Items), namesOf(f.Copies.Items)} {
			slices.Sort(l)
			all = append(append(all, l...), "|")
		}
		return all
	}
	if got, want := names(ask(admin, web)), []string{"web", "|", "web", "|", services.DerivedName(web), "web", "|", "web-rome-1", "|", "mall.web-1", "|"}; !slices.Equal(got, want) {
		t.Errorf("of one name: got %q, want %q", got, want)
	}
	if got, want := names(ask(admin, types.NamespacedName{})), []string{"tea", "web", "|", "web", "|", "|", "tea-rome-1", "web-rome-1", "|", "mall.tea-1", "mall.web-1", "|"}; !slices.Equal(got, want) {
		t.Errorf("of all names: got %q, want %q", got, want)
	}
	if f := ask(restricted(t, env, "shortsighted", "create"), web); f.Exports.Read || f.Services.Read || f.Copies.Unread != "this user may not read endpointslices" || f.Exports.Undefined {
		t.Errorf("who may not read them: got %+v", f)
	}
}

func namesOf[T any, P interface {
	*T
	metav1.Object
}](all []T) (names []string) {
	for i := range all {
		names = append(names, P(&all[i]).GetName())
	}
	return names
}
