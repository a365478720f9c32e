package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// node is a node with an announcer, whose clock the test sets.
type node struct {
	*announcer

	t   *testing.T
	now time.Time
}

func newNode(t *testing.T, objects ...client.Object) *node {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	network := render.Network("liqo", "pod-cidr", wire.NetworkPodCIDR, "10.244.0.0/16", 0)
	network.Status.CIDR = network.Spec.CIDR
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "of-a"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.3.0/24"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, network, self)...).Build()
	o := FabricOptions{Namespace: "liqo", NodeIP: netip.MustParseAddr("192.0.2.1"), NodeName: "a", Log: slog.New(slog.DiscardHandler)}
	n := &node{announcer: newAnnouncer(o, c, c, func() (map[string]uint64, error) { return nil, nil }), t: t, now: time.Unix(1000, 0)}
	n.look = func() ([]netip.Prefix, []netip.Addr, error) { return nil, nil, nil }
	n.resolv = filepath.Join(t.TempDir(), "resolv.conf") // the file does not exist
	return n
}

// after lets time pass, and returns the node's report at that time.
func (n *node) after(d time.Duration) *networkingv1beta1.InternalNode {
	n.t.Helper()
	n.now = n.now.Add(d)
	if _, err := n.announce(n.t.Context(), n.now); err != nil {
		n.t.Fatal(err)
	}
	if err := n.list(n.t.Context(), n.now); err != nil {
		n.t.Fatal(err)
	}
	var said networkingv1beta1.InternalNode
	if err := n.client.Get(n.t.Context(), client.ObjectKey{Name: "a"}, &said); err != nil {
		n.t.Fatal(err)
	}
	return &said
}

func (n *node) pod(name, ip string, change func(*corev1.Pod)) {
	n.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	if change != nil {
		change(p)
	}
	if err := n.client.Create(n.t.Context(), p); err != nil {
		n.t.Fatal(err)
	}
}

func TestANodeSaysItsNetworksOnceAndWhenTheyChange(t *testing.T) {
	n := newNode(t)
	var routes []netip.Prefix
	n.look = func() ([]netip.Prefix, []netip.Addr, error) {
		return routes, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}
	say := func(want string, all ...string) string {
		t.Helper()
		routes = nil
		for _, p := range all {
			routes = append(routes, netip.MustParsePrefix(p))
		}
		said := n.after(resync)
		if got := said.Annotations[wire.AnnotationNetworks]; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if got := said.Annotations[wire.AnnotationAddresses]; got != "192.0.2.1" {
			t.Errorf("its addresses are %q", got)
		}
		if len(said.OwnerReferences) != 1 || said.OwnerReferences[0].UID != "of-a" {
			t.Errorf("owned by %v: it does not go with its node", said.OwnerReferences)
		}
		return said.ResourceVersion
	}
	first := say("10.0.0.0/24", "0.0.0.0/0", "10.0.0.0/24", "10.244.3.0/24")
	if again := say("10.0.0.0/24", "10.0.0.0/24", "10.244.4.0/24"); again != first {
		t.Error("it was written again, although nothing has changed")
	}
	latest := say("10.0.0.0/24,172.20.0.0/14", "10.0.0.0/24", "172.20.0.0/14")
	if again := say("10.0.0.0/24,172.20.0.0/14", "10.0.0.0/24", "172.20.0.0/14"); again != latest {
		t.Error("it was written again, although nothing has changed")
	}
	// Another program deletes the InternalNode.
	if err := n.client.Delete(t.Context(), &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	n.now = n.now.Add(rewriteAfter)
	say("10.0.0.0/24,172.20.0.0/14", "10.0.0.0/24", "172.20.0.0/14")
	n.look = func() ([]netip.Prefix, []netip.Addr, error) { return nil, nil, errors.New("busy") }
	if _, err := n.announce(t.Context(), n.now.Add(resync)); err == nil {
		t.Error("no error, although the routes are not known")
	}
}

func TestANodeSaysTheNarrowestOfItsWaysToGateways(t *testing.T) {
	n := newNode(t)
	ways := map[string]int{"10.244.1.5": 1500, "10.244.2.5": 1450, "10.244.3.5": 1400, "10.244.4.5": 0}
	n.mtuTo = func(pod netip.Addr) int { return ways[pod.String()] }
	for pod := range ways {
		f := &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "gw-" + pod}}
		f.Spec.GatewayIP = networkingv1beta1.IP(pod)
		if pod == "10.244.3.5" {
			f.Annotations = map[string]string{wire.AnnotationGone: pod}
		}
		if err := n.client.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	said := n.after(resync)
	if got := said.Annotations[wire.AnnotationMTU]; got != "1450" {
		t.Errorf("it says %q, want 1450", got)
	}
	if r, err := wire.ParseNode(said); err != nil || r.MTU != 1450 {
		t.Errorf("read back: got %d, %v", r.MTU, err)
	}
	ways["10.244.2.5"] = 1500
	if got := n.after(resync).Annotations[wire.AnnotationMTU]; got != "1500" {
		t.Errorf("it says %q, want 1500 now", got)
	}
}

