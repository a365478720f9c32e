package install

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Offer has an admin's choices for installations of our operator on clusters without an operator.
type Offer struct {
	Image string
	IDs   [2]wire.ClusterID // by side; "": made from the context's name
}

// Installations returns the installations for the sides without an operator. If an installation is
// impossible, failed is a step with the reason.
func (o Offer) Installations(f flows.Facts) (all [2]flows.Installation, failed *flows.Step) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := f.Sides[side]
		if !c.Installable() {
			continue
		}
		var err error
		if all[side], err = o.For(c, cmp.Or(c.ID, o.IDs[side])); err != nil {
			return all, &flows.Step{
				ID: flows.StepID("install-" + strings.ToLower(side.String())), Side: side, Action: flows.Wait, Title: "the operator can be installed",
				Status: flows.Failed, Kind: flows.FailedPreflight, Code: flows.CodeUnfit, Reason: err.Error(),
				Fix: []command.Hint{command.Hintf("give %s or --image; for other settings, run %s first", [...]string{"--cluster-id", "--remote-cluster-id"}[side], c.Ours("install"))},
			}
		}
	}
	return all, nil
}

// For returns the installation for a cluster. If id is "", the ID is made from the context's name.
func (o Offer) For(c flows.ClusterFacts, id wire.ClusterID) (flows.Installation, error) {
	return New(render.InstallParams{
		ClusterID: cmp.Or(id, IDFrom(c.Context.Name)), Namespace: c.Namespace, Image: o.Image, ExternalCIDR: string(c.ExternalCIDR),
	})
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// IDFrom makes a cluster ID of the name of a context.
func IDFrom(context string) wire.ClusterID {
	return wire.ClusterID(strings.Trim(notInID.ReplaceAllString(strings.ToLower(context), "-"), "-"))
}
