package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func node(name string, isReady bool, addresses ...corev1.NodeAddress) corev1.Node {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: addresses, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
	}}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func external(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
}

func TestEndpoint(t *testing.T) {
	nodes := []corev1.Node{
		node("a", true, internal("10.0.0.1"), corev1.NodeAddress{Type: corev1.NodeHostName, Address: "a"}),
		node("b", true, internal("10.0.0.2"), external("192.0.2.2")),
		node("c", false, internal("10.0.0.3")),
	}
	onB := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "b"}}
	port := []corev1.ServicePort{{Port: 51840, NodePort: 31840}}
	said := func(address string) *networkingv1beta1.EndpointStatus {
		return &networkingv1beta1.EndpointStatus{Addresses: []string{address}, Port: 31840, Protocol: new(corev1.ProtocolUDP)}
	}
	balanced := corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}, {Hostname: "lb.example.com"}}}}
	for name, c := range map[string]struct {
		service corev1.Service
		nodes   []corev1.Node
		pod     *corev1.Pod
		current *networkingv1beta1.EndpointStatus
		want    *networkingv1beta1.EndpointStatus
		why     string
	}{
		"NodePort before the pod has a node: any ready node's": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			nodes, nil, nil, said("10.0.0.1"),
			"InternalIP of node a, which forwards to the gateway",
		},
		"NodePort prefers the pod's node, and its external address": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			nodes, onB, nil, said("192.0.2.2"),
			"ExternalIP of node b, which runs the gateway",
		},
		"NodePort keeps an address that still works": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			nodes, onB, said("10.0.0.1"), said("10.0.0.1"),
			"InternalIP of node a, which forwards to the gateway",
		},
		"NodePort leaves the address of a node that is not ready": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			nodes, onB, said("10.0.0.3"), said("192.0.2.2"),
			"ExternalIP of node b, which runs the gateway",
		},
		"NodePort that other nodes don't forward: the pod's node, whatever was said": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: port}},
			nodes, onB, said("10.0.0.1"), said("192.0.2.2"),
			"ExternalIP of node b, which runs the gateway",
		},
		"NodePort that other nodes don't forward, before the pod has a node": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: port}},
			nodes, nil, nil, nil,
			"only the node that runs the gateway answers, and no pod of the gateway has an address yet",
		},
		"NodePort of a node with IPv6 and a name first": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			[]corev1.Node{node("six", true, internal("fd00::1"), corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "six.local"}, internal("10.0.0.6"))},
			nil, nil, said("10.0.0.6"),
			"InternalIP of node six, which forwards to the gateway",
		},
		"NodePort without a ready node has no endpoint": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port}},
			nodes[2:], nil, nil, nil,
			"no node with an IPv4 address is ready",
		},
		"NodePort that Kubernetes has not chosen yet": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 51840}}}},
			nodes, nil, nil, nil,
			"Kubernetes has not chosen the node port of Service gw-x yet",
		},
		"LoadBalancer: addresses and names, with the Service's port": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: port}, Status: balanced},
			nodes, nil, nil,
			&networkingv1beta1.EndpointStatus{Addresses: []string{"203.0.113.7", "lb.example.com"}, Port: 51840, Protocol: new(corev1.ProtocolUDP)},
			"what the load balancer gave Service gw-x",
		},
		"LoadBalancer that is pending": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: port}},
			nodes, nil, nil, nil,
			"the load balancer has not given Service gw-x an address yet",
		},
		"LoadBalancer that is asked for an address": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: "203.0.113.9", Ports: port}},
			nodes, nil, nil, nil,
			"the load balancer has not given Service gw-x the address 203.0.113.9 yet",
		},
		"ClusterIP": {
			corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.1.1", Ports: port}},
			nodes, nil, nil,
			&networkingv1beta1.EndpointStatus{Addresses: []string{"10.96.1.1"}, Port: 51840, Protocol: new(corev1.ProtocolUDP)},
			"the cluster IP of Service gw-x, for peers that reach this cluster's Services",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.service.Name = "gw-x"
			got, why := endpointOf(&c.service, c.nodes, c.pod, 1, c.current)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("endpoint (-want +got):\n%s", diff)
			}
			if why != c.why {
				t.Errorf("why: got %q, want %q", why, c.why)
			}
		})
	}
}

