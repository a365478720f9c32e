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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// configurations decides how this cluster sees the addresses of each peer. It keeps the decision in Networks
// that the Configuration owns. So the decision survives restarts, and the ranges are released when the
// Configuration is deleted.
type configurations struct {
	client    client.Client
	reader    client.Reader // not cached
	allocator *ranges.Allocator
	namespace string
}

// configurationWorkers is enough for many Configurations at once, for example after a restart, because most
// of the time each worker waits for the API server.
const configurationWorkers = 8

func (r *configurations) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("configuration").
		WithOptions(workers(configurationWorkers)).
		For(&networkingv1beta1.Configuration{}).
		Owns(&ipamv1alpha1.Network{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.waiting)).
		Watches(&networkingv1beta1.PublicKey{}, handler.EnqueueRequestsFromMapFunc(r.ofPeer), builder.WithPredicates(peerRangesNews())).
		Watches(&corev1.Node{}, control.Soon(r.all), builder.WithPredicates(nodeNews())).
		Watches(&networkingv1beta1.InternalNode{}, control.Soon(r.all), builder.WithPredicates(networksNews())).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		Complete(r)
}

// networksNews selects nodes whose routes to other networks, or whose DNS servers, have changed.
func networksNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		return before[wire.AnnotationNetworks] != after[wire.AnnotationNetworks] || before[wire.AnnotationNameservers] != after[wire.AnnotationNameservers]
	}}
}

// peerRangesNews selects keys in which the peer's ranges have changed.
func peerRangesNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[render.AnnotationPeerRanges] != e.ObjectNew.GetAnnotations()[render.AnnotationPeerRanges]
	}}
}

func (r *configurations) ofPeer(ctx context.Context, o client.Object) []reconcile.Request {
	return slices.DeleteFunc(r.all(ctx, o), func(req reconcile.Request) bool { return req.Namespace != o.GetNamespace() })
}

// waiting returns all Configurations if one of the cluster's own ranges has changed, because each may wait
// for such a change.
func (r *configurations) waiting(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.namespace {
		return nil
	}
	return r.all(ctx, o)
}

// all returns all Configurations: each may have a peer's range that overlaps the changed addresses.
func (r *configurations) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &list); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile gives each CIDR of the peer a remapped range.
func (r *configurations) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var conf networkingv1beta1.Configuration
	err := r.client.Get(ctx, req.NamespacedName, &conf)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.cleanUp(ctx, req.NamespacedName)
	}
	if err != nil || conf.DeletionTimestamp != nil {
		return ctrl.Result{}, err
	}
	own, err := clusterNetworks(ctx, r.client, r.namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !own.fixed || len(own.External) == 0 { // a change of these Networks queues the Configuration again
		return ctrl.Result{}, r.report(ctx, &conf, nil, reasonWaiting, "this cluster's own address ranges are not decided yet")
	}
	if err := r.complete(ctx, &conf, own.Networks); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.release(ctx, &conf); err != nil {
		return ctrl.Result{}, err
	}
	moves, err := ranges.NewMoves(ctx, r.client, &conf)
	if err != nil {
		return ctrl.Result{}, err
	}
	remapped, err := r.remapAll(ctx, &conf, moves)
	switch {
	case errors.Is(err, ipam.ErrInvalid):
		return ctrl.Result{}, errors.Join(r.report(ctx, &conf, nil, reasonInvalid, err.Error()), reconcile.TerminalError(err))
	case errors.Is(err, ipam.ErrExhausted):
		// A range becomes free if another peer is removed, or if settings change. Neither causes an event of
		// this Configuration.
		return ctrl.Result{RequeueAfter: roomAgain}, r.report(ctx, &conf, nil, wire.ReasonNoFreeRange, err.Error())
	case err != nil:
		return ctrl.Result{}, err
	}
	// The annotation with both ranges of a renumbering is written before the status. So a reader of
	// the new status also finds both ranges.
	if err := r.tell(ctx, &conf, moves); err != nil {
		return ctrl.Result{}, err
	}
	overlaps, err := r.allocator.Overlaps(ctx, moves)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: moves.Again}, r.report(ctx, &conf, remapped, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured,
		"every CIDR of the peer has an address range here", moves.Conditions(overlaps, conf.Generation)...)
}

// tell publishes both ranges of CIDRs that are being renumbered, for gateways and nodes. It releases the
// ranges that are not needed any more.
func (r *configurations) tell(ctx context.Context, conf *networkingv1beta1.Configuration, m *ranges.Moves) error {
	before := conf.DeepCopy()
	if annotate(conf, wire.AnnotationAlso, wire.JoinAliases(m.Also)); conf.Annotations[wire.AnnotationAlso] != before.Annotations[wire.AnnotationAlso] {
		if err := r.client.Patch(ctx, conf, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("write the ranges of Configuration %s/%s: %w", conf.Namespace, conf.Name, err)
		}
	}
	for _, n := range m.Released {
		if err := control.Delete(ctx, r.client, n); err != nil {
			return err
		}
	}
	return nil
}