func TestANodeSaysWhereItsPodsAre(t *testing.T) {
	n := newNode(t)
	says := func(d time.Duration, want string) string {
		t.Helper()
		said := n.after(d)
		if got := said.Annotations[wire.AnnotationPods]; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		return said.ResourceVersion
	}
	says(0, "")
	// None of these pods has an address of its own.
	n.pod("of-the-host", "192.0.2.1", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	n.pod("done", "10.99.0.1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	n.pod("waits", "", func(p *corev1.Pod) { p.Status.PodIPs = nil })
	before := says(time.Minute, "")
	n.pod("first", "10.244.3.9", nil)
	says(time.Second, "10.244.3.0/24")
	n.pod("borrowed", "10.244.7.7", nil)
	version := says(time.Second, "10.244.3.0/24,10.244.7.7/32")
	if version == before {
		t.Error("the test sees no writes")
	}
	n.pod("second", "10.244.3.10", nil)
	if again := says(time.Second, "10.244.3.0/24,10.244.7.7/32"); again != version {
		t.Error("written again for a pod in a range that was said")
	}
	if err := n.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "borrowed"}}); err != nil {
		t.Fatal(err)
	}
	says(time.Second, "10.244.3.0/24,10.244.7.7/32")
	says(10*time.Second, "10.244.3.0/24")
	// Later, the node finds objects of its pod network, which assigns ranges itself.
	n.given.put(rangesKinds()[0], blockAffinity("mine", map[string]any{"node": "a", "cidr": "10.99.40.128/26", "state": "confirmed"}), true)
	n.pod("third", "10.99.40.129", nil)
	says(time.Second, "10.99.40.128/26,10.244.3.9/32,10.244.3.10/32")
}

func TestANodeSaysWhichPodsAreOutsideOfTheClustersRanges(t *testing.T) {
	n := newNode(t)
	says := func(when string, want *wire.PodRanges) {
		t.Helper()
		said := n.after(takesBack)
		if s, err := wire.ParseNodeStatus(said.Annotations); err != nil || !sameRanges(s.Pods, want) {
			t.Errorf("%s: got %+v (%v), want %+v", when, s.Pods, err, want)
		}
	}
	says("without pods", &wire.PodRanges{})
	n.pod("first", "10.244.3.9", nil)
	says("with one of the range", &wire.PodRanges{Inside: true})
	n.given.put(rangesKinds()[0], blockAffinity("mine", map[string]any{"node": "a", "cidr": "10.99.40.128/26", "state": "confirmed"}), true)
	n.pod("new-pool", "10.99.40.130", nil)
	n.pod("six", "fd00::7", nil)
	says("with one of a pool that came later", &wire.PodRanges{Inside: true, Outside: []netip.Prefix{netip.MustParsePrefix("10.99.40.128/26")}})
	if err := n.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	says("without pods again", &wire.PodRanges{})
	if err := n.client.DeleteAllOf(t.Context(), &ipamv1alpha1.Network{}, client.InNamespace("liqo")); err != nil {
		t.Fatal(err)
	}
	says("as long as the ranges are not known", nil)
}

// takesBack is the time after which a node has written that it has fewer addresses.
const takesBack = 15 * time.Second

func blockAffinity(name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetName(name)
	return u
}

