package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// discovery makes the Networks for the cluster's own pods and Services. It uses the ranges that an admin
// states, or otherwise the ranges that it finds. No other program makes these Networks, so a Network that was
// just replaced is not made again.
type discovery struct {
	client    client.Client
	reader    client.Reader // not cached, because a single read needs no watch
	status    *reporter
	namespace string
	stated    map[string][]netip.Prefix // by type of Network
}

// lookAgain is the interval of attempts to find ranges, because the pod network may be installed after the
// operator.
const lookAgain = 5 * time.Second

func (r *discovery) setup(mgr ctrl.Manager) error {
	cluster := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "cluster"}}}
	once := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(cluster[0])
		return nil
	})
	ofCluster := func(_ context.Context, o client.Object) []reconcile.Request {
		if o.GetNamespace() != r.namespace {
			return nil
		}
		return cluster
	}
	return ctrl.NewControllerManagedBy(mgr).Named("discovery").
		WithOptions(workers(1)).
		WatchesRawSource(once).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Complete(r)
}

func (r *discovery) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	pods, err := r.ensure(ctx, wire.NetworkPodCIDR, ranges.Pods())
	var services bool
	if err == nil {
		services, err = r.ensure(ctx, wire.NetworkServiceCIDR, ranges.Services(r.client, r.namespace))
	}
	if told, ok := errors.AsType[*toldError](err); ok {
		return ctrl.Result{RequeueAfter: lookAgain}, r.status.say(ctx, told.state, told.why, told.unstated...)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	message, unstated := "", []string{wire.NetworkPodCIDR, wire.NetworkServiceCIDR}
	switch {
	case pods && services:
		return ctrl.Result{}, r.status.say(ctx, wire.OperatorWorking, "works")
	case pods:
		message, unstated = "the cluster does not say its Services' address range: the installation has to state it", unstated[1:]
	case services:
		message, unstated = "the cluster does not say its pods' address range: the installation has to state it", unstated[:1]
	default:
		message = "the cluster says neither its pods' nor its Services' address range: the installation has to state both"
	}
	return ctrl.Result{RequeueAfter: lookAgain}, r.status.say(ctx, wire.OperatorNoNetworks, message, unstated...)
}

// ensure reports whether all Networks of this kind exist now.
func (r *discovery) ensure(ctx context.Context, kind string, statements []ranges.Statement) (bool, error) {
	var list ipamv1alpha1.NetworkList
	err := r.reader.List(ctx, &list, client.InNamespace(r.namespace), client.MatchingLabels{wire.LabelNetworkType: kind})
	if err != nil {
		return false, fmt.Errorf("list this cluster's Networks: %w", err)
	}
	if stated := r.stated[kind]; len(stated) > 0 {
		return true, r.state(ctx, kind, stated, list.Items)
	}
	if slices.ContainsFunc(list.Items, completes) {
		return true, nil
	}
	found, err := ranges.First(ctx, r.reader, statements)
	if err == nil && found.Contradiction != "" {
		why := "the cluster's statements about its pods' addresses are wrong (" + found.Contradiction + "): the installation has to state them"
		err = &toldError{why, wire.OperatorNoNetworks, []string{kind}}
	}
	if err != nil || len(found.CIDRs) == 0 {
		return false, err
	}
	var missing []string
	for _, p := range found.CIDRs {
		// Networks are made in reverse order, the last range first. After an interruption, only later ones
		// exist.
		if !slices.ContainsFunc(list.Items, func(n ipamv1alpha1.Network) bool { return string(n.Spec.CIDR) == p.String() }) {
			missing = append(missing, p.String())
		}
	}
	for _, n := range slices.Backward(render.ClusterNetworks(r.namespace, kind, missing, found.Source)) {
		if err := r.client.Create(ctx, n, client.FieldOwner(FieldManager)); err != nil {
			return false, fmt.Errorf("create %s: %w", apply.Name(n), err)
		}
	}
	return len(missing) > 0, nil
}

// state makes the Networks of a kind match the ranges that an admin states. A Network's range can't be
// changed, so a wrong Network is replaced.
func (r *discovery) state(ctx context.Context, kind string, stated []netip.Prefix, live []ipamv1alpha1.Network) error {
	var cidrs []string
	for _, p := range stated {
		cidrs = append(cidrs, p.String())
	}
	want := render.ClusterNetworks(r.namespace, kind, cidrs, render.StatedByInstall+"--"+kind)
	for _, n := range live {
		if n.Labels[wire.LabelManagedBy] != wire.ManagedBy && slices.ContainsFunc(want, func(o wire.Object) bool {
			return o.GetName() == n.Name && o.(*ipamv1alpha1.Network).Spec.CIDR != n.Spec.CIDR
		}) {
			why := fmt.Sprintf("Network %s is another program's, with %s: state that range, or remove the Network", n.Name, n.Spec.CIDR)
			return &toldError{why, wire.OperatorNoNetworks, nil}
		}
	}
	for i := range live {
		n := &live[i]
		same := func(o wire.Object) bool {
			w := o.(*ipamv1alpha1.Network)
			return w.Name == n.Name && w.Spec.CIDR == n.Spec.CIDR
		}
		if slices.ContainsFunc(want, same) || n.Labels[wire.LabelManagedBy] != wire.ManagedBy {
			continue
		}
		if err := r.mayReplace(ctx, n); err != nil {
			return err
		}
		if err := control.Delete(ctx, r.client, n); err != nil {
			return err
		}
	}
	for _, n := range want {
		if _, err := control.Apply(ctx, r.client, n); err != nil {
			return err
		}
	}
	return nil
}