// roomAgain is the pause before the operator looks for a free range again.
const roomAgain = time.Minute

// Reasons why a Configuration has no ranges yet. The first reason is Liqo's.
const (
	reasonWaiting = "WaitingForNetworks"
	reasonInvalid = "InvalidCIDR"
)

func (r *configurations) remapAll(ctx context.Context, conf *networkingv1beta1.Configuration, m *ranges.Moves) (*networkingv1beta1.ClusterConfig, error) {
	var remapped, shown networkingv1beta1.ClusterConfigCIDR
	err := ranges.Bounded(conf)
	if err != nil {
		return nil, err
	}
	if conf.Status.Remote != nil {
		shown = conf.Status.Remote.CIDR
	}
	if remapped.Pod, err = r.remap(ctx, conf, ipam.Pods, conf.Spec.Remote.CIDR.Pod, shown.Pod, m); err != nil {
		return nil, err
	}
	if remapped.External, err = r.remap(ctx, conf, ipam.External, conf.Spec.Remote.CIDR.External, shown.External, m); err != nil {
		return nil, err
	}
	return &networkingv1beta1.ClusterConfig{CIDR: remapped}, nil
}

// cleanUp deletes the Networks of a deleted Configuration, as [gateways] does with a gateway's children.
func (r *configurations) cleanUp(ctx context.Context, key client.ObjectKey) error {
	var list ipamv1alpha1.NetworkList
	if err := r.client.List(ctx, &list, client.InNamespace(key.Namespace), client.HasLabels{wire.LabelCIDRType}); err != nil {
		return fmt.Errorf("list Networks of %s: %w", key.Namespace, err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		owner := metav1.GetControllerOf(n)
		if owner == nil || owner.Kind != networkingv1beta1.ConfigurationKind || owner.Name != key.Name {
			continue
		}
		if err := control.Delete(ctx, r.client, n); err != nil {
			return err
		}
	}
	return nil
}

// complete writes three things into the Configuration: this cluster's ranges, the present ranges of the
// peer, and the label by which Liqo before v1.1 recognized a finished Configuration.
func (r *configurations) complete(ctx context.Context, conf *networkingv1beta1.Configuration, own render.Networks) error {
	before := conf.DeepCopy()
	local := networkingv1beta1.ClusterConfigCIDR{Pod: own.Pod, External: own.External}
	if conf.Spec.Local == nil || ranges.Grown(conf.Annotations[render.AnnotationLocalRanges], conf.Spec.Local.CIDR, local) {
		conf.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: local}
		annotate(conf, render.AnnotationLocalRanges, wire.RangesText(local))
	}
	if err := r.follow(ctx, conf); err != nil {
		return err
	}
	if conf.Labels == nil {
		conf.Labels = map[string]string{}
	}
	conf.Labels[wire.LabelConfigured] = "true"
	if equality.Semantic.DeepEqual(before, conf) {
		return nil
	}
	if err := r.client.Patch(ctx, conf, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("complete Configuration %s/%s: %w", conf.Namespace, conf.Name, err)
	}
	return nil
}

// follow copies the ranges that the peer's operator has published into the Configuration.
func (r *configurations) follow(ctx context.Context, conf *networkingv1beta1.Configuration) error {
	var keys networkingv1beta1.PublicKeyList
	peer := conf.Labels[wire.LabelRemoteCluster]
	if err := r.client.List(ctx, &keys, client.InNamespace(conf.Namespace), client.MatchingLabels{wire.LabelRemoteCluster: peer}); err != nil {
		return fmt.Errorf("list the PublicKeys of %s: %w", peer, err)
	}
	for i := range keys.Items {
		text := keys.Items[i].Annotations[render.AnnotationPeerRanges]
		if text == "" {
			continue
		}
		more, err := ranges.Additional(conf.Spec.Remote.CIDR, wire.ParseRanges(text))
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("the peer's ranges stay as an admin has agreed to them", "peer", peer, "said", text, "because", err.Error())
			return nil
		}
		if len(more) == 0 {
			return nil
		}
		conf.Spec.Remote.CIDR.Pod = append(slices.Clone(conf.Spec.Remote.CIDR.Pod), more...)
		carried := append(ranges.Carried(conf), more...)
		annotate(conf, render.AnnotationCarriedRanges, flatten(carried))
		return nil
	}
	return nil
}

