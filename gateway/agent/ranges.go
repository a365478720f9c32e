package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// rangesKind is a kind of object in which a pod network lists a node's ranges.
type rangesKind struct {
	schema.GroupVersionKind

	own  bool // there is one object for each node, with the node's name
	read func(o *unstructured.Unstructured, node string) []string
}

// rangesKinds returns the known kinds. An agent watches a kind if the cluster has its CRD. Other
// pod networks use the ranges in the Node, or give single addresses to pods.
func rangesKinds() []rangesKind {
	return []rangesKind{
		{
			GroupVersionKind: schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "BlockAffinity"},
			// There is one object for each block of addresses on each node. Calico uses only
			// confirmed blocks. Blocks of other types than "host" are for load balancers.
			read: func(o *unstructured.Unstructured, node string) []string {
				spec, _, _ := unstructured.NestedMap(o.Object, "spec")
				if spec["node"] != node || spec["state"] != "confirmed" || spec["deleted"] == "true" {
					return nil
				}
				if kind, ok := spec["type"].(string); ok && kind != "" && kind != "host" {
					return nil
				}
				cidr, _ := spec["cidr"].(string)
				return []string{cidr}
			},
		},
		{
			GroupVersionKind: schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumNode"}, own: true,
			read: func(o *unstructured.Unstructured, _ string) []string {
				cidrs, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "ipam", "podCIDRs")
				pools, _, _ := unstructured.NestedSlice(o.Object, "spec", "ipam", "pools", "allocated")
				for _, p := range pools {
					pool, _ := p.(map[string]any)
					more, _, _ := unstructured.NestedStringSlice(pool, "cidrs")
					cidrs = append(cidrs, more...)
				}
				return cidrs
			},
		},
	}
}

// kept returns the part of an object that the cache keeps. In a large cluster, nearly all objects belong to
// other nodes. Of these objects, the cache keeps only the identity.
func (k rangesKind) kept(o any, node string) any {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o
	}
	if len(k.read(u, node)) == 0 {
		slim := &unstructured.Unstructured{}
		slim.SetGroupVersionKind(u.GroupVersionKind())
		slim.SetName(u.GetName())
		slim.SetResourceVersion(u.GetResourceVersion())
		return slim
	}
	u.SetManagedFields(nil)
	unstructured.RemoveNestedField(u.Object, "status")
	return u
}

// findAgain is the interval at which an agent asks the API server for kinds that it did not
// serve before.
const findAgain = 10 * time.Minute

// givenRanges holds the ranges that the pod network has given to a node.
type givenRanges struct {
	node    string
	changed func()
	// follow starts a watch that calls put for each object of a kind. It returns false if the API
	// server does not serve the kind.
	follow   func(context.Context, rangesKind) (bool, error)
	followed map[schema.GroupVersionKind]bool
	asked    time.Time

	mu    sync.Mutex
	known map[string][]gateway.Range // by kind and object
}

func newGivenRanges(node string, changed func()) *givenRanges {
	return &givenRanges{
		node: node, changed: changed, followed: map[schema.GroupVersionKind]bool{}, known: map[string][]gateway.Range{},
		follow: func(context.Context, rangesKind) (bool, error) { return false, nil },
	}
}

// find starts watches of the kinds that the API server serves, if they are not watched yet.
func (g *givenRanges) find(ctx context.Context, log *slog.Logger) {
	if time.Since(g.asked) < findAgain {
		return
	}
	g.asked = time.Now()
	for _, k := range rangesKinds() {
		if g.followed[k.GroupVersionKind] {
			continue
		}
		ok, err := g.follow(ctx, k)
		if err != nil {
			log.Warn("find the ranges that the pod network has given to this node", "kind", k.Kind, "error", err)
		}
		g.followed[k.GroupVersionKind] = ok
	}
}

func (g *givenRanges) list() []gateway.Range {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []gateway.Range
	for _, r := range g.known {
		out = append(out, r...)
	}
	return out
}

// put notes the node's ranges in an object. The parameter there is false if the object was deleted.
func (g *givenRanges) put(k rangesKind, o *unstructured.Unstructured, there bool) {
	var ranges []gateway.Range
	if there {
		for _, text := range k.read(o, g.node) {
			if p, err := netip.ParsePrefix(text); err == nil {
				ranges = append(ranges, gateway.Range{Prefix: p, Given: true})
			}
		}
	}
	key := k.Kind + "/" + o.GetName()
	g.mu.Lock()
	had := len(g.known[key])
	if delete(g.known, key); len(ranges) > 0 {
		g.known[key] = ranges
	}
	g.mu.Unlock()
	if had+len(ranges) > 0 { // most objects belong to other nodes, and change nothing here
		g.changed()
	}
}

// followKind watches a kind of the pod network. It uses a separate cache, because the manager's cache
// would not start as long as the API server does not serve the kind.
func followKind(ctx context.Context, mgr ctrl.Manager, config *rest.Config, k rangesKind, g *givenRanges) (bool, error) {
	if _, err := mgr.GetRESTMapper().RESTMapping(k.GroupKind(), k.Version); meta.IsNoMatchError(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	only := cache.ByObject{Transform: func(o any) (any, error) { return k.kept(o, g.node), nil }}
	if k.own {
		only.Field = fields.OneTermEqualSelector(metav1.ObjectNameField, g.node)
	}
	c, err := cache.New(config, cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ByObject: map[client.Object]cache.ByObject{o: only},
	})
	if err != nil {
		return false, err
	}
	informer, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	note := func(there bool) func(any) {
		return func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if u, ok := o.(*unstructured.Unstructured); ok {
				g.put(k, u, there)
			}
		}
	}
	handler := onChange(note(true))
	handler.DeleteFunc = note(false)
	registered, err := informer.AddEventHandler(handler)
	if err != nil {
		return false, err
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx
	// It waits for the first list, so that the node's first report contains these ranges.
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	toolscache.WaitForCacheSync(wait.Done(), registered.HasSynced)
	return true, nil
}