func TestNodePortOfReplicasNamesAsManyNodes(t *testing.T) {
	nodes := []corev1.Node{
		node("a", true, internal("10.0.0.1")), node("b", false, internal("10.0.0.2")), node("c", true, internal("10.0.0.3")), node("d", true, internal("10.0.0.4")),
	}
	service := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{NodePort: 31840}}}}
	onD := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "d"}}
	for name, c := range map[string]struct {
		replicas      int
		current, want []string
	}{
		"the pod's node, then another":                 {2, nil, []string{"10.0.0.4", "10.0.0.1"}},
		"what was said stays, in its order":            {2, []string{"10.0.0.3", "10.0.0.4"}, []string{"10.0.0.3", "10.0.0.4"}},
		"a node that is lost makes room for a spare":   {2, []string{"10.0.0.2", "10.0.0.3"}, []string{"10.0.0.4", "10.0.0.3"}},
		"no more than there are":                       {5, nil, []string{"10.0.0.4", "10.0.0.1", "10.0.0.3"}},
		"one replica, one address, also after several": {1, []string{"10.0.0.3", "10.0.0.4"}, []string{"10.0.0.3"}},
	} {
		var current *networkingv1beta1.EndpointStatus
		if c.current != nil {
			current = &networkingv1beta1.EndpointStatus{Addresses: c.current}
		}
		got, _ := endpointOf(&service, nodes, onD, c.replicas, current)
		if diff := cmp.Diff(c.want, got.Addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestActivePodIsTheOneThatHoldsTheTunnel(t *testing.T) {
	pod := func(name string, labels map[string]string, created int64) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: metav1.Unix(created, 0)},
			Status:     corev1.PodStatus{PodIP: "10.0.0.1"},
		}
	}
	active := map[string]string{wire.LabelActive: "true"}
	if got := activePod([]corev1.Pod{pod("holds", active, 1), pod("newer", nil, 2)}); got == nil || got.Name != "holds" {
		t.Errorf("got %v, want the one that says so", got)
	}
	if got := activePod([]corev1.Pod{pod("a", nil, 1), pod("b", nil, 2)}); got == nil || got.Name != "b" {
		t.Errorf("got %v, want the newest as long as none says so", got)
	}
}

// Of three pods that share a tunnel, each is listed before it has an address, in any order.
func TestTheGatewaysPodIsTheOneWithAnAddressInWhateverOrderTheyAreListed(t *testing.T) {
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: corev1.PodStatus{PodIP: "10.0.0.3"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
	}
	var in inputs
	in.takePods(pods)
	if in.pod == nil || in.pod.Name != "c" {
		t.Errorf("got %v, want c", in.pod)
	}
}

func TestActivePodIsTheNewestThatHasAnAddressAndLives(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Unix(int64(minute*60), 0) }
	pod := func(name string, created int, ip string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(created)}, Status: corev1.PodStatus{PodIP: ip}}
		if change != nil {
			change(&p)
		}
		return p
	}
	got := activePod([]corev1.Pod{
		pod("old", 1, "10.0.0.1", nil),
		pod("current", 2, "10.0.0.2", nil),
		pod("ending", 3, "10.0.0.3", func(p *corev1.Pod) { p.DeletionTimestamp = new(at(4)) }),
		pod("failed", 4, "10.0.0.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("starting", 5, "", nil),
	})
	if got == nil || got.Name != "current" {
		t.Errorf("got %v, want current", got)
	}
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if got := activePod([]corev1.Pod{pod("next", 3, "10.0.0.2", ready), pod("holds", 1, "10.0.0.1", ready), pod("starting", 4, "10.0.0.3", nil)}); got == nil || got.Name != "holds" {
		t.Errorf("while it is replaced: got %v, want the one that was there first", got)
	}
	if got := activePod(nil); got != nil {
		t.Errorf("without pods: got %v", got)
	}
}

