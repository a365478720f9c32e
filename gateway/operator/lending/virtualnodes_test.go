package lending_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/gateway/virtualnode"
	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// In TestVirtualNode, rome requests a virtual node of milan. Both operators and the node's program have the
// rights that they have on a cluster.
func TestVirtualNode(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	abuses.Begin(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	milan.node("node-a", "8", "16Gi")
	rome.runPrograms()
	way := newValve(t, proxy(t))
	w := &pair{t: t, rome: rome, milan: milan, proxy: way.url, params: peer.Params{CPU: "2", Memory: "2Gi"}, node: true}
	before := [2][]string{rome.begun(t), milan.begun(t)}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"appears", w.testNodeAppears},
		{"more and less", w.testNodeFollows},
		{"what others write", w.testNodeIsPutRight},
		{"its address", w.testAddress},
		{"the program's rights", w.testProgramRights},
		{"the operator's rights", w.testOperatorsNodes},
		{"the tunnel", w.testTunnel},
		{"offloading", w.testOffloading},
		{"the provider is away", func(t *testing.T) { w.testAway(t, way) }},
		{"no access", w.testNodeWithoutAccess},
		{"one by hand", w.testNodeByHand},
		{"the name of another", w.testNodeOfAnother},
		{"deleted", w.testNodeDeleted},
		{"not wanted any more", w.testNodeNotWanted},
		{"the end", func(t *testing.T) { w.testResourcesEnd(t, before) }},
	} {
		if !t.Run(part.name, part.test) {
			return // the next part needs the end state of this part
		}
	}
}

// programPatience is the patience of a program, shorter than usual, because a test has less time.
const programPatience = 6 * time.Second

// runPrograms acts as the kubelet and as Kubernetes' controller of Deployments for the programs of virtual
// nodes.
func (p *plane) runPrograms() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	p.t.Cleanup(func() { cancel(); all.Wait() })
	running := map[types.UID]context.CancelFunc{}
	all.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var list appsv1.DeploymentList
			if err := p.List(ctx, &list, client.HasLabels{peering.LabelVirtualNode}); err != nil {
				continue // the test ends
			}
			there := map[types.UID]bool{}
			for i := range list.Items {
				d := &list.Items[i]
				if d.DeletionTimestamp != nil {
					continue
				}
				there[d.UID] = true
				if running[d.UID] == nil {
					run, end := context.WithCancel(ctx)
					running[d.UID] = end
					all.Go(func() { p.runProgram(run, d.DeepCopy()) })
				}
				if d.Status.AvailableReplicas == 0 {
					d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UpdatedReplicas: 1, ObservedGeneration: d.Generation}
					_ = p.Status().Update(ctx, d) // after a conflict, the next round tries again
				}
			}
			for uid, end := range running {
				if !there[uid] {
					end()
					delete(running, uid)
				}
			}
		}
	})
}

func (p *plane) runProgram(ctx context.Context, d *appsv1.Deployment) {
	p.programs.Add(1)
	defer p.programs.Add(-1)
	pod := d.Spec.Template.Spec
	value := func(flag string) string {
		for _, arg := range pod.Containers[0].Args {
			if text, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
				return text
			}
		}
		return ""
	}
	config := p.as("system:serviceaccount:"+d.Namespace+":"+pod.ServiceAccountName, "system:serviceaccounts", "system:serviceaccounts:"+d.Namespace)
	o := virtualnode.Options{Namespace: value("namespace"), Name: value("name"), KubeconfigSecret: value("kubeconfig-secret"), Provider: value("provider"), Consumer: value("consumer"), Patience: programPatience, Log: slog.New(slog.DiscardHandler)}
	if writes := p.programEnds.Swap(0); writes > 0 {
		first, kill := context.WithCancel(ctx)
		defer kill()
		mortal, made := rest.CopyConfig(config), &atomic.Int64{} // also counts writes to the provider
		mortal.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &crash{next: next, after: writes, made: made, kill: kill}
		})
		_ = virtualnode.Run(first, mortal, o) // its connection is cut, so it can't clean up
		if ctx.Err() == nil {
			p.programCrashes.Add(1)
		}
	}
	if err := virtualnode.Run(ctx, config, o); err != nil && ctx.Err() == nil {
		p.t.Errorf("the program of node %s ended with: %v", o.Name, err)
	}
}

