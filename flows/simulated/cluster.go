package simulated

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/contents"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Cluster is one cluster in memory. It implements [engine.Cluster].
type Cluster struct {
	world   *World
	side    flows.Side // the cluster's side in the pair
	changed chan struct{}

	// world.mu guards the following fields.
	identity  flows.ClusterFacts // without objects
	host      byte               // the last byte of the addresses of its nodes and gateways
	behaviour Behaviour
	store     store
	gateways  map[types.UID]*gateway
	requests  map[bool]*peering.Request // Liqo's, by whether Liqo was installed again
	log       []flows.Change
	images    []trial.ImageTry // images that nodes have tried to pull
	probes    int              // existing probes
	asked     int              // pods that have tried to reach the other cluster's API server
	token     string           // the token in the answer to the latest of these pods
	observed  int              // calls of Observe
	writes    int              // objects that were applied or deleted
	ticked    bool             // a tick has passed since the last Observe
	ordinal   int              // the last number given to a UID or a node port
}

var _ engine.Cluster = (*Cluster)(nil)

func newCluster(w *World, id wire.ClusterID, host byte) *Cluster {
	c := &Cluster{world: w, host: host, changed: make(chan struct{}, 1), ticked: true, gateways: map[types.UID]*gateway{}, requests: map[bool]*peering.Request{}}
	c.store = newStore(c)
	c.identity = flows.ClusterFacts{
		Context: flows.ContextRef{Name: "kind-" + string(id)},
		Server:  fmt.Sprintf("https://172.18.0.%d:6443", host),
		UID:     "uid-of-" + string(id), Version: "v1.35.1",
		ID: id, Software: flows.Operator, Namespace: wire.DefaultNamespace, HasCRDs: true,
		Networks: render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}},
	}
	return c
}

// Behave changes the cluster's deviations. edit must not call methods of the world or
// its clusters.
func (c *Cluster) Behave(edit func(*Behaviour)) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	edit(&c.behaviour)
	c.notify()
}

// Be changes the cluster itself: its context, IDs, software and address ranges. Use Put
// and Remove for objects. edit must not call methods of the world or its clusters.
func (c *Cluster) Be(edit func(*flows.ClusterFacts)) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	edit(&c.identity)
	c.notify()
}

// Tenant returns the place of this cluster's objects for the pair's connection.
func (c *Cluster) Tenant() render.Tenant {
	remote := c.world.other(c).Facts().ID
	return render.Tenant{Namespace: wire.TenantNamespaceName(remote), Remote: remote}
}

// Put stores objects as if an earlier run of our program had created them.
func (c *Cluster) Put(objects ...wire.Object) { c.PutAs(wire.FieldManager, objects...) }

// PutAs stores objects as if another program had created them. Our program's changes of
// their fields cause conflicts.
func (c *Cluster) PutAs(manager string, objects ...wire.Object) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, o := range objects {
		if _, err := c.store.apply(o, manager); err != nil {
			panic("simulated: put: " + err.Error())
		}
	}
	c.notify()
}

// Remove deletes objects at once, even with finalizers. The next ticks delete their
// children.
func (c *Cluster) Remove(objects ...wire.Object) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, o := range objects {
		delete(c.store.records, c.store.keyOf(o))
	}
	c.notify()
}

// Terminate begins deletions that never end, as with a finalizer that stays.
func (c *Cluster) Terminate(objects ...wire.Object) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, o := range objects {
		if r := c.store.records[c.store.keyOf(o)]; r != nil {
			r.hold(c.clock(), Forever)
		}
	}
	c.notify()
}

// Objects returns copies of all objects, by kind and name. Their kinds are set.
func (c *Cluster) Objects() []wire.Object {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	var out []wire.Object
	for _, r := range c.store.sorted() {
		out = append(out, r.object.DeepCopyObject().(wire.Object))
	}
	return out
}

// Names returns the names of all objects in the form of [apply.Name].
func (c *Cluster) Names() []string {
	var out []string
	for _, o := range c.Objects() {
		out = append(out, apply.Name(o))
	}
	return out
}

