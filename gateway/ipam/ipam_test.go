package ipam

import (
	"errors"
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

func TestAllocate(t *testing.T) {
	for _, c := range []struct {
		name, want string
		taken      []netip.Prefix
		pools      []netip.Prefix
		got        string
		err        error
	}{
		{name: "free: itself", want: "10.200.0.0/16", got: "10.200.0.0/16"},
		{name: "taken: first free of its length", want: "10.244.0.0/16", taken: list("10.244.0.0/16"), got: "10.0.0.0/16"},
		{name: "both default external networks", want: "10.70.0.0/16", taken: list("10.0.0.0/15", "10.70.0.0/16", "10.2.0.0/24"), got: "10.3.0.0/16"},
		{name: "overlap by a part", want: "10.1.0.0/16", taken: list("10.1.2.0/24"), got: "10.0.0.0/16"},
		{name: "overlap by a whole", want: "10.1.0.0/16", taken: list("10.0.0.0/12"), got: "10.16.0.0/16"},
		{name: "outside all pools", want: "100.64.0.0/16", got: "10.0.0.0/16"},
		{name: "second pool", want: "10.1.0.0/16", taken: list("10.0.0.0/8"), got: "192.168.0.0/16"},
		{name: "third pool", want: "10.1.0.0/17", taken: list("10.0.0.0/8", "192.168.0.0/17", "192.168.128.0/17"), got: "172.16.0.0/17"},
		{name: "taken entries of IPv6 do not matter", want: "10.1.0.0/16", taken: list("fd00::/8"), got: "10.1.0.0/16"},
		{name: "whole pool", want: "10.0.0.0/8", got: "10.0.0.0/8"},
		{name: "exhausted", want: "10.1.0.0/16", taken: list("10.0.0.0/8"), pools: list("10.0.0.0/8"), err: ErrExhausted},
		{name: "larger than any pool", want: "8.0.0.0/7", err: ErrExhausted},
		{name: "end of the address space", want: "10.0.0.0/16", taken: list("255.0.0.0/9", "255.128.0.0/9"), pools: list("255.0.0.0/8"), err: ErrExhausted},
		{name: "host bits", want: "10.1.2.3/16", err: ErrInvalid},
		{name: "IPv6", want: "fd00::/64", err: ErrInvalid},
		{name: "invalid pool", want: "10.0.0.0/16", pools: []netip.Prefix{{}}, err: ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			pools := c.pools
			if pools == nil {
				pools = DefaultPools()
			}
			got, err := Allocate(c.taken, netip.MustParsePrefix(c.want), pools)
			if !errors.Is(err, c.err) {
				t.Fatalf("error: got %v, want %v", err, c.err)
			}
			if c.err == nil && got.String() != c.got {
				t.Errorf("got %s, want %s", got, c.got)
			}
		})
	}
	if _, err := Allocate(nil, netip.Prefix{}, DefaultPools()); !errors.Is(err, ErrInvalid) {
		t.Errorf("zero prefix: got %v, want %v", err, ErrInvalid)
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

// FuzzAllocate fills a small space at random and compares with the obvious,
// slow way: try every candidate in order.
func FuzzAllocate(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		pools := list("10.0.0.0/20", "192.168.240.0/22")
		var taken []netip.Prefix
		for range r.IntN(40) {
			taken = append(taken, randomPrefix(r))
		}
		want := randomPrefix(r)
		got, err := Allocate(taken, want, pools)
		again, _ := Allocate(slices.Clone(taken), want, pools)
		if again != got {
			t.Fatalf("not deterministic: %s, then %s", got, again)
		}
		expected, ok := exhaustive(taken, want, pools)
		if !ok {
			if !errors.Is(err, ErrExhausted) {
				t.Fatalf("got %s, %v, want %v", got, err, ErrExhausted)
			}
			return
		}
		if err != nil || got != expected {
			t.Fatalf("want %s, taken %v: got %s, %v, expected %s", want, taken, got, err, expected)
		}
		if got.Bits() != want.Bits() || got.Masked() != got {
			t.Errorf("got %s for %s", got, want)
		}
		for _, x := range taken {
			if Overlaps(x, got) {
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

func exhaustive(taken []netip.Prefix, want netip.Prefix, pools []netip.Prefix) (netip.Prefix, bool) {
	candidates := []netip.Prefix{}
	if slices.ContainsFunc(pools, func(p netip.Prefix) bool { return Contains(p, want) }) {
		candidates = append(candidates, want)
	}
	for _, pool := range pools {
		for n := uint64(number(pool.Addr())); n < uint64(number(pool.Addr()))+size(pool.Bits()); n += size(want.Bits()) {
			if c := netip.PrefixFrom(address(uint32(n)), want.Bits()); Contains(pool, c) {
				candidates = append(candidates, c)
			}
		}
	}
	for _, c := range candidates {
		if !slices.ContainsFunc(taken, func(x netip.Prefix) bool { return Overlaps(x, c) }) {
			return c, true
		}
	}
	return netip.Prefix{}, false
}
