package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// With any reports of the gateways, of any age, no check passes for something that was not measured.
func TestNoCheckPassesForWhatWasNotMeasured(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	began := factsOf(pair).At.Add(-time.Minute)
	type saying struct {
		reason   wire.Reason
		age      time.Duration
		received uint64
		pods     time.Duration // after the connection began; 0: never
	}
	var all []saying
	for _, reason := range []wire.Reason{wire.ReasonPinged, wire.ReasonNoHandshake, wire.ReasonNoPing, wire.ReasonPeerSilent} {
		for _, age := range []time.Duration{time.Second, time.Hour} {
			all = append(all, saying{reason, age, 0, 0}, saying{reason, age, 900, -time.Minute}, saying{reason, age, 900, time.Second})
		}
	}
	tell := func(f *flows.Facts, said [2]saying) {
		for side := range f.Sides {
			c := &f.Sides[side]
			s := said[side]
			says(c, f.At.Add(-s.age), func(r *wire.Report) {
				r.Reason, r.SentBytes, r.ReceivedBytes, r.Since = s.reason, 900, s.received, &began
				if s.pods != 0 {
					r.PodTraffic = new(began.Add(s.pods))
				}
			})
		}
	}
	for _, a := range all {
		for _, b := range all {
			said := [2]saying{a, b}
			now := factsOf(pair)
			tell(&now, said)
			earlier := before(now)
			for _, looked := range []*flows.Facts{nil, &earlier} {
				for _, r := range check.Diagnose(now, looked) {
					if r.State != check.Pass {
						continue
					}
					answered := func(side flows.Side) bool {
						return said[side].reason == wire.ReasonPinged && said[side].age < time.Minute
					}
					moved := func(to flows.Side) bool {
						return looked != nil && said[to].received > 0 && a.age == b.age && a.age < time.Minute
					}
					ok := true
					switch r.ID {
					case check.UDPPath:
						ok = answered(flows.A) && answered(flows.B) || moved(r.Sides[1])
					case check.Ping, check.PacketLoss:
						ok = answered(r.Sides[0])
					case check.Fresh:
						ok = said[r.Sides[0]].age < time.Minute
					case check.PodTraffic:
						ok = a.pods > 0 || b.pods > 0
					default:
					}
					if !ok {
						t.Fatalf("%s passes (%s), earlier look %t, of\n%+v", r.ID, r.Summary, looked != nil, said)
					}
				}
			}
		}
	}
}

// A title has room beside its mark, its code and its sides on a small terminal.
func TestTitlesAreShort(t *testing.T) {
	pair := flowtest.NewPair()
	results := append(check.Diagnose(factsOf(pair), nil), check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{})...)
	for _, r := range results {
		if len([]rune(r.Title)) > check.LongestTitle || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s: %q", r.ID, r.Title)
		}
	}
}
