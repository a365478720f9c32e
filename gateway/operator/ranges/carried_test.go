package ranges

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// A peer that reports a range attracts traffic to itself, so little is trusted.
func TestARangeThatAPeerSaysIsTakenOrRefused(t *testing.T) {
	agreed := wire.ParseRanges("10.244.0.0/16,10.245.0.0/17;10.70.0.0/16")
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("10.%d.0.0/16", i))
	}
	for said, want := range map[string]string{
		"10.244.0.0/16,10.245.0.0/17;10.70.0.0/16":                                 "",
		"10.245.0.0/17,10.244.0.0/16;10.70.0.0/16":                                 "",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.0/16;10.70.0.0/16":                     "10.9.0.0/16",
		"10.9.0.0/16,10.244.0.0/16,10.245.0.0/17,10.8.7.0/24;10.70.0.0/16":         "10.9.0.0/16,10.8.7.0/24",
		"10.244.0.0/16,10.9.0.0/16;10.70.0.0/16":                                   "former ranges are missing",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.0/16;10.71.0.0/16":                     "the external ranges differ",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.0/16;10.70.0.0/16,10.71.0.0/16":        "the external ranges differ",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.0/16":                                  "the external ranges differ",
		"10.244.0.0/16,10.245.0.0/17,0.0.0.0/0;10.70.0.0/16":                       "0.0.0.0/0 is larger",
		"10.244.0.0/16,10.245.0.0/17,10.8.0.0/15;10.70.0.0/16":                     "10.8.0.0/15 is larger",
		"10.244.0.0/16,10.245.0.0/17,10.244.9.0/24;10.70.0.0/16":                   "10.244.9.0/24 overlaps",
		"10.244.0.0/16,10.245.0.0/17,10.70.9.0/24;10.70.0.0/16":                    "10.70.9.0/24 overlaps",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.0/24,10.9.0.128/25;10.70.0.0/16":       "10.9.0.128/25 overlaps",
		"10.244.0.0/16,10.245.0.0/17,10.9.0.1/24;10.70.0.0/16":                     `"10.9.0.1/24": not a valid`,
		"10.244.0.0/16,10.245.0.0/17,fd00::/64;10.70.0.0/16":                       `"fd00::/64": not a valid`,
		"10.244.0.0/16,10.245.0.0/17,ten;10.70.0.0/16":                             `"ten": not a valid`,
		"10.244.0.0/16,10.245.0.0/17," + strings.Join(many, ",") + ";10.70.0.0/16": "19 ranges are too many",
	} {
		more, err := Additional(agreed, wire.ParseRanges(said))
		got := strings.TrimSuffix(wire.RangesText(networkingv1beta1.ClusterConfigCIDR{Pod: more}), ";")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", said, got, want)
		}
	}
}

func TestOwnRangesAreFollowedUnlessAnAdminHasChosen(t *testing.T) {
	had := wire.ParseRanges("10.244.0.0/16;10.70.0.0/16")
	for _, c := range []struct {
		written, has string
		want         bool
	}{
		{"10.244.0.0/16;10.70.0.0/16", "10.244.0.0/16,10.245.0.0/16;10.70.0.0/16", true},
		{"10.244.0.0/16;10.70.0.0/16", "10.244.0.0/16;10.70.0.0/16", false},
		{"10.244.0.0/16;10.70.0.0/16", "10.245.0.0/16;10.70.0.0/16", false},
		{"10.244.0.0/16,10.245.0.0/16;10.70.0.0/16", "10.244.0.0/16,10.245.0.0/16;10.70.0.0/16", false}, // an admin has removed a range
		{"", "10.244.0.0/16,10.245.0.0/16;10.70.0.0/16", false},
	} {
		if got := Grown(c.written, had, wire.ParseRanges(c.has)); got != c.want {
			t.Errorf("written %q, has %q: got %t", c.written, c.has, got)
		}
	}
}

// A range that nobody here has accepted is never used at its own addresses, because they may belong to a host
// that the cluster's pods reach today.
func TestACarriedRangeIsSeenUnderAnother(t *testing.T) {
	m := newAllocations(t)
	for _, carried := range []string{"", "true"} {
		n := render.Network("tenant", "peer"+carried, "", "10.9.0.0/16", 0)
		n.Labels[wire.LabelRemoteCluster] = "peer"
		if carried != "" {
			n.Annotations = map[string]string{render.AnnotationCarriedRanges: carried}
		}
		m.must(m.cluster.Create(t.Context(), n))
		m.allocator = NewAllocator(m.cluster, m.allocator.surroundings, nil)
		got, err := m.allocator.Assign(t.Context(), n)
		m.must(err)
		if same := string(got) == "10.9.0.0/16"; same != (carried == "") {
			t.Errorf("carried %q: got %s", carried, got)
		}
	}
}

// Each range of a peer takes as much of the space that all peers share.
func TestAPeerHasSixteenRangesAtMost(t *testing.T) {
	many := func(n int) (out []networkingv1beta1.CIDR) {
		for i := range n {
			out = append(out, networkingv1beta1.CIDR(fmt.Sprintf("10.%d.0.0/16", i)))
		}
		return out
	}
	for name, tc := range map[string]struct {
		pods []networkingv1beta1.CIDR
		why  string
	}{
		"fifteen, and one": {many(15), ""},
		"one too many":     {many(16), "17 ranges, at most 16"},
		"a /8":             {[]networkingv1beta1.CIDR{"10.0.0.0/8"}, ""},
		"a /7":             {[]networkingv1beta1.CIDR{"64.0.0.0/7"}, "64.0.0.0/7 is larger than a /8"},
	} {
		c := &networkingv1beta1.Configuration{}
		c.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: tc.pods, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
		if err := Bounded(c); (err == nil) != (tc.why == "") || err != nil && (!errors.Is(err, ipam.ErrInvalid) || !strings.Contains(err.Error(), tc.why)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.why)
		}
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: c.Spec.Remote.CIDR}
		if err := Bounded(c); err != nil {
			t.Errorf("%s, which the peer has already: %v", name, err)
		}
	}
}
