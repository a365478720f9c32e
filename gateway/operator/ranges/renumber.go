package ranges

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Pair contains the Networks of one range of a peer.
type Pair struct {
	Current *ipamv1alpha1.Network // the range under which the cluster sees the peer
	Other   *ipamv1alpha1.Network // the next or the former range; nil: neither
}

// Swap exchanges the two Networks.
func (p *Pair) Swap() { p.Current, p.Other = p.Other, p.Current }

// Step is the next step for a Pair.
type Step uint8

// The steps, in the order in which a renumbering takes them.
const (
	Rest    Step = iota
	Begin        // make the other Network, or give it its range
	Prepare      // wait until nodes and gateway have the other range
	Switch       // see the peer under the other range
	Keep         // let the former range work
	Release      // delete the other Network
)

// Next is the next step of a request. ready means that nodes and gateway have both ranges. again is the rest
// of the time of Keep.
func (p Pair) Next(asked wire.Renumbering, ready bool, now time.Time) (step Step, again time.Duration) {
	leaves := func(n *ipamv1alpha1.Network) bool {
		return slices.ContainsFunc(asked.Leave, func(r netip.Prefix) bool { return r.String() == string(n.Status.CIDR) })
	}
	switch {
	case p.Other == nil && leaves(p.Current):
		return Begin, 0
	case p.Other == nil:
		return Rest, 0
	case leaves(p.Current) && leaves(p.Other):
		return Release, 0 // to make room for a third range
	case leaves(p.Current) && p.Other.Status.CIDR == "":
		return Begin, 0
	case leaves(p.Current) && ready:
		return Switch, 0
	case leaves(p.Current):
		return Prepare, 0
	}
	left, err := time.Parse(time.RFC3339, p.Other.Annotations[wire.AnnotationLeft])
	if again = left.Add(asked.Keep).Sub(now); err != nil || again <= 0 {
		return Release, 0 // the time is up, or the request is gone
	}
	return Keep, again
}

// Moves is the progress of the ranges of one peer.
type Moves struct {
	Asked wire.Renumbering
	// Also contains both ranges of each pair, for nodes and gateway.
	Also     []wire.Alias
	Released []*ipamv1alpha1.Network // to be deleted when they are not announced any more
	Again    time.Duration           // the time until the next reconciliation

	told    []wire.Alias // both ranges of each pair, as announced
	lacking []string     // nodes, and the gateway, that don't have all of these ranges

	next, kept []string               // ranges in preparation, and former ranges
	until      time.Time              // the time until which the last former range stays
	failed     error                  // the reason that a range stays
	networks   []types.NamespacedName // of this peer
	seen       []networkingv1beta1.CIDR
}

const (
	// compareAgain is the interval at which a peer's ranges are compared with objects that are not watched,
	// because a list of them costs much: Services, and the addresses of names.
	compareAgain = 2 * time.Minute
	// prepareAgain is the time between two checks of the reports of nodes and gateway.
	prepareAgain = time.Second
)

// NewMoves reads the request, and its progress.
func NewMoves(ctx context.Context, c client.Reader, conf *networkingv1beta1.Configuration) (*Moves, error) {
	m := &Moves{Again: compareAgain}
	if m.Asked, m.failed = wire.ParseRenumbering(conf); m.failed != nil {
		m.Asked.Keep = forever
	}
	told, err := wire.ParseAliases(conf)
	if err != nil || len(told) == 0 {
		return m, nil //nolint:nilerr // an annotation that can't be read is written again
	}
	m.told = told
	m.lacking, err = lacking(ctx, c, conf, m.told)
	return m, err
}

// forever is the time that former ranges stay while the request can't be read.
const forever = 100 * 365 * 24 * time.Hour

// Ready reports whether nodes and gateway have both ranges of a pair.
func (m *Moves) Ready(p Pair, real networkingv1beta1.CIDR) bool {
	return p.Other != nil && len(m.lacking) == 0 && !slices.ContainsFunc(aliases(p, real), func(a wire.Alias) bool { return !slices.Contains(m.told, a) })
}

// Fail reports whether err means that there is no room for another range. If so, it notes this.
func (m *Moves) Fail(err error) bool {
	if !errors.Is(err, ipam.ErrExhausted) {
		return false
	}
	m.failed = err
	return true
}

func aliases(p Pair, real networkingv1beta1.CIDR) []wire.Alias {
	var out []wire.Alias
	is, err := netip.ParsePrefix(string(real))
	for _, n := range []*ipamv1alpha1.Network{p.Current, p.Other} {
		if seen, err2 := netip.ParsePrefix(string(n.Status.CIDR)); err == nil && err2 == nil {
			out = append(out, wire.Alias{Seen: seen, Real: is})
		}
	}
	// The order is the same before and after the switch, so that the announcement changes only once.
	slices.SortFunc(out, func(a, b wire.Alias) int { return a.Seen.Addr().Compare(b.Seen.Addr()) })
	return out
}

