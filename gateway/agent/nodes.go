package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	// nodesPause collects what several nodes write at a time.
	nodesPause = 200 * time.Millisecond
	// nodesAtMost is how often what they write is followed: in a large cluster some
	// node writes at any time. For 10,000 pods a change and the look that follows it
	// were measured to cost 130 ms.
	nodesAtMost = time.Second
	// nodesPatience is how long a gateway waits at its start for what nodes say. It
	// may not be allowed to read that; most of a tunnel works without.
	nodesPatience = 10 * time.Second
)

var (
	errNodesNotRead = errors.New("waiting for what the cluster's nodes say of themselves")
	errNodesUnknown = fmt.Errorf("the nodes' InternalNodes can't be read, which ClusterRoleBinding %s allows: pods are looked for by way of this gateway's own node", wire.GatewayAccessName)
)

// nodes are the cluster's nodes, as they say themselves. Each is read once for
// each time that it is written.
type nodes struct {
	informer cache.Informer
	began    time.Time

	mu     sync.Mutex
	read   func() bool // whether all were read once
	due    time.Time   // when the last request is, or was
	known  map[string]gateway.Node
	broken map[string]error // what of a node can't be read
}

// newNodes watches them by a cache of its own, so that a gateway works that is not
// allowed to read them.
func newNodes(ctx context.Context, mgr ctrl.Manager, config *rest.Config) (*nodes, error) {
	c, err := cache.New(config, cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, err
	}
	n := &nodes{began: time.Now(), read: func() bool { return false }, known: map[string]gateway.Node{}, broken: map[string]error{}}
	if n.informer, err = c.GetInformer(ctx, &networkingv1beta1.InternalNode{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watch InternalNodes: %w", err)
	}
	return n, mgr.Add(runnable(c.Start))
}

// Start makes nodes a source of requests of a controller.
func (n *nodes) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	request := func() {
		if wait := n.wait(time.Now()); wait > 0 {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: tunnelController}}, wait)
		}
	}
	handler := onChange(func(o any) {
		if node, ok := o.(*networkingv1beta1.InternalNode); ok {
			if n.put(node) {
				request()
			}
		}
	})
	handler.DeleteFunc = func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if node, ok := o.(*networkingv1beta1.InternalNode); ok {
			n.drop(node.Name)
			request()
		}
	}
	registered, err := n.informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch InternalNodes: %w", err)
	}
	n.mu.Lock()
	n.read = registered.HasSynced
	n.mu.Unlock()
	return nil
}

// wait is until a request for what was written now; 0 if one is on its way.
func (n *nodes) wait(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Before(n.due) {
		return 0
	}
	wait := max(nodesPause, n.due.Add(nodesAtMost).Sub(now))
	n.due = now.Add(wait)
	return wait
}

// put reports whether a node says otherwise than before what gateways use. Nodes also
// write for others, such as what they have refused of peers, which peers decide.
func (n *nodes) put(o *networkingv1beta1.InternalNode) (changed bool) {
	r, err := wire.ParseNode(o)
	// Versions of one kind are numbers that grow.
	revision, _ := strconv.ParseUint(o.ResourceVersion, 10, 64)
	n.mu.Lock()
	defer n.mu.Unlock()
	was, broken := n.known[o.Name], n.broken[o.Name]
	delete(n.known, o.Name)
	if r.IP.IsValid() {
		n.known[o.Name] = gateway.Node{Name: o.Name, IP: r.IP, Addresses: r.Addresses, Pods: r.Pods, MTU: r.MTU, Revision: revision}
	}
	delete(n.broken, o.Name)
	if err != nil {
		n.broken[o.Name] = err
	}
	now := n.known[o.Name]
	was.Revision = now.Revision
	return !reflect.DeepEqual(was, now) || fmt.Sprint(broken) != fmt.Sprint(err)
}

func (n *nodes) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
	delete(n.broken, name)
}

// list returns them, and what of them can't be read. Until they were read it fails,
// for a while; then it returns none, and missing says why.
func (n *nodes) list(now time.Time) (known []gateway.Node, broken []gateway.UnfitNode, missing, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.read():
	case now.Sub(n.began) < nodesPatience:
		return nil, nil, nil, errNodesNotRead
	default:
		missing = errNodesUnknown
	}
	for _, node := range n.known {
		known = append(known, node)
	}
	for name, err := range n.broken {
		broken = append(broken, gateway.UnfitNode{Name: name, Err: err})
	}
	return known, broken, missing, nil
}

// unfitShown is how many nodes a report names: it is one sentence.
const unfitShown = 3

// unfitText says of which nodes not all can be used: pods there may not be reached.
func unfitText(unfit []gateway.UnfitNode) string {
	var text string
	for i, u := range unfit {
		if i == unfitShown {
			return text + fmt.Sprintf("; and %d more of such nodes", len(unfit)-i)
		}
		text += fmt.Sprintf("; what node %s says of itself can't all be used: %s", u.Name, strings.ReplaceAll(u.Err.Error(), "\n", ", "))
	}
	return text
}
