package kube

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// keeps returns the functions by which the watches of a kind keep facts of connections. The last function for
// pods is for those of API servers.
func keeps(kind string) (all []func(wire.Object) wire.Object) {
	k, _ := kinds.Named(kind)
	for _, w := range k.Watches {
		if w.For == kinds.Connections {
			all = append(all, w.Keep)
		}
	}
	return all
}

var (
	keepNode, keepService, keepInternalNode = keeps("Node")[0], keeps("Service")[0], keeps("InternalNode")[0]
	keepPod, keepAPIServer                  = keeps("Pod")[0], keeps("Pod")[2]
)

func factsOf(objects ...client.Object) flows.ClusterFacts {
	f := flows.ClusterFacts{Namespace: wire.DefaultNamespace}
	var all collect.Collection
	for _, o := range objects {
		all.Add(&f, o)
	}
	all.Finish(&f)
	return f
}

func manager(name, partOf, image string, available int32, said string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: wire.DefaultNamespace, Name: name, Labels: map[string]string{wire.LabelAppName: name, wire.LabelPartOf: partOf},
	}}
	if said != "" {
		d.Annotations = map[string]string{wire.AnnotationOperatorStatus: said}
	}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	d.Status.AvailableReplicas = available
	return d
}

func TestWhatManagesConnectionsSaysHowItDoes(t *testing.T) {
	operator, controllers := wire.OperatorName, "controller-manager"
	stuck := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: wire.DefaultNamespace, Name: "operator-1", Labels: map[string]string{"app": operator}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}},
		}}},
	}
	other := stuck.DeepCopy()
	other.Name, other.Labels = "another", nil
	for name, c := range map[string]struct {
		objects  []client.Object
		software flows.Software
		want     flows.OperatorFacts
	}{
		"nothing":  {nil, flows.NoSoftware, flows.OperatorFacts{}},
		"it works": {[]client.Object{manager(operator, "", "registry:5000/gw:v1.2", 1, `{"state": "Working"}`)}, flows.Operator, flows.OperatorFacts{Version: "v1.2"}},
		"its pod does not start": {
			[]client.Object{other, stuck, manager(operator, "", "registry:5000/gw", 0, "")},
			flows.Operator,
			flows.OperatorFacts{Problem: "Deployment liqo/liqo-tui-operator is not available: pod operator-1: ErrImagePull: no such image"},
		},
		"it refuses": {
			[]client.Object{manager(operator, "", "gw:v1@sha256:00", 1, `{"state": "Refusing", "message": "Liqo runs here"}`)},
			flows.Operator,
			flows.OperatorFacts{Version: "v1", Problem: "Liqo runs here", Refuses: true},
		},
		"it lacks something": {
			[]client.Object{manager(operator, "", "gw:v1", 1, `{"state": "NoNetworks", "message": "no pod range"}`)},
			flows.Operator,
			flows.OperatorFacts{Version: "v1", Problem: "no pod range"},
		},
		"it lacks what install has to state": {
			[]client.Object{manager(operator, "", "gw:v1", 1, `{"state": "NoNetworks", "message": "no Service range", "unstated": ["service-cidr", "x"]}`)},
			flows.Operator,
			flows.OperatorFacts{Version: "v1", Problem: "no Service range", Unstated: struct{ Pods, Services bool }{Services: true}},
		},
		"it keeps a range": {
			[]client.Object{manager(operator, "", "gw:v1", 1, `{"state": "KeepsRange", "message": "peers were told it"}`)},
			flows.Operator,
			flows.OperatorFacts{Version: "v1", Problem: "peers were told it", KeepsRange: true},
		},
		"it has no room for a range": {
			[]client.Object{manager(operator, "", "gw:v1", 1, `{"state": "Working"}`), &ipamv1alpha1.Network{
				ObjectMeta: metav1.ObjectMeta{Namespace: wire.DefaultNamespace, Name: wire.NetworkExternalCIDR, Annotations: map[string]string{wire.AnnotationProblem: "no free prefix"}},
			}},
			flows.Operator,
			flows.OperatorFacts{Version: "v1", Problem: "no free prefix"},
		},
		"Liqo outranks it": {
			[]client.Object{manager(controllers, "liqo", "ctrl:v1.2.0", 1, ""), manager(operator, "", "gw:v1", 1, "")},
			flows.Liqo,
			flows.OperatorFacts{Version: "v1.2.0"},
		},
		"another controller-manager": {[]client.Object{manager(controllers, "else", "ctrl:v1", 1, "")}, flows.NoSoftware, flows.OperatorFacts{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := factsOf(c.objects...)
			if f.Software != c.software || f.Operator != c.want {
				t.Errorf("got %s, %+v; want %s, %+v", f.Software, f.Operator, c.software, c.want)
			}
		})
	}
}