func TestRangesOfPodNetworksAreRead(t *testing.T) {
	calico, cilium := rangesKinds()[0], rangesKinds()[1]
	block := func(change string, value any) *unstructured.Unstructured {
		spec := map[string]any{"node": "a", "cidr": "10.99.40.128/26", "state": "confirmed", "deleted": "false", "type": "host"}
		spec[change] = value
		return blockAffinity("x", spec)
	}
	for _, c := range []struct {
		name   string
		kind   rangesKind
		object *unstructured.Unstructured
		want   string
	}{
		{"a block", calico, block("cidr", "10.99.40.128/26"), "10.99.40.128/26"},
		{"an older Calico's", calico, block("type", nil), "10.99.40.128/26"},
		{"another node's", calico, block("node", "b"), ""},
		{"not confirmed yet", calico, block("state", "pending"), ""},
		{"given back", calico, block("deleted", "true"), ""},
		{"of load balancers", calico, block("type", "virtual"), ""},
		{"nonsense", calico, block("cidr", "seven"), ""},
		{"cluster-pool", cilium, blockAffinity("a", map[string]any{"ipam": map[string]any{"podCIDRs": []any{"10.0.2.0/24"}}}), "10.0.2.0/24"},
		{"multi-pool", cilium, blockAffinity("a", map[string]any{"ipam": map[string]any{"pools": map[string]any{"allocated": []any{
			map[string]any{"pool": "default", "cidrs": []any{"10.0.2.0/27", "10.0.9.0/27"}}, map[string]any{"pool": "other", "cidrs": []any{"10.20.0.0/27"}},
		}}}}), "10.0.2.0/27 10.0.9.0/27 10.20.0.0/27"},
		{"of a cloud", cilium, blockAffinity("a", map[string]any{"ipam": map[string]any{"pool": map[string]any{"10.1.0.7": map[string]any{}}}}), ""},
	} {
		changes := 0
		g := newGivenRanges("a", func() { changes++ })
		g.put(c.kind, c.object, true)
		var got []string
		for _, r := range g.list() {
			if !r.Given {
				t.Errorf("%s: %s counts only if a pod uses it", c.name, r.Prefix)
			}
			got = append(got, r.Prefix.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %q", c.name, got, c.want)
		}
		if g.put(c.kind, c.object, false); len(g.list()) != 0 {
			t.Errorf("%s: got %v after it went", c.name, g.list())
		}
		if (changes == 2) != (c.want != "") || changes == 1 {
			t.Errorf("%s: %d changes were told", c.name, changes)
		}
	}
	for text, want := range map[string]int{`{"default":["10.128.2.0/23"]}`: 1, `{"default":"10.128.2.0/23"}`: 1, `{"default":["10.128.2.0/23","fd01::/64"],"other":"10.9.0.0/24"}`: 2, `nonsense`: 0, "": 0} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ovnSubnets: text}}}
		if got := rangesOf(n); len(got) != want || want > 0 && got[0].Prefix.String() != "10.128.2.0/23" {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestAGatewayKnowsNodesByTheirWord(t *testing.T) {
	n := &nodes{read: func() bool { return false }, began: time.Now(), known: map[string]gateway.Node{}, broken: map[string]error{}}
	if _, _, _, err := n.list(time.Now()); !errors.Is(err, errNodesNotRead) {
		t.Errorf("got %v, want it to wait", err)
	}
	if known, _, missing, err := n.list(time.Now().Add(nodesPatience)); err != nil || len(known) != 0 || !errors.Is(missing, errNodesUnknown) {
		t.Errorf("got %v, %v, %v; want it to go on without, and say so", known, missing, err)
	}
	n.read = func() bool { return true }
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	o := wire.InternalNode(self, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1"), Pods: []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}})
	o.ResourceVersion = "77"
	n.put(o)
	broken := o.DeepCopy()
	broken.Name, broken.Annotations[wire.AnnotationPods] = "b", "10.244.4.0/24,???"
	broken.Spec.Interface.Node.IP = "192.0.2.2"
	n.put(broken)
	nowhere := o.DeepCopy()
	nowhere.Name, nowhere.Spec.Interface.Node.IP = "c", "x"
	n.put(nowhere)
	known, unread, missing, err := n.list(time.Now())
	slices.SortFunc(known, func(x, y gateway.Node) int { return strings.Compare(x.Name, y.Name) })
	if err != nil || missing != nil || len(known) != 2 || known[0].Revision != 77 || known[1].Pods[0].String() != "10.244.4.0/24" || len(unread) != 2 {
		t.Errorf("got %+v and %v, %v, %v", known, unread, missing, err)
	}
	n.put(func() *networkingv1beta1.InternalNode { broken.Annotations = o.Annotations; return broken }())
	n.drop("a")
	n.drop("c")
	if known, unread, _, _ := n.list(time.Now()); len(known) != 1 || len(unread) != 0 {
		t.Errorf("mended and gone: got %v and %v", known, unread)
	}
}

func TestAGatewayFollowsManyNodesSeldom(t *testing.T) {
	var n nodes
	now := time.Unix(1000, 0)
	const ms = time.Millisecond
	for _, c := range []struct{ after, want time.Duration }{
		{0, 200 * ms},
		{100 * ms, 0}, // a request is already queued
		{200 * ms, 900 * ms},
		{200 * ms, 0},
		{1000 * ms, 700 * ms}, // 1 s after the last request
		{time.Minute, 200 * ms},
	} {
		now = now.Add(c.after)
		if got := n.wait(now); got != c.want {
			t.Errorf("%s later: a request in %s, want in %s", c.after, got, c.want)
		}
	}
}

// A node that reaches all gateways, the usual case, must not write. All gateways watch all InternalNodes, so
// one absent gateway must not change the InternalNodes of all nodes.
func TestANodeSaysWhichGatewaysItCantReachOnlyWhenThatChanges(t *testing.T) {
	n := newNode(t)
	announced, version := n.after(0).ResourceVersion, ""
	var answers bool
	p := &paths{
		log: slog.New(slog.DiscardHandler),
		asked: func() []gateway.Gateway {
			return []gateway.Gateway{{Name: "liqo-tenant-milan/milan", PodIP: netip.MustParseAddr("10.244.1.5")}}
		},
		ask: func(_ netip.Addr, members []netip.Addr) (map[netip.Addr]bool, error) {
			return map[netip.Addr]bool{members[0]: answers}, nil
		},
		told: n.lost,
	}
	for _, step := range []struct {
		answers bool
		rounds  int
		want    string
		writes  bool
	}{
		{true, 10, "", false},
		{false, 2, "", false},
		{false, 1, "liqo-tenant-milan/milan", true},
		{false, 10, "liqo-tenant-milan/milan", false},
		{true, 1, "", true},
		{true, 10, "", false},
	} {
		answers = step.answers
		for range step.rounds {
			if err := p.round(); err != nil {
				t.Fatal(err)
			}
			n.after(askInterval)
		}
		if n.after(0).ResourceVersion != announced {
			t.Fatalf("%+v: the InternalNode has changed, which gateways watch", step)
		}
		m := n.unreachedNow()
		_, gateways, _ := wire.ParseUnreached(m)
		if got := strings.Join(gateways, ","); got != step.want || (m.ResourceVersion != version) != step.writes {
			t.Errorf("%+v: it says %q, written: %v", step, got, m.ResourceVersion != version)
		}
		version = m.ResourceVersion
	}
}

// unreachedNow returns the node's UnreachedConfigMap; an empty one if it does not exist.
func (n *node) unreachedNow() *corev1.ConfigMap {
	n.t.Helper()
	m := &corev1.ConfigMap{}
	if err := n.client.Get(n.t.Context(), client.ObjectKey{Namespace: "liqo", Name: "liqo-tui-fabric-a"}, m); client.IgnoreNotFound(err) != nil {
		n.t.Fatal(err)
	}
	return m
}

// The agent was started again during an outage, or somebody has deleted its list.
func TestAnAgentCorrectsTheListOfTheOneBeforeIt(t *testing.T) {
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "of-a"}}
	n := newNode(t, wire.UnreachedConfigMap("liqo", self, []string{"liqo-tenant-milan/milan"}))
	lists := func(d time.Duration) string {
		t.Helper()
		n.after(d)
		_, gateways, _ := wire.ParseUnreached(n.unreachedNow())
		return strings.Join(gateways, ",")
	}
	if got := lists(0); got != "liqo-tenant-milan/milan" {
		t.Errorf("before it has asked the gateways: got %q", got)
	}
	if n.lost(nil); lists(0) != "" {
		t.Error("all gateways answer, and the former agent's list is still there")
	}
	n.lost([]string{"liqo-tenant-oslo/oslo"})
	lists(0)
	if err := n.client.Delete(t.Context(), n.unreachedNow()); err != nil {
		t.Fatal(err)
	}
	if got := lists(rewriteAfter); got != "liqo-tenant-oslo/oslo" {
		t.Errorf("after it was deleted: got %q", got)
	}
	if m := n.unreachedNow(); len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "of-a" {
		t.Errorf("owned by %v: it does not go with its node", m.OwnerReferences)
	}
}

