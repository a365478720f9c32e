package services_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func (c *cluster) exporting() services.Export {
	return services.Exported(c.service, c.export, c.slices, c.id, []netip.Prefix{c.pods}, []string{"tunnels"})
}

// said returns conditions as TYPE=STATUS REASON: MESSAGE.
func said(all []metav1.Condition) (out []string) {
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

func TestWhatAClusterOffersItsPeers(t *testing.T) {
	rome := newCluster("rome", "10.244.0.0/16").exports(1)
	rome.slices[0].Endpoints[0].Hostname = new("web-0")
	rome.slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	rome.export.Annotations[wire.AnnotationExportTo] = "milan,turin"
	got := rome.exporting()
	equal(t, "conditions", said(got.Conditions), []string{"Valid=True Valid: the Service can be exported", "Ready=True Ready: peers can read it"})
	equal(t, "generation", got.Conditions[0].ObservedGeneration, rome.export.Generation)
	if len(got.Slices) != 1 {
		t.Fatalf("got %d slices", len(got.Slices))
	}
	s := got.Slices[0]
	head, err := services.ParseHead(s.Annotations[wire.AnnotationServiceHead])
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "head", head, services.Head{
		Type: mcsv1beta1.ClusterSetIP, Created: head.Created, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports:           []services.Port{{Name: "tcp", Protocol: "TCP", Number: 42, InSlices: new("tcp")}, {Name: "udp", Protocol: "UDP", Number: 42, InSlices: new("udp")}},
		SessionAffinity: rome.service.Spec.SessionAffinity, SessionAffinityConfig: rome.service.Spec.SessionAffinityConfig, InternalTrafficPolicy: rome.service.Spec.InternalTrafficPolicy,
	})
	if !head.Created.Equal(&rome.export.CreationTimestamp) {
		t.Errorf("it was created at %v", head.Created)
	}
	equal(t, "limit", s.Annotations[wire.AnnotationExportTo], "milan,turin")
	equal(t, "endpoints", s.Endpoints, []discoveryv1.Endpoint{{
		Addresses: []string{"10.244.0.5"}, Hostname: new("web-0"), Zone: new("zone-rome"), Conditions: rome.slices[0].Endpoints[0].Conditions,
	}})
	equal(t, "ports", s.Ports, rome.slices[0].Ports)
	if !strings.HasPrefix(s.Name, "hello-rome-") || s.Name != rome.exporting().Slices[0].Name {
		t.Errorf("it is called %s", s.Name)
	}
}

func TestAServiceWithoutEndpointsHasOneEmptySlice(t *testing.T) {
	rome := newCluster("rome", "10.244.0.0/16").exports(1)
	six := rome.kubeSlice("hello-six", 9)
	six.AddressType = discoveryv1.AddressTypeIPv6
	other := rome.kubeSlice("other", 9)
	other.Labels[discoveryv1.LabelServiceName] = "other"
	elsewhere := rome.kubeSlice("hello-x", 9)
	elsewhere.Namespace = "elsewhere"
	ours := rome.kubeSlice("hello-ours", 9)
	ours.Labels[discoveryv1.LabelManagedBy] = wire.ManagedBy
	rome.slices = []discoveryv1.EndpointSlice{six, other, elsewhere, ours}
	got := rome.exporting().Slices
	if len(got) != 1 || got[0].Endpoints == nil || len(got[0].Endpoints) > 0 || got[0].Annotations[wire.AnnotationServiceHead] == "" {
		t.Errorf("got %+v", got)
	}
}