func TestInstallationsInOtherNamespacesAreSeen(t *testing.T) {
	in := func(namespace string, d *appsv1.Deployment) client.Object {
		d.Namespace = namespace
		return d
	}
	binding := func(name, namespace string) client.Object {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}}}
	}
	ours, liqo := manager(wire.OperatorName, "", "gw:v1", 1, ""), manager("controller-manager", "liqo", "ctrl:v1", 1, "")
	for name, c := range map[string]struct {
		objects []client.Object
		here    flows.Software
		want    flows.ElsewhereFacts
	}{
		"nothing":                          {nil, flows.NoSoftware, flows.ElsewhereFacts{}},
		"ours":                             {[]client.Object{in("network", ours.DeepCopy())}, flows.NoSoftware, flows.ElsewhereFacts{Software: flows.Operator, Namespace: "network"}},
		"ours, cut short":                  {[]client.Object{binding(wire.FabricName, "network")}, flows.NoSoftware, flows.ElsewhereFacts{Software: flows.Operator, Namespace: "network"}},
		"ours, here":                       {[]client.Object{ours, binding(wire.OperatorName, "liqo")}, flows.Operator, flows.ElsewhereFacts{}},
		"Liqo, which outranks":             {[]client.Object{binding(wire.OperatorName, "network"), in("system", liqo.DeepCopy())}, flows.NoSoftware, flows.ElsewhereFacts{Software: flows.Liqo, Namespace: "system"}},
		"somebody's binding":               {[]client.Object{binding("liqo-tui-admin", "network")}, flows.NoSoftware, flows.ElsewhereFacts{}},
		"another's controller-manager":     {[]client.Object{in("network", manager("controller-manager", "else", "c:v1", 1, ""))}, flows.NoSoftware, flows.ElsewhereFacts{}},
		"Liqo here, and a left-over there": {[]client.Object{binding(wire.OperatorName, "network"), liqo}, flows.Liqo, flows.ElsewhereFacts{Software: flows.Operator, Namespace: "network"}},
	} {
		t.Run(name, func(t *testing.T) {
			if f := factsOf(c.objects...); f.Elsewhere != c.want || f.Software != c.here {
				t.Errorf("got %+v and %s here, want %+v and %s", f.Elsewhere, f.Software, c.want, c.here)
			}
		})
	}
}

