//go:build linux

package linux_test

import (
	"slices"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/golden"
)

// nftVersion is the version with the layout of the goldens, from Debian 12, which CI uses.
const nftVersion = "v1.0.6"

// An admin who looks into the namespace of a gateway or node with the usual tools has to see the owner and
// purpose of each object. nft prints rules and maps that it does not understand as comments, or not at all.
// So a readable golden proves that nft understands our objects.
func TestKernelReadsLikeDocumentation(t *testing.T) {
	wan := netns.New(t, "wan")
	if v := wan.Run("nft", "--version"); !strings.Contains(v, nftVersion) {
		t.Skipf("the goldens are nft %s's, this is %s", nftVersion, strings.TrimSpace(v))
	}
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	a.Key = wgtypes.Key{0: 8, 31: 64}
	a.SyncAll(&linuxtest.Cluster{Name: "milan", Key: wgtypes.Key{0: 16, 31: 64}})

	read(t, a.Gateway, "gateway.txt", "ip rule", "ip route show table 18001", "ip route show table 18100",
		"ip neigh show nud permanent", "nft list ruleset")
	read(t, a.Nodes[1], "node.txt", "ip rule", "ip route show table 18000", "ip route show table 18002", "nft list table ip liqo-tui")
	for device, alias := range map[string]string{"liqo-tunnel": "liqo-tui: tunnel to milan", "liqo-fabric": "liqo-tui: between nodes and gateways"} {
		if text := a.Gateway.Run("ip", "link", "show", "dev", device); !strings.Contains(text, "alias "+alias+"\n") {
			t.Errorf("%s: got\n%swant alias %s", device, text, alias)
		}
	}
	if s := a.Gateway.Run("ip", "-o", "-d", "link", "show", "dev", "liqo-tunnel"); strings.Contains(s, "wireguard") {
		read(t, a.Gateway, "wireguard.txt", "wg show")
	}
}

// read compares the output of commands with a golden file.
func read(t *testing.T, n *netns.Namespace, file string, commands ...string) {
	t.Helper()
	var b strings.Builder
	for _, c := range commands {
		b.WriteString("# " + c + "\n")
		lines := slices.Collect(strings.Lines(n.Run(strings.Fields(c)...)))
		if strings.HasPrefix(c, "ip neigh") {
			slices.Sort(lines) // the kernel lists them in no fixed order
		}
		for _, line := range lines {
			b.WriteString(strings.TrimRight(line, " \t\n") + "\n")
		}
		b.WriteString("\n")
	}
	golden.Compare(t, file, b.String())
}
