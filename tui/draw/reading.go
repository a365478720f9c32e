package draw

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// EndFacts returns the facts about one end of a connection. They are the same rows on all screens. seen is the
// peer's Configuration, which has the addresses of this end; nil if it is not known. pod is the gateway's pod.
// ago writes how long ago a time was.
func (t Theme) EndFacts(r flows.Reading, seen *networkingv1beta1.Configuration, pod string, ago func(time.Time) string) []Fact {
	var facts []Fact
	add := func(label string, known bool, format string, args ...any) {
		value := ""
		if known {
			value = t.Plain(fmt.Sprintf(format, args...))
		}
		facts = append(facts, Fact{label, value})
	}
	udp := func(address string) string { return strings.TrimPrefix(address, "UDP ") }
	way := map[flows.Role]string{flows.RoleServer: "listens", flows.RoleClient: "dials"}[r.Role]
	if r.Relayed {
		way = "dials relay"
	}
	add(cmp.Or(way, "address"), r.Endpoint != "", "%s", udp(r.Endpoint))
	add("hears peer", r.PeerAddress != "", "%s", r.PeerAddress)
	if pod != "" && !r.Created.IsZero() {
		pod += ", " + ago(r.Created)
	}
	add("gateway", pod != "", "%s", pod)
	pods, as := "", ""
	if seen != nil {
		pods = CIDRs(seen.Spec.Remote.CIDR.Pod)
		if as = "not assigned yet"; flows.CIDRsConfigured(seen) {
			as = CIDRs(seen.Status.Remote.CIDR.Pod)
		}
	}
	add("pods", pods != "", "%s", pods)
	add("seen as", as != "", "%s", as)
	shaken := ""
	switch {
	case !r.Handshake.IsZero():
		shaken = ago(r.Handshake) + " ago"
	case r.Reported && r.Value != networkingv1beta1.Connected:
		shaken = "none"
	}
	if r.Implementation != "" {
		shaken = cmp.Or(shaken, "-") + " (" + r.Implementation + ")"
	}
	add("handshake", shaken != "", "%s", shaken)
	add("MTU", r.MTU != 0, "%d", r.Longest())
	lost, known := r.Lost()
	add("loss", known, "%s", Percent(lost))
	add("in / out", r.Reported, "%s / %s", byteCount(r.Received), byteCount(r.Sent))
	reported := ""
	if !r.At.IsZero() {
		reported = ago(r.At) + " ago"
	}
	add("report", reported != "", "%s", reported)
	return facts
}

// CIDRs returns ranges of addresses as one text.
func CIDRs(cidrs []networkingv1beta1.CIDR) string {
	text := make([]string, len(cidrs))
	for i, c := range cidrs {
		text[i] = string(c)
	}
	return strings.Join(text, ", ")
}

// Lending returns lines about a cluster's lending with a peer.
func (t Theme) Lending(all []view.Lending, cluster, peer wire.ClusterID, width int) []string {
	var lines []string
	for _, l := range all {
		mark := OK
		if !l.Healthy() {
			mark = Warn
		}
		lines = append(lines, t.State(mark, t.Plain(l.Title(cluster, peer)), 0))
		for _, r := range l.Rows() {
			if r.Name != view.QuotaRow {
				lines = append(lines, t.Field(Pad(r.Name, LabelCells), t.Plain(r.Text), width)...)
				continue
			}
			for _, q := range l.Quotas() {
				lines = append(lines, t.Faint.Render(Pad(t.Fit(t.Plain(q.Name), LabelCells-1), LabelCells))+t.Gauge(q.Share)+"  "+q.Text)
			}
		}
	}
	return lines
}

// gaugeCells is the width of a bar.
const gaugeCells = 20

// nearlyFull is the share from which on a bar has the colour of a warning.
const nearlyFull = 0.9

// Gauge draws a share of a whole as a bar.
func (t Theme) Gauge(share float64) string {
	full := int(min(max(share, 0), 1)*gaugeCells + 0.5) //nolint:mnd // rounded
	look := t.Marks[OK]
	if share >= nearlyFull {
		look = t.Marks[Warn]
	}
	return look.Render(strings.Repeat(t.gauge[0], full)) + t.Faint.Render(strings.Repeat(t.gauge[1], gaugeCells-full))
}