func TestNodesAndLoadBalancersAreCounted(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu/i-1"}}
	node.Annotations = map[string]string{flows.AnnotationGateway: `{"default":{"mode":"shared"}}`, "node.alpha.kubernetes.io/ttl": "0"}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, {Type: corev1.NodeHostName, Address: "n1"}}
	node.Status.NodeInfo.KernelVersion, node.Status.NodeInfo.Architecture = "5.15.0-91-generic", "arm64"
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	virtual := node.DeepCopy() // its address belongs to a pod
	virtual.Name, virtual.Labels, virtual.Annotations = "n2", map[string]string{corev1.LabelOSStable: "linux", "type": "virtual-kubelet"}, nil
	service := func(kind corev1.ServiceType, name string, ports ...int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: kind}}
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: p})
		}
		return s
	}
	waits, has := service(corev1.ServiceTypeLoadBalancer, "waits", 0), service(corev1.ServiceTypeLoadBalancer, "has", 31000)
	web := service(corev1.ServiceTypeNodePort, "web", 31001, 31002)
	has.Spec.HealthCheckNodePort = 31003
	has.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	f := factsOf(keepNode(node), keepNode(virtual), keepService(waits), keepService(has), keepService(web))
	want := []flows.NodeFacts{{Name: "n1", Internal: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, External: []netip.Addr{netip.MustParseAddr("203.0.113.1")}, Ready: true, Excluded: "runs windows", Provider: "aws", Kernel: "5.15.0-91-generic", Arch: "arm64", Gateway: flows.SharedGateway, CPUs: 4000, Memory: 8 << 30}}
	want = append(want, flows.NodeFacts{Name: "n2", Ready: true, Excluded: "virtual, type=virtual-kubelet", Provider: "aws", Kernel: "5.15.0-91-generic", Arch: "arm64", CPUs: 4000, Memory: 8 << 30})
	if diff := cmp.Diff(want, f.Nodes, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if f.LoadBalancers != (flows.LoadBalancerFacts{Answered: 1, Pending: 1}) {
		t.Errorf("got %+v", f.LoadBalancers)
	}
	var used []flows.UsedPort
	for port, name := range map[uint16]string{31000: "has", 31001: "web", 31002: "web", 31003: "has"} {
		used = append(used, flows.UsedPort{Port: port, Namespace: "shop", Name: name})
	}
	byPort := cmpopts.SortSlices(func(a, b flows.UsedPort) bool { return a.Port < b.Port })
	if diff := cmp.Diff(used, f.UsedPorts, byPort); diff != "" {
		t.Errorf("node ports (-want +got):\n%s", diff)
	}
}

func TestEveryDecidedRangeIsTaken(t *testing.T) {
	network := func(namespace, kind, cidr string) *ipamv1alpha1.Network {
		n := render.Network(namespace, "n", kind, cidr, 0)
		n.Status.CIDR = networkingv1beta1.CIDR(cidr)
		return n
	}
	open := network(wire.DefaultNamespace, wire.NetworkPodCIDR, "10.9.0.0/16")
	open.Status.CIDR = ""
	f := factsOf(network("liqo", wire.NetworkPodCIDR, "10.244.0.0/16"), network("liqo", wire.NetworkServiceCIDR, "10.96.0.0/12"),
		network("liqo-tenant-milan", "", "10.71.0.0/16"), network("elsewhere", wire.NetworkPodCIDR, "10.80.0.0/16"), open)
	if !slices.Equal(f.Networks.Pod, []networkingv1beta1.CIDR{"10.244.0.0/16"}) || !slices.Equal(f.ServiceCIDRs, []networkingv1beta1.CIDR{"10.96.0.0/12"}) {
		t.Errorf("got own ranges %v and %v", f.Networks.Pod, f.ServiceCIDRs)
	}
	asked := render.Network(wire.DefaultNamespace, wire.NetworkExternalCIDR, wire.NetworkExternalCIDR, "10.70.0.0/16", 1)
	if f := factsOf(asked); f.ExternalCIDR != "10.70.0.0/16" || len(f.Taken) > 0 {
		t.Errorf("got external range %q and taken %v before it is decided", f.ExternalCIDR, f.Taken)
	}
	if want := []networkingv1beta1.CIDR{"10.244.0.0/16", "10.71.0.0/16", "10.80.0.0/16", "10.96.0.0/12"}; !slices.Equal(f.Taken, want) {
		t.Errorf("got taken %v, want %v", f.Taken, want)
	}
}

