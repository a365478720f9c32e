// Package addresses is what the command address says, as a document.
package addresses

import (
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Document is what `address -o json` writes; fields are only added while "v" is 1.
type Document struct {
	V      int            `json:"v"`
	At     time.Time      `json:"at"`
	Target string         `json:"target"`
	Of     wire.ClusterID `json:"of"`   // the cluster that has it
	From   wire.ClusterID `json:"from"` // the cluster whose pods call
	Ends   []End          `json:"ends"`
	Note   string         `json:"note,omitempty"`
}

// End is one pod, or the address that was asked for.
type End struct {
	Pod     string `json:"pod,omitempty"`
	Address string `json:"address,omitempty"` // in its own cluster
	SeenAs  string `json:"seenAs,omitempty"`  // what to call
	Ready   bool   `json:"ready"`
	Problem string `json:"problem,omitempty"`
}

// DocumentOf is an answer as a document.
func DocumentOf(a address.Answer, f flows.Facts) Document {
	d := Document{V: report.SchemaVersion, At: f.At.UTC(), Target: a.Target.String(), Of: a.Of, From: a.From, Note: a.Note}
	for _, e := range a.Ends {
		end := End{Pod: e.Name, Address: e.Address, Ready: e.Ready, Problem: e.Problem}
		if e.Seen.IsValid() {
			end.SeenAs = e.Seen.String()
		}
		d.Ends = append(d.Ends, end)
	}
	return d
}
