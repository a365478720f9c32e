package clock

import (
	"testing"
	"time"
)

// The value stays while the measured difference changes only because of whole seconds and slow answers. It
// changes when a clock is set.
func TestTheClocksDifferenceIsStable(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for name, steps := range map[string][]struct{ is, took, want time.Duration }{
		"clocks that agree":            {{0, 0, 0}, {900 * ms, s, 0}, {-900 * ms, s, 0}},
		"too little to count":          {{2 * s, 0, 0}, {-2 * s, 0, 0}},
		"ahead":                        {{35 * s, 10 * ms, 35 * s}, {36 * s, 10 * ms, 35 * s}, {34 * s, s, 35 * s}},
		"behind":                       {{-35 * s, 10 * ms, -35 * s}, {-36 * s, 10 * ms, -35 * s}, {-34 * s, s, -35 * s}},
		"about what counts":            {{3600 * ms, 0, 4 * s}, {2900 * ms, 0, 4 * s}, {3100 * ms, 0, 4 * s}, {2500 * ms, 0, 4 * s}},
		"set right":                    {{-time.Hour, 0, -time.Hour}, {0, 0, 0}},
		"set wrong later":              {{0, 0, 0}, {20 * s, 0, 20 * s}, {25 * s, 0, 25 * s}},
		"a slow answer":                {{10 * time.Minute, 4 * s, 10 * time.Minute}},
		"a slow answer of little use":  {{5 * s, 20 * s, 0}},
		"this machine's clock was set": {{35 * s, -time.Minute, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			c := Clock{Notify: func() { told++ }}
			var before time.Duration
			for i, step := range steps {
				// The Date contains whole seconds only.
				for part := range 10 {
					asked := time.Date(2026, 3, 1, 12, 0, 0, part*int(100*ms), time.UTC)
					told = 0
					c.heard(asked, asked.Add(step.took), asked.Add(step.took/2+step.is).Truncate(s))
					got := c.Difference()
					if (got-step.want).Abs() > s || step.want == 0 && got != 0 {
						t.Fatalf("step %d, at %s: got %s, want %s", i, asked.Format(time.StampMilli), got, step.want)
					}
					if told == 1 != (got != before) {
						t.Fatalf("step %d: %s became %s, and %d were told", i, before, got, told)
					}
					if part > 0 && got != before {
						t.Fatalf("step %d: the same difference is %s, then %s", i, before, got)
					}
					before = got
				}
			}
		})
	}
}