// valve is a network path that can be closed.
type valve struct {
	url  string
	mu   sync.Mutex
	shut bool
	open []net.Conn
}

func newValve(t *testing.T, to string) *valve {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{url: "http://" + l.Addr().String()}
	t.Cleanup(func() { _ = l.Close(); v.set(true) })
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			v.mu.Lock()
			shut := v.shut
			v.open = append(v.open, here)
			v.mu.Unlock()
			there, err := net.Dial("tcp", target.Host)
			if shut || err != nil {
				_ = here.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
				go func() {
					_, _ = io.Copy(way[0], way[1]) // an error only means that the connection has ended
					_ = way[0].Close()
				}()
			}
		}
	}()
	return v
}

func (v *valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
	for _, c := range v.open {
		_ = c.Close()
	}
	v.open = nil
}

func member() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}} }

func virtual() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "milan"}}
}

// says returns whether a Node has a condition with a text in its message.
func says(what corev1.NodeConditionType, status corev1.ConditionStatus, message string) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == what && c.Status == status && strings.Contains(c.Message, message)
		})
	}
}

func (w *pair) testNodeAppears(t *testing.T) {
	changed, took := w.peer(t)
	t.Logf("figure: a Node that is ready from nothing in %s", took.Round(time.Millisecond))
	if !changed {
		t.Error("the first run changed nothing")
	}
	if changed, _ := w.peer(t); changed {
		t.Error("the second run changed something")
	}
	n := until(t, w.rome, member(), "ready", says(corev1.NodeReady, corev1.ConditionTrue, "the API server of milan answers; no namespace is offloaded to it"))
	if c, m, pods := n.Status.Capacity.Cpu().String(), n.Status.Allocatable.Memory().String(), n.Status.Allocatable.Pods(); c != "2" || m != "2Gi" || !pods.IsZero() {
		t.Errorf("it has %v, of which %v can be used", n.Status.Capacity, n.Status.Allocatable)
	}
	if n.Labels["liqo.io/type"] != "virtual-node" || n.Labels["liqo.io/remote-cluster-id"] != "milan" || len(n.Status.Addresses) > 0 {
		t.Errorf("labels %v, addresses %v", n.Labels, n.Status.Addresses)
	}
	for _, taint := range []corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Effect: corev1.TaintEffectNoExecute}} {
		if !slices.ContainsFunc(n.Spec.Taints, func(has corev1.Taint) bool { return has.MatchTaint(&taint) }) {
			t.Errorf("it has not taint %s, but %v", taint.Key, n.Spec.Taints)
		}
	}
	l := until(t, w.rome, lease(), "renewed", func(l *coordinationv1.Lease) bool {
		return l.Spec.RenewTime != nil && *l.Spec.HolderIdentity == "milan"
	})
	if len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != n.UID {
		t.Errorf("the Lease is owned by %v", l.OwnerReferences)
	}
	until(t, w.rome, virtual(), "running", func(v *offloadingv1beta1.VirtualNode) bool {
		return len(v.Status.Conditions) == 2 && v.Status.Conditions[0].Status == "Running" && v.Status.Conditions[1].Status == "Running"
	})
	// The steps from the grant on are repeated, without the earlier steps.
	w.rome.runDelete(t, slice("liqo-tenant-milan", "milan"))
	untilGone(t, w.rome, member())
	w.ask(t, "cpu=2", "memory=2Gi")
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
	began := time.Now()
	until(t, w.rome, member(), "ready", says(corev1.NodeReady, corev1.ConditionTrue, ""))
	t.Logf("figure: a Node that is ready %s after the grant", time.Since(began).Round(time.Millisecond))
	w.peer(t)
}

// ask requests resources and a virtual node.
func (w *pair) ask(t *testing.T, amounts ...string) {
	t.Helper()
	resources, err := peering.Amounts(amounts)
	if err != nil {
		t.Fatal(err)
	}
	w.rome.apply(t, peering.ResourceSlice(render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}, peering.SliceParams{Resources: resources, VirtualNode: true}))
}

