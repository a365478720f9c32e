package flows

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows/trial"
)

// AskAPI asks whether pods of one side reach the other cluster's API server.
type AskAPI struct {
	Side Side
	URL  string
}

// apiTimeout is longer than a pod takes to start if its node has the image, and three
// attempts of TCP to open a connection.
const apiTimeout = 15 * time.Second

// On implements [Question].
func (q AskAPI) On() Side { return q.Side }

// Terms implements [Question].
func (q AskAPI) Terms() Terms { return Terms{Lasts: true, RunsPods: true, Within: apiTimeout} }

func (q AskAPI) slot(f *Facts) slot { return q.in(f) }

func (q AskAPI) in(f *Facts) *Answer[trial.API] { return &f.Sides[q.Side].APITrial }

// Reply turns the result of a trial into a reply. If the trial was not made, the answer
// is unknown.
func (q AskAPI) Reply(t trial.API) Reply {
	if t.Unknown != "" {
		return Unknown(q, t.Unknown)
	}
	return Read(q, t)
}
