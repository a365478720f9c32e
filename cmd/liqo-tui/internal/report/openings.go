package report

import (
	"fmt"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// OpeningsDocument is the output of `check --firewall -o json`. While "v" is 1, fields are only
// added.
type OpeningsDocument struct {
	V        int       `json:"v"`
	At       time.Time `json:"at"`
	A        string    `json:"a"`
	B        string    `json:"b"`
	Openings []Opening `json:"openings"`
}

// Opening is traffic that a firewall has to allow. Stateful firewalls allow the answers as well.
type Opening struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`             // 0 with a device
	Device   string `json:"device,omitempty"` // nodes forward everything between it and their pods, in both directions
	For      string `json:"for"`
}

// OpeningsOf returns the list as a document.
func OpeningsOf(f flows.Facts, open []check.Opening) OpeningsDocument {
	d := OpeningsDocument{V: SchemaVersion, At: f.At.UTC(), A: string(f.Sides[flows.A].ID), B: string(f.Sides[flows.B].ID)}
	for _, o := range open {
		d.Openings = append(d.Openings, Opening{From: o.From, To: o.To, Protocol: o.Protocol, Port: o.Port, Device: o.Device, For: o.For})
	}
	return d
}

// WriteOpenings writes each rule in two lines, as a request to an admin of firewalls. For a large
// cluster, it leaves out addresses; the document has all.
func WriteOpenings(out io.Writer, open []check.Opening) {
	for _, o := range open {
		what := fmt.Sprintf("allow %s port %d and replies", o.Protocol, o.Port)
		if o.Device != "" {
			what = "forward all, both ways"
		}
		fmt.Fprintf(out, "%s: %s\n    from %s\n    to   %s\n", what, o.For, o.Brief, o.To)
	}
}
