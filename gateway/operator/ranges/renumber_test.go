package ranges

import (
	"net/netip"
	"testing"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestNextStepOfARenumbering(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	network := func(cidr networkingv1beta1.CIDR, left time.Duration) *ipamv1alpha1.Network {
		n := &ipamv1alpha1.Network{Status: ipamv1alpha1.NetworkStatus{CIDR: cidr}}
		if left > 0 {
			n.Annotations = map[string]string{wire.AnnotationLeft: now.Add(-left).Format(time.RFC3339)}
		}
		return n
	}
	const was, next = "253.18.0.0/16", "240.5.0.0/16"
	asked := func(keep time.Duration, leave ...string) (r wire.Renumbering) {
		r.Keep = keep
		for _, p := range leave {
			r.Leave = append(r.Leave, netip.MustParsePrefix(p))
		}
		return r
	}
	for _, c := range []struct {
		name  string
		pair  Pair
		asked wire.Renumbering
		ready bool
		want  Step
		again time.Duration
	}{
		{"nothing is asked for", Pair{network(was, 0), nil}, asked(0), true, Rest, 0},
		{"another peer's range", Pair{network(was, 0), nil}, asked(0, "10.9.0.0/16"), true, Rest, 0},
		{"just asked", Pair{network(was, 0), nil}, asked(0, was), true, Begin, 0},
		{"made, and given no range yet", Pair{network(was, 0), network("", 0)}, asked(0, was), true, Begin, 0},
		{"a node lacks it", Pair{network(was, 0), network(next, 0)}, asked(0, was), false, Prepare, 0},
		{"all have it", Pair{network(was, 0), network(next, 0)}, asked(0, was), true, Switch, 0},
		{"just changed over", Pair{network(next, 0), network(was, time.Second)}, asked(time.Minute, was), false, Keep, 59 * time.Second},
		{"the time is over", Pair{network(next, 0), network(was, time.Minute)}, asked(time.Minute, was), true, Release, 0},
		{"at once", Pair{network(next, 0), network(was, time.Second)}, asked(0, was), true, Release, 0},
		{"taken back before the change", Pair{network(was, 0), network(next, 0)}, asked(0), true, Release, 0},
		{"both are to be left", Pair{network(next, 0), network(was, time.Second)}, asked(time.Hour, was, next), true, Release, 0},
		{"back again", Pair{network(next, 0), network(was, time.Second)}, asked(time.Hour, next), true, Switch, 0},
	} {
		if got, again := c.pair.Next(c.asked, c.ready, now); got != c.want || again != c.again {
			t.Errorf("%s: got %v, again in %s; want %v, %s", c.name, got, again, c.want, c.again)
		}
	}
}
