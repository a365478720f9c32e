package tui

import (
	"slices"
	"strings"
	"time"
)

// historyLength is how many round trips a sparkline can show. A gateway reports
// about every 10 s, so it is the last few minutes.
const historyLength = 32

// history is the latest round trips as one gateway reported them.
type history struct {
	last    time.Time       // when the latest sample was measured
	samples []time.Duration // 0: no answer
}

// add notes a sample, unless it is the one that is already the latest.
func (h history) add(at time.Time, roundTrip time.Duration) history {
	if !at.After(h.last) {
		return h
	}
	h.last = at
	h.samples = append(slices.Clone(h.samples), roundTrip)
	if over := len(h.samples) - historyLength; over > 0 {
		h.samples = h.samples[over:]
	}
	return h
}

// bounds are the shortest and the longest round trip; ok is false without any.
func (h history) bounds() (low, high time.Duration, ok bool) {
	for _, s := range h.samples {
		if s <= 0 {
			continue
		}
		if !ok || s < low {
			low = s
		}
		high, ok = max(high, s), true
	}
	return low, high, ok
}

// sparkline draws the latest width samples, scaled from 0 to the longest.
func (h history) sparkline(t theme, width int) string {
	_, high, ok := h.bounds()
	samples := h.samples[max(0, len(h.samples)-max(0, width)):]
	var b strings.Builder
	for _, s := range samples {
		if !ok || s <= 0 {
			b.WriteString(t.gap)
			continue
		}
		b.WriteString(t.bars[int(int64(s)*int64(len(t.bars)-1)/int64(high))])
	}
	return b.String()
}
