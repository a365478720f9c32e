package flows

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows/trial"
)

// AskImage asks whether nodes can pull an image. Some nodes try to pull it.
type AskImage struct {
	Side Side
	Try  *trial.ImageTry
}

// imageTimeout is longer than a node needs to pull some ten MB from a distant registry. A
// longer pull delays nothing, because the installation would wait for it as well.
const imageTimeout = time.Minute

// On implements [Question].
func (q AskImage) On() Side { return q.Side }

// Terms implements [Question].
func (q AskImage) Terms() Terms { return Terms{Lasts: true, RunsPods: true, Within: imageTimeout} }

func (q AskImage) slot(f *Facts) slot { return q.in(f) }

func (q AskImage) in(f *Facts) *Answer[trial.Image] { return &f.Sides[q.Side].ImageTrial }

// Reply turns the result of a trial into a reply. If the trial was not made, the answer is
// unknown.
func (q AskImage) Reply(t trial.Image) Reply {
	if t.Unknown != "" {
		return Unknown(q, t.Unknown)
	}
	return Read(q, t)
}

// TriedImage is the image of [ClusterFacts.ImageTrial]; "" if there is none.
func (c ClusterFacts) TriedImage() string {
	if q, ok := c.ImageTrial.to.(AskImage); ok {
		return q.Try.Image
	}
	return ""
}
