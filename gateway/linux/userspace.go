//go:build linux

package linux

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// userspaceTunnel is a WireGuard device that this process runs. It is configured by calls instead of a
// control socket: two gateways could have the same path for the socket, and each socket would cost an inotify
// instance.
type userspaceTunnel struct {
	name   string
	index  int // of the link, to distinguish it from a later link of the same name
	tun    *tunDevice
	device *device.Device
	// redialled holds each peer as it was when it was dialled again. The device's counters and the time of its
	// last handshake go on, see [Kernel.Redial].
	redialled map[wgtypes.Key]wireguardPeer
}

func (k *Kernel) createUserspace(name string) error {
	if err := ensureTunNode(); err != nil {
		return err
	}
	t, err := openTUN(name)
	if err != nil {
		return fmt.Errorf("create tun device: %w", err)
	}
	log := k.log.With("device", name)
	d := device.NewDevice(t, &resilientBind{Bind: conn.NewDefaultBind()}, &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf:   func(format string, args ...any) { log.Error(fmt.Sprintf(format, args...)) },
	})
	i, err := net.InterfaceByName(name)
	if err != nil {
		d.Close()
		return fmt.Errorf("find tun device: %w", err)
	}
	k.userspace[name] = &userspaceTunnel{name: name, index: i.Index, tun: t, device: d, redialled: map[wgtypes.Key]wireguardPeer{}}
	return nil
}

// closeUserspace ends a tunnel of this process; its device disappears.
func (k *Kernel) closeUserspace(name string) {
	if u, ok := k.userspace[name]; ok {
		u.device.Close()
		delete(k.userspace, name)
	}
}

const tunNode = "/dev/net/tun"

// ensureTunNode creates /dev/net/tun if the container runtime has not done so.
func ensureTunNode() error {
	if _, err := os.Stat(tunNode); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(tunNode), 0o755); err != nil {
		return fmt.Errorf("userspace WireGuard needs %s: %w", tunNode, err)
	}
	err := unix.Mknod(tunNode, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200)))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("userspace WireGuard needs %s: mknod (CAP_MKNOD): %w; user namespaces and runc 1.2.0 to 1.2.3 refuse it: load the kernel module wireguard on the node, or update runc", tunNode, err)
	}
	return nil
}

// close does nothing, because the tunnel lives as long as its Kernel wants it.
func (u *userspaceTunnel) close() {}

func (u *userspaceTunnel) implementation() gateway.Implementation { return gateway.Userspace }

func (u *userspaceTunnel) read() (wireguardConfig, error) {
	text, err := u.device.IpcGet()
	if err != nil {
		return wireguardConfig{}, fmt.Errorf("read tunnel %s: %w", u.name, err)
	}
	c, err := parseConfig(text)
	if err != nil {
		return wireguardConfig{}, fmt.Errorf("read tunnel %s: %w", u.name, err)
	}
	for i := range c.peers {
		p := &c.peers[i]
		before := u.redialled[p.key]
		p.received, p.sent = p.received-before.received, p.sent-before.sent
		if p.handshake.Equal(before.handshake) {
			p.handshake = time.Time{}
		}
	}
	return c, nil
}

func (u *userspaceTunnel) redial(p wireguardPeer) error {
	peer := u.device.LookupPeer(device.NoisePublicKey(p.key))
	if peer == nil {
		return fmt.Errorf("tunnel %s: %w", u.name, ErrNoPeer)
	}
	if err := u.setPeers(false, peerChange{p, false}); err != nil {
		return err
	}
	// From here on, no answer to an earlier initiation is accepted. A handshake that ended after the caller had
	// read the peer would pass for the new one, although its keys are expired.
	peer.ExpireCurrentKeypairs()
	c, err := u.read()
	if err != nil {
		return err
	}
	before := u.redialled[p.key]
	for _, now := range c.peers {
		if now.key != p.key {
			continue
		}
		before.received, before.sent = before.received+now.received, before.sent+now.sent
		if !now.handshake.IsZero() {
			before.handshake = now.handshake
		}
	}
	u.redialled[p.key] = before
	_ = peer.SendHandshakeInitiation(false) // logs the error
	return nil
}

func (u *userspaceTunnel) setDevice(key gateway.PrivateKey, port uint16) error {
	text := "private_key=" + hex.EncodeToString(key[:]) + "\n"
	if port != 0 {
		text += fmt.Sprintf("listen_port=%d\n", port)
	}
	return u.device.IpcSet(text)
}

func (u *userspaceTunnel) changePort(port uint16) error {
	return u.device.IpcSet(fmt.Sprintf("listen_port=%d\n", port))
}

