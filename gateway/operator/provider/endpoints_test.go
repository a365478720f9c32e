package provider

import (
	"fmt"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// kube-proxy on each node writes all endpoints. So a consumer has a limit for all its namespaces together,
// and takes nothing from another consumer.
func TestAConsumersEndpointsAreBounded(t *testing.T) {
	const each, fit = 10, 2
	var objects []client.Object
	var requests []reconcile.Request
	add := func(id string, slices int) {
		namespace := "liqo-tenant-" + id
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id, UID: types.UID(id)}}
		tenant.Spec.ClusterID = corev1beta1.ClusterID(id)
		access := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ConsumerAccessName}}
		access.OwnerReferences = []metav1.OwnerReference{{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant", Name: id, UID: tenant.UID, Controller: new(true)}}
		conf := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id}}
		conf.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.244.0.0/16"}
		conf.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.60.0.0/16"}}}
		objects = append(objects, tenant, access, conf)
		m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
		for i := range slices {
			ns := peering.MappedNamespace(m, wire.ClusterID(id), fmt.Sprint("ns-", i), fmt.Sprint("ns-", i, "-", id))
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "web", Labels: map[string]string{peering.LabelPodOrigin: id}}}
			s := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "web", UID: types.UID(ns.Name), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
			for e := range each {
				s.Spec.Template.Endpoints = append(s.Spec.Template.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprint("10.244.0.", e)}})
			}
			objects = append(objects, ns, service, s)
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	add("mallory", fit+1)
	add("rome", 1)
	c := lendingtest.Cluster(t, objects...)
	r := &endpoints{base: base{client: c, peers: c, reader: c, recorder: &events.FakeRecorder{}}}
	r.begin()
	if why := r.hold("liqo-tenant-mallory", client.ObjectKey{Namespace: "others-mallory", Name: "web"}, mostEndpoints-fit*each); why != nil {
		t.Fatal(why)
	}
	look := func(request reconcile.Request) (made bool, problem string) {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		made = true
		switch err := c.Get(t.Context(), client.ObjectKey{Namespace: request.Namespace, Name: offload.EndpointsName(request.Name)}, &discoveryv1.EndpointSlice{}); {
		case apierrors.IsNotFound(err):
			made = false
		case err != nil:
			t.Fatal(err)
		}
		s := &offloadingv1beta1.ShadowEndpointSlice{}
		if err := client.IgnoreNotFound(c.Get(t.Context(), request.NamespacedName, s)); err != nil {
			t.Fatal(err)
		}
		return made, s.Annotations[wire.AnnotationProblem]
	}
	for i, request := range requests {
		made, problem := look(request)
		if want := i != fit; made != want || want != (problem == "") || !want && !strings.Contains(problem, "10000 are the most") {
			t.Errorf("%s: made %t, %q", request, made, problem)
		}
	}
	for range 2 { // again, they count once
		if made, problem := look(requests[0]); !made || problem != "" {
			t.Errorf("again: made %t, %q", made, problem)
		}
	}
	// A deleted object leaves room: a ShadowEndpointSlice, or a namespace with all its objects.
	for i, gone := range []client.Object{
		&offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: requests[0].Namespace, Name: "web"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: requests[1].Namespace}},
	} {
		if err := c.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), requests[i]); err != nil {
			t.Fatal(err)
		}
		if made, problem := look(requests[fit]); !made || problem != "" {
			t.Errorf("after one has gone: made %t, %q", made, problem)
		}
		if want := mostEndpoints - i*each; r.sums["liqo-tenant-mallory"] != want {
			t.Errorf("%d endpoints are counted, want %d", r.sums["liqo-tenant-mallory"], want)
		}
	}
}