// Log returns all requests to apply or delete an object, in order, including those that
// changed nothing.
func (c *Cluster) Log() []flows.Change {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return slices.Clone(c.log)
}

// Writes returns the number of objects in all requests to apply or delete.
// [Behaviour.WriteErrors] counts in the same way.
func (c *Cluster) Writes() int {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.writes
}

// Observed returns the number of calls of Observe so far. [Behaviour.Unreachable] counts
// in the same way.
func (c *Cluster) Observed() int {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.observed
}

// Forget empties the log.
func (c *Cluster) Forget() {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.log = nil
}

func (c *Cluster) clock() time.Time { return c.world.now.Add(c.identity.ClockAhead) }

// Facts returns the facts that Observe would return if the cluster answers. No time
// passes.
func (c *Cluster) Facts() flows.ClusterFacts {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.everything()
}

// Observe implements [engine.Cluster].
func (c *Cluster) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	if err := ctx.Err(); err != nil {
		return flows.ClusterFacts{}, err
	}
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.world.Pacing == PerObserve {
		c.pace()
	}
	c.observed++
	if c.behaviour.unreachable(c.observed) {
		return flows.ClusterFacts{
			Context: c.identity.Context, Server: c.identity.Server, Namespace: c.identity.Namespace, Problem: c.problem(),
		}, nil
	}
	return c.everything(), nil
}

func (c *Cluster) inspect(tenant render.Tenant) flows.Contents {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	var all []contents.Object
	for _, r := range c.store.sorted() {
		if r.object.GetNamespace() == tenant.Namespace {
			gvk := r.object.GetObjectKind().GroupVersionKind()
			all = append(all, contents.Object{Group: gvk.Group, Kind: gvk.Kind, Object: r.object})
		}
	}
	return flows.Contents{Others: contents.Foreign(tenant, all)}
}

// pace lets a tick pass if the cluster was observed since the last tick. So two clusters
// that are observed at the same time are seen at the same moment, in either order.
func (c *Cluster) pace() {
	if !c.ticked {
		c.world.tick(c.world.now.Add(TickLength))
		for _, all := range c.world.clusters {
			all.ticked = true
		}
	}
	c.ticked = false
	c.notify()
}

func (c *Cluster) problem() *flows.Problem {
	if c.behaviour.Problem != nil {
		return c.behaviour.Problem
	}
	return &flows.Problem{
		Kind:    flows.Unreachable,
		Message: fmt.Sprintf("%s (context %s) does not answer", c.identity.Server, c.identity.Context),
		Fix:     command.Text("check the server in the kubeconfig, and firewall or VPN on the way"),
	}
}

// everything returns the facts for Observe.
func (c *Cluster) everything() flows.ClusterFacts {
	f := c.facts()
	if f.Software == flows.Liqo {
		f.Lending = c.lendingFacts()
	}
	return f
}

// facts returns facts with copies of the objects, without their kinds, as from typed
// clients.
func (c *Cluster) facts() flows.ClusterFacts {
	return c.collect(func(o wire.Object) wire.Object {
		o = o.DeepCopyObject().(wire.Object)
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return o
	})
}

// peek returns facts that share the objects' content with the store. They must not be
// changed.
func (c *Cluster) peek() flows.ClusterFacts {
	return c.collect(func(o wire.Object) wire.Object { return o })
}

