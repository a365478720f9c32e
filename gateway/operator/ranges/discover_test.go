package ranges

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// offers are the kinds that a cluster of the test may have, with or without objects.
var offers = []schema.GroupVersionKind{
	{Group: "crd.projectcalico.org", Version: "v1", Kind: "IPPool"},
	{Group: "config.openshift.io", Version: "v1", Kind: "Network"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR"},
	{Group: "networking.k8s.io", Version: "v1beta1", Kind: "ServiceCIDR"},
}

func clusterOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, gvk := range offers {
		if scheme.Recognizes(gvk) {
			continue
		}
		scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.Network{}).Build()
}

func settings(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: value}}
}

func custom(gvk schema.GroupVersionKind, name, field string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{field: content}}
	o.SetGroupVersionKind(gvk)
	o.SetName(name)
	return o
}

func controlPlane(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-node", Labels: map[string]string{"component": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: append([]string{name}, args...)}}},
	}
}

func nodeWith(name, podCIDR string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{podCIDR, "fd00:10::/64"}}}
}

func podAt(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "fd00::1"}, {IP: ip}}},
	}
}

func TestPodRangesAreFoundWhereTheNetworkStatesThem(t *testing.T) {
	kubeadmConfig := settings("kube-system", "kubeadm-config", "ClusterConfiguration", "networking:\n  podSubnet: 10.1.0.0/16,fd00::/48\n")
	node := nodeWith("a", "10.244.3.0/24")
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"Calico's pools, not the disabled and the Services' ones, before kubeadm's": {
			[]client.Object{
				kubeadmConfig, node,
				custom(offers[0], "default", "spec", map[string]any{"cidr": "192.168.0.0/16"}),
				custom(offers[0], "more", "spec", map[string]any{"cidr": "10.9.0.0/16", "allowedUses": []any{"Workload", "Tunnel"}}),
				custom(offers[0], "off", "spec", map[string]any{"cidr": "10.8.0.0/16", "disabled": true}),
				custom(offers[0], "balancers", "spec", map[string]any{"cidr": "10.7.0.0/16", "allowedUses": []any{"LoadBalancer"}}),
				custom(offers[0], "six", "spec", map[string]any{"cidr": "fd00:1::/48"}),
			},
			"[192.168.0.0/16 10.9.0.0/16] Calico's IPPool default, more",
		},
		"Cilium's own pools": {
			[]client.Object{&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-config"},
				Data:       map[string]string{"ipam": "cluster-pool", "cluster-pool-ipv4-cidr": "10.0.0.0/9 10.130.0.0/16"},
			}, node},
			"[10.0.0.0/9 10.130.0.0/16] ConfigMap kube-system/cilium-config, cluster-pool-ipv4-cidr",
		},
		"Cilium that uses the nodes' ranges": {
			[]client.Object{&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-config"},
				Data:       map[string]string{"ipam": "kubernetes", "cluster-pool-ipv4-cidr": "10.0.0.0/8"},
			}, kubeadmConfig},
			"[10.1.0.0/16] ConfigMap kube-system/kubeadm-config, networking.podSubnet",
		},
		"flannel": {
			[]client.Object{settings("kube-flannel", "kube-flannel-cfg", "net-conf.json", `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}`), kubeadmConfig},
			"[10.244.0.0/16] ConfigMap kube-flannel/kube-flannel-cfg, net-conf.json",
		},
		"OpenShift": {
			[]client.Object{custom(offers[1], "cluster", "status", map[string]any{"clusterNetwork": []any{map[string]any{"cidr": "10.128.0.0/14"}}})},
			"[10.128.0.0/14] OpenShift's Network cluster, status.clusterNetwork",
		},
		"kubeadm's settings that can't be read, and the controller-manager's flag": {
			[]client.Object{settings("kube-system", "kubeadm-config", "ClusterConfiguration", "{"), controlPlane("kube-controller-manager", "--cluster-cidr=10.2.0.0/16")},
			"[10.2.0.0/16] kube-controller-manager --cluster-cidr",
		},
		"kube-proxy": {
			[]client.Object{settings("kube-system", "kube-proxy", "config.conf", "clusterCIDR: 10.3.0.0/16\n"), node},
			"[10.3.0.0/16] ConfigMap kube-system/kube-proxy, clusterCIDR",
		},
		"only nodes": {
			[]client.Object{node, nodeWith("b", "10.244.9.0/24")},
			"[10.244.0.0/16] the nodes' spec.podCIDRs, with room for more nodes; the cluster states no whole range",
		},
		"nothing": {nil, "[] "},
		"a pool in which no pod is, and nodes whose ranges have pods": {
			[]client.Object{custom(offers[0], "default", "spec", map[string]any{"cidr": "192.168.0.0/16"}), node, podAt("dns", "10.244.3.7")},
			"[10.244.0.0/16] the nodes' spec.podCIDRs, with room for more nodes; the cluster states no whole range",
		},
		"a pool in which one of the pods is": {
			[]client.Object{custom(offers[0], "default", "spec", map[string]any{"cidr": "192.168.0.0/16"}), node, podAt("dns", "10.244.3.7"), podAt("dns-2", "192.168.4.4")},
			"[192.168.0.0/16] Calico's IPPool default",
		},
		"no range that has a pod": {
			[]client.Object{kubeadmConfig, node, podAt("dns", "10.50.0.7")},
			"[] pod kube-system/dns has 10.50.0.7; ConfigMap kube-system/kubeadm-config, networking.podSubnet: 10.1.0.0/16",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := First(t.Context(), clusterOf(t, c.objects...), Pods())
			if got := fmt.Sprintf("%v %s%s", found.CIDRs, found.Source, found.Contradiction); err != nil || got != c.want {
				t.Errorf("\n got %s (%v)\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestRoomForMoreNodesKeepsClearOfOthers(t *testing.T) {
	at := func(podCIDR, ip string) corev1.Node {
		n := nodeWith("n", podCIDR)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		return *n
	}
	services := []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}
	for name, c := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"a /16 of /24s":                           {[]corev1.Node{at("10.42.0.0/24", "192.0.2.1")}, "[10.42.0.0/16]"},
		"nodes far apart":                         {[]corev1.Node{at("10.40.0.0/24", "192.0.2.1"), at("10.41.9.0/24", "192.0.2.2")}, "[10.40.0.0/16 10.41.0.0/16]"},
		"two blocks without anything in common":   {[]corev1.Node{at("10.244.0.0/24", "192.0.2.1"), at("172.20.1.0/24", "192.0.2.2"), at("10.244.7.0/24", "192.0.2.3")}, "[10.244.0.0/16 172.20.0.0/16]"},
		"Services between the blocks":             {[]corev1.Node{at("10.42.0.0/24", "192.0.2.1"), at("10.44.0.0/24", "192.0.2.2")}, "[10.42.0.0/16 10.44.0.0/16]"},
		"a node between the blocks":               {[]corev1.Node{at("10.42.0.0/24", "10.42.64.1"), at("10.42.128.0/24", "192.0.2.2")}, "[10.42.0.0/18 10.42.128.0/17]"},
		"a node's own address":                    {[]corev1.Node{at("10.42.0.0/24", "10.42.128.1")}, "[10.42.0.0/17]"},
		"larger ranges, and Services beside them": {[]corev1.Node{at("10.42.0.0/20", "192.0.2.1")}, "[10.42.0.0/16]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(coverNodes(c.nodes, services).CIDRs); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The ranges contain all blocks of the nodes, and no other known address.
func TestRangesOfNodesHaveAllBlocksAndNothingElse(t *testing.T) {
	services := netip.MustParsePrefix("10.96.0.0/16")
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test that can be repeated
		ip := func() netip.Addr {
			return netip.AddrFrom4([4]byte{10, byte(r.UintN(128)), byte(r.UintN(256)), byte(r.UintN(256))})
		}
		var nodes []corev1.Node
		var blocks, known []netip.Prefix
		for range 1 + r.IntN(8) {
			block, node := netip.PrefixFrom(ip(), 20+r.IntN(8)).Masked(), ip()
			n := nodeWith("n", block.String())
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node.String()}}
			nodes, blocks, known = append(nodes, *n), append(blocks, block), append(known, netip.PrefixFrom(node, 32))
		}
		longest := slices.MaxFunc(blocks, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }).Bits()
		found := coverNodes(nodes, []netip.Prefix{services}).CIDRs
		for _, b := range blocks {
			if !slices.ContainsFunc(found, func(p netip.Prefix) bool { return ipam.Contains(p, b) }) {
				t.Fatalf("seed %d: %v is in none of %v", seed, b, found)
			}
		}
		for i, p := range found {
			if slices.ContainsFunc(found[:i], p.Overlaps) {
				t.Errorf("seed %d: %v overlap", seed, found)
			}
			if slices.Contains(blocks, p) {
				continue
			}
			if p.Bits() < longest-8 || slices.ContainsFunc(append(known, services), p.Overlaps) {
				t.Errorf("seed %d: %v of nodes %v with podCIDRs %v", seed, p, known, blocks)
			}
		}
	}
}

func TestServiceRangesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"Kubernetes' own resource": {
			[]client.Object{custom(offers[2], "kubernetes", "spec", map[string]any{"cidrs": []any{"10.96.0.0/12", "fd00::/112"}})},
			"[10.96.0.0/12] ServiceCIDR kubernetes",
		},
		"the same while it was beta": {
			[]client.Object{custom(offers[3], "kubernetes", "spec", map[string]any{"cidrs": []any{"10.96.0.0/12"}})},
			"[10.96.0.0/12] ServiceCIDR kubernetes",
		},
		"kubeadm's settings": {
			[]client.Object{settings("kube-system", "kubeadm-config", "ClusterConfiguration", "networking:\n  serviceSubnet: 10.97.0.0/16\n")},
			"[10.97.0.0/16] ConfigMap kube-system/kubeadm-config, networking.serviceSubnet",
		},
		"the API server's flag": {
			[]client.Object{controlPlane("kube-apiserver", "--service-cluster-ip-range=10.98.0.0/16")},
			"[10.98.0.0/16] kube-apiserver --service-cluster-ip-range",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reader := clusterOf(t, c.objects...)
			found, err := First(t.Context(), reader, Services(reader, "liqo"))
			if got := fmt.Sprintf("%v %s", found.CIDRs, found.Source); err != nil || got != c.want {
				t.Errorf("\n got %s (%v)\nwant %s", got, err, c.want)
			}
		})
	}
}

// refusing is an API server that accepts no Service.
type refusing struct {
	client.Client
	answer error
}

func (r refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return r.answer
}

func TestServiceRangeFromTheAPIServersRefusal(t *testing.T) {
	invalid := func(text string) error {
		kind := schema.GroupKind{Kind: "Service"}
		return apierrors.NewInvalid(kind, "probe", field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), []string{"192.0.2.1"}, text)})
	}
	for name, c := range map[string]struct {
		answer error
		want   string
	}{
		"Kubernetes before ServiceCIDRs": {
			invalid("failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.99.0.0/16"),
			"[10.99.0.0/16] the API server's answer to a Service with another address",
		},
		"a refusal without the range":     {invalid("no"), "[] "},
		"no right to make Services":       {apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "probe", nil), "[] "},
		"an API server that takes it all": {nil, "[] "},
	} {
		t.Run(name, func(t *testing.T) {
			reader := clusterOf(t)
			found, err := First(t.Context(), reader, Services(refusing{reader, c.answer}, "liqo"))
			if got := fmt.Sprintf("%v %s", found.CIDRs, found.Source); err != nil || got != c.want {
				t.Errorf("\n got %s (%v)\nwant %s", got, err, c.want)
			}
		})
	}
}