func (w *pair) testNodeFollows(t *testing.T) {
	w.milan.lendDisk(t)
	w.ask(t, "cpu=5", "memory=2Gi", "ephemeral-storage=1Gi")
	began := time.Now()
	until(t, w.rome, member(), "with more", func(n *corev1.Node) bool {
		return n.Status.Capacity.Cpu().String() == "5" && n.Status.Allocatable.Cpu().String() == "5" && n.Status.Capacity.StorageEphemeral().String() == "1Gi"
	})
	t.Logf("figure: other resources on the Node in %s", time.Since(began).Round(time.Millisecond))
	w.ask(t, "cpu=2", "memory=2Gi", "ephemeral-storage=0")
	until(t, w.rome, member(), "with less", func(n *corev1.Node) bool {
		return n.Status.Capacity.Cpu().String() == "2" && n.Status.Capacity.StorageEphemeral().IsZero()
	})
	w.peer(t)
	// Resources that are taken back belong to no node any more. The Node stays and shows this.
	w.lend(t, `"cpu=1"`)
	until(t, w.rome, member(), "not ready", says(corev1.NodeReady, corev1.ConditionFalse, "milan grants nothing: cpu: 2 asked for; rome may have 1"))
	w.lend(t, `null`)
	until(t, w.rome, member(), "ready again", says(corev1.NodeReady, corev1.ConditionTrue, ""))
	w.testNodeIsLabelled(t)
}

// testNodeIsLabelled tests that the node has the architecture of the provider's nodes while they have the
// same one. A label that an admin has set stays.
func (w *pair) testNodeIsLabelled(t *testing.T) {
	label := func(p *plane, node, text string) {
		t.Helper()
		if err := p.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, mergePatch(`{"metadata":{"labels":`+text+`}}`)); err != nil {
			t.Fatal(err)
		}
	}
	has := func(arch string) func(*corev1.Node) bool {
		return func(n *corev1.Node) bool {
			return n.Labels["kubernetes.io/arch"] == arch && n.Labels["beta.kubernetes.io/arch"] == arch && n.Status.NodeInfo.Architecture == arch
		}
	}
	label(w.rome, "milan", `{"node.kubernetes.io/instance-type":"admins"}`)
	label(w.milan, "node-a", `{"kubernetes.io/arch":"amd64","topology.kubernetes.io/zone":"z"}`)
	began := time.Now()
	n := until(t, w.rome, member(), "of one architecture", has("amd64"))
	t.Logf("figure: a label of the provider's nodes on the Node in %s", time.Since(began).Round(time.Millisecond))
	if n.Labels["topology.kubernetes.io/zone"] != "" {
		t.Errorf("labels %v", n.Labels)
	}
	w.milan.node("node-b", "1", "1Gi")
	until(t, w.rome, member(), "of no architecture that is known", has(""))
	w.milan.runDelete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}})
	label(w.milan, "node-a", `{"kubernetes.io/arch":"arm64"}`)
	if n = until(t, w.rome, member(), "of another architecture", has("arm64")); n.Labels["node.kubernetes.io/instance-type"] != "admins" {
		t.Errorf("labels %v", n.Labels)
	}
}

// lendDisk gives a node of the provider a resource that it did not have.
func (p *plane) lendDisk(t *testing.T) {
	t.Helper()
	n := until(t, p, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, "there", func(*corev1.Node) bool { return true })
	n.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("100Gi")
	if err := p.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// testNodeIsPutRight tests that others' fields of a Node stay, and that our fields are restored.
func (w *pair) testNodeIsPutRight(t *testing.T) {
	change := func(change func(*corev1.Node)) {
		t.Helper()
		n := until(t, w.rome, member(), "there", func(*corev1.Node) bool { return true })
		change(n)
		if err := w.rome.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	change(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "admins/own", Effect: corev1.TaintEffectNoSchedule}}
		n.Labels["admins/own"], n.Labels["liqo.io/remote-cluster-id"] = "1", "turin"
		n.Spec.Unschedulable = true
	})
	until(t, w.rome, member(), "right", func(n *corev1.Node) bool {
		return len(n.Spec.Taints) >= 2 && n.Spec.Taints[0].Key == "admins/own" && n.Labels["admins/own"] == "1" && n.Labels["liqo.io/remote-cluster-id"] == "milan" && n.Spec.Unschedulable
	})
	change(func(n *corev1.Node) { n.Spec.Unschedulable = false })
	n := until(t, w.rome, member(), "there", func(*corev1.Node) bool { return true })
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if err := w.rome.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	until(t, w.rome, member(), "ready again", says(corev1.NodeReady, corev1.ConditionTrue, ""))
	w.rome.runDeleteNow(t, member())
	until(t, w.rome, member(), "there again", func(again *corev1.Node) bool {
		return again.UID != n.UID && says(corev1.NodeReady, corev1.ConditionTrue, "")(again)
	})
	w.rome.runDeleteNow(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}})
	until(t, w.rome, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}, "there again", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	// Tokens of a deleted account are refused, so the program is replaced.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan"}}
	was := until(t, w.rome, account, "there", func(*corev1.ServiceAccount) bool { return true }).UID
	w.rome.runDeleteNow(t, account)
	until(t, w.rome, account, "there again", func(a *corev1.ServiceAccount) bool { return a.UID != was })
	until(t, w.rome, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}, "with pods of the account that there is", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[wire.AnnotationAccount] == string(account.UID)
	})
}

