package kube

import (
	"context"
	"fmt"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// RangeError says that a cluster's address range can't be changed now.
type RangeError struct {
	Network    string // namespace/name
	Have, Want networkingv1beta1.CIDR
	Peers      int
	Hosts      int    // IPs that have an address of the range
	HaveFrom   string // what stated the range that it has, "" if nothing says so
}

func (e *RangeError) Error() string {
	from, why := string(e.Have), fmt.Sprintf("peers that were told the former: %d", e.Peers)
	if e.HaveFrom != "" {
		from += " (" + e.HaveFrom + ")"
	}
	if e.Peers == 0 {
		why = fmt.Sprintf("IPs with an address of the former: %d", e.Hosts)
	}
	if e.Want == "" {
		return fmt.Sprintf("remove Network %s, %s, which is not stated: %s", e.Network, from, why)
	}
	return fmt.Sprintf("change Network %s from %s to %s: %s", e.Network, from, e.Want, why)
}

// Hint says how to go on.
func (e *RangeError) Hint() string {
	if e.Peers == 0 {
		return "delete these first (kubectl get ips.ipam.liqo.io -A lists them), then install again"
	}
	return "run liqo-tui network reset for each peer first (liqo-tui info lists them), then install again"
}

// replaceAttempts bounds the race with the operator, which discovers a range
// again as soon as its Network is gone.
const replaceAttempts = 10

// replaceRanges has the ranges that an admin states win over those that the
// operator found, and over those that were stated before: a Network's range can't
// be changed, so another one takes its place.
func (c *Cluster) replaceRanges(ctx context.Context, objects []render.Object) ([]flows.Change, error) {
	surplus, err := c.surplus(ctx, objects)
	if err != nil {
		return nil, err
	}
	for i := range surplus { // said before anything is changed
		if surplus[i].Labels[render.LabelNetworkType] == render.NetworkReserved {
			continue // no peer was told of it
		}
		if err := c.mayReplace(ctx, &surplus[i], &ipamv1alpha1.Network{}); err != nil {
			return nil, err
		}
	}
	var changes []flows.Change
	for _, o := range objects {
		want, ok := o.(*ipamv1alpha1.Network)
		if !ok || want.Labels[render.LabelNetworkType] == "" || want.Labels[render.LabelNetworkType] == render.NetworkReserved {
			continue
		}
		more, err := c.replaceRange(ctx, want)
		changes = append(changes, more...)
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// surplus are the Networks of pods or Services beside those that an admin states
// of the same kind: what the operator found, or was stated before.
func (c *Cluster) surplus(ctx context.Context, objects []render.Object) ([]ipamv1alpha1.Network, error) {
	stated, names := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		if n, ok := o.(*ipamv1alpha1.Network); ok && n.Labels[render.LabelNotRemapped] == "true" {
			stated[n.Labels[render.LabelNetworkType]], names[n.Name] = true, true
		}
	}
	if len(stated) == 0 {
		return nil, nil
	}
	all, err := c.ownRanges(ctx)
	return slices.DeleteFunc(all, func(n ipamv1alpha1.Network) bool {
		return names[n.Name] || !stated[n.Labels[render.LabelNetworkType]]
	}), err
}

// ownRanges are the Networks that we made of the cluster's pods and Services.
func (c *Cluster) ownRanges(ctx context.Context) ([]ipamv1alpha1.Network, error) {
	var list ipamv1alpha1.NetworkList
	err := c.client.List(ctx, &list, client.InNamespace(c.namespace), client.HasLabels{render.LabelNetworkType},
		client.MatchingLabels{render.LabelNotRemapped: "true", render.LabelManagedBy: render.ManagedBy})
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list this cluster's Networks: %w", err)
	}
	return list.Items, nil
}

// dropRanges deletes what is beside the ranges that an admin states. Those are
// there already: otherwise the operator would make again what it has found.
func (c *Cluster) dropRanges(ctx context.Context, objects []render.Object) ([]flows.Change, error) {
	surplus, err := c.surplus(ctx, objects)
	if err != nil {
		return nil, err
	}
	var gone []render.Object
	for i := range surplus {
		gone = append(gone, &surplus[i])
	}
	return c.Delete(ctx, gone)
}

// withRanges adds to what [render.Install] makes the Networks that the operator
// made beside the first of each kind.
func (c *Cluster) withRanges(ctx context.Context, objects []render.Object) ([]render.Object, error) {
	first := slices.IndexFunc(objects, func(o render.Object) bool { _, ok := o.(*ipamv1alpha1.Network); return ok })
	all, err := c.ownRanges(ctx)
	if err != nil || first < 0 {
		return objects, err
	}
	objects = slices.Clone(objects)
	for i := range all {
		n := &all[i]
		n.SetGroupVersionKind(ipamv1alpha1.SchemeGroupVersion.WithKind(ipamv1alpha1.NetworkKind))
		if !slices.ContainsFunc(objects, func(o render.Object) bool { return render.Name(o) == render.Name(n) }) {
			objects = slices.Insert(objects, first, render.Object(n))
		}
	}
	return objects, nil
}

func (c *Cluster) replaceRange(ctx context.Context, want *ipamv1alpha1.Network) ([]flows.Change, error) {
	for range replaceAttempts {
		var live ipamv1alpha1.Network
		err := c.client.Get(ctx, client.ObjectKeyFromObject(want), &live)
		if apierrors.IsNotFound(err) || err == nil && live.Spec.CIDR == want.Spec.CIDR {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", render.Name(want), err)
		}
		if err := c.mayReplace(ctx, &live, want); err != nil {
			return nil, err
		}
		if _, err := c.Delete(ctx, []render.Object{&live}); apierrors.IsConflict(err) {
			continue // there is another one by now, perhaps the operator's
		} else if err != nil {
			return nil, err
		}
		changes, err := c.Apply(ctx, []render.Object{want})
		if err == nil || !apierrors.IsInvalid(err) { // "immutable": the operator was faster
			return changes, err
		}
	}
	return nil, fmt.Errorf("change %s to %s: the operator makes it again each time it is deleted", render.Name(want), want.Spec.CIDR)
}

func (c *Cluster) mayReplace(ctx context.Context, live, want *ipamv1alpha1.Network) error {
	var peers networkingv1beta1.ConfigurationList
	if err := c.client.List(ctx, &peers); err != nil {
		return fmt.Errorf("list Configurations: %w", err)
	}
	hosts := 0
	if want.Labels[render.LabelNetworkType] == render.NetworkExternalCIDR {
		var err error
		if hosts, err = c.hosts(ctx); err != nil {
			return err
		}
	}
	if len(peers.Items) == 0 && hosts == 0 {
		return nil
	}
	return &RangeError{
		Network: live.Namespace + "/" + live.Name, Have: live.Spec.CIDR, Want: want.Spec.CIDR,
		Peers: len(peers.Items), Hosts: hosts, HaveFrom: live.Annotations[render.AnnotationSource],
	}
}

// hosts counts the IPs that have an address: they keep it for their life.
func (c *Cluster) hosts(ctx context.Context) (int, error) {
	var ips ipamv1alpha1.IPList
	if err := c.client.List(ctx, &ips); err != nil {
		return 0, fmt.Errorf("list IPs: %w", err)
	}
	n := 0
	for i := range ips.Items {
		if ips.Items[i].Status.IP != "" {
			n++
		}
	}
	return n, nil
}