// The operator changes to another range of a peer when all nodes have routes to the new range.
func TestANodeSaysWhichRangesItHasAWayTo(t *testing.T) {
	n := newNode(t)
	version := n.after(0).ResourceVersion
	both := []netip.Prefix{netip.MustParsePrefix("10.60.0.0/16"), netip.MustParsePrefix("240.5.0.0/16")}
	for _, step := range []struct {
		leads  []netip.Prefix
		writes bool
	}{{nil, false}, {both, true}, {both, false}, {nil, true}} {
		n.leads(step.leads)
		said := n.after(2 * time.Second)
		got, err := wire.Also(said)
		if err != nil || !slices.Equal(got, step.leads) || (said.ResourceVersion != version) != step.writes {
			t.Errorf("%+v: it says %v (%v), written: %v", step, got, err, said.ResourceVersion != version)
		}
		version = said.ResourceVersion
	}
}

// No range of a peer may contain the DNS servers of nodes.
func TestANodeSaysWhichDNSServersItAsks(t *testing.T) {
	n := newNode(t)
	for text, want := range map[string]string{
		"": "",
		"# of DHCP\nsearch lab\nnameserver 10.0.0.2\nnameserver\t192.168.7.1 \nnameserver 10.0.0.2\nnameserver 127.0.0.53\nnameserver fd00::2\nnameserver\noptions ndots:5\n": "10.0.0.2,192.168.7.1",
	} {
		if err := os.WriteFile(n.resolv, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said := n.after(resync)
		got, err := wire.NodeNameservers(said)
		if said.Annotations[wire.AnnotationNameservers] != want || err != nil || len(got) != len(strings.FieldsFunc(want, func(r rune) bool { return r == ',' })) {
			t.Errorf("%q: it says %q (%v)", text, said.Annotations[wire.AnnotationNameservers], err)
		}
	}
}

// The node does not confirm ranges that are not in the kernel.
func TestANodeIsAskedForTheRangesOfGatewaysThatItFollows(t *testing.T) {
	range1, range2 := netip.MustParsePrefix("10.60.0.0/16"), netip.MustParsePrefix("240.5.0.0/16")
	f := &networkingv1beta1.InternalFabric{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationAlso: "240.5.0.0/16,10.60.0.0/16"}},
		Spec: networkingv1beta1.InternalFabricSpec{
			MTU: 1340, GatewayIP: "10.244.1.5", RemoteCIDRs: []networkingv1beta1.CIDR{"10.60.0.0/16", "240.5.0.0/16"},
		},
	}
	g, err := gatewayOf(f)
	if err != nil || !slices.Equal(toConfirm([]gateway.Gateway{g}), []netip.Prefix{range1, range2}) {
		t.Errorf("got %v (%v), want both", toConfirm([]gateway.Gateway{g}), err)
	}
	// A gateway with the address of another gateway is unfit, and keeps its last settings.
	agent := &fabric{options: FabricOptions{Log: slog.New(slog.DiscardHandler)}}
	was := g
	was.Also, was.RemoteCIDRs, was.Name = nil, g.RemoteCIDRs[:1], "milan"
	in := gateway.NodeInputs{NodeIP: netip.MustParseAddr("192.0.2.1"), UnderlayMTU: 1500, Gateways: []gateway.Gateway{was}}
	agent.follow(in, nil)
	now := g
	now.Name, now.MTU = "milan", 100
	in.Gateways = []gateway.Gateway{now}
	if got := toConfirm(agent.follow(in, nil).Gateways); len(got) != 0 {
		t.Errorf("got %v of a gateway that is not followed", got)
	}
}

