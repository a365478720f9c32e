package gateway

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func addrs(s ...string) []netip.Addr {
	out := make([]netip.Addr, len(s))
	for i, a := range s {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

func given(s ...string) []Range { return ranges(true, s) }

func stated(s ...string) []Range { return ranges(false, s) }

func ranges(given bool, s []string) []Range {
	var out []Range
	for _, p := range prefixes(s...) {
		out = append(out, Range{Prefix: p, Given: given})
	}
	return out
}

// The reports of nodes with the usual pod networks. Each row contains what the agent of one node sees: its
// Node, the pod network's own objects, and its pods.
func TestNodesAnnounceWhereTheirPodsAre(t *testing.T) {
	for _, c := range []struct {
		network string
		ranges  []Range
		pods    []netip.Addr
		want    []netip.Prefix
	}{
		{"kindnet", stated("10.244.1.0/24"), addrs("10.244.1.2", "10.244.1.9"), prefixes("10.244.1.0/24")},
		{"flannel", stated("10.244.2.0/24"), addrs("10.244.2.4"), prefixes("10.244.2.0/24")},
		{"k3s", stated("10.42.0.0/24"), addrs("10.42.0.5", "10.42.0.6"), prefixes("10.42.0.0/24")},
		{"k3s, two families", stated("10.42.0.0/24", "2001:db8:42::/64"), addrs("10.42.0.5", "2001:db8:42::5"), prefixes("10.42.0.0/24")},
		{"no pods yet", stated("10.244.1.0/24"), nil, nil},
		{
			"Calico: kubeadm's podCIDR is not followed", append(stated("10.244.1.0/24"), given("10.99.40.128/26", "10.99.40.192/26")...),
			addrs("10.99.40.130", "10.99.40.200"), prefixes("10.99.40.128/26", "10.99.40.192/26"),
		},
		{
			"Calico: a borrowed address of another node's block", append(stated("10.244.1.0/24"), given("10.99.40.128/26")...),
			addrs("10.99.40.130", "10.99.217.7"), prefixes("10.99.40.128/26", "10.99.217.7/32"),
		},
		{
			"Calico: its pool is the range that podCIDRs are cut from", append(stated("10.244.1.0/24"), given("10.244.40.128/26")...),
			addrs("10.244.40.130", "10.244.1.7"), prefixes("10.244.1.7/32", "10.244.40.128/26"),
		},
		{
			"Calico: a block of which no pod has an address yet", append(stated("10.244.1.0/24"), given("10.99.40.128/26", "10.99.40.192/26")...),
			addrs("10.99.40.130"), prefixes("10.99.40.128/26"),
		},
		{
			"flannel in place of Calico, whose block is in another node's podCIDR", append(stated("10.244.1.0/24"), given("10.244.5.0/26")...),
			addrs("10.244.1.7"), prefixes("10.244.1.0/24"),
		},
		{"Calico: blocks can't be read", stated("10.244.1.0/24"), addrs("10.99.40.131", "10.99.40.130"), prefixes("10.99.40.130/31")},
		{"Cilium kubernetes", append(stated("10.0.1.0/24"), given("10.0.1.0/24")...), addrs("10.0.1.3"), prefixes("10.0.1.0/24")},
		{"Cilium cluster-pool", append(stated("10.244.1.0/24"), given("10.0.2.0/24")...), addrs("10.0.2.3"), prefixes("10.0.2.0/24")},
		{"Cilium multi-pool", given("10.0.2.0/27", "10.20.0.0/27"), addrs("10.0.2.3", "10.20.0.9"), prefixes("10.0.2.0/27", "10.20.0.0/27")},
		{"AWS: single addresses of the VPC", nil, addrs("10.1.7.20", "10.1.3.9"), prefixes("10.1.3.9/32", "10.1.7.20/32")},
		{
			"AWS: a prefix that pods fill, and its neighbours", nil,
			addrs("10.1.7.19", "10.1.7.16", "10.1.7.18", "10.1.7.17", "10.1.7.20", "10.1.7.15", "fd00::1", "10.1.7.16"), prefixes("10.1.7.15/32", "10.1.7.16/30", "10.1.7.20/32"),
		},
		{"GKE: an alias range", stated("10.8.3.0/24"), addrs("10.8.3.17"), prefixes("10.8.3.0/24")},
		{"AKS overlay: no podCIDR", nil, addrs("10.244.3.4"), prefixes("10.244.3.4/32")},
		{"AKS kubenet", stated("10.244.0.0/24"), addrs("10.244.0.4"), prefixes("10.244.0.0/24")},
		{"OVN-Kubernetes: by annotation", given("10.128.2.0/23"), addrs("10.128.3.4"), prefixes("10.128.2.0/23")},
		{"Antrea", stated("10.10.1.0/24"), addrs("10.10.1.2"), prefixes("10.10.1.0/24")},
		{"Antrea with pools of its own", stated("10.10.1.0/24"), addrs("10.10.1.2", "10.30.0.7"), prefixes("10.10.1.0/24", "10.30.0.7/32")},
		{"nonsense", []Range{{Given: true}, {Prefix: prefixes("0.0.0.0/0")[0], Given: true}}, addrs("10.1.1.1"), prefixes("10.1.1.1/32")},
	} {
		t.Run(c.network, func(t *testing.T) {
			var a Announcer
			got, ok, _ := a.Next(time.Now(), c.ranges, c.pods, false)
			if !ok || !slices.Equal(got, c.want) {
				t.Errorf("got %v, due %v; want %v", got, ok, c.want)
			}
		})
	}
}

func TestANodeWritesSeldom(t *testing.T) {
	var a Announcer
	var now time.Time
	block := given("10.99.40.128/26")
	var writes []time.Duration
	// at lets the node look at its pods, and write if a write is due.
	at := func(since time.Duration, also bool, pods ...string) (said []netip.Prefix, wait time.Duration) {
		now = time.Unix(1000, 0).Add(since)
		say, ok, wait := a.Next(now, block, addrs(pods...), also)
		if ok {
			writes = append(writes, since)
			a.Said(say)
		}
		return a.said, wait
	}
	const second = time.Second
	at(0, false, "10.99.40.130")
	if _, wait := at(5*second, false, "10.99.40.130", "10.99.40.131"); wait != 0 {
		t.Errorf("a pod in the block: another look in %s, want none", wait)
	}
	at(6*second, false, "10.99.40.130", "10.1.0.1")
	// A second address comes at once. It is written after a pause, together with a third.
	if _, wait := at(6*second+200*time.Millisecond, false, "10.99.40.130", "10.1.0.1", "10.1.0.2"); wait != 800*time.Millisecond {
		t.Errorf("another look in %s, want 800ms", wait)
	}
	at(7*second, false, "10.99.40.130", "10.1.0.1", "10.1.0.2", "10.1.0.3")
	// Two pods end one after the other. Their addresses are taken back together, 10 s after the first end.
	if _, wait := at(20*second, false, "10.1.0.2", "10.1.0.3"); wait != 10*second {
		t.Errorf("taken back in %s, want 10s", wait)
	}
	if said, wait := at(26*second, false, "10.1.0.3"); wait != 4*second || len(said) != 3 {
		t.Errorf("taken back in %s, with %v until then; want 4s", wait, said)
	}
	if said, _ := at(30*second, false, "10.1.0.3"); !slices.Equal(said, prefixes("10.1.0.3/32", "10.99.40.128/26")) {
		t.Errorf("after 10 s it still says %v", said)
	}
	// The address returns in time, so it was never taken back.
	at(40*second, false)
	at(45*second, false, "10.1.0.3")
	if _, wait := at(52*second, false); wait != 10*second {
		t.Errorf("taken back in %s, want 10s since it went for good", wait)
	}
	// A write for another reason omits addresses that are gone, because another node may have them by now.
	if said, _ := at(53*second, true); !slices.Equal(said, prefixes("10.99.40.128/26")) {
		t.Errorf("it says %v, want the block alone", said)
	}
	if want := []time.Duration{0, 6 * second, 7 * second, 30 * second, 53 * second}; !slices.Equal(writes, want) {
		t.Errorf("writes at %v, want %v", writes, want)
	}
}

func TestAFailedWriteIsDueAgain(t *testing.T) {
	var a Announcer
	now := time.Unix(1000, 0)
	for i := range 3 {
		if _, ok, _ := a.Next(now.Add(time.Duration(i)*time.Second), nil, addrs("10.1.0.1"), false); !ok {
			t.Errorf("attempt %d was not due", i+1)
		}
	}
}

// Otherwise a node with only short jobs would write twice for each of them.
func TestAPodCIDRStaysOnceItWasUsed(t *testing.T) {
	var a Announcer
	now := time.Unix(1000, 0)
	say, _, _ := a.Next(now, stated("10.244.1.0/24"), addrs("10.244.1.2"), false)
	a.Said(say)
	if _, ok, wait := a.Next(now.Add(time.Hour), stated("10.244.1.0/24"), nil, false); ok || wait != 0 {
		t.Errorf("its last pod went: due %v, in %s; want nothing", ok, wait)
	}
	// Later, the pod network assigns ranges of its own.
	say, ok, _ := a.Next(now.Add(time.Hour), append(stated("10.244.1.0/24"), given("10.0.2.0/24")...), addrs("10.0.2.9"), false)
	if !ok || !slices.Equal(say, prefixes("10.0.2.0/24")) {
		t.Errorf("got %v, want only what the pod network gives", say)
	}
}

// The pods of the nodes have single addresses in any order. A node's report contains all addresses of its
// pods, and no other address, so no address of another node's pod.
func TestBlocksOfSingleAddressesAreTheNodesOwn(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		const nodes = 3
		pods := [nodes][]netip.Addr{}
		var owner [256]int // + 1; 0: no pod has it
		base := netip.MustParseAddr("10.1.7.0").As4()
		for i := 0; i < len(owner); {
			// Runs of addresses, as prefix delegation assigns them, and single addresses.
			run, node := 1+rnd.IntN(20), rnd.IntN(nodes+1)
			for ; run > 0 && i < len(owner); i, run = i+1, run-1 {
				if owner[i] = node; node > 0 {
					base[3] = byte(i)
					pods[node-1] = append(pods[node-1], netip.AddrFrom4(base))
				}
			}
		}
		for n, of := range pods {
			rnd.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
			var a Announcer
			said, _, _ := a.Next(time.Now(), nil, of, false)
			held := 0
			for i := range owner {
				base[3] = byte(i)
				holds := slices.ContainsFunc(said, func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4(base)) })
				if holds != (owner[i] == n+1) {
					t.Fatalf("seed %d: node %d says %v: %v is held: %v", seed, n, said, netip.AddrFrom4(base), holds)
				}
				if holds {
					held++
				}
			}
			if held != len(of) {
				t.Fatalf("seed %d: node %d holds %d addresses of %d pods", seed, n, held, len(of))
			}
			for i, p := range said {
				if i > 0 && p.Bits() == said[i-1].Bits() && netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked().Contains(said[i-1].Addr()) {
					t.Fatalf("seed %d: node %d says %v and %v, which are one block", seed, n, said[i-1], p)
				}
			}
		}
	}
}