// In testTunnel, a gateway reports, and then stops to report.
func (w *pair) testTunnel(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}
	until(t, w.rome, member(), "without a tunnel to speak of", func(n *corev1.Node) bool { return len(n.Status.Conditions) == 1 })
	w.rome.create(&networkingv1beta1.Configuration{ObjectMeta: meta})
	until(t, w.rome, member(), "without a gateway", says(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "there is no gateway"))
	c := &networkingv1beta1.Connection{ObjectMeta: meta, Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	w.rome.create(c)
	report := func(value networkingv1beta1.ConnectionStatusValue, text string) {
		t.Helper()
		c := until(t, w.rome, &networkingv1beta1.Connection{ObjectMeta: meta}, "there", func(*networkingv1beta1.Connection) bool { return true })
		c.Annotations = map[string]string{wire.AnnotationStatus: text}
		if err := w.rome.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.Status.Value = value
		if err := w.rome.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	report(networkingv1beta1.Connected, `{"at":"2026-01-01T00:00:00Z","intervalSeconds":60,"message":"the peer answers"}`)
	until(t, w.rome, member(), "connected", says(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "connected"))
	report(networkingv1beta1.ConnectionError, `{"at":"2026-01-01T00:00:01Z","intervalSeconds":60,"message":"nothing comes back"}`)
	n := until(t, w.rome, member(), "cut off", says(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "the tunnel to milan: nothing comes back"))
	if !says(corev1.NodeReady, corev1.ConditionTrue, "")(n) {
		t.Error("the tunnel is down, and the API server answers: the node is not ready")
	}
	// By the clock of the report, the report is old from the start, because clocks differ.
	report(networkingv1beta1.Connected, `{"at":"2026-01-01T00:00:02Z","intervalSeconds":1}`)
	until(t, w.rome, member(), "connected again", says(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "connected"))
	until(t, w.rome, member(), "without a report", says(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "its gateway has not reported for"))
	w.rome.runDelete(t, c)
	w.rome.runDelete(t, &networkingv1beta1.Configuration{ObjectMeta: meta})
	until(t, w.rome, member(), "without a tunnel to speak of", func(n *corev1.Node) bool { return len(n.Status.Conditions) == 1 })
}

func (w *pair) testAway(t *testing.T, way *valve) {
	was := until(t, w.rome, lease(), "renewed", func(l *coordinationv1.Lease) bool { return l.Spec.RenewTime != nil }).Spec.RenewTime.Time
	way.set(true)
	began := time.Now()
	until(t, w.rome, member(), "ready, and said to be silent", says(corev1.NodeReady, corev1.ConditionTrue, "does not answer"))
	n := until(t, w.rome, member(), "not ready", says(corev1.NodeReady, corev1.ConditionFalse, "milan"))
	t.Logf("figure: not ready %s after the provider went: %s", time.Since(began).Round(100*time.Millisecond), n.Status.Conditions[0].Message)
	if n.Status.Capacity.Cpu().String() != "2" {
		t.Errorf("it has %v", n.Status.Capacity)
	}
	// The operator notices this without an event, within 15 s.
	until(t, w.rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "without an answer", func(fc *corev1beta1.ForeignCluster) bool {
		return slices.ContainsFunc(fc.Status.Conditions, func(c corev1beta1.Condition) bool { return c.Reason == "APIServerSilent" })
	})
	until(t, w.rome, lease(), "renewed all the same", func(l *coordinationv1.Lease) bool { return l.Spec.RenewTime.After(was) })
	way.set(false)
	began = time.Now()
	until(t, w.rome, member(), "ready again", says(corev1.NodeReady, corev1.ConditionTrue, ""))
	t.Logf("figure: ready again %s after the provider came back", time.Since(began).Round(100*time.Millisecond))
}

// testNodeWithoutAccess tests a provider that answers its program, while the cluster has no access.
func (w *pair) testNodeWithoutAccess(t *testing.T) {
	w.condition(t, authv1beta1.TenantConditionDrained)
	until(t, w.rome, member(), "not ready", says(corev1.NodeReady, corev1.ConditionFalse, "forbidden"))
	w.condition(t, authv1beta1.TenantConditionActive)
	until(t, w.rome, member(), "ready again", says(corev1.NodeReady, corev1.ConditionTrue, ""))
}

// testNodeByHand tests that a user with the right to create VirtualNodes can't name the Secret of another
// one.
func (w *pair) testNodeByHand(t *testing.T) {
	v := virtual()
	v.Name = "mine"
	v.Spec = offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", CreateNode: new(true), KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-controlplane-milan"}}
	w.rome.create(v)
	until(t, w.rome, v, "refused", func(v *offloadingv1beta1.VirtualNode) bool {
		return strings.Contains(v.Annotations[wire.AnnotationProblem], "needs a ResourceSlice of the same name")
	})
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: v.Namespace, Name: "vk-mine"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("it has a program (%v)", err)
	}
	w.rome.runDelete(t, v)
}

