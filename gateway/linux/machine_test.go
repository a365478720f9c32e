//go:build linux

package linux_test

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// elsewhere runs f on a thread with its own namespaces. The thread ends afterwards, so the changes of f
// affect nobody else.
func elsewhere(t *testing.T, f func() error) error {
	t.Helper()
	netns.Require(t)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends
		err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// without takes a capability from the calling thread.
func without(capability int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	return unix.Capset(&header, &data[0])
}

func TestMachineWithoutNftablesIsRefusedByName(t *testing.T) {
	err := elsewhere(t, func() error {
		if err := linux.CheckMachine(); err != nil {
			return errors.Join(errors.New("before"), err)
		}
		// Without CAP_NET_ADMIN, nftables does not seem to exist.
		if err := without(unix.CAP_NET_ADMIN); err != nil {
			return err
		}
		return linux.CheckMachine()
	})
	if !errors.Is(err, linux.ErrMachine) || !strings.Contains(err.Error(), "no nftables") || strings.HasPrefix(err.Error(), "before") {
		t.Errorf("got %v, want it to name nftables", err)
	}
}

func TestMachineWithoutTUNIsRefusedByName(t *testing.T) {
	a := linuxtest.Cluster{
		Name: "a", Role: gateway.Server, Key: wgtypes.Key{0: 8, 31: 64}, GatewayIP: "10.244.1.5", MTU: linuxtest.TunnelMTU,
		Remapped: gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")},
	}
	in := gateway.Inputs{PodIP: linuxtest.Prefixes("10.244.1.5/32")[0].Addr(), NodeIP: linuxtest.Prefixes("192.0.2.1/32")[0].Addr(), UnderlayMTU: 1500, Local: linuxtest.Local()}
	in.Peers = []gateway.Peer{{
		ClusterID: "b", Role: gateway.Server, Real: linuxtest.Local(), Remapped: a.Remapped, Implementation: gateway.Userspace,
		PrivateKey: gateway.PrivateKey(a.Key), ListenPort: linuxtest.WireGuardPort, MTU: a.MTU,
	}}
	state, err := gateway.Compute(in)
	if err != nil {
		t.Fatal(err)
	}
	err = elsewhere(t, func() error {
		// As in a container that may not create the device node.
		if err := unix.Mount("none", "/dev", "tmpfs", 0, ""); err != nil {
			return err
		}
		if err := without(unix.CAP_MKNOD); err != nil {
			return err
		}
		k, err := linux.New(linux.Options{})
		if err != nil {
			return err
		}
		defer k.Close()
		_, err = k.Sync(state)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "userspace WireGuard needs /dev/net/tun: mknod (CAP_MKNOD)") {
		t.Errorf("got %v, want it to name what is missing", err)
	}
}

func TestNetworksAreWhatTheMachineLeadsTo(t *testing.T) {
	n := netns.New(t, "node")
	n.Script(`ip link add lan0 type bridge
ip link set lan0 up
ip addr add 10.0.0.5/24 dev lan0
ip route add default via 10.0.0.1
ip route add 172.20.0.0/14 via 10.0.0.1
ip route add blackhole 10.9.0.0/16
ip route add 10.60.0.0/16 dev lan0 proto 118
ip route add 10.61.0.0/16 dev lan0 table 18000
ip rule add pref 105 lookup 18000
ip route add 10.20.0.0/16 dev lan0 table 52
ip rule add pref 5270 lookup 52
ip route add 10.30.0.0/16 dev lan0 table 51820
ip rule add pref 32764 not fwmark 0xca6c lookup 51820
ip route add 10.40.0.0/16 dev lan0 table 77`) // no rule uses this table
	var found []netip.Prefix
	var err error
	n.Do(func() { found, err = linux.Networks() })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ipam.Around(found, nil), linuxtest.Prefixes("10.0.0.0/24", "10.20.0.0/16", "10.30.0.0/16", "172.20.0.0/14"); !slices.Equal(got, want) {
		t.Errorf("got %v of %v, want %v", got, found, want)
	}
}

// Objects of an earlier process, of another version or unfinished, are replaced. A device that only has our
// name is not changed.
func TestLeftoversAreReplaced(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podB.Whoami(":8080")
	want := a.State(a.Inputs(b))
	a.Gateway.Do(func() {
		if err := a.GatewayKernel.Remove(); err != nil {
			t.Error(err)
		}
	})
	a.Gateway.NFT(`table ip liqo-tui {
		counter arrived { packets 7 bytes 700 }
		counter of-old-times { }
		set tunnels { type ipv4_addr; elements = { 192.0.2.1 } }
		map to-real { type ifname : ipv4_addr; elements = { "eth0" : 192.0.2.2 } }
		chain classify { type filter hook input priority 5; policy drop; }
		chain left { type nat hook prerouting priority -100; policy accept; ip daddr 10.60.0.0/16 dnat to 192.0.2.3; }
	}`)
	a.Gateway.Script(`ip link add liqo-fabric type vxlan id 99 dstport 4789
		ip link set liqo-fabric up
		ip route add 10.60.0.0/16 dev eth0 table 18100
		ip route add blackhole 10.244.2.0/24 table 18001
		ip rule add pref 7 lookup 18001
		ip rule add pref 10 fwmark 0xc00101c0 lookup 18199`)
	a.SyncTo(a.Gateway, a.GatewayKernel, want)
	if lines := a.SyncTo(a.Gateway, a.GatewayKernel, want); len(lines) != 0 {
		t.Errorf("left: %q", lines)
	}
	if left := a.Gateway.DumpAll(); strings.Contains(left, "192.0.2.") || strings.Contains(left, "of-old-times") {
		t.Errorf("something is left:\n%s", left)
	}
	if got := a.Counters()[gateway.Arrived].Packets; got < 7 {
		t.Errorf("counter: got %d, want it to go on from 7", got)
	}
	b.Redial()
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")

	stranger := netns.New(t, "stranger")
	stranger.Run("ip", "link", "add", "liqo-tunnel", "type", "bridge")
	k := a.Kernel(stranger)
	var err error
	stranger.Do(func() { _, err = k.Sync(want) })
	if err == nil || !strings.Contains(err.Error(), "device liqo-tunnel (bridge) belongs to another program") {
		t.Errorf("a device of another program: got %v", err)
	}
	if links := stranger.Run("ip", "link", "show", "liqo-tunnel"); !strings.Contains(links, "liqo-tunnel") {
		t.Errorf("the device of another program is gone")
	}
}
