//go:build linux

package linux

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// The kernel stores comments as bytes. Comments of another program may have a wrong length, and the reader
// must neither trust the length nor fail.
func TestMalformedCommentsAreReplaced(t *testing.T) {
	const comment = 0                           // of rules and elements
	malformed := []byte{comment, 200, 'a', 'b'} // 200 bytes, of which there are 2
	const flags = 1                             // of elements: 4 bytes, of which there are 2
	short := []byte{flags, 2, 0, 0}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: gateway.TableName}
	s, err := gateway.ComputeNode(gateway.NodeInputs{
		NodeIP: netip.MustParseAddr("192.168.1.10"), UnderlayMTU: 1500, PodCIDRs: local().Pod,
		Gateways: []gateway.Gateway{{Name: "gw", PodIP: netip.MustParseAddr("10.244.1.5"), RemoteCIDRs: prefixes("10.60.0.0/16"), MTU: 1340}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := gateway.KernelState{Firewall: s.Firewall}
	for _, c := range []struct {
		name  string
		write func() error
	}{
		{"of a rule", func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: "fabric", Table: table}, UserData: malformed})
			return c.Flush()
		}},
		{"of a set", func() error { return writeSet(malformed) }},
		{"of an element", func() error { return writeElement(malformed) }},
		{"of an element, in its flags", func() error { return writeElement(short) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := netns.New(t, "malformed")
			k, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			sync := func() (lines []string) {
				t.Helper()
				n.Do(func() { lines, err = k.Sync(want) })
				if err != nil {
					t.Fatal(err)
				}
				return lines
			}
			sync()
			n.Do(func() { err = c.write() })
			if err != nil {
				t.Fatal(err)
			}
			if lines := sync(); !strings.Contains(strings.Join(lines, "\n"), "malformed") {
				t.Errorf("got %q, want it to be named", lines)
			}
			if lines := sync(); len(lines) != 0 {
				t.Errorf("not replaced: %q", lines)
			}
		})
	}
}

// writeSet and writeElement write objects that no tool would write: a set with this user data, and an
// element.

func writeSet(userData []byte) error {
	return writeBatch(unix.NFT_MSG_NEWSET, append(named(unix.NFTA_SET_TABLE, gateway.TableName), append(named(unix.NFTA_SET_NAME, "others"),
		number(unix.NFTA_SET_ID, 1), number(unix.NFTA_SET_KEY_LEN, 4), number(unix.NFTA_SET_KEY_TYPE, 7),
		nl.NewRtAttr(unix.NFTA_SET_USERDATA, userData))...)...)
}

func writeElement(userData []byte) error {
	list := nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, nil)
	element := list.AddRtAttr(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, nil)
	element.AddRtAttr(unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, nil).AddRtAttr(unix.NFTA_DATA_VALUE, []byte{192, 0, 2, 1})
	element.AddRtAttr(unix.NFTA_SET_ELEM_USERDATA, userData)
	return writeBatch(unix.NFT_MSG_NEWSETELEM, append(named(unix.NFTA_SET_ELEM_LIST_TABLE, gateway.TableName),
		append(named(unix.NFTA_SET_ELEM_LIST_SET, "gateways"), list)...)...)
}

func named(attribute int, name string) []*nl.RtAttr {
	return []*nl.RtAttr{nl.NewRtAttr(attribute, nl.ZeroTerminated(name))}
}

func number(attribute int, n uint32) *nl.RtAttr {
	return nl.NewRtAttr(attribute, nl.BEUint32Attr(n))
}

// writeBatch sends one message of nf_tables in its own transaction.
func writeBatch(message int, attributes ...*nl.RtAttr) error {
	request := func(kind, flags int, family uint8, resource uint16) *nl.NetlinkRequest {
		r := nl.NewNetlinkRequest(kind, flags)
		r.AddData(&nl.Nfgenmsg{NfgenFamily: family, ResId: resource << 8}) // big endian
		return r
	}
	begin := request(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	change := request(unix.NFNL_SUBSYS_NFTABLES<<8|message, unix.NLM_F_CREATE|unix.NLM_F_ACK, unix.AF_INET, 0)
	for _, a := range attributes {
		change.AddData(a)
	}
	end := request(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)

	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	batch := append(append(begin.Serialize(), change.Serialize()...), end.Serialize()...)
	if err := unix.Sendto(socket, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 {
		return fmt.Errorf("answer of %d bytes", n)
	}
	if code := int32(nl.NativeEndian().Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
