package flows

import (
	"time"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// AskPackets asks whether packets pass between pods of the two clusters. The engine
// answers it when the rest of the plan is done: [Plan.MeasureNext].
type AskPackets struct{}

// On implements [Question]. Packets are sent both ways; A stands for both sides.
func (AskPackets) On() Side { return A }

// Terms implements [Question].
func (AskPackets) Terms() Terms { return Terms{Lasts: true, RunsPods: true} }

func (q AskPackets) slot(f *Facts) slot { return q.in(f) }

func (AskPackets) in(f *Facts) *Answer[Measurement] { return &f.Measured }

// Measurement is the result of sending packets between pods.
type Measurement struct {
	At     time.Time
	OK     bool
	Result string       // one sentence
	Fix    command.Hint // set unless OK
}