// The peer decides how many of its packets nodes refuse. It must not decide how often nodes write.
func TestANodeSaysWhatItRefusesOfPeers(t *testing.T) {
	n := newNode(t)
	counts := map[string]uint64{}
	n.refused = func() (map[string]uint64, error) { return maps.Clone(counts), nil }
	status := func(said *networkingv1beta1.InternalNode) wire.NodeStatus {
		t.Helper()
		s, err := wire.ParseNodeStatus(said.Annotations)
		if err != nil || s.Refused == nil {
			t.Fatalf("got %+v, %v", s, err)
		}
		return s
	}
	said := n.after(resync)
	if got := status(said); len(got.Refused) != 0 || got.More {
		t.Errorf("at first: got %+v", got)
	}
	counts["t/milan"] = 7
	first := n.after(resync)
	if got := status(first).Refused["t/milan"]; got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	var latest *networkingv1beta1.InternalNode
	for passed := time.Duration(0); passed < rewriteAfter-2*resync; passed += resync {
		counts["t/milan"] += 1000
		if latest = n.after(resync); latest.ResourceVersion != first.ResourceVersion {
			t.Fatal("it was written again because more packets came")
		}
	}
	if latest = n.after(2 * resync); status(latest).Refused["t/milan"] != counts["t/milan"] {
		t.Errorf("after %s: got %d, want %d", rewriteAfter, status(latest).Refused["t/milan"], counts["t/milan"])
	}
	for i := range 2 * wire.NodeStatusMax {
		counts[fmt.Sprintf("t/peer-%03d", i)] = 1
	}
	if got := status(n.after(resync)); len(got.Refused) != wire.NodeStatusMax || !got.More {
		t.Errorf("of many peers: got %+v", got)
	}
	counts = nil // the node's rules were deleted
	if s, err := wire.ParseNodeStatus(n.after(resync).Annotations); err != nil || s.Refused != nil {
		t.Errorf("where nothing counts: got %+v, %v", s, err)
	}
	counts = map[string]uint64{}
	if got := status(n.after(resync)); len(got.Refused) != 0 {
		t.Errorf("with new rules: got %+v", got)
	}
	n.refused = func() (map[string]uint64, error) { return nil, errors.New("busy") }
	if _, err := n.announce(t.Context(), n.now.Add(resync)); err == nil {
		t.Error("no error, although the counters are not known")
	}
}