func flatten(all []networkingv1beta1.CIDR) string {
	return strings.TrimSuffix(wire.RangesText(networkingv1beta1.ClusterConfigCIDR{Pod: all}), ";")
}

// release deletes the Networks of CIDRs that are not in the Configuration any more.
func (r *configurations) release(ctx context.Context, conf *networkingv1beta1.Configuration) error {
	wanted := map[string]bool{}
	for _, cidr := range conf.Spec.Remote.CIDR.Pod {
		wanted[networkName(conf, ipam.Pods, cidr)], wanted[otherName(conf, ipam.Pods, cidr)] = true, true
	}
	for _, cidr := range conf.Spec.Remote.CIDR.External {
		wanted[networkName(conf, ipam.External, cidr)], wanted[otherName(conf, ipam.External, cidr)] = true, true
	}
	var list ipamv1alpha1.NetworkList
	if err := r.client.List(ctx, &list, client.InNamespace(conf.Namespace), client.HasLabels{wire.LabelCIDRType}); err != nil {
		return fmt.Errorf("list Networks of %s: %w", conf.Namespace, err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		if !metav1.IsControlledBy(n, conf) || wanted[n.Name] {
			continue
		}
		if err := control.Delete(ctx, r.client, n); err != nil {
			return err
		}
	}
	return nil
}

// remap returns the ranges under which the peer is seen. If a range has to be replaced, it takes the next
// step of the replacement. shown are the ranges in the present status.
func (r *configurations) remap(ctx context.Context, conf *networkingv1beta1.Configuration, kind string, cidrs, shown []networkingv1beta1.CIDR, m *ranges.Moves) ([]networkingv1beta1.CIDR, error) {
	out := make([]networkingv1beta1.CIDR, 0, len(cidrs))
	for _, cidr := range cidrs {
		p, err := r.pair(ctx, conf, kind, cidr, shown)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		step, again := p.Next(m.Asked, m.Ready(p, cidr), now)
		switch step {
		case ranges.Begin:
			if p.Other == nil {
				name := networkName(conf, kind, cidr)
				if p.Current.Name == name {
					name = otherName(conf, kind, cidr)
				}
				if p.Other, err = r.network(ctx, conf, kind, cidr, name); err != nil {
					return nil, err
				}
			}
			if err := r.assign(ctx, conf, p.Other, m.Asked.Leave...); m.Fail(err) {
				p.Other = nil // the present range stays
			} else if err != nil {
				return nil, err
			}
		case ranges.Switch:
			before := p.Current.DeepCopy()
			annotate(p.Current, wire.AnnotationLeft, now.UTC().Format(time.RFC3339))
			if err := r.client.Patch(ctx, p.Current, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
				return nil, fmt.Errorf("record that Network %s/%s is left: %w", p.Current.Namespace, p.Current.Name, err)
			}
			again = m.Asked.Keep
			p.Swap()
		case ranges.Rest, ranges.Prepare, ranges.Keep, ranges.Release:
		}
		m.Note(p, cidr, step, again, now)
		out = append(out, p.Current.Status.CIDR)
	}
	return out, nil
}

// pair returns the Networks of one CIDR, and makes the first one if both are missing. The range in the status
// is the current one, so one write of the status switches between the two.
func (r *configurations) pair(ctx context.Context, conf *networkingv1beta1.Configuration, kind string, cidr networkingv1beta1.CIDR, shown []networkingv1beta1.CIDR) (p ranges.Pair, err error) {
	if p, err := netip.ParsePrefix(string(cidr)); err != nil || !p.Addr().Is4() || p.Masked() != p {
		return ranges.Pair{}, fmt.Errorf("remote %s CIDR %q: %w", kind, cidr, ipam.ErrInvalid)
	}
	name := networkName(conf, kind, cidr)
	if p.Current, err = r.find(ctx, conf, name); err != nil {
		return p, err
	}
	if p.Other, err = r.find(ctx, conf, otherName(conf, kind, cidr)); err != nil {
		return p, err
	}
	switch {
	case p.Current == nil && p.Other != nil:
		p.Swap()
	case p.Current == nil:
		if p.Current, err = r.network(ctx, conf, kind, cidr, name); err != nil {
			return p, err
		}
	case p.Other != nil && p.Other.Status.CIDR != "" && slices.Contains(shown, p.Other.Status.CIDR):
		p.Swap()
	}
	return p, r.assign(ctx, conf, p.Current)
}

func (r *configurations) assign(ctx context.Context, conf *networkingv1beta1.Configuration, n *ipamv1alpha1.Network, left ...netip.Prefix) error {
	if n.Status.CIDR != "" {
		return nil
	}
	got, err := r.allocator.Assign(ctx, n, left...)
	if err != nil {
		return fmt.Errorf("remap %s CIDR %s of %s: %w", n.Labels[wire.LabelCIDRType], n.Spec.CIDR, conf.Name, err)
	}
	return ranges.Record(ctx, r.client, n, got)
}

func (r *configurations) find(ctx context.Context, conf *networkingv1beta1.Configuration, name string) (*ipamv1alpha1.Network, error) {
	n := &ipamv1alpha1.Network{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: conf.Namespace, Name: name}, n)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && !metav1.IsControlledBy(n, conf) && metav1.GetControllerOf(n) != nil {
		// The Network belongs to an earlier Configuration of this name: the garbage collector would delete it
		// later, while it is in use. The allocator gives the new Network the same range.
		return nil, control.Delete(ctx, r.client, n)
	}
	return n, err
}