func (u *userspaceTunnel) setPeers(replace bool, changes ...peerChange) error {
	var b strings.Builder
	if replace {
		b.WriteString("replace_peers=true\n")
		clear(u.redialled)
	}
	for _, c := range changes {
		fmt.Fprintf(&b, "public_key=%s\n", hex.EncodeToString(c.key[:]))
		if c.remove {
			b.WriteString("remove=true\n")
			delete(u.redialled, c.key)
			continue
		}
		if c.endpoint.IsValid() {
			fmt.Fprintf(&b, "endpoint=%s\n", c.endpoint)
		}
		b.WriteString("replace_allowed_ips=true\n")
		for _, a := range c.allowed {
			fmt.Fprintf(&b, "allowed_ip=%s\n", a)
		}
		// This comes after the endpoint, because with a keepalive WireGuard may send at once.
		fmt.Fprintf(&b, "persistent_keepalive_interval=%d\n", int(c.keepalive/time.Second))
	}
	return u.device.IpcSet(b.String())
}

// parseConfig reads the answer of WireGuard's cross-platform interface: lines of key=value. The lines of a
// peer follow its public_key.
func parseConfig(text string) (wireguardConfig, error) {
	var c wireguardConfig
	var p *wireguardPeer
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		var err error
		switch key {
		case "private_key":
			var k wgtypes.Key
			k, err = parseHexKey(value)
			c.key = gateway.PrivateKey(k)
		case "listen_port":
			c.port, err = parsePort(value)
		case "public_key":
			c.peers = append(c.peers, wireguardPeer{})
			p = &c.peers[len(c.peers)-1]
			p.key, err = parseHexKey(value)
		default:
			if p != nil {
				err = p.parse(key, value)
			}
		}
		if err != nil {
			// The error names only the field, because the value may be a key.
			return wireguardConfig{}, fmt.Errorf("field %s: %w", key, err)
		}
	}
	return c, nil
}

func (p *wireguardPeer) parse(key, value string) error {
	switch key {
	case "endpoint":
		e, err := netip.ParseAddrPort(value)
		p.endpoint = netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
		return err
	case "allowed_ip":
		a, err := netip.ParsePrefix(value)
		p.allowed = append(p.allowed, a)
		return err
	case "persistent_keepalive_interval", "last_handshake_time_sec", "last_handshake_time_nsec", "rx_bytes", "tx_bytes":
	default:
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errors.New("not a number")
	}
	switch key {
	case "persistent_keepalive_interval":
		p.keepalive = time.Duration(n) * time.Second
	case "last_handshake_time_sec":
		if n != 0 {
			p.handshake = time.Unix(n, 0)
		}
	case "last_handshake_time_nsec":
		if !p.handshake.IsZero() {
			p.handshake = p.handshake.Add(time.Duration(n))
		}
	case "rx_bytes":
		p.received = uint64(n)
	case "tx_bytes":
		p.sent = uint64(n)
	}
	return nil
}

func parseHexKey(s string) (wgtypes.Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != wgtypes.KeyLen {
		return wgtypes.Key{}, errors.New("not a key")
	}
	return wgtypes.Key(b), nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err
}

// resilientBind sends the packets of a batch one by one if the kernel refuses the batch because a segment
// exceeds the known path MTU. The device itself stops batching only after EIO, and would lose every later
// batch. Measured on a path of 1400 bytes: 0.28 Gbit/s with resilientBind, 0.000 without.
type resilientBind struct{ conn.Bind }

func (b *resilientBind) Send(bufs [][]byte, ep conn.Endpoint) error {
	err := b.Bind.Send(bufs, ep)
	// EMSGSIZE since Linux 6.14, EINVAL before.
	if len(bufs) < 2 || !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	var errs []error
	for i := range bufs {
		errs = append(errs, b.Bind.Send(bufs[i:i+1], ep))
	}
	return errors.Join(errs...)
}

// tunDevice is a TUN device that only Sync starts and stops. WireGuard itself can watch the link, and start
// and stop the tunnel with it. But its messages are late and unordered: the "down" of a new link can arrive
// after Sync has started the tunnel, and stop it for a second. The watch also wakes an idle process every
// second.
type tunDevice struct {
	tun.Device
	events chan tun.Event
	mu     sync.Mutex
	mtu    int
	closed bool // events is closed; the WireGuard device closes itself if its link is deleted
}

// openTUN makes a TUN device with offloads. The device exists until it is closed.
func openTUN(name string) (*tunDevice, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	fd, err := unix.Open(tunNode, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tunNode, err)
	}
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("attach to %s: %w", name, err)
	}
	inner, _, err := tun.CreateUnmonitoredTUNFromFD(fd) // closes fd, sooner or later, if it fails
	if err != nil {
		return nil, err
	}
	return &tunDevice{Device: inner, events: make(chan tun.Event, 1), mtu: device.DefaultMTU}, nil
}

// resize sets the MTU up to which the WireGuard device pads packets.
func (t *tunDevice) resize(mtu int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mtu = mtu
	if t.closed {
		return
	}
	select {
	case t.events <- tun.EventMTUUpdate:
	default: // the event of the last change is still unread
	}
}

func (t *tunDevice) MTU() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mtu, nil
}

func (t *tunDevice) Events() <-chan tun.Event { return t.events }

// Close is called once, by the WireGuard device.
func (t *tunDevice) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	close(t.events)
	return t.Device.Close()
}
