//go:build linux

package linux

import (
	"fmt"
	"net"
	"net/netip"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// kernelTunnel configures a device of the kernel.
type kernelTunnel struct {
	name   string
	client *wgctrl.Client
}

func openKernel(name string) (*kernelTunnel, error) {
	c, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("open wireguard: %w", err)
	}
	return &kernelTunnel{name, c}, nil
}

func (k *kernelTunnel) close()                                 { _ = k.client.Close() }
func (k *kernelTunnel) implementation() gateway.Implementation { return gateway.InKernel }

func (k *kernelTunnel) read() (wireguardConfig, error) {
	d, err := k.client.Device(k.name)
	if err != nil {
		return wireguardConfig{}, fmt.Errorf("read tunnel %s: %w", k.name, err)
	}
	c := wireguardConfig{key: gateway.PrivateKey(d.PrivateKey), port: uint16(d.ListenPort)}
	for _, p := range d.Peers {
		peer := wireguardPeer{
			key: p.PublicKey, keepalive: p.PersistentKeepaliveInterval, handshake: p.LastHandshakeTime,
			received: uint64(p.ReceiveBytes), sent: uint64(p.TransmitBytes),
		}
		if p.Endpoint != nil {
			e := p.Endpoint.AddrPort()
			peer.endpoint = netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
		}
		for _, a := range p.AllowedIPs {
			peer.allowed = append(peer.allowed, prefix(&a))
		}
		c.peers = append(c.peers, peer)
	}
	return c, nil
}

func (k *kernelTunnel) setDevice(key gateway.PrivateKey, port uint16) error {
	private := wgtypes.Key(key)
	c := wgtypes.Config{PrivateKey: &private}
	if port != 0 {
		p := int(port)
		c.ListenPort = &p
	}
	return k.client.ConfigureDevice(k.name, c)
}

func (k *kernelTunnel) changePort(port uint16) error {
	number := int(port)
	return k.client.ConfigureDevice(k.name, wgtypes.Config{ListenPort: &number})
}

func (k *kernelTunnel) redial(p wireguardPeer) error { return k.setPeers(false, anew(p)...) }

func (k *kernelTunnel) setPeers(replace bool, changes ...peerChange) error {
	config := wgtypes.Config{ReplacePeers: replace}
	for _, c := range changes {
		peer := wgtypes.PeerConfig{PublicKey: c.key, Remove: c.remove}
		if !c.remove {
			peer.ReplaceAllowedIPs, peer.PersistentKeepaliveInterval = true, &c.keepalive
			for _, a := range c.allowed {
				peer.AllowedIPs = append(peer.AllowedIPs, *ipNet(a))
			}
			if c.endpoint.IsValid() {
				peer.Endpoint = net.UDPAddrFromAddrPort(c.endpoint)
			}
		}
		config.Peers = append(config.Peers, peer)
	}
	return k.client.ConfigureDevice(k.name, config)
}