// A node's heartbeat and a change of a pod's resources wake no observer.
func TestChangesThatDoNotMatterWakeNobody(t *testing.T) {
	woken := 0
	s := newStore("Node", nil, func() { woken++ })
	s.watch.Keep = keepNode
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	s.put(node)
	beat := node.DeepCopy()
	beat.ResourceVersion, beat.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
	if s.put(beat) {
		t.Error("a heartbeat counts as news")
	}
	down := beat.DeepCopy()
	down.ResourceVersion, down.Status.Conditions[0].Status = "3", corev1.ConditionFalse
	if !s.put(down) {
		t.Error("a node that is not ready any more is no news")
	}
	if s.put(beat) {
		t.Error("what is older than what is known counts as news")
	}
}

// An object with a finalizer is read after its deletion. The watch may report its removal before the answer to
// this read arrives. If the answer counted, the object would stay in the store, and a run would wait for ever.
func TestAnAnswerThatTheWatchHasGonePastIsNoNews(t *testing.T) {
	at := func(version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: version}}
	}
	s := newStore("Node", nil, func() {})
	if !s.answer(at("8")) {
		t.Error("an answer that overtakes the watch is no news")
	}
	for _, e := range []watch.Event{{Type: watch.Added, Object: at("8")}, {Type: watch.Modified, Object: at("9")}, {Type: watch.Deleted, Object: at("10")}} {
		s.take(e)
	}
	if s.answer(at("9")) {
		t.Error("an answer of before the deletion is news")
	}
	if left, err := s.snapshot(); len(left) > 0 || err != nil {
		t.Errorf("got %v (%v), want nothing", left, err)
	}
	if !s.answer(at("11")) {
		t.Error("an answer of after the deletion is no news")
	}
	s.take(watch.Event{Type: watch.Bookmark, Object: at("12")})
	if s.answer(at("12")) {
		t.Error("an answer of before a bookmark is news")
	}
}

func TestPeeringUsersAreRecognized(t *testing.T) {
	for user, want := range map[string]string{
		"liqo-peer-user-turin-0123456789abcdef0123456789abcdef":         "liqo-tenant-turin",
		"liqo-peer-user-my-eu-1-0123456789abcdef0123456789abcdef":       "liqo-tenant-my-eu-1",
		"system:serviceaccount:liqo-tenant-turin:liqo-tui-peering-user": "liqo-tenant-turin",
		"system:serviceaccount:turin:default":                           "",
		"liqo-peer-user-turin":                                          "", "ada": "", "": "",
	} {
		if got := tenantOf(user); got != want {
			t.Errorf("%s: got %q, want %q", user, got, want)
		}
	}
}

func TestNodePortRange(t *testing.T) {
	pod := func(args ...string) client.Object {
		return keepAPIServer(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-n1", Labels: map[string]string{"component": "kube-apiserver"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: append([]string{"kube-apiserver"}, args...)}}},
		})
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    flows.PortRange
	}{
		"its pod can't be seen": {nil, flows.PortRange{}},
		"it is told none":       {[]client.Object{pod()}, flows.PortRange{From: 30000, To: 32767}},
		"it is told one":        {[]client.Object{pod("--v=2", "--service-node-port-range=20000-20100")}, flows.PortRange{From: 20000, To: 20100}},
		"in another notation":   {[]client.Object{pod("--service-node-port-range=20000+100")}, flows.PortRange{}},
	} {
		if got := factsOf(c.objects...).NodePorts; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestNodesThatCantReachAGatewayAreKept(t *testing.T) {
	node := func(name string) client.Object {
		return keepInternalNode(&networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}, Annotations: map[string]string{wire.AnnotationPods: "10.244.0.0/24"},
		}})
	}
	lists := func(name string, gateways ...string) client.Object {
		return wire.UnreachedConfigMap("liqo", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, gateways)
	}
	if o := keepInternalNode(&networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: "liqos"}}); o != nil {
		t.Errorf("kept %v of Liqo's, which says nothing of gateways", o)
	}
	if _, ok := node("b").GetAnnotations()[wire.AnnotationPods]; ok {
		t.Error("what can be large is kept, too")
	}
	refuses := wire.InternalNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, wire.NodeReport{Status: wire.NodeStatus{Refused: map[string]uint64{"liqo-tenant-milan/milan": 7}}})
	identity := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: wire.ClusterIDConfigMap, Labels: map[string]string{wire.LabelAppName: wire.ClusterIDAppName}}}
	identity.Data = map[string]string{wire.ClusterIDKey: "rome"}
	f := factsOf(node("a"), node("b"), lists("b", "liqo-tenant-milan/milan", "liqo-tenant-oslo/oslo"), node("c"), identity, lists("c"), keepInternalNode(refuses))
	want := []flows.UnreachedFacts{{Node: "b", Gateways: []string{"liqo-tenant-milan/milan", "liqo-tenant-oslo/oslo"}}}
	if got := f.AgentStatus["d"].Refused["liqo-tenant-milan/milan"]; got != 7 || f.AgentStatus["a"].Refused != nil {
		t.Errorf("of what agents refuse: got %v, want 7 of d's and nothing of a's", f.AgentStatus)
	}
	if diff := cmp.Diff(want, f.Unreached); diff != "" || len(f.Agents) != 4 || f.ID != "rome" {
		t.Errorf("of agents %v of %q:\n%s", f.Agents, f.ID, diff)
	}
}

