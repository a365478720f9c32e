package flows

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows/trial"
)

// AskAPI has a pod of one side ask the other cluster's API server.
type AskAPI struct {
	Side Side
	URL  string
}

// apiTimeout is longer than a pod takes whose image is there, and three attempts of TCP
// to open a connection.
const apiTimeout = 15 * time.Second

// On implements [Question].
func (q AskAPI) On() Side { return q.Side }

// Terms implements [Question].
func (q AskAPI) Terms() Terms { return Terms{Lasts: true, RunsPods: true, Within: apiTimeout} }

func (q AskAPI) slot(f *Facts) slot { return q.in(f) }

func (q AskAPI) in(f *Facts) *Answer[trial.API] { return &f.Sides[q.Side].APITrial }

// Reply is what became of the trial. One that was not made has no answer.
func (q AskAPI) Reply(t trial.API) Reply {
	if t.Unknown != "" {
		return Unknown(q, t.Unknown)
	}
	return Read(q, t)
}
