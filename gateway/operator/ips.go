package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ips gives each IP resource an address of this cluster's external CIDR. All peers reach the host of the
// resource under this address. This needs no message, because their Configuration contains the external CIDR.
//
// Liqo's fields networkRef and serviceTemplate are refused. Packets to a host that is no pod leave a node
// with the node's own address as source, as in Liqo, because the host has no route to a remote pod.
type ips struct {
	client    client.Client
	reader    client.Reader // not cached, because a list must contain the latest addresses
	namespace string        // of the cluster's Networks
}

func (r *ips) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("ip").
		WithOptions(workers(1)).
		For(&ipamv1alpha1.IP{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.waiting)).
		Complete(r)
}

// waiting returns the IPs that depend on Network o: IPs without an address, and the IP of the proxy.
func (r *ips) waiting(ctx context.Context, o client.Object) []reconcile.Request {
	var list ipamv1alpha1.IPList
	if o.GetNamespace() != r.namespace || r.client.List(ctx, &list) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.IP == "" || peering.IsProxy(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

var errNotSupported = errors.New("not supported")

// Reconcile writes an IP's status once, for the life of the IP. There is one worker, because two would
// choose the same address.
func (r *ips) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ip ipamv1alpha1.IP
	if err := r.client.Get(ctx, req.NamespacedName, &ip); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ip.DeletionTimestamp != nil || ip.Status.IP != "" && !peering.IsProxy(&ip) {
		return ctrl.Result{}, nil
	}
	if err := checkIP(&ip); err != nil {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("IP %s: %w", req, err))
	}
	own, err := clusterNetworks(ctx, r.client, r.namespace)
	if err != nil || len(own.External) == 0 { // a change of the Network queues the IP again
		return ctrl.Result{}, err
	}
	switch {
	case ip.Status.IP == "":
	case slices.Contains(own.External, ip.Status.CIDR):
		return ctrl.Result{}, nil
	default: // its controller creates it again, with an address of the present range
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, &ip, client.Preconditions{UID: &ip.UID}))
	}
	var all ipamv1alpha1.IPList
	if err := r.reader.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("list IPs: %w", err)
	}
	address, cidr, err := freeAddress(own.External, all.Items)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("IP %s: %w", req, err)
	}
	before := ip.DeepCopy()
	ip.Status = ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(address.String()), CIDR: cidr}
	if err := r.client.Status().Patch(ctx, &ip, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return ctrl.Result{}, fmt.Errorf("record %s as address of IP %s: %w", address, req, err)
	}
	return ctrl.Result{}, nil
}

func checkIP(ip *ipamv1alpha1.IP) error {
	if _, ok := hostAddress(ip); !ok {
		return fmt.Errorf("%q is not the IPv4 address of a host", ip.Spec.IP)
	}
	if ip.Spec.NetworkRef != nil {
		return fmt.Errorf("networkRef: %w: addresses come from the external CIDR", errNotSupported)
	}
	if ip.Spec.ServiceTemplate != nil {
		return fmt.Errorf("serviceTemplate: %w", errNotSupported)
	}
	return nil
}

func hostAddress(ip *ipamv1alpha1.IP) (netip.Addr, bool) {
	a, err := netip.ParseAddr(string(ip.Spec.IP))
	return a, err == nil && a.Is4() && a.IsGlobalUnicast()
}

var errNoAddress = errors.New("no address of the external CIDR is free")

// freeAddress returns the lowest address that no IP has. The first address of a range is for the nodes, and
// the last one could be mistaken for a broadcast.
func freeAddress(external []networkingv1beta1.CIDR, given []ipamv1alpha1.IP) (netip.Addr, networkingv1beta1.CIDR, error) {
	taken := make(map[networkingv1beta1.IP]bool, len(given))
	for i := range given {
		taken[given[i].Status.IP] = true
	}
	for _, cidr := range external {
		p, err := netip.ParsePrefix(string(cidr))
		if err != nil {
			return netip.Addr{}, "", fmt.Errorf("external CIDR: %w", err)
		}
		for a := p.Addr().Next(); p.Contains(a.Next()); a = a.Next() {
			if !taken[networkingv1beta1.IP(a.String())] {
				return a, cidr, nil
			}
		}
	}
	return netip.Addr{}, "", errNoAddress
}

// readHosts returns the hosts of the IPs that have an address. The IP of the API server's proxy names its
// Service, but here it gets the address of this pod: a node that forwards a Service's packets to a pod on
// another node would not see the answers.
func (r *gateways) readHosts(ctx context.Context, reader client.Reader) ([]render.Host, error) {
	var list ipamv1alpha1.IPList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list IPs: %w", err)
	}
	var hosts []render.Host
	for i := range list.Items {
		ip := &list.Items[i]
		real, ok := hostAddress(ip)
		external, err := netip.ParseAddr(string(ip.Status.IP))
		if !ok || err != nil || ip.DeletionTimestamp != nil || ip.Labels[wire.LabelHostUnreachable] == "true" {
			continue
		}
		if ip.Namespace == r.home && peering.IsProxy(ip) && r.pod.IsValid() {
			real = r.pod
		}
		hosts = append(hosts, render.Host{External: external, Real: real})
	}
	slices.SortFunc(hosts, func(a, b render.Host) int { return cmp.Or(a.External.Compare(b.External), a.Real.Compare(b.Real)) })
	return hosts, nil
}
