package gateway

import (
	"net/netip"
	"slices"
	"testing"
)

func TestAGatewayIsLostAfterThreeQuestionsAndFoundByOneAnswer(t *testing.T) {
	milan := Gateway{Name: "rome/milan", PodIP: netip.MustParseAddr("10.0.0.1")}
	turin := Gateway{Name: "rome/turin", PodIP: netip.MustParseAddr("10.0.0.2")}
	all, moved := []Gateway{milan, turin}, milan
	moved.PodIP = netip.MustParseAddr("10.0.0.3")
	var p Paths
	for i, round := range []struct {
		asked    []Gateway
		answered []netip.Addr
		lost     []string
	}{
		{all, []netip.Addr{milan.PodIP, turin.PodIP}, nil},
		{all, []netip.Addr{turin.PodIP}, nil},
		{all, []netip.Addr{turin.PodIP}, nil},
		{all, []netip.Addr{milan.PodIP, turin.PodIP}, nil}, // the gateway's pod was replaced in time
		{all, []netip.Addr{turin.PodIP}, nil},
		{all, []netip.Addr{turin.PodIP}, nil},
		{all, []netip.Addr{turin.PodIP}, []string{"rome/milan"}},
		{all, nil, []string{"rome/milan"}},
		{[]Gateway{milan}, nil, []string{"rome/milan"}}, // turin is gone
		{[]Gateway{moved}, []netip.Addr{moved.PodIP}, nil},
		{all, []netip.Addr{turin.PodIP}, nil},
	} {
		answered := map[netip.Addr]bool{}
		for _, a := range round.answered {
			answered[a] = true
		}
		if got := p.Note(round.asked, answered); !slices.Equal(got, round.lost) {
			t.Errorf("round %d: got %v, want %v", i, got, round.lost)
		}
		if got, want := p.Doubtful(), len(round.asked) > len(round.answered)+len(round.lost); got != want {
			t.Errorf("round %d: doubtful: got %t, want %t", i, got, want)
		}
	}
}