func (c *Cluster) collect(read func(wire.Object) wire.Object) flows.ClusterFacts {
	f := c.identity
	f.Networks.Pod, f.Networks.External = slices.Clone(f.Networks.Pod), slices.Clone(f.Networks.External)
	f.Keys, f.EventsRead = map[string]wgtypes.Key{}, map[string]string{} // there are no warnings here
	var all collect.Collection
	for _, r := range c.store.sorted() {
		o := read(r.object)
		switch o := o.(type) { // c.identity already has the objects of an installation
		case *corev1.Namespace:
			f.EventsRead[o.Name] = ""
		case *networkingv1beta1.GatewayServer:
			c.addKey(&f, o)
		case *networkingv1beta1.GatewayClient:
			c.addKey(&f, o)
		case *networkingv1beta1.Configuration, *networkingv1beta1.PublicKey, *networkingv1beta1.Connection:
		default:
			continue
		}
		all.Add(&f, o)
	}
	for _, uid := range slices.Sorted(maps.Keys(c.gateways)) {
		if pod := c.gateways[uid].pod; pod != nil {
			f.Pods = append(f.Pods, *pod)
		}
	}
	if f.Software == flows.Operator {
		f.Operator.Services = c.behaviour.Services
		f.Agents = []string{"node-1"}
		for _, n := range f.Nodes {
			f.Agents = append(f.Agents, n.Name)
		}
		f.AgentStatus = map[string]wire.NodeStatus{}
		kernel := wire.KernelInUse
		if len(c.gateways) == 0 {
			kernel = wire.KernelClean
		}
		for _, node := range f.Agents {
			f.AgentStatus[node] = wire.NodeStatus{
				Level: wire.NodeLevel, Refused: map[string]uint64{}, Pods: &wire.PodRanges{Inside: true}, KubeProxy: wire.KubeProxyAnswers, Kernel: kernel,
			}
		}
	}
	return f
}

func (c *Cluster) addKey(f *flows.ClusterFacts, o metav1.Object) {
	if g := c.gateways[o.GetUID()]; g != nil && g.published {
		f.Keys[o.GetNamespace()+"/"+o.GetName()] = g.key
	}
}

// Apply implements [engine.Cluster], as a server-side apply without force.
func (c *Cluster) Apply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.write(ctx, "apply", objects, func(o wire.Object) (flows.Verb, error) {
		return c.store.apply(o, wire.FieldManager)
	})
}

// Delete implements [engine.Cluster]. Children are deleted in later ticks.
func (c *Cluster) Delete(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.write(ctx, "delete", objects, c.store.remove)
}

func (c *Cluster) write(ctx context.Context, what string, objects []wire.Object, do func(wire.Object) (flows.Verb, error)) ([]flows.Change, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	var changes []flows.Change
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return changes, fmt.Errorf("%s %s: %w", what, apply.Name(o), err)
		}
		if k, _ := kinds.Named(flows.RefTo(o).Kind); k.Plans == kinds.Untouched {
			return changes, fmt.Errorf("%s %s: the table in flows/kinds says that plans don't change such objects", what, apply.Name(o))
		}
		c.writes++
		if err := c.behaviour.WriteErrors[c.writes]; err != nil {
			return changes, fmt.Errorf("%s %s: %w", what, apply.Name(o), err)
		}
		if c.behaviour.unreachable(c.observed) {
			return changes, fmt.Errorf("%s %s: %w", what, apply.Name(o), c.problem())
		}
		if err := c.intervene(o); err != nil {
			return changes, err
		}
		verb, err := do(o)
		if err != nil {
			return changes, fmt.Errorf("%s %s: %w", what, apply.Name(o), err)
		}
		if verb == "" {
			continue // the object did not exist
		}
		change := flows.Change{Side: c.side, Verb: verb, Object: apply.Name(o)}
		c.log = append(c.log, change)
		changes = append(changes, change)
		if verb != flows.Unchanged {
			c.notify() // a watch does not report unchanged objects
		}
	}
	return changes, nil
}

// intervene simulates another program: it deletes an object with its content, and
// creates another one with the same name.
func (c *Cluster) intervene(o wire.Object) error {
	r := c.store.records[c.store.keyOf(o)]
	if c.behaviour.Meanwhile == nil || r == nil {
		return nil
	}
	other := c.behaviour.Meanwhile(o)
	if other == nil {
		return nil
	}
	other.GetObjectKind().SetGroupVersionKind(r.object.GetObjectKind().GroupVersionKind())
	delete(c.store.records, c.store.keyOf(o))
	if _, namespace := r.object.(*corev1.Namespace); namespace {
		maps.DeleteFunc(c.store.records, func(k key, _ *record) bool { return k.namespace == o.GetName() })
	}
	_, err := c.store.apply(other, "somebody-else")
	return err
}

// Changed implements [engine.Cluster].
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func (c *Cluster) notify() {
	select {
	case c.changed <- struct{}{}:
	default: // one value may stand for several changes
	}
}