// Note records the result of a step for a pair.
func (m *Moves) Note(p Pair, real networkingv1beta1.CIDR, step Step, again time.Duration, now time.Time) {
	m.networks = append(m.networks, client.ObjectKeyFromObject(p.Current))
	m.seen = append(m.seen, p.Current.Status.CIDR)
	if p.Other == nil {
		return
	}
	m.networks = append(m.networks, client.ObjectKeyFromObject(p.Other))
	switch step {
	case Rest:
		return
	case Release:
		m.Released = append(m.Released, p.Other)
		return
	case Begin, Prepare:
		m.next = append(m.next, fmt.Sprintf("%s becomes %s", p.Current.Status.CIDR, p.Other.Status.CIDR))
		again = prepareAgain
	case Switch, Keep:
		m.kept = append(m.kept, string(p.Other.Status.CIDR))
		if until := now.Add(again); until.After(m.until) {
			m.until = until
		}
	}
	m.seen = append(m.seen, p.Other.Status.CIDR)
	m.Also = append(m.Also, aliases(p, real)...)
	m.Again = min(m.Again, max(again, time.Millisecond))
}

// mostNamed is the largest number of names in a message.
const mostNamed = 5

// Conditions returns conditions about the next step and its obstacles, including conditions that are false.
func (m *Moves) Conditions(overlaps []wire.Overlap, generation int64) []metav1.Condition {
	both := []metav1.Condition{
		{Type: wire.ConditionOverlap, Status: metav1.ConditionFalse, Reason: wire.ReasonNeeded, ObservedGeneration: generation},
		{Type: wire.ConditionRenumbering, Status: metav1.ConditionTrue, ObservedGeneration: generation},
	}
	if len(overlaps) > 0 {
		both[0].Status, both[0].Message = metav1.ConditionTrue, wire.JoinOverlaps(overlaps)
	}
	switch c := &both[1]; {
	case m.failed != nil:
		c.Reason, c.Message = wire.ReasonNotRenumbered, m.failed.Error()
	case len(m.next) > 0:
		c.Reason, c.Message = wire.ReasonPreparing, strings.Join(m.next, ", ")+m.waits()
	case len(m.kept) > 0:
		c.Reason, c.Message = wire.ReasonFormerKept, fmt.Sprintf("%s works until %s", strings.Join(m.kept, ", "), m.until.UTC().Format(time.RFC3339))
	default:
		c.Status = metav1.ConditionFalse
	}
	return both
}

// waits returns the end of a sentence, with the nodes and the gateway that a change waits for.
func (m *Moves) waits() string {
	if len(m.lacking) == 0 {
		return ""
	}
	shown := min(len(m.lacking), mostNamed)
	text := "; this waits for " + strings.Join(m.lacking[:shown], ", ")
	if more := len(m.lacking) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lacking returns the nodes, and the gateway, that don't have all of the ranges. Nodes that are not ready
// don't count, nor does a gateway without its peer, because they carry no packets.
func lacking(ctx context.Context, c client.Reader, conf *networkingv1beta1.Configuration, told []wire.Alias) ([]string, error) {
	lacks := func(has []netip.Prefix) bool {
		return slices.ContainsFunc(told, func(a wire.Alias) bool { return !slices.Contains(has, a.Seen) })
	}
	ofPeer := []client.ListOption{client.InNamespace(conf.Namespace), client.MatchingLabels{wire.LabelRemoteCluster: conf.Labels[wire.LabelRemoteCluster]}}
	var fabrics networkingv1beta1.InternalFabricList
	if err := c.List(ctx, &fabrics, ofPeer...); err != nil {
		return nil, fmt.Errorf("list InternalFabrics: %w", err)
	}
	if len(fabrics.Items) == 0 {
		return nil, nil // there is no gateway
	}
	var out []string
	for i := range fabrics.Items {
		if has, err := wire.Also(&fabrics.Items[i]); err != nil || lacks(has) {
			return []string{"the operator, which has not announced them to the nodes yet"}, nil //nolint:nilerr // an annotation that can't be read is written again
		}
	}
	var connections networkingv1beta1.ConnectionList
	if err := c.List(ctx, &connections, ofPeer...); err != nil {
		return nil, fmt.Errorf("list Connections: %w", err)
	}
	for i := range connections.Items {
		report, _, err := wire.ParseReport(connections.Items[i].Annotations)
		if connections.Items[i].Status.Value == networkingv1beta1.Connected && (err != nil || lacks(report.Also)) {
			out = append(out, "the gateway")
		}
	}
	nodes, err := lackingNodes(ctx, c, lacks)
	return append(out, nodes...), err
}

func lackingNodes(ctx context.Context, c client.Reader, lacks func([]netip.Prefix) bool) ([]string, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	var said networkingv1beta1.InternalNodeList
	if err := c.List(ctx, &said, client.UnsafeDisableDeepCopy); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list InternalNodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	var out []string
	for i := range said.Items {
		n := &said.Items[i]
		if has, err := wire.Also(n); ready[n.Name] && (err != nil || lacks(has)) {
			out = append(out, "node "+n.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Overlaps returns the addresses in a peer's ranges that the cluster uses or needs, apart from the Networks
// for the peer.
func (a *Allocator) Overlaps(ctx context.Context, m *Moves) ([]wire.Overlap, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(ctx); err != nil {
		return nil, err
	}
	needed, err := a.surroundings.known(ctx, compareAgain)
	if err != nil {
		return nil, err
	}
	for of, p := range a.taken {
		if !slices.Contains(m.networks, of) {
			needed = append(needed, ipam.Reservation{Prefix: p, Reason: "Network " + of.String()})
		}
	}
	var out []wire.Overlap
	for _, cidr := range m.seen {
		p, err := netip.ParsePrefix(string(cidr))
		for _, n := range needed {
			if o := (wire.Overlap{Range: p, With: n}); err == nil && n.Prefix.Overlaps(p) && !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}