// The address of a virtual node belongs to a pod, and nothing listens there for node ports.
func TestVirtualNodesServeNoNodePorts(t *testing.T) {
	node := func(name, ip string, labels map[string]string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	nodes := []corev1.Node{node("alpha", "10.244.0.7", map[string]string{"liqo.io/type": "virtual-node"}), node("real", "192.0.2.1", nil)}
	if a, why := nodeAddress(nodes, nil, nil); a != "192.0.2.1" {
		t.Errorf("peers dial %s: %s", a, why)
	}
	if spares := spareAddresses(nodes, "192.0.2.1", 2, nil); len(spares) > 0 {
		t.Errorf("spare are %v", spares)
	}
}

// While a gateway is replaced, its Service leads to the pod that holds the tunnel. When that pod ends, the
// Service leads to the next one. Pods that share a tunnel report this themselves.
func TestTheServiceLeadsToThePodThatHoldsTheTunnel(t *testing.T) {
	pod := func(name string, created int64, active bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name, CreationTimestamp: metav1.Unix(created, 0), Finalizers: []string{"kept.until/asked"}, Labels: map[string]string{"a": "b"}}}
		p.Status = corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if active {
			p.Labels[wire.LabelActive] = "true"
		}
		return p
	}
	cl := clusterWith(t, pod("holds", 1, true), pod("next", 2, true))
	r := &gateways{client: cl}
	active := func(replicas int) string {
		t.Helper()
		var pods corev1.PodList
		if err := cl.List(t.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		in := &inputs{replicas: replicas}
		in.takePods(pods.Items)
		if err := r.markActive(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if err := cl.List(t.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range pods.Items {
			if p.Labels[wire.LabelActive] == "true" && p.DeletionTimestamp == nil {
				names = append(names, p.Name)
			}
		}
		return strings.Join(names, " ")
	}
	if got := active(2); got != "holds next" {
		t.Errorf("of a shared tunnel: got %q, want it left alone", got)
	}
	if got := active(1); got != "holds" {
		t.Errorf("while it is replaced: got %q, want holds", got)
	}
	if err := cl.Delete(t.Context(), pod("holds", 1, true)); err != nil { // its finalizer keeps the pod in the API
		t.Fatal(err)
	}
	if got := active(1); got != "next" {
		t.Errorf("when that ends: got %q, want next", got)
	}
}

// Of pods that share a tunnel, the next holder writes its address into the InternalFabric. It may write after
// the operator has read the InternalFabric. Then the operator must not write the earlier pod's address.
func TestTheAddressOfASharedTunnelIsWrittenAsItWasRead(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	fabric := &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", ResourceVersion: "7"}}
	fabric.Spec.GatewayIP = "10.244.0.21"
	r := &gateways{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(fabric).Build()}
	for replicas, want := range map[int]string{1: "", 2: "7"} {
		in := &inputs{replicas: replicas, configuration: &networkingv1beta1.Configuration{}}
		in.configuration.Status.Remote = &networkingv1beta1.ClusterConfig{}
		in.gateway = render.Gateway{
			Tenant: render.Tenant{Namespace: fabric.Namespace, Remote: "rome"}, Name: fabric.Name, Type: networkingv1beta1.ConnectionTypeServer,
			Owner: &networkingv1beta1.GatewayServer{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "GatewayServer"}},
		}
		if err := r.readFabric(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		objects, err := in.supports()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(objects, func(o wire.Object) bool { _, is := o.(*networkingv1beta1.InternalFabric); return is })
		if i < 0 || objects[i].GetResourceVersion() != want {
			t.Errorf("%d replicas: got %v, want it written to version %q", replicas, objects[max(i, 0)], want)
		}
	}
}
