package gateway

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// TestFittingKeepsTheFirst compares the result with gateways that are added one by one.
func TestFittingKeepsTheFirst(t *testing.T) {
	base := NodeInputs{NodeIP: netip.MustParseAddr("192.168.1.11"), UnderlayMTU: 1500, PodCIDRs: prefixes("10.244.0.0/16")}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		in := base
		for range r.IntN(12) {
			in.Gateways = append(in.Gateways, Gateway{
				Name: string(rune('a' + len(in.Gateways))), MTU: 1340 * r.IntN(8), Gone: r.IntN(4) == 0,
				PodIP:       netip.AddrFrom4([4]byte{10, 244, 0, byte(1 + r.IntN(20))}),
				RemoteCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(16)), 0, 0}), 16)},
			})
		}
		want, unfit := base, []string(nil)
		for _, g := range in.Gateways {
			more := want
			more.Gateways = append(slices.Clip(want.Gateways), g)
			if more.check() == nil {
				want = more
			} else {
				unfit = append(unfit, g.Name)
			}
		}
		got, refused := in.Fitting()
		names := func(all []Gateway) (out []string) {
			for _, g := range all {
				out = append(out, g.Name)
			}
			return out
		}
		var of []string
		for _, u := range refused {
			of = append(of, u.Name)
		}
		if !slices.Equal(names(got.Gateways), names(want.Gateways)) || !slices.Equal(of, unfit) {
			t.Fatalf("seed %d: got %q and without %q, want %q and %q", seed, names(got.Gateways), of, names(want.Gateways), unfit)
		}
	}
}

// BenchmarkFittingOfAThousand has one gateway that conflicts with another one.
func BenchmarkFittingOfAThousand(b *testing.B) {
	in := NodeInputs{NodeIP: netip.MustParseAddr("192.168.1.11"), UnderlayMTU: 1500, PodCIDRs: prefixes("10.244.0.0/16")}
	for i := range 1000 {
		in.Gateways = append(in.Gateways, Gateway{
			Name: string(rune('a' + i)), MTU: 1340, PodIP: netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(1 + i%250)}),
			RemoteCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i / 256), byte(i), 0}), 24)},
		})
	}
	in.Gateways[700].MTU = 1
	for b.Loop() {
		if _, unfit := in.Fitting(); len(unfit) != 1 {
			b.Fatal(unfit)
		}
	}
}
