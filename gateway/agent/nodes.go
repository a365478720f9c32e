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
	// nodesPause is the pause after a report of a node, before the gateway uses it. So several
	// reports are handled together.
	nodesPause = 200 * time.Millisecond
	// nodesAtMost is the shortest time between two changes of the tunnel because of reports. In a
	// large cluster, there are new reports all the time. With 10,000 pods, a change and the check
	// after it took 130 ms in a measurement.
	nodesAtMost = time.Second
	// nodesPatience is the longest wait for the nodes' reports after the gateway's start. Then the gateway
	// works without them: most functions of a tunnel do not need them, and it may lack the right to read
	// them.
	nodesPatience = 10 * time.Second
)

var (
	errNodesNotRead = errors.New("waiting for the reports of the cluster's nodes")
	errNodesUnknown = fmt.Errorf("the nodes' InternalNodes can't be read (ClusterRoleBinding %s grants the right): packets to pods go through this gateway's own node", wire.GatewayAccessName)
)

// nodes holds the reports of the cluster's nodes. It parses each report once.
type nodes struct {
	informer cache.Informer
	began    time.Time

	mu     sync.Mutex
	read   func() bool // reports whether the first list of all nodes is complete
	due    time.Time   // the time for which the last request was queued; it may be in the future
	known  map[string]gateway.Node
	broken map[string]error // by node name: the parts of the report that can't be read
}

// newNodes watches InternalNodes. It uses a separate cache, so that a gateway without the right to
// read them works, too.
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

// Start queues a request of the tunnel's controller after each change of a report. With this method,
// nodes is a source of a controller.
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

// wait returns the delay of the request for a report that comes now. It returns 0 if an earlier
// request has not started yet, because that request also handles this report.
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

// put stores a node's report. It returns true if a part that gateways use has changed. Other parts must not
// cause work, because peers can change some of them at will, such as the number of refused packets.
func (n *nodes) put(o *networkingv1beta1.InternalNode) (changed bool) {
	r, err := wire.ParseNode(o)
	// The resource versions of a kind are numbers, and a later change has a larger number.
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

// list returns the nodes, and the parts of their reports that can't be read. As long as the first
// list of nodes is not complete, it returns an error. After nodesPatience, it returns the nodes that
// are known, and missing says why others may be missing.
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
	known = make([]gateway.Node, 0, len(n.known))
	for _, node := range n.known {
		known = append(known, node)
	}
	for name, err := range n.broken {
		broken = append(broken, gateway.UnfitNode{Name: name, Err: err})
	}
	return known, broken, missing, nil
}

// unfitShown is the largest number of nodes that a gateway's report names, so that its message stays
// short.
const unfitShown = 3

// unfitText returns the end of a message that names the nodes whose reports can't be used completely.
// Peers may not reach pods on these nodes.
func unfitText(unfit []gateway.UnfitNode) string {
	var text string
	for i, u := range unfit {
		if i == unfitShown {
			return text + fmt.Sprintf("; and %d more such nodes", len(unfit)-i)
		}
		text += fmt.Sprintf("; the report of node %s can't be used completely: %s", u.Name, strings.ReplaceAll(u.Err.Error(), "\n", ", "))
	}
	return text
}