// Peers reach pods in the pod ranges alone, and the admin reads how many are left out.
func TestEndpointsThatPeersCantReachAreLeftOut(t *testing.T) {
	rome := newCluster("rome", "10.244.0.0/16").exports(1)
	rome.slices = []discoveryv1.EndpointSlice{rome.kubeSlice("hello-a", 5, 6, 7), rome.kubeSlice("hello-b", 8, 9)}
	rome.slices[0].Endpoints[0].Addresses[0] = "192.0.2.1"
	rome.slices[0].Endpoints[2].Addresses[0] = "192.0.2.2"
	rome.slices[1].Endpoints[1].Addresses[0] = "192.0.2.3"
	got := rome.exporting()
	equal(t, "Ready", said(got.Conditions)[1], "Ready=True Ready: 3 of 5 endpoints can't be reached by peers: hostNetwork")
	left := 0
	for _, s := range got.Slices {
		left += len(s.Endpoints)
	}
	equal(t, "endpoints", left, 2)
	rome.slices[1].Endpoints[1].TargetRef = nil
	equal(t, "Ready", said(rome.exporting().Conditions)[1], "Ready=True Ready: 3 of 5 endpoints can't be reached by peers: hostNetwork, not a pod of this cluster")
}

func TestExportsThatAreNotMade(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*cluster)
		want string
	}{
		{"no Service", func(c *cluster) { c.service = nil }, "Valid=False NoService: there is no Service hello"},
		{"ExternalName", func(c *cluster) { c.service.Spec.Type = corev1.ServiceTypeExternalName }, "Valid=False InvalidServiceType: a Service of type ExternalName has no endpoints"},
		{"IPv6", func(c *cluster) { c.service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, "Valid=False IPFamilyNotSupported: the Service has IPv6 addresses alone, and connections carry IPv4"},
		{"kube-system", func(c *cluster) { c.export.Namespace = "kube-system" }, "Valid=False ReservedNamespace: Services of this namespace are not exported: clusters don't mean the same by it"},
		{"our namespace", func(c *cluster) { c.export.Namespace = "tunnels" }, "Valid=False ReservedNamespace: Services of this namespace are not exported: clusters don't mean the same by it"},
		{"derived", func(c *cluster) {
			c.service.Name, c.service.Labels = "derived-0123456789", map[string]string{wire.LabelManagedBy: wire.ManagedBy}
		}, "Valid=False DerivedService: this Service comes from an import: export the Services from which it comes"},
		{"ranges unknown", func(c *cluster) { c.pods = netip.Prefix{} }, "Ready=False Pending: the ranges of the cluster's pods are not known yet"},
		{
			"long", func(c *cluster) {
				c.export.Spec.ExportedAnnotations = map[string]string{"a": strings.Repeat("x", 8000)}
			},
			"Ready=False Failed: the description of the Service has 8351 bytes, at most 8192 are allowed: export fewer labels and annotations",
		},
		{"ports", func(c *cluster) {
			c.service.Spec.Ports = nil
			for i := range 101 {
				c.service.Spec.Ports = append(c.service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
			}
		}, "Ready=False Failed: the Service has 101 ports, at most 100 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rome := newCluster("rome", "10.244.0.0/16").exports(1)
			c.do(rome)
			pods := []netip.Prefix{rome.pods}
			if !rome.pods.IsValid() {
				pods = nil
			}
			got := services.Exported(rome.service, rome.export, rome.slices, rome.id, pods, []string{"tunnels"})
			if len(got.Slices) > 0 || !strings.Contains(strings.Join(said(got.Conditions), "\n"), c.want) || strings.Contains(strings.Join(said(got.Conditions), "\n"), "Ready=True") {
				t.Errorf("got %q and %d slices, want %q", said(got.Conditions), len(got.Slices), c.want)
			}
		})
	}
}

func TestWhatIsNotExportedIsSaid(t *testing.T) {
	rome := newCluster("rome", "10.244.0.0/16").exports(1)
	rome.service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	rome.export.Spec.ExportedLabels = map[string]string{"liqo.io/managed": "true", "tier": "gold"}
	rome.export.Spec.ExportedAnnotations = map[string]string{"a": "\x1b"}
	equal(t, "Ready", said(rome.exporting().Conditions)[1],
		"Ready=True Ready: peers get the IPv4 addresses alone; not exported: annotation a (has control characters), label liqo.io/managed (is reserved for programs)")
}