func (r *configurations) network(ctx context.Context, conf *networkingv1beta1.Configuration, kind string, cidr networkingv1beta1.CIDR, name string) (*ipamv1alpha1.Network, error) {
	n := render.Network(conf.Namespace, name, "", string(cidr), 0)
	conf.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind))
	n.OwnerReferences = []metav1.OwnerReference{render.OwnerReference(conf)}
	n.Labels = map[string]string{
		wire.LabelCIDRType: kind, wire.LabelManagedBy: FieldManager,
		wire.LabelRemoteCluster: conf.Labels[wire.LabelRemoteCluster],
	}
	unasked, err := r.unasked(ctx, conf, cidr)
	if err != nil {
		return nil, err
	}
	if unasked {
		annotate(n, render.AnnotationCarriedRanges, "true")
	}
	err = r.client.Create(ctx, n)
	if apierrors.IsAlreadyExists(err) { // the cache is outdated
		return n, r.reader.Get(ctx, client.ObjectKeyFromObject(n), n)
	}
	if err != nil {
		return nil, fmt.Errorf("create Network %s/%s: %w", n.Namespace, n.Name, err)
	}
	return n, nil
}

// unasked reports whether a range possibly has no agreement of this cluster's admins: the peer's operator
// has sent it, or the peer's admin has an account here and may have written it. A Configuration does not
// prove which of the two admins has written it.
func (r *configurations) unasked(ctx context.Context, conf *networkingv1beta1.Configuration, cidr networkingv1beta1.CIDR) (bool, error) {
	if slices.Contains(ranges.Carried(conf), cidr) {
		return true, nil
	}
	account := client.ObjectKey{Namespace: conf.Namespace, Name: peering.UserName}
	err := r.reader.Get(ctx, account, &corev1.ServiceAccount{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for the account of the peer's admin, ServiceAccount %s: %w", account, err)
	}
	return err == nil, nil
}

func networkName(conf *networkingv1beta1.Configuration, kind string, cidr networkingv1beta1.CIDR) string {
	return conf.Name + "-" + kind + "-" + strings.NewReplacer(".", "-", "/", "-").Replace(string(cidr))
}

// otherName is the name of the second Network, while a peer is seen under two ranges. Afterwards the second
// Network is the only one.
func otherName(conf *networkingv1beta1.Configuration, kind string, cidr networkingv1beta1.CIDR) string {
	return networkName(conf, kind, cidr) + "-renumbered"
}

// report writes the Configuration's status if it has changed. It sets the true conditions of the parameter
// more, and removes its other conditions from the status.
func (r *configurations) report(ctx context.Context, conf *networkingv1beta1.Configuration, remote *networkingv1beta1.ClusterConfig, reason, message string, more ...metav1.Condition) error {
	before := conf.DeepCopy()
	// DeepCopy of Liqo v1.2.0 shares the conditions. Without this clone, a new condition would also appear
	// in the cache's object and in before. Then the patch would not contain the condition.
	conf.Status.Conditions = slices.Clone(conf.Status.Conditions)
	status := metav1.ConditionTrue
	if remote == nil {
		status = metav1.ConditionFalse
	} else if conf.Status.Remote == nil || !slices.Equal(conf.Status.Remote.CIDR.Pod, remote.CIDR.Pod) ||
		!slices.Equal(conf.Status.Remote.CIDR.External, remote.CIDR.External) {
		conf.Status.Remote = remote
	}
	meta.SetStatusCondition(&conf.Status.Conditions, metav1.Condition{
		Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: status,
		Reason: reason, Message: message, ObservedGeneration: conf.Generation,
	})
	for _, c := range more {
		if c.Status == metav1.ConditionTrue {
			meta.SetStatusCondition(&conf.Status.Conditions, c)
		} else {
			meta.RemoveStatusCondition(&conf.Status.Conditions, c.Type)
		}
	}
	if equality.Semantic.DeepEqual(before.Status, conf.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, conf, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("report on Configuration %s/%s: %w", conf.Namespace, conf.Name, err)
	}
	return nil
}
