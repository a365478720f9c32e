package wire_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestARenumberingIsReadAsItIsWritten(t *testing.T) {
	want := wire.Renumbering{Leave: []netip.Prefix{netip.MustParsePrefix("253.18.0.0/16"), netip.MustParsePrefix("247.1.0.0/16")}, Keep: 90 * time.Minute}
	got, err := wire.ParseRenumbering(&metav1.ObjectMeta{Annotations: want.Annotations()})
	if err != nil || !slices.Equal(got.Leave, want.Leave) || got.Keep != want.Keep {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if got, err := wire.ParseRenumbering(&metav1.ObjectMeta{}); err != nil || len(got.Leave) > 0 {
		t.Errorf("without annotations: got %v (%v), want nothing", got, err)
	}
	for _, bad := range []map[string]string{
		{wire.AnnotationRenumber: "253.18.0.0/16,pods"}, {wire.AnnotationRenumber: "253.18.0.0/16", wire.AnnotationKeep: "an hour"},
	} {
		if got, err := wire.ParseRenumbering(&metav1.ObjectMeta{Annotations: bad}); err == nil || len(got.Leave) > 0 && got.Keep != 0 {
			t.Errorf("%v: got %v, %v", bad, got, err)
		}
	}
}

func TestAliasesAreReadAsTheyAreWritten(t *testing.T) {
	is := netip.MustParsePrefix("10.244.0.0/16")
	want := []wire.Alias{{Seen: netip.MustParsePrefix("240.5.0.0/16"), Real: is}, {Seen: is, Real: is}}
	got, err := wire.ParseAliases(&metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationAlso: wire.JoinAliases(want)}})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if _, err := wire.ParseAliases(&metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationAlso: "240.5.0.0/16"}}); err == nil {
		t.Error("got no error for a range that stands for nothing")
	}
}

// A range may contain hundreds of nodes, so the message names the widest overlaps first.
func TestOverlapsAreListedInShort(t *testing.T) {
	seen, other := netip.MustParsePrefix("253.18.0.0/16"), netip.MustParsePrefix("240.5.0.0/16")
	var all []wire.Overlap
	for i := range 8 {
		all = append(all, wire.Overlap{Range: seen, With: ipam.Host(netip.AddrFrom4([4]byte{253, 18, 0, byte(i)}), fmt.Sprint("node n", i))})
	}
	lan := wire.Overlap{Range: seen, With: ipam.Reservation{Prefix: netip.MustParsePrefix("253.18.0.0/24"), Reason: "the network around node n0"}}
	lone := wire.Overlap{Range: other, With: ipam.Host(netip.MustParseAddr("240.5.0.1"), "endpoint of GatewayClient a/b, gw.example")}
	text := wire.JoinOverlaps(append(all, lan, lone))
	if want := "240.5.0.0/16 overlaps 240.5.0.1/32, endpoint of GatewayClient a/b, gw.example; 253.18.0.0/16 overlaps 253.18.0.0/24, the network around node n0; "; !strings.HasPrefix(text, want) {
		t.Errorf("got %q, want it to begin with %q", text, want)
	}
	if !strings.HasSuffix(text, "; 253.18.0.0/16 and 4 more") {
		t.Errorf("got %q, want it to count 4 more", text)
	}
	conf := &networkingv1beta1.Configuration{}
	conf.Status.Conditions = []metav1.Condition{{Type: wire.ConditionOverlap, Status: metav1.ConditionTrue, Message: text}}
	if got := wire.Overlaps(conf); len(got) != 6 || got[0] != lone || got[1] != lan {
		t.Errorf("got %v", got)
	}
	conf.Status.Conditions[0].Status = metav1.ConditionFalse
	if got := wire.Overlaps(conf); got != nil {
		t.Errorf("got %v where nothing overlaps", got)
	}
}
