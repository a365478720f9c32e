package report

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// AddressDocument is the output of `address -o json`. While "v" is 1, fields are only
// added.
type AddressDocument struct {
	V      int            `json:"v"`
	At     time.Time      `json:"at"`
	Target string         `json:"target"`
	Of     wire.ClusterID `json:"of"`   // the cluster to which the address belongs
	From   wire.ClusterID `json:"from"` // the cluster whose pods use the address
	Ends   []AddressEnd   `json:"ends"`
	Note   string         `json:"note,omitempty"`
}

// AddressEnd is one pod, or the requested address.
type AddressEnd struct {
	Pod     string `json:"pod,omitempty"`
	Address string `json:"address,omitempty"` // in its own cluster
	SeenAs  string `json:"seenAs,omitempty"`  // the address at which pods of the other cluster reach it
	Ready   bool   `json:"ready"`
	Problem string `json:"problem,omitempty"`
}

// AddressDocumentOf returns the document for an answer.
func AddressDocumentOf(a address.Answer, f flows.Facts) AddressDocument {
	d := AddressDocument{V: SchemaVersion, At: f.At.UTC(), Target: a.Target.String(), Of: a.Of, From: a.From, Note: a.Note}
	for _, e := range a.Ends {
		end := AddressEnd{Pod: e.Name, Address: e.Address, Ready: e.Ready, Problem: e.Problem}
		if e.Seen.IsValid() {
			end.SeenAs = e.Seen.String()
		}
		d.Ends = append(d.Ends, end)
	}
	return d
}
