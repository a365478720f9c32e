package draw

import (
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// ReadingFacts are what a side says beyond its state, as short texts; ago
// writes how long ago something was.
func (t Theme) ReadingFacts(r flows.Reading, pod string, ago func(time.Time) string) []string {
	var facts []string
	add := func(known bool, format string, args ...any) {
		if known {
			facts = append(facts, t.Plain(fmt.Sprintf(format, args...)))
		}
	}
	add(r.Role == flows.RoleServer && r.Endpoint != "" && !r.Relayed, "listens at %s", r.Endpoint)
	add(r.Role == flows.RoleClient && r.Endpoint != "", "dials %s", r.Endpoint)
	add(r.Relayed, "dials a relay at %s", r.Endpoint)
	hears := "hears the peer at %s"
	if r.Value != networkingv1beta1.Connected {
		hears = "heard the peer last at %s"
	}
	add(r.PeerAddress != "" && "UDP "+r.PeerAddress != r.Endpoint, hears, r.PeerAddress)
	if !r.Handshake.IsZero() {
		add(true, "handshake %s ago", ago(r.Handshake))
	}
	add(r.Reported && r.Handshake.IsZero() && r.Value != networkingv1beta1.Connected, "%s", check.NoHandshake(r))
	lost, known := r.Lost()
	add(known, "loss %s", Percent(lost))
	add(r.Reported, "received %s", byteCount(r.Received))
	add(r.Reported, "sent %s", byteCount(r.Sent))
	add(r.Implementation != "", "%s WireGuard", r.Implementation)
	add(r.MTU != 0, "MTU %d", r.MTU)
	add(pod != "", "pod %s", pod)
	if !r.At.IsZero() {
		add(true, "reported %s ago", ago(r.At))
	}
	return facts
}

// CIDRText says as which addresses the side sees the other's.
func CIDRText(other string, conf *networkingv1beta1.Configuration) []string {
	if conf == nil {
		return nil
	}
	if !flows.CIDRsConfigured(conf) {
		return []string{"addresses of " + other + " are not assigned yet"}
	}
	own, seen := conf.Spec.Remote.CIDR, conf.Status.Remote.CIDR
	return []string{
		fmt.Sprintf("sees %s's pods %s as %s", other, CIDRs(own.Pod), CIDRs(seen.Pod)),
		fmt.Sprintf("sees %s's external %s as %s", other, CIDRs(own.External), CIDRs(seen.External)),
	}
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
			lines = append(lines, t.Field("  "+Pad(r.Name, 11), t.Plain(r.Text), width)...)
		}
	}
	return lines
}
