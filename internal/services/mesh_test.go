package services_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var hello = types.NamespacedName{Namespace: "shop", Name: "hello"}

// A cluster has the Service hello, and perhaps exports it.
type cluster struct {
	id      wire.ClusterID
	pods    netip.Prefix
	service *corev1.Service
	export  *mcsv1beta1.ServiceExport
	slices  []discoveryv1.EndpointSlice // of Kubernetes
	policy  services.Policy
	down    []wire.ClusterID // peers behind a broken path

	exported services.Export
	merged   services.Merged
	derived  *corev1.Service
}

// newCluster returns a cluster with one pod that serves hello at the ports 42/TCP and 42/UDP. The cluster does
// not export hello.
func newCluster(id wire.ClusterID, pods string, peers ...wire.ClusterID) *cluster {
	c := &cluster{id: id, pods: netip.MustParsePrefix(pods), policy: services.Policy{Allowed: map[wire.ClusterID]services.Namespaces{}}}
	for _, p := range peers {
		c.policy.Allowed[p] = services.Namespaces{All: true}
	}
	c.service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hello.Namespace, Name: hello.Name, Labels: map[string]string{"of": "service"}, Annotations: map[string]string{"of": "service"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.42", ClusterIPs: []string{"10.96.0.42"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{
				{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 42}, {Name: "udp", Protocol: corev1.ProtocolUDP, Port: 42},
			},
			SessionAffinity: corev1.ServiceAffinityClientIP, SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(10))}},
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
		},
	}
	c.slices = []discoveryv1.EndpointSlice{c.kubeSlice("hello-x7k2p", 5)}
	return c
}

// kubeSlice is a slice as Kubernetes writes it for the Service, with a pod at each of the last bytes.
func (c *cluster) kubeSlice(name string, last ...byte) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: hello.Namespace, Name: name, Labels: map[string]string{
			discoveryv1.LabelServiceName: hello.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range c.service.Spec.Ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Protocol: new(p.Protocol), Port: new(int32(42))})
	}
	for _, b := range last {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{c.pod(b)}, NodeName: new("node-1"), Zone: new("zone-" + string(c.id)), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "hello"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone"}}}, DeprecatedTopology: map[string]string{"a": "b"},
		})
	}
	return s
}

func (c *cluster) pod(last byte) string {
	a := c.pods.Addr().As4()
	a[3] = last
	return netip.AddrFrom4(a).String()
}

// exports makes a ServiceExport of this age, in minutes.
func (c *cluster) exports(age int) *cluster {
	c.export = &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
		Namespace: hello.Namespace, Name: hello.Name, Generation: 3, Labels: map[string]string{"of": "export"}, Annotations: map[string]string{"of": "export"},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Minute)),
	}}
	return c
}

// ports gives the Service other ports. Its pods listen at port 42.
func (c *cluster) ports(all ...corev1.ServicePort) *cluster {
	c.service.Spec.Ports = all
	c.slices = []discoveryv1.EndpointSlice{c.kubeSlice("hello-x7k2p", 5)}
	return c
}

func (c *cluster) headless() *cluster {
	c.service.Spec.ClusterIP, c.service.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	return c
}

// seen returns how a cluster sees another one. Clusters with equal ranges see each other remapped.
func seen(by, of *cluster) network.Ranges {
	r := network.Range{Own: of.pods, Seen: of.pods}
	if by.pods == of.pods {
		r.Seen = netip.PrefixFrom(netip.AddrFrom4([4]byte{240, 100 + of.id[0]%100, 0, 0}), of.pods.Bits())
	}
	return network.Ranges{r}
}

// world returns the facts of a cluster about hello.
func (c *cluster) world(t *testing.T, all []*cluster) services.World {
	t.Helper()
	w := services.World{Name: hello, Self: c.id, Policy: c.policy, ImportUID: "uid", Derived: c.derived, Export: c.export, Own: c.exported.Slices}
	for _, p := range all {
		if p == c {
			continue
		}
		x := services.Exporter{ID: p.id, Seen: seen(c, p).Seen, Down: slices.Contains(c.down, p.id)}
		for i := range p.merged.Slices {
			if s := &p.merged.Slices[i]; s.Labels[mcsv1beta1.LabelSourceCluster] == string(p.id) {
				copied, problems := services.Admit(s, services.Peer{ID: p.id, Ranges: []netip.Prefix{p.pods}})
				if copied == nil || len(problems) > 0 {
					t.Fatalf("%s refuses a slice of %s: %q", c.id, p.id, problems)
				}
				x.Copies = append(x.Copies, *copied)
			}
		}
		w.Peers = append(w.Peers, x)
	}
	return w
}

// settle lets all clusters export and import until nothing changes.
func settle(t *testing.T, all ...*cluster) {
	t.Helper()
	for range 6 {
		changed := false
		for _, c := range all {
			c.exported = services.Export{}
			if c.export != nil {
				c.exported = services.Exported(c.service, c.export, c.slices, c.id, []netip.Prefix{c.pods}, nil)
			}
			got := services.Merge(c.world(t, all))
			if !reflect.DeepEqual(got, c.merged) {
				changed, c.merged = true, got
			}
			if c.derived = got.Service.DeepCopy(); c.derived != nil {
				c.derived.Spec.ClusterIPs = []string{"10.96.7." + fmt.Sprint(c.id[0])}
			}
		}
		if !changed {
			return
		}
	}
	t.Fatal("it does not settle")
}

// reached lists the addresses to which kube-proxy sends a client of the derived Service's port. kube-proxy
// joins the Service and the slices by label, and their ports by name.
func (c *cluster) reached(number int32, protocol corev1.Protocol) (out []string) {
	if c.merged.Service == nil {
		return nil
	}
	for _, p := range c.merged.Service.Spec.Ports {
		if p.Port != number || p.Protocol != protocol {
			continue
		}
		for _, s := range c.merged.Slices {
			for _, q := range s.Ports {
				if s.Labels[discoveryv1.LabelServiceName] != c.merged.Service.Name || *q.Name != p.Name || *q.Protocol != protocol {
					continue
				}
				for _, e := range s.Endpoints {
					if e.Conditions.Ready == nil || *e.Conditions.Ready {
						out = append(out, fmt.Sprintf("%s:%d", e.Addresses[0], *q.Port))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// conflict returns the reason of the condition Conflict; "" if there is no conflict.
func (c *cluster) conflict() string {
	if m := c.merged.Conflict; m != nil && m.Status == metav1.ConditionTrue {
		return m.Reason
	}
	return ""
}
