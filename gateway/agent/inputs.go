package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// read collects the inputs from which the tunnel's state is computed.
func (g *gatewayAgent) read(ctx context.Context) (tunnel.Wanted, setup, error) {
	in := gateway.Inputs{PodIP: g.options.PodIP, NodeIP: g.options.NodeIP, Services: g.options.Services != ""}
	var s setup
	peer := gateway.Peer{ClusterID: string(g.options.Gateway.Tenant.Remote), Role: g.options.Role}
	// This input is read first, because the report contains it even if another input is missing.
	endpoints, err := g.readGateway(ctx, &peer, &s)
	if err != nil {
		return tunnel.Wanted{}, s, err
	}
	if err := g.readPublicKey(ctx, &peer); err != nil {
		return tunnel.Wanted{}, s, err
	}
	s.hasKey = peer.PublicKey != wgtypes.Key{}
	if err := g.readNetworks(ctx, &in, &peer); err != nil {
		return tunnel.Wanted{}, s, err
	}
	if err := g.readHosts(ctx, &in); err != nil {
		return tunnel.Wanted{}, s, err
	}
	if peer.Closed {
		if peer.Open, err = g.readOpen(ctx, in.Local); err != nil {
			return tunnel.Wanted{}, s, err
		}
		if g.services != nil && s.allow == wire.AllowExported.String() {
			peer.Open = append(peer.Open, g.services.open()...)
		}
	}
	if in.Nodes, s.unfit, s.nodes, err = g.nodes.list(time.Now()); err != nil {
		return tunnel.Wanted{}, s, err
	}
	if i := slices.IndexFunc(in.Nodes, func(n gateway.Node) bool { return n.Name == g.options.NodeName }); i >= 0 && !in.NodeIP.Is4() {
		in.NodeIP = in.Nodes[i].IP
	}
	if in.UnderlayMTU, err = linux.MTUTo(in.NodeIP); err != nil {
		return tunnel.Wanted{}, s, err
	}
	in, unfit := in.Fitting()
	s.unfit = append(s.unfit, unfit...)
	slices.SortStableFunc(s.unfit, func(a, b gateway.UnfitNode) int { return cmp.Compare(a.Name, b.Name) })
	peer.PrivateKey = g.readPrivateKey(ctx)
	in.Peers = []gateway.Peer{peer}
	return tunnel.Wanted{Inputs: in, Endpoints: endpoints, Dials: len(endpoints) > 0}, s, nil
}

// readPrivateKey returns the key in the gateway's Secret. If the Secret was deleted or
// damaged, it returns the last key, because a working tunnel must not end for this reason.
func (g *gatewayAgent) readPrivateKey(ctx context.Context) gateway.PrivateKey {
	var secret corev1.Secret
	name := client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: wire.GatewayObjectName(g.options.Gateway.Name)}
	if err := g.client.Get(ctx, name, &secret); err != nil {
		return g.key
	}
	key, err := wgtypes.NewKey(secret.Data[wire.SecretPrivateKey])
	if err != nil {
		g.options.Log.Error("the Secret's key can't be used; the gateway keeps the previous key", "error", err)
		return g.key
	}
	g.key = gateway.PrivateKey(key)
	return g.key
}

var (
	errNoConfiguration = errors.New("waiting for a Configuration with the addresses that are assigned to the peer")
	errAmbiguous       = errors.New("ambiguous")
)

func (g *gatewayAgent) readNetworks(ctx context.Context, in *gateway.Inputs, peer *gateway.Peer) error {
	var list networkingv1beta1.ConfigurationList
	if err := g.client.List(ctx, &list, g.ofPeer()...); err != nil {
		return fmt.Errorf("list Configurations: %w", err)
	}
	if len(list.Items) == 0 || list.Items[0].Status.Remote == nil || list.Items[0].Spec.Local == nil {
		return errNoConfiguration
	}
	c := &list.Items[0]
	var err error
	if in.Local, err = cidrs("this cluster", c.Spec.Local.CIDR); err != nil {
		return err
	}
	if peer.Real, err = cidrs("the peer", c.Spec.Remote.CIDR); err != nil {
		return err
	}
	if peer.Remapped, err = cidrs("the peer as seen from here", c.Status.Remote.CIDR); err != nil {
		return err
	}
	also, err := wire.ParseAliases(c)
	for _, a := range also {
		peer.Also = append(peer.Also, gateway.Alias(a))
	}
	return err
}

