package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/render"
)

// read collects what the tunnel is computed from.
func (t *tunnel) read(ctx context.Context) (gateway.Inputs, setup, error) {
	in := gateway.Inputs{PodIP: t.options.PodIP}
	var s setup
	peer := gateway.Peer{ClusterID: string(t.options.Gateway.Tenant.Remote), Role: t.options.Role, PrivateKey: t.key}
	var err error
	if in.UnderlayMTU, err = linux.UnderlayMTU(); err != nil {
		return in, s, err
	}
	if err := t.readNetworks(ctx, &in, &peer); err != nil {
		return in, s, err
	}
	if in.Nodes, err = t.readNodes(ctx); err != nil {
		return in, s, err
	}
	if peer.PublicKey, err = t.readPublicKey(ctx); err != nil {
		return in, s, err
	}
	if err := t.readGateway(ctx, &peer, &s); err != nil {
		return in, s, err
	}
	s.hasKey, s.mtu = peer.PublicKey != wgtypes.Key{}, peer.MTU
	in.Peers = []gateway.Peer{peer}
	return in, s, nil
}

var errNoConfiguration = errors.New("no Configuration says which addresses the peer has, or its CIDRs are not assigned yet")

func (t *tunnel) readNetworks(ctx context.Context, in *gateway.Inputs, peer *gateway.Peer) error {
	var list networkingv1beta1.ConfigurationList
	if err := t.client.List(ctx, &list, t.ofPeer()...); err != nil {
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
	peer.Remapped, err = cidrs("the peer as seen from here", c.Status.Remote.CIDR)
	return err
}

func cidrs(whose string, c networkingv1beta1.ClusterConfigCIDR) (out gateway.CIDRs, err error) {
	if out.Pod, err = prefixes("pod CIDRs of "+whose, c.Pod); err != nil {
		return out, err
	}
	out.External, err = prefixes("external CIDRs of "+whose, c.External)
	return out, err
}

func (t *tunnel) readNodes(ctx context.Context) ([]gateway.Node, error) {
	var cm corev1.ConfigMap
	key := client.ObjectKey{Namespace: t.options.Gateway.Tenant.Namespace, Name: render.NodesConfigMapName(t.options.Gateway.Name)}
	if err := t.client.Get(ctx, key, &cm); err != nil {
		return nil, fmt.Errorf("read the cluster's nodes: %w", err)
	}
	listed, err := render.ParseNodes(&cm)
	if err != nil {
		return nil, err
	}
	nodes := make([]gateway.Node, len(listed))
	for i, n := range listed {
		nodes[i] = gateway.Node(n)
	}
	return nodes, nil
}

// readPublicKey finds the peer's key; the zero key when there is none yet.
func (t *tunnel) readPublicKey(ctx context.Context) (wgtypes.Key, error) {
	var list networkingv1beta1.PublicKeyList
	if err := t.client.List(ctx, &list, t.ofPeer()...); err != nil {
		return wgtypes.Key{}, fmt.Errorf("list PublicKeys: %w", err)
	}
	if len(list.Items) == 0 {
		return wgtypes.Key{}, nil
	}
	key, err := wgtypes.NewKey(list.Items[0].Spec.PublicKey)
	if err != nil {
		return wgtypes.Key{}, fmt.Errorf("PublicKey %s: %w", list.Items[0].Name, err)
	}
	return key, nil
}

func (t *tunnel) ofPeer() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(t.options.Gateway.Tenant.Namespace),
		client.MatchingLabels{render.LabelRemoteCluster: string(t.options.Gateway.Tenant.Remote)},
	}
}

func (t *tunnel) readGateway(ctx context.Context, peer *gateway.Peer, s *setup) error {
	object := t.kind()
	key := client.ObjectKey{Namespace: t.options.Gateway.Tenant.Namespace, Name: t.options.Gateway.Name}
	if err := t.client.Get(ctx, key, object); err != nil {
		return fmt.Errorf("read the gateway: %w", err)
	}
	switch g := object.(type) {
	case *networkingv1beta1.GatewayServer:
		peer.MTU, peer.ListenPort = g.Spec.MTU, uint16(g.Spec.Endpoint.Port)
		s.port = peer.ListenPort
	case *networkingv1beta1.GatewayClient:
		peer.MTU = g.Spec.MTU
		if len(g.Spec.Endpoint.Addresses) == 0 {
			return nil
		}
		// A name that has no address now is no reason to drop a tunnel that works.
		peer.Endpoint, s.resolve = resolve(ctx, g.Spec.Endpoint.Addresses[0], uint16(g.Spec.Endpoint.Port))
		s.endpoint = fmt.Sprintf("UDP %s port %d", g.Spec.Endpoint.Addresses[0], g.Spec.Endpoint.Port)
	}
	return nil
}

const resolveTimeout = 3 * time.Second

// resolve turns an address or a DNS name into where to dial.
func resolve(ctx context.Context, host string, port uint16) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(ip.Unmap(), port), nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve the server's address: %w", err)
	}
	return netip.AddrPortFrom(ips[0].Unmap(), port), nil
}
