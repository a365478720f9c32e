package ipam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func list(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

func reserved(s ...string) []Reservation {
	out := make([]Reservation, len(s))
	for i, p := range list(s...) {
		out[i] = Reservation{Prefix: p, Reason: "a test"}
	}
	return out
}

func TestAllocate(t *testing.T) {
	liqos := list("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12")
	for _, c := range []struct {
		name, want, kind string
		taken            []Reservation
		pools            []netip.Prefix
		got, why         string
		err              error
	}{
		{name: "free and private: itself", want: "10.200.0.0/16", got: "10.200.0.0/16"},
		{name: "private, whatever the pools are", want: "192.168.64.0/18", pools: list("10.0.0.0/8"), got: "192.168.64.0/18"},
		{name: "free and in a pool: itself", want: "241.7.0.0/16", got: "241.7.0.0/16"},
		{
			name: "taken: where the peer's position is", want: "10.244.0.0/16", taken: reserved("10.244.0.0/16"),
			got: "253.18.0.0/16", why: "it overlaps 10.244.0.0/16, a test",
		},
		{name: "another kind has another position", want: "10.70.0.0/16", kind: External, taken: reserved("10.70.0.0/16"), got: "247.112.0.0/16"},
		{name: "next free from the position", want: "10.244.0.0/16", taken: reserved("10.244.0.0/16", "253.18.0.0/15"), got: "253.20.0.0/16"},
		{name: "round the end of the pool", want: "10.244.0.0/16", taken: reserved("10.244.0.0/16", "253.0.0.0/9", "253.128.0.0/9", "254.0.0.0/8"), got: "240.1.0.0/16"},
		{name: "overlap by a part", want: "10.1.0.0/16", taken: reserved("10.1.2.0/24"), got: "253.18.0.0/16", why: "it overlaps 10.1.2.0/24, a test"},
		{name: "overlap by a whole", want: "10.1.0.0/16", taken: reserved("10.0.0.0/12"), got: "253.18.0.0/16", why: "it overlaps 10.0.0.0/12, a test"},
		{name: "shared by carriers and VPNs", want: "100.64.0.0/16", got: "253.18.0.0/16", why: "it is neither private nor in a pool"},
		{name: "public", want: "8.8.0.0/16", got: "253.18.0.0/16", why: "it is neither private nor in a pool"},
		{name: "private in part", want: "10.0.0.0/7", pools: list("240.0.0.0/4"), got: "244.0.0.0/7", why: "it is neither private nor in a pool"},
		{name: "fixed: Submariner's", want: "242.1.0.0/16", got: "253.18.0.0/16", why: "it overlaps 242.0.0.0/8, Submariner's Globalnet"},
		{name: "fixed: Azure's", want: "168.63.0.0/16", pools: list("168.0.0.0/8"), got: "168.18.0.0/16", why: "it overlaps 168.63.129.16/32, Azure's metadata"},
		{name: "second pool", want: "10.1.0.0/16", taken: reserved("10.0.0.0/8"), pools: liqos, got: "192.168.0.0/16"},
		{name: "third pool", want: "10.1.0.0/17", taken: reserved("10.0.0.0/8", "192.168.0.0/17", "192.168.128.0/17", "172.16.0.0/13", "172.24.0.0/14", "172.28.0.0/15", "172.30.0.0/16", "172.31.0.0/17"), pools: liqos, got: "172.31.128.0/17"},
		{name: "taken entries of IPv6 do not matter", want: "10.1.0.0/16", taken: reserved("fd00::/8"), got: "10.1.0.0/16"},
		{name: "whole pool", want: "10.0.0.0/8", pools: liqos, got: "10.0.0.0/8"},
		{name: "exhausted", want: "10.1.0.0/16", taken: reserved("10.0.0.0/8"), pools: list("10.0.0.0/8"), err: ErrExhausted},
		{name: "larger than any pool", want: "32.0.0.0/3", err: ErrExhausted},
		{name: "end of the address space", want: "255.0.0.0/16", pools: list("255.0.0.0/8"), err: ErrExhausted},
		{name: "host bits", want: "10.1.2.3/16", err: ErrInvalid},
		{name: "IPv6", want: "fd00::/64", err: ErrInvalid},
		{name: "invalid pool", want: "10.0.0.0/16", pools: []netip.Prefix{{}}, err: ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			pools, kind := c.pools, Pods
			if pools == nil {
				pools = DefaultPools()
			}
			if c.kind != "" {
				kind = c.kind
			}
			got, why, err := Allocate(c.taken, Request{Want: netip.MustParsePrefix(c.want), Peer: "milan", Kind: kind}, pools)
			if !errors.Is(err, c.err) {
				t.Fatalf("error: got %v, want %v", err, c.err)
			}
			if c.err == nil && (got.String() != c.got || c.why != "" && why != c.why || (why == "") != (c.got == c.want)) {
				t.Errorf("got %s because %q, want %s because %q", got, why, c.got, c.why)
			}
		})
	}
	if _, _, err := Allocate(nil, Request{}, DefaultPools()); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero prefix: got %v, want %v", err, ErrInvalid)
	}
}