func cidrs(whose string, c networkingv1beta1.ClusterConfigCIDR) (out gateway.CIDRs, err error) {
	if out.Pod, err = prefixes("pod CIDRs of "+whose, c.Pod); err != nil {
		return out, err
	}
	out.External, err = prefixes("external CIDRs of "+whose, c.External)
	return out, err
}

// readHosts reads the hosts outside of the cluster that the peer may reach.
func (g *gatewayAgent) readHosts(ctx context.Context, in *gateway.Inputs) error {
	var cm corev1.ConfigMap
	key := client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: wire.HostsConfigMapName(g.options.Gateway.Name)}
	if err := g.client.Get(ctx, key, &cm); err != nil {
		return fmt.Errorf("read the hosts that the peer may reach: %w", err)
	}
	hosts, err := render.ParseHosts(&cm)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		in.Hosts = append(in.Hosts, gateway.Host(h))
	}
	return nil
}

// readOpen returns the endpoints that stay open if everything else is closed to the peer: the pods of a test
// of the connection. They are in the gateway's own namespace, so its admins decide about tests.
func (g *gatewayAgent) readOpen(ctx context.Context, local gateway.CIDRs) ([]gateway.Endpoint, error) {
	var pods corev1.PodList
	err := g.client.List(ctx, &pods, client.InNamespace(g.options.Gateway.Tenant.Namespace), client.MatchingLabels(render.ProbeLabels(g.options.Gateway.Tenant.Remote)))
	if err != nil {
		return nil, fmt.Errorf("list the pods of a test: %w", err)
	}
	var open []gateway.Endpoint
	for i := range pods.Items {
		p := &pods.Items[i]
		ip, err := netip.ParseAddr(wire.PodIPv4(p))
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if err != nil || over || p.Spec.HostNetwork || !slices.ContainsFunc(local.Pod, func(c netip.Prefix) bool { return c.Contains(ip) }) {
			continue
		}
		open = append(open, gateway.Endpoint{Addr: ip, Protocol: gateway.TCP, Port: render.ProbePort}, gateway.Endpoint{Addr: ip, Protocol: gateway.UDP, Port: render.ProbePort})
	}
	return open, nil
}

// readPublicKey sets the peer's public key, if it is known.
func (g *gatewayAgent) readPublicKey(ctx context.Context, peer *gateway.Peer) error {
	var list networkingv1beta1.PublicKeyList
	if err := g.client.List(ctx, &list, g.ofPeer()...); err != nil {
		return fmt.Errorf("list PublicKeys: %w", err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	if len(list.Items) > 1 {
		return fmt.Errorf("%w: PublicKeys %s and %s are both labelled as the key of %s; delete the wrong one", errAmbiguous,
			list.Items[0].Name, list.Items[1].Name, peer.ClusterID)
	}
	found := &list.Items[0]
	var err error
	if peer.PublicKey, err = wgtypes.NewKey(found.Spec.PublicKey); err != nil {
		return fmt.Errorf("PublicKey %s: %w", found.Name, err)
	}
	if next := found.Annotations[wire.AnnotationNextPublicKey]; next != "" {
		if peer.NextKey, err = wgtypes.ParseKey(next); err != nil {
			return fmt.Errorf("PublicKey %s: annotation %s: %w", found.Name, wire.AnnotationNextPublicKey, err)
		}
	}
	return nil
}

// ofPeer selects the objects of this gateway's peer.
func (g *gatewayAgent) ofPeer() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(g.options.Gateway.Tenant.Namespace),
		client.MatchingLabels{wire.LabelRemoteCluster: string(g.options.Gateway.Tenant.Remote)},
	}
}

