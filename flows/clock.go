package flows

import (
	"time"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// ours converts a time in the cluster's objects to this machine's clock. The
// zero time stays zero.
func (p End) ours(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-p.ClockAhead)
}

// specChanged returns the time at which the spec of an object of the connection
// was last written.
func (p End) specChanged(o wire.Object) time.Time { return p.ours(specChanged(o)) }

// report is the gateway's report about its tunnel, as [wire.ParseReport] reads
// it, with times by this machine's clock.
func (p End) report() (r wire.Report, ok bool, err error) {
	r, ok, err = wire.ParseReport(p.Connection.Annotations)
	r.At = p.ours(r.At)
	times := []**time.Time{&r.Since, &r.Handshake, &r.PodTraffic}
	if r.Services != nil {
		times = append(times, &r.Services.Complete, &r.Services.Heard)
	}
	for _, t := range times {
		if *t != nil {
			ours := p.ours(**t)
			*t = &ours
		}
	}
	return r, ok, err
}