// A hub has thousands of peers, and each takes a range for pods and one for hosts.
func TestTheDefaultPoolHasRoomFor1700Peers(t *testing.T) {
	taken := reserved("10.244.0.0/16")
	for i := range 1700 {
		for _, kind := range []string{Pods, External} {
			got, _, err := Allocate(taken, Request{Want: netip.MustParsePrefix("10.244.0.0/16"), Peer: fmt.Sprint("peer-", i), Kind: kind}, DefaultPools())
			if err != nil {
				t.Fatalf("%s of peer %d: %v", kind, i, err)
			}
			taken = append(taken, Reservation{Prefix: got})
		}
	}
}

func TestANodeReservesItsAddressesAndTheNetworkAroundPrivateOnes(t *testing.T) {
	var got []string
	for _, r := range Node("a", []netip.Addr{netip.MustParseAddr("10.0.3.4"), netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("fd00::1")}) {
		got = append(got, r.String())
	}
	want := []string{"10.0.3.4/32, node a", "10.0.3.0/24, the network around node a", "203.0.113.9/32, node a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAroundANodeAreItsNetworksAndNotTheClusters(t *testing.T) {
	got := Around(list("192.168.1.0/24", "10.0.0.5/32", "10.0.0.0/24", "10.244.1.0/24", "10.244.7.9/32", "0.0.0.0/1", "128.0.0.0/1", "0.0.0.0/0",
		"172.17.0.0/16", "10.0.0.0/24", "10.244.0.0/15", "fd00::/64"), list("10.244.0.0/16", "10.96.0.0/12"))
	want := list("10.0.0.0/24", "10.244.0.0/15", "172.17.0.0/16", "192.168.1.0/24")
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWithoutSparesExactlyTheAddresses(t *testing.T) {
	for _, c := range []struct {
		name               string
		from, spared, want []netip.Prefix
	}{
		{"nothing", list("10.0.0.0/16", "10.1.0.0/16"), nil, list("10.0.0.0/16", "10.1.0.0/16")},
		{"elsewhere", list("10.0.0.0/16"), list("10.1.0.1/32"), list("10.0.0.0/16")},
		{"one", list("10.0.0.0/30", "10.1.0.0/16"), list("10.0.0.1/32"), list("10.0.0.0/32", "10.0.0.2/31", "10.1.0.0/16")},
		{"two", list("10.0.0.0/30"), list("10.0.0.3/32", "10.0.0.1/32"), list("10.0.0.0/32", "10.0.0.2/32")},
		{"the end of the space", list("255.255.255.252/30"), list("255.255.255.255/32"), list("255.255.255.252/31", "255.255.255.254/32")},
		{"all", list("10.0.0.0/30"), list("10.0.0.0/8"), nil},
		{"IPv6", list("10.0.0.0/30"), list("fd00::1/128"), list("10.0.0.0/30")},
	} {
		var spared []Reservation
		for _, p := range c.spared {
			spared = append(spared, Reservation{Prefix: p})
		}
		if got := Without(c.from, spared); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := len(Without(list("10.0.0.0/16"), reserved("10.0.77.5/32"))); got != 16 {
		t.Errorf("a /16 without one address is %d prefixes, want 16", got)
	}
}

func TestRemapKeepsHostBits(t *testing.T) {
	for _, c := range []struct{ addr, from, to, want string }{
		{"10.244.1.2", "10.244.0.0/16", "10.60.0.0/16", "10.60.1.2"},
		{"10.244.200.1", "10.244.192.0/18", "10.60.64.0/18", "10.60.72.1"},
		{"10.1.2.3", "10.1.2.3/32", "192.168.0.1/32", "192.168.0.1"},
		{"10.1.2.3", "10.0.0.0/16", "10.60.0.0/16", ""},
		{"10.0.2.3", "10.0.0.0/16", "10.60.0.0/17", ""},
		{"fd00::1", "10.0.0.0/16", "10.60.0.0/16", ""},
		{"10.0.0.1", "10.0.0.0/16", "fd00::/16", ""},
	} {
		got, err := Remap(netip.MustParseAddr(c.addr), netip.MustParsePrefix(c.from), netip.MustParsePrefix(c.to))
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("%s from %s to %s: got %v, %v, want %q", c.addr, c.from, c.to, got, err, c.want)
		}
	}
}

// FuzzAllocate fills a small space at random. It compares the result with the slow method that tries every
// candidate in order.
func FuzzAllocate(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		pools := list("10.0.0.0/20", "192.168.240.0/22")
		var taken []Reservation
		for range r.IntN(40) {
			taken = append(taken, Reservation{Prefix: randomPrefix(r)})
		}
		request := Request{Want: randomPrefix(r), Peer: fmt.Sprint(r.IntN(9)), Kind: Pods}
		got, _, err := Allocate(taken, request, pools)
		again, _, _ := Allocate(slices.Clone(taken), request, pools)
		if again != got {
			t.Fatalf("not deterministic: %s, then %s", got, again)
		}
		expected, ok := exhaustive(taken, request, pools)
		if !ok {
			if !errors.Is(err, ErrExhausted) {
				t.Fatalf("got %s, %v, want %v", got, err, ErrExhausted)
			}
			return
		}
		if err != nil || got != expected {
			t.Fatalf("want %v, taken %v: got %s, %v, expected %s", request, taken, got, err, expected)
		}
		if got.Bits() != request.Want.Bits() || got.Masked() != got {
			t.Errorf("got %s for %v", got, request)
		}
		for _, x := range taken {
			if Overlaps(x.Prefix, got) {
				t.Errorf("%s overlaps %s", got, x)
			}
		}
	})
}