// readGateway reads this gateway's own object, and returns the addresses to dial. A client
// dials its server. A server only dials its relay, if there is one.
func (g *gatewayAgent) readGateway(ctx context.Context, peer *gateway.Peer, s *setup) ([]netip.AddrPort, error) {
	object := g.kind()
	key := client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: g.options.Gateway.Name}
	if err := g.client.Get(ctx, key, object); err != nil {
		return nil, fmt.Errorf("read the gateway: %w", err)
	}
	s.generation = object.GetGeneration()
	allow, err := wire.AllowOf(object)
	if err != nil {
		return nil, err
	}
	s.allow, peer.Closed = allow.String(), allow != wire.AllowAll
	switch o := object.(type) {
	case *networkingv1beta1.GatewayServer:
		widths(peer, o.Spec.MTU)
		peer.ListenPort = uint16(o.Spec.Endpoint.Port)
		s.port = peer.ListenPort
		if text := wire.RelayOf(o); text != "" {
			relay, err := wire.ParseRelay(text)
			if err != nil {
				return nil, fmt.Errorf("annotation %s: %w", wire.AnnotationRelay, err)
			}
			_, own := relay.Ends()
			return g.find(ctx, own, peer, s), nil
		}
		g.mu.Lock()
		peer.Endpoint = g.past.seen
		g.mu.Unlock()
	case *networkingv1beta1.GatewayClient:
		widths(peer, o.Spec.MTU)
		return g.find(ctx, o.Spec.Endpoint, peer, s), nil
	}
	return nil, nil
}

// find returns the addresses to dial. If no name has an address now, it returns the last
// known addresses, because a working tunnel must not end for this reason.
func (g *gatewayAgent) find(ctx context.Context, e networkingv1beta1.EndpointStatus, peer *gateway.Peer, s *setup) []netip.AddrPort {
	if len(e.Addresses) == 0 {
		return nil
	}
	s.endpoint = fmt.Sprintf("UDP %s port %d", strings.Join(e.Addresses, ", "), e.Port)
	var found []netip.AddrPort
	found, s.named, s.resolve = resolve(ctx, g.names, e.Addresses, uint16(e.Port))
	if s.outdated = len(found) == 0; !s.outdated {
		g.endpoints = found
	}
	if len(g.endpoints) > 0 {
		peer.Endpoint = g.endpoints[0]
	}
	return g.endpoints
}

// widths sets the MTU of a tunnel. If it is the largest possible MTU, the gateways find the longest packet of
// the path. Until then, they send packets of a length that nearly every path carries.
func widths(p *gateway.Peer, mtu int) {
	p.MTU = mtu
	if mtu == wire.MaxMTU {
		p.UnprovenMTU = wire.DefaultMTU
	}
}

// resolveTimeout is the time limit for all names of a gateway together.
const resolveTimeout = 3 * time.Second

// resolver looks up the IP addresses of a name. net.Resolver is an implementation.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolve returns the addresses to dial for hosts, which are IP addresses or DNS names, in the
// same order. The error names the hosts without an address. named means that at least one
// host is a name, so that the addresses can change.
func resolve(ctx context.Context, r resolver, hosts []string, port uint16) (found []netip.AddrPort, named bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var errs []error
	add := func(ip netip.Addr) {
		if e := netip.AddrPortFrom(ip.Unmap(), port); !slices.Contains(found, e) {
			found = append(found, e)
		}
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			if !ip.Unmap().Is4() {
				errs = append(errs, fmt.Errorf("the server's address %s: %w", host, gateway.ErrIPv6))
				continue
			}
			add(ip)
			continue
		}
		named = true
		ips, err := r.LookupNetIP(ctx, "ip4", host)
		if err != nil {
			errs = append(errs, fmt.Errorf("resolve the server's address: %w", err))
			continue
		}
		// DNS servers can return the same addresses in another order each time.
		slices.SortFunc(ips, netip.Addr.Compare)
		for _, ip := range ips {
			add(ip)
		}
	}
	return found, named, errors.Join(errs...)
}
