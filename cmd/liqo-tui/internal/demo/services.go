package demo

import (
	"fmt"
	"net/netip"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// served is a Service of a cluster, with its pods.
type served struct {
	in, name           string
	headless, exported bool
	ready              []bool // one for each pod
}

// offered lists the Services of the clusters that exchange some. All other clusters exchange none.
var offered = map[wire.ClusterID][]served{
	"rome": {
		{in: "shop", name: "web", exported: true, ready: []bool{true}},
		{in: "blog", name: "feed", ready: []bool{true}},
	},
	"milan": {
		{in: "shop", name: "web", exported: true, ready: []bool{true, true}},
		{in: "shop", name: "api", exported: true, ready: []bool{false}}, // a fault to find
		{in: "shop", name: "cart", ready: []bool{true, true}},
	},
	"paris": {
		{in: "shop", name: "db", headless: true, exported: true, ready: []bool{true, true, true}},
	},
}

// serve puts the Services into a cluster.
func serve(c *simulated.Cluster, p place) {
	all, ok := offered[p.id]
	if !ok {
		return
	}
	c.Behave(func(b *simulated.Behaviour) { b.Services = true })
	for i, s := range all {
		meta := metav1.ObjectMeta{Namespace: s.in, Name: s.name}
		port := corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}
		ip := fmt.Sprintf("10.96.1.%d", i+1)
		if s.headless {
			ip = corev1.ClusterIPNone
		}
		service := &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta,
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{port}},
		}
		slice := &discoveryv1.EndpointSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: s.name + "-x7k2p", Labels: map[string]string{discoveryv1.LabelServiceName: s.name}},
			Ports:      []discoveryv1.EndpointPort{{Name: &port.Name, Protocol: &port.Protocol, Port: new(int32(8080))}}, AddressType: discoveryv1.AddressTypeIPv4,
		}
		for pod, ready := range s.ready {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{podAddress(p.pods, 10*(i+1)+pod)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
		}
		namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: s.in}}
		c.PutAs("kubectl", namespace, service, slice)
		if s.exported {
			c.Put(&mcsv1beta1.ServiceExport{
				TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceExportKindName},
				ObjectMeta: metav1.ObjectMeta{Namespace: s.in, Name: s.name, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}},
			})
		}
	}
}

// podAddress returns an address of the cluster's pods.
func podAddress(pods networkingv1beta1.CIDR, number int) string {
	a := netip.MustParsePrefix(string(pods)).Addr().As4()
	return netip.AddrFrom4([4]byte{a[0], a[1], 1, byte(number)}).String()
}
