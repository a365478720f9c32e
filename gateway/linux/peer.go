//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// PeerStats are the facts that a tunnel knows about its peer.
type PeerStats struct {
	Handshake      time.Time // zero: never
	Received, Sent uint64    // bytes
	Endpoint       netip.AddrPort
	Implementation gateway.Implementation // InKernel or Userspace
	// NextHandshake is the last handshake with the peer's next key; zero: never.
	NextHandshake time.Time
}

// Peer reports on the peer of a tunnel device. If the device does not exist or
// has no peer yet, the error satisfies errors.Is(err, ErrNoPeer).
func (k *Kernel) Peer(device string) (PeerStats, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, wg, err := k.readPeer(device)
	if err != nil {
		return PeerStats{}, err
	}
	p, next := c.roles()
	s := PeerStats{
		Handshake: p.handshake, Received: p.received, Sent: p.sent,
		Endpoint: p.endpoint, Implementation: wg,
	}
	if next != nil {
		s.NextHandshake = next.handshake
	}
	return s, nil
}

// ErrNoPeer means that a tunnel has no peer.
var ErrNoPeer = errors.New("no such tunnel, or it has no peer yet")

func (k *Kernel) readPeer(device string) (wireguardConfig, gateway.Implementation, error) {
	wg, err := k.find(device)
	if err != nil {
		return wireguardConfig{}, "", err
	}
	defer wg.close()
	c, err := wg.read()
	if main, _ := c.roles(); err == nil && main == nil {
		err = fmt.Errorf("tunnel %s: %w", device, ErrNoPeer)
	}
	return c, wg.implementation(), err
}

// Redial makes the tunnel start a new handshake with its peer now, with the peer's last address, or with endpoint
// if that is valid. WireGuard itself repeats an unanswered handshake after 5 s, and notices a restarted peer after
// 15 s. From Redial to the handshake, [PeerStats] has no time of a handshake, and the counters begin again.
//
// Packets that are sent meanwhile wait for the handshake. A tunnel of this process also keeps the session keys for
// packets that arrive, so that a peer that was only busy loses nothing. The kernel has no such request, so a tunnel
// of the kernel drops its keys.
func (k *Kernel) Redial(device string, endpoint netip.AddrPort) error {
	return k.changePeer(device, func(wg wireguard, main wireguardPeer) error {
		if endpoint.IsValid() {
			main.endpoint = endpoint
		}
		return wg.redial(main)
	})
}

// Forget drops all that WireGuard knows of a tunnel's peer but its address: the session keys, the counters, and the
// time stamp of the last handshake.
func (k *Kernel) Forget(device string) error {
	return k.changePeer(device, func(wg wireguard, main wireguardPeer) error { return wg.setPeers(false, anew(main)...) })
}

func (k *Kernel) changePeer(device string, change func(wireguard, wireguardPeer) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	wg, err := k.find(device)
	if err != nil {
		return err
	}
	defer wg.close()
	c, err := wg.read()
	if err != nil {
		return err
	}
	main, _ := c.roles()
	if main == nil {
		return fmt.Errorf("tunnel %s: %w", device, ErrNoPeer)
	}
	return change(wg, *main)
}

// clientPorts is the number of ports that a client's tunnel uses in turn. A router on the path keeps an entry
// for each port for 30 s to several minutes, and can keep some thousands.
const clientPorts = 10

// ChangePort makes a client's tunnel send from another free port. After clientPorts ports, it
// uses the first one again.
func (k *Kernel) ChangePort(device string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	wg, err := k.find(device)
	if err != nil {
		return fmt.Errorf("change port: %w", err)
	}
	defer wg.close()
	var next uint16 // any
	if used := k.ports[device]; len(used) == clientPorts {
		next = used[0]
	}
	err = wg.changePort(next)
	if err != nil && next != 0 {
		err = wg.changePort(0) // another program uses this port now
	}
	if err != nil {
		return fmt.Errorf("change the port of %s: %w", device, err)
	}
	c, err := wg.read()
	if err != nil {
		return fmt.Errorf("change the port of %s: %w", device, err)
	}
	used := append(k.ports[device], c.port)
	k.ports[device] = used[max(0, len(used)-clientPorts):]
	return nil
}

// dialed is the endpoint that Sync last set. The peer's address may have changed since. Sync sets an endpoint
// only if the wanted one has changed.
type dialed struct {
	peer     wgtypes.Key
	endpoint netip.AddrPort
}

// endpointStands reports whether the wanted endpoint need not be set. This is so if this process has already
// set the endpoint, even if the peer's address has changed since. It is also so if this gateway is the server
// of a peer that an earlier process has left connected.
func (k *Kernel) endpointStands(want gateway.Tunnel, p wireguardPeer) bool {
	last, ok := k.dialed[want.Device]
	if ok && last.peer == p.key {
		return last.endpoint == want.Endpoint
	}
	return want.Role == gateway.Server && p.endpoint.IsValid()
}

func (k *Kernel) syncPeers(s *session, want []gateway.Tunnel) ([]string, error) {
	var lines []string
	var errs []error
	for _, t := range want {
		if _, ok := s.links[t.Device]; !ok {
			continue // its creation failed and was reported
		}
		l, err := k.syncPeer(s, t)
		lines = append(lines, l...)
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

func (k *Kernel) syncPeer(s *session, want gateway.Tunnel) ([]string, error) {
	have, err := k.readTunnel(s, want.Device, want)
	if err != nil {
		return nil, err
	}
	// syncDevice has already reported these fields.
	have.Alias, have.Address, have.MTU, have.Up = want.Alias, want.Address, want.MTU, want.Up
	have.PrivateKey, have.ListenPort, have.Implementation = want.PrivateKey, want.ListenPort, want.Implementation
	lines := gateway.ExplainTunnel(have, want)
	if len(lines) == 0 {
		k.dialed[want.Device] = dialed{want.PublicKey, want.Endpoint}
		return nil, nil
	}
	wg, err := k.open(s.links[want.Device])
	if err != nil {
		return lines, err
	}
	defer wg.close()
	replace, changes := peerChanges(have, want)
	if err := wg.setPeers(replace, changes...); err != nil {
		return lines, fmt.Errorf("set peer of %s: %w", want.Device, err)
	}
	k.dialed[want.Device] = dialed{want.PublicKey, want.Endpoint}
	return lines, nil
}

// peerChanges returns the changes that turn one pair of peers into another.
func peerChanges(have, want gateway.Tunnel) (replace bool, changes []peerChange) {
	none := wgtypes.Key{}
	if want.PublicKey == none {
		return true, nil
	}
	p := wireguardPeer{key: want.PublicKey, keepalive: want.Keepalive, allowed: everything()}
	switch want.PublicKey {
	case have.PublicKey:
		if have.Endpoint != want.Endpoint {
			p.endpoint = want.Endpoint
		}
	case have.NextKey:
		// The allowed addresses move from the old key to the new one. A client has dialled with the new key,
		// so the client's address is known. The address of a server may not be known yet.
		if want.Role == gateway.Client {
			p.endpoint = want.Endpoint
		}
	default:
		replace, p.endpoint = true, want.Endpoint
	}
	changes = append(changes, peerChange{p, false})
	if want.NextKey != none {
		changes = append(changes, peerChange{wireguardPeer{key: want.NextKey}, false})
	}
	if replace {
		return true, changes
	}
	for _, old := range []wgtypes.Key{have.PublicKey, have.NextKey} {
		if old != none && old != want.PublicKey && old != want.NextKey {
			changes = append(changes, peerChange{wireguardPeer{key: old}, true})
		}
	}
	return false, changes
}
