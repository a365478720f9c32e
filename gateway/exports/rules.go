package exports

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Rules decide which slices a peer may read, and which parts of them.
type Rules struct {
	Cluster wire.ClusterID // the cluster that exports
	Peer    wire.ClusterID
	Pods    []netip.Prefix // the cluster's pod ranges
}

// Served returns the part of a slice that the peer may read; nil if the peer may read nothing of it. It
// leaves out endpoints outside of the cluster's pod ranges. Peers can't reach them, and a user who may write
// EndpointSlices must not announce other hosts. outside is the number of these endpoints.
func (r Rules) Served(s *discoveryv1.EndpointSlice) (out *discoveryv1.EndpointSlice, outside int) {
	if s.Labels[mcsv1beta1.LabelSourceCluster] != string(r.Cluster) || s.Labels[discoveryv1.LabelManagedBy] != wire.ManagedBy ||
		s.Labels[mcsv1beta1.LabelServiceName] == "" || s.AddressType != discoveryv1.AddressTypeIPv4 {
		return nil, 0
	}
	head, ok := s.Annotations[wire.AnnotationServiceHead]
	if !ok || !services.SentTo(s, r.Peer) {
		return nil, 0
	}
	// Only the fields named here are served. A node's name is left out, because the peer's kube-proxy would
	// take it for a node of its own cluster.
	out = &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, Annotations: map[string]string{wire.AnnotationServiceHead: head},
			Labels: map[string]string{
				mcsv1beta1.LabelSourceCluster: string(r.Cluster), mcsv1beta1.LabelServiceName: s.Labels[mcsv1beta1.LabelServiceName],
				discoveryv1.LabelManagedBy: wire.ManagedBy,
			},
		},
		AddressType: s.AddressType, Endpoints: []discoveryv1.Endpoint{}, Ports: s.Ports,
	}
	for _, e := range s.Endpoints {
		if !r.reachable(e.Addresses) {
			outside++
			continue
		}
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone})
	}
	return out, outside
}

// reachable reports whether all addresses are in the cluster's pod ranges.
func (r Rules) reachable(addresses []string) bool {
	for _, text := range addresses {
		a, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(r.Pods, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return false
		}
	}
	return len(addresses) > 0
}
