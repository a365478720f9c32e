//go:build linux

package tunnel

import (
	"fmt"
	"slices"
	"time"
)

// fights holds the times of each repair. After a person's mistake, one repair is enough. Several repairs of
// the same thing mean that a program works against us.
type fights map[string][]time.Time

const (
	fightWindow = time.Minute
	fightTimes  = 3  // repairs of the same thing in that time
	fightLimit  = 64 // number of different repairs that are remembered
)

func (f fights) repaired(now time.Time, what string) {
	f.forget(now)
	if len(f) >= fightLimit && f[what] == nil {
		return
	}
	f[what] = append(f[what], now)
	if extra := len(f[what]) - fightLimit; extra > 0 {
		f[what] = f[what][extra:]
	}
}

func (f fights) forget(now time.Time) {
	for what, times := range f {
		f[what] = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > fightWindow })
		if len(f[what]) == 0 {
			delete(f, what)
		}
	}
}

// frequent returns the things that were repaired too often, sorted.
func (f fights) frequent(now time.Time) []string {
	f.forget(now)
	var lines []string
	for what, times := range f {
		if len(times) >= fightTimes {
			lines = append(lines, fmt.Sprintf("%s (%d times in the last minute)", what, len(times)))
		}
	}
	slices.Sort(lines)
	return lines
}