func randomPrefix(r *rand.Rand) netip.Prefix {
	base := list("10.0.0.0/20", "192.168.240.0/22", "10.0.0.0/19", "100.64.0.0/20")[r.IntN(4)]
	bits := 20 + r.IntN(9)
	a := number(base.Addr()) | r.Uint32()&hostMask(base.Bits())
	return netip.PrefixFrom(address(a), bits).Masked()
}

func exhaustive(taken []Reservation, r Request, pools []netip.Prefix) (netip.Prefix, bool) {
	candidates := []netip.Prefix{}
	if r.Want.Addr().IsPrivate() { // longer than all private ranges
		candidates = append(candidates, r.Want)
	}
	for _, pool := range pools {
		var all []netip.Prefix
		for n := uint64(number(pool.Addr())); n < uint64(number(pool.Addr()))+size(pool.Bits()); n += size(r.Want.Bits()) {
			if c := netip.PrefixFrom(address(uint32(n)), r.Want.Bits()); Contains(pool, c) {
				all = append(all, c)
			}
		}
		if len(all) > 0 {
			first := position(r) % uint64(len(all))
			candidates = slices.Concat(candidates, all[first:], all[:first])
		}
	}
	for _, c := range candidates {
		if !slices.ContainsFunc(taken, func(x Reservation) bool { return Overlaps(x.Prefix, c) }) {
			return c, true
		}
	}
	return netip.Prefix{}, false
}
