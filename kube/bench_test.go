package kube

import (
	"fmt"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// mirrored returns a cluster with this number of connected peers, all of them known.
func mirrored(tb testing.TB, peers int) *Cluster {
	tb.Helper()
	c, err := ForConfig(&rest.Config{Host: "https://192.0.2.1"}, Options{Context: flows.ContextRef{Name: "test"}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	c.start.Do(func() {}) // starts no watches
	c.uid, c.version = "uid", "v1.35.0"
	byKind := map[string]*store{}
	for _, s := range c.mirrored {
		s.attempted()
		byKind[s.kind] = s // of the two watches of Pods, the one of gateways counts
	}
	add := func(kind string, o client.Object) {
		o.SetResourceVersion("1")
		byKind[kind].put(o)
	}
	for i := range peers {
		t := render.Tenant{Namespace: fmt.Sprintf("liqo-tenant-c%04d", i), Remote: wire.ClusterID(fmt.Sprintf("c%04d", i))}
		add("Namespace", render.TenantNamespace(t))
		add("Configuration", render.Configuration(t, render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}))
		server := render.GatewayServer(render.ServerParams{Tenant: t, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340})
		server.Annotations = map[string]string{wire.AnnotationPublicKey: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
		server.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.9"}, Port: 30000}
		add("GatewayServer", server)
		add("PublicKey", &networkingv1beta1.PublicKey{ObjectMeta: *server.ObjectMeta.DeepCopy()})
		add("Connection", &networkingv1beta1.Connection{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "gw", Labels: server.Labels},
			Status:     networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected},
		})
		add("Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Namespace, Name: "gw", Labels: map[string]string{wire.LabelComponent: "gateway", wire.LabelGatewayName: server.Name},
		}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
	}
	return c
}

func TestAllPeersAreInOneObservation(t *testing.T) {
	f := observe(t, mirrored(t, 50))
	if len(f.Namespaces) != 50 || len(f.Connections) != 50 || len(f.Pods) != 50 || len(f.Keys) != 50 {
		t.Errorf("got %d namespaces, %d Connections, %d pods, %d keys", len(f.Namespaces), len(f.Connections), len(f.Pods), len(f.Keys))
	}
	if p := f.End("c0007"); p.Key == nil || p.Pod == nil || p.Configuration == nil {
		t.Errorf("got %+v", p)
	}
}

// BenchmarkObserve measures one observation of a hub, which is made again after every change.
func BenchmarkObserve(b *testing.B) {
	for _, peers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d peers", peers), func(b *testing.B) {
			c := mirrored(b, peers)
			b.ReportAllocs()
			for b.Loop() {
				if f, err := c.Observe(b.Context()); err != nil || len(f.Connections) != peers {
					b.Fatal(f.Problem, err)
				}
			}
		})
	}
}