// An InternalNode stays when its node's agent ends.
func TestANodeWithoutAnAgentThatRunsIsNamed(t *testing.T) {
	pod := func(name, node string, ready corev1.ConditionStatus) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: wire.DefaultNamespace, Name: name + "-" + node, Labels: map[string]string{wire.LabelAppName: name}}}
		p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return keepPod(p)
	}
	var all []client.Object
	for _, name := range []string{"gone", "not-ready", "runs"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		all = append(all, keepNode(n), keepInternalNode(wire.InternalNode(n, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1")})))
	}
	all = append(all, keepNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}),
		pod(wire.FabricName, "runs", corev1.ConditionTrue), pod(wire.FabricName, "not-ready", corev1.ConditionFalse), pod(wire.OperatorName, "gone", corev1.ConditionTrue))
	if got := factsOf(all...).Unattended; !slices.Equal(got, []string{"gone", "not-ready"}) {
		t.Errorf("got %v", got)
	}
	var hidden collect.Collection
	f := flows.ClusterFacts{Agents: []string{"gone"}, AttendanceUnknown: true}
	if hidden.Finish(&f); f.Unattended != nil {
		t.Errorf("where pods may not be read: got %v", f.Unattended)
	}
}

// An admin who looks for an unreachable node sees that its address has changed.
func TestANodeWhoseAddressHasChangedIsNamed(t *testing.T) {
	node := func(name string, addresses ...string) client.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return keepNode(n)
	}
	says := func(name, ip string) client.Object {
		return keepInternalNode(wire.InternalNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, wire.NodeReport{IP: netip.MustParseAddr(ip)}))
	}
	f := factsOf(node("changed", "192.0.2.7", "2001:db8::7"), node("same", "2001:db8::3", "192.0.2.3"), node("silent", "192.0.2.4"), node("without"),
		says("changed", "192.0.2.2"), says("same", "192.0.2.3"), says("without", "192.0.2.5"), says("gone", "192.0.2.6"))
	for name, status := range f.AgentStatus {
		want := ""
		if name == "changed" {
			want = "its address has changed from 192.0.2.2 to 192.0.2.7, 2001:db8::7, and its agent was not started again yet"
		}
		if status.Problem != want {
			t.Errorf("%s: got %q, want %q", name, status.Problem, want)
		}
	}
	if _, said := f.AgentStatus["changed"]; !said {
		t.Error("nothing is said of the node whose address has changed")
	}
	f = factsOf(says("changed", "192.0.2.2")) // the user may not read Nodes
	if got := f.AgentStatus["changed"].Problem; got != "" {
		t.Errorf("without Nodes: got %q", got)
	}
}