func TestWhatRangesCountIsTheirGateways(t *testing.T) {
	gw := func(ranges ...string) (g gateway.Gateway) {
		for _, r := range ranges {
			g.RemoteCIDRs = append(g.RemoteCIDRs, netip.MustParsePrefix(r))
		}
		return g
	}
	got := byGateway(map[netip.Addr]uint64{
		netip.MustParseAddr("10.60.0.0"): 3, netip.MustParseAddr("10.71.0.0"): 4, netip.MustParseAddr("10.62.0.0"): 0, netip.MustParseAddr("10.99.0.0"): 5,
	}, map[string]gateway.Gateway{"t/milan": gw("10.60.0.0/16", "10.71.0.0/16"), "t/oslo": gw("10.62.0.0/16")})
	if want := map[string]uint64{"t/milan": 7}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Other programs treat a node as closed to peers if its agent reports the level. Before the agent's first
// look, the node may have rules of a former agent.
func TestANodeSaysItsLevelWhileItsRulesAreInForce(t *testing.T) {
	n := newNode(t)
	for i, step := range []struct {
		why    *string // the reason that the node is not as wanted; "" if it is as wanted
		level  int
		kernel wire.KernelState
	}{
		{nil, 0, wire.KernelInUse},
		{new(""), wire.NodeLevel, wire.KernelInUse},
		{new("no such device"), 0, wire.KernelInUse},
		{new(""), wire.NodeLevel, wire.KernelInUse},
		{new(""), wire.NodeLevel, wire.KernelClean},
	} {
		if step.why != nil {
			n.stands(standing(*step.why, nil, step.kernel))
			if len(n.woken) != 1 {
				t.Errorf("step %d: it is not written at once", i)
			}
			<-n.woken
		}
		s, err := wire.ParseNodeStatus(n.after(time.Second).Annotations)
		if err != nil || s.Level != step.level || s.Kernel != step.kernel || step.why != nil && s.Problem != *step.why {
			t.Errorf("step %d: got %+v, %v, want level %d and kernel %s", i, s, err, step.level, step.kernel)
		}
	}
}

// Nodes also write values that gateways do not use. Such a write must not cause a computation in each gateway.
func TestAGatewayFollowsWhatItUsesOfANode(t *testing.T) {
	n := &nodes{known: map[string]gateway.Node{}, broken: map[string]error{}}
	report := wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1"), Pods: []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}}
	version := 0
	put := func() bool {
		o := wire.InternalNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, report)
		version++
		o.ResourceVersion = strconv.Itoa(version)
		return n.put(o)
	}
	steps := []struct {
		what   string
		change func()
		want   bool
	}{
		{"a new node", func() {}, true},
		{"what it refuses", func() { report.Status.Refused = map[string]uint64{"t/milan": 7} }, false},
		{"its pods", func() { report.Pods = append(report.Pods, netip.MustParsePrefix("10.244.9.9/32")) }, true},
		{"its address", func() { report.IP = netip.Addr{} }, true},
		{"the same again", func() {}, false},
	}
	for _, s := range steps {
		s.change()
		if got := put(); got != s.want {
			t.Errorf("%s: got %t, want %t", s.what, got, s.want)
		}
	}
	report.IP = netip.MustParseAddr("192.0.2.1")
	if put(); n.known["a"].Revision != uint64(version) {
		t.Errorf("got revision %d, want %d", n.known["a"].Revision, version)
	}
}