// A pod that ends splits its block. The report only shrinks, so the write is not urgent.
func TestABlockThatIsNoLongerWholeIsTakenBackLate(t *testing.T) {
	var a Announcer
	now := time.Unix(1000, 0)
	full := addrs("10.1.7.16", "10.1.7.17", "10.1.7.18", "10.1.7.19")
	say, _, _ := a.Next(now, nil, full, false)
	a.Said(say)
	now = now.Add(time.Minute)
	if say, due, wait := a.Next(now, nil, full[:3], false); due || wait != takeBackAfter {
		t.Fatalf("got %v, due %v, in %s; want nothing for %s", say, due, wait, takeBackAfter)
	}
	if _, due, wait := a.Next(now.Add(time.Second), nil, full, false); due || wait != 0 {
		t.Errorf("the pod is back: due %v, in %s; want nothing", due, wait)
	}
	now = now.Add(2 * time.Second)
	if _, due, _ := a.Next(now, nil, full[:3], false); due {
		t.Error("due at once after the pod had come back")
	}
	if say, due, _ := a.Next(now.Add(takeBackAfter), nil, full[:3], false); !due || !slices.Equal(say, prefixes("10.1.7.16/31", "10.1.7.18/32")) {
		t.Errorf("got %v, due %v; want what is left", say, due)
	}
}