// mayReplace refuses to replace a range that peers use. The plan of an installation also refuses this, before
// it changes anything.
func (r *discovery) mayReplace(ctx context.Context, n *ipamv1alpha1.Network) error {
	var peers networkingv1beta1.ConfigurationList
	if err := r.reader.List(ctx, &peers); err != nil {
		return fmt.Errorf("list Configurations: %w", err)
	}
	if len(peers.Items) > 0 {
		why := fmt.Sprintf("Network %s stays %s, which %d peers were told: their connections have to be removed first", n.Name, n.Spec.CIDR, len(peers.Items))
		return &toldError{why, wire.OperatorKeepsRange, nil}
	}
	return nil
}

// toldError is a problem with ranges that an admin has to solve.
type toldError struct {
	why      string
	state    wire.OperatorState
	unstated []string
}

func (e *toldError) Error() string { return e.why }

// completes reports whether the existence of n proves that all Networks of its kind exist. This is so if n is
// the last Network made from found ranges, or was not made from found ranges.
func completes(n ipamv1alpha1.Network) bool {
	return n.Name == n.Labels[wire.LabelNetworkType] || n.Labels[wire.LabelManagedBy] != wire.ManagedBy ||
		strings.HasPrefix(n.Annotations[wire.AnnotationSource], render.StatedByInstall)
}

// networks decides the cluster's own ranges. The ranges of pods and Services stay as they are. The external
// range is replaced if it overlaps. When a Network is deleted, networks releases the range that a peer was
// given.
type networks struct {
	client    client.Client
	recorder  events.EventRecorder
	allocator *ranges.Allocator
	namespace string
}

func (r *networks) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("network").
		WithOptions(workers(1)).
		For(&ipamv1alpha1.Network{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.undecided)).
		Complete(r)
}

// undecided returns the Networks that may have waited for the range of another Network.
func (r *networks) undecided(ctx context.Context, o client.Object) []reconcile.Request {
	var list ipamv1alpha1.NetworkList
	if o.GetNamespace() != r.namespace || r.client.List(ctx, &list, client.InNamespace(r.namespace)) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.CIDR == "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile writes a Network's status once, for the life of the Network.
func (r *networks) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var n ipamv1alpha1.Network
	if err := r.client.Get(ctx, req.NamespacedName, &n); err != nil {
		if client.IgnoreNotFound(err) == nil {
			err = r.allocator.Release(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if n.Status.CIDR != "" || n.Namespace != r.namespace || n.Labels[wire.LabelNetworkType] == "" {
		return ctrl.Result{}, nil
	}
	cidr, err := r.decide(ctx, &n)
	if err == nil && cidr == "" {
		return ctrl.Result{}, nil // a change of another Network queues it again
	}
	if err != nil {
		err = fmt.Errorf("allocate %s of Network %s: %w", n.Spec.CIDR, n.Name, err)
		invalid := errors.Is(err, ipam.ErrInvalid)
		if invalid || errors.Is(err, ipam.ErrExhausted) {
			err = errors.Join(err, control.Complain(ctx, r.client, r.recorder, &n, err))
		}
		if invalid {
			err = reconcile.TerminalError(err)
		}
		return ctrl.Result{}, err
	}
	if err := control.Complain(ctx, r.client, r.recorder, &n, nil); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, ranges.Record(ctx, r.client, &n, cidr)
}

// decide returns the range of a Network; "" while it has to wait for another Network.
func (r *networks) decide(ctx context.Context, n *ipamv1alpha1.Network) (networkingv1beta1.CIDR, error) {
	if n.Labels[wire.LabelNotRemapped] == "true" {
		return n.Spec.CIDR, r.allocator.Fix(ctx, n)
	}
	own, err := clusterNetworks(ctx, r.client, r.namespace)
	if err != nil || !own.fixed {
		return "", err
	}
	return r.allocator.Assign(ctx, n)
}

// ownNetworks are this cluster's own ranges that are already decided.
type ownNetworks struct {
	render.Networks

	fixed bool // the ranges of pods and Services are decided, so other ranges may be chosen
}

func clusterNetworks(ctx context.Context, reader client.Reader, namespace string) (ownNetworks, error) {
	var list ipamv1alpha1.NetworkList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{wire.LabelNetworkType}); err != nil {
		return ownNetworks{}, fmt.Errorf("list this cluster's Networks: %w", err)
	}
	var own ownNetworks
	pods, services, undecided := false, false, 0
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range list.Items {
		if n.Status.CIDR == "" {
			if n.Labels[wire.LabelNotRemapped] == "true" {
				undecided++
			}
			continue
		}
		switch n.Labels[wire.LabelNetworkType] {
		case wire.NetworkPodCIDR:
			own.Pod = append(own.Pod, n.Status.CIDR)
			pods = pods || completes(n)
		case wire.NetworkExternalCIDR:
			own.External = append(own.External, n.Status.CIDR)
		case wire.NetworkServiceCIDR:
			services = services || completes(n)
		}
	}
	own.fixed = pods && services && undecided == 0
	return own, nil
}