// testNodeOfAnother tests that the cluster's own node stays unchanged.
func (w *pair) testNodeOfAnother(t *testing.T) {
	w.rome.node("taken", "4", "8Gi")
	s := mine("taken", "1")
	s.Annotations[peering.AnnotationVirtualNode] = "true"
	w.rome.create(s)
	v := virtual()
	v.Name = "taken"
	until(t, w.rome, v, "refused", func(v *offloadingv1beta1.VirtualNode) bool {
		return strings.HasPrefix(v.Annotations[wire.AnnotationProblem], "refused: there is a node taken already")
	})
	w.rome.runDelete(t, s)
	untilGone(t, w.rome, v)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
	if err := w.rome.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil || len(n.Spec.Taints) > 1 || n.Labels["liqo.io/type"] != "" {
		t.Errorf("the node was changed: %v %v (%v)", n.Labels, n.Spec.Taints, err)
	}
	w.rome.runDelete(t, n)
}

// testNodeDeleted tests that a deleted VirtualNode comes back while its slice requests one, also after a time
// without the operator.
func (w *pair) testNodeDeleted(t *testing.T) {
	was := until(t, w.rome, virtual(), "there", func(*offloadingv1beta1.VirtualNode) bool { return true }).UID
	w.rome.runDeleteNow(t, virtual())
	until(t, w.rome, virtual(), "there again", func(v *offloadingv1beta1.VirtualNode) bool { return v.UID != was })
	until(t, w.rome, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}, "there again", func(d *appsv1.Deployment) bool {
		return d.OwnerReferences[0].UID != was && d.Status.AvailableReplicas == 1
	})
	until(t, w.rome, member(), "ready", says(corev1.NodeReady, corev1.ConditionTrue, ""))
	w.rome.stop()
	w.rome.runDelete(t, slice("liqo-tenant-milan", "milan"))
	w.rome.runOperator(render.PeeringConsumer)
	w.nodeGone(t)
	w.peer(t)
}

// nodeGone waits until no object of the virtual node is left.
func (w *pair) nodeGone(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{
		virtual(), member(), lease(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan"}},
	} {
		untilGone(t, w.rome, o)
	}
	until(t, w.rome, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-node"}}, "empty", func(b *rbacv1.ClusterRoleBinding) bool { return len(b.Subjects) == 0 })
	until(t, w.rome, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "liqo-tui-node"}}, "empty", func(b *rbacv1.RoleBinding) bool { return len(b.Subjects) == 0 })
}

// testNodeNotWanted tests that the resources stay, and the node is removed.
func (w *pair) testNodeNotWanted(t *testing.T) {
	w.node = false
	w.peer(t)
	w.nodeGone(t)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
	w.node = true
	w.peer(t)
}
