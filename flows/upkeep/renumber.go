package upkeep

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// RenumberParams are the admin's choices for a renumbering.
type RenumberParams struct {
	// LocalOnly changes only cluster A, and B need not answer. The addresses at which A sees B have
	// no effect on B.
	LocalOnly bool
	// Peer is the cluster ID of B; "" means the ID that B reports, or else the only peer of A.
	Peer wire.ClusterID
	// Keep is the time for which the former ranges still work after the change.
	Keep time.Duration

	begun *Renumbering // nil until the clusters answer
}

// Settle implements [flows.Goal]. It chooses the ranges to give up when the clusters answer.
func (p RenumberParams) Settle(f flows.Facts) flows.Goal {
	if p.begun == nil && f.Sides[flows.A].Problem == nil && (p.LocalOnly || f.Sides[flows.B].Problem == nil) {
		p.begun = new(StartRenumbering(p, f))
	}
	return p
}

// Plan implements [flows.Goal].
func (p RenumberParams) Plan(f flows.Facts) flows.Plan {
	if p.begun == nil {
		return Renumber(p, Renumbering{}, f)
	}
	return Renumber(p, *p.begun, f)
}

// Renumbering has the ranges to give up. They are chosen once, at the start of a run. The change is
// done when the peer is seen at none of them.
type Renumbering struct {
	Peer  wire.ClusterID // "" while unknown
	Leave [2][]netip.Prefix
}

// StartRenumbering selects the ranges that overlap addresses which the cluster uses itself. If
// there are none, it selects all remapped ranges. It continues an unfinished renumbering.
func StartRenumbering(p RenumberParams, f flows.Facts) Renumbering {
	r := Renumbering{Peer: p.peer(f)}
	if r.Peer == "" {
		return r
	}
	for _, side := range p.sides() {
		if conf := p.connection(r, f).Ends[side].Configuration; conf != nil && flows.CIDRsConfigured(conf) {
			r.Leave[side] = leaves(conf)
		}
	}
	return r
}

func leaves(conf *networkingv1beta1.Configuration) []netip.Prefix {
	if conf.Annotations[wire.AnnotationAlso] != "" {
		asked, _ := wire.ParseRenumbering(conf) // the operator reports a text that can't be parsed
		return asked.Leave
	}
	var all, overlapping []netip.Prefix
	overlaps := wire.Overlaps(conf)
	for _, v := range check.Decided(conf) {
		if slices.ContainsFunc(overlaps, func(o wire.Overlap) bool { return o.Range == v.Remapped }) {
			overlapping = append(overlapping, v.Remapped)
		}
		if v.Real != v.Remapped {
			all = append(all, v.Remapped)
		}
	}
	if len(overlapping) > 0 {
		return overlapping
	}
	return all
}

func (p RenumberParams) sides() []flows.Side {
	if p.LocalOnly {
		return []flows.Side{flows.A}
	}
	return []flows.Side{flows.A, flows.B}
}

// peer returns the ID of cluster B; "" if it is unclear.
func (p RenumberParams) peer(f flows.Facts) wire.ClusterID {
	known := f.Sides[flows.A].KnownPeers()
	switch {
	case !p.LocalOnly:
		return f.Sides[flows.B].ID
	case p.Peer == "" && len(known) == 1:
		return known[0]
	}
	return p.Peer
}

func (p RenumberParams) connection(r Renumbering, f flows.Facts) flows.Connection {
	if p.LocalOnly {
		f.Sides[flows.B].ID = r.Peer
	}
	return flows.NewConnection(flows.Params{}, f)
}

// Renumber moves the peer to other ranges, as each cluster sees it, without an interruption: nodes
// and gateways know both ranges for some time. Packets in the tunnel have real addresses, so a
// change of one cluster's view does not affect the other cluster.
func Renumber(p RenumberParams, r Renumbering, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), B: f.Sides[flows.B].Name()}
	if plan.Steps = p.obstacles(r, f); len(plan.Steps) > 0 {
		return plan
	}
	plan.B = r.Peer
	c := p.connection(r, f)
	for _, side := range p.sides() {
		if len(r.Leave[side]) > 0 {
			plan.Asks = append(plan.Asks, flows.AskPolicies{Side: side})
		}
	}
	for _, side := range p.sides() {
		if s := unrenumberable(c, side); s != nil {
			plan.Steps = append(plan.Steps, *s)
		}
	}
	if len(plan.Steps) > 0 {
		return plan
	}
	for _, side := range p.sides() {
		steps, kept := renumbering{c, side, c.Ends[side].Configuration, wire.Renumbering{Leave: r.Leave[side], Keep: p.Keep}}.plan()
		plan.Steps, plan.Kept = append(plan.Steps, steps...), append(plan.Kept, kept...)
	}
	return plan
}

func (p RenumberParams) obstacles(r Renumbering, f flows.Facts) []flows.Step {
	if p.LocalOnly {
		if steps := flows.NoAnswer(f, flows.A); len(steps) > 0 {
			return steps
		}
		if s := flows.FirstObstacle(flows.A, f.Sides[flows.A]); s != nil {
			return []flows.Step{*s}
		}
	} else if steps := flows.Obstacles(f); len(steps) > 0 {
		return steps
	}
	refuse := func(reason string, fix command.Hint) []flows.Step {
		return []flows.Step{flows.Refuse(flows.A, flows.CodeUnnamedPeer, "the peer is known", flows.FailedPreflight, reason, fix)}
	}
	known := f.Sides[flows.A].KnownPeers()
	switch {
	case len(known) == 0:
		return []flows.Step{flows.Refuse(flows.A, flows.CodeNotConnected, "peers", flows.FailedPreflight,
			fmt.Sprintf("%s has no peers", f.Sides[flows.A].ID), command.Hintf("connect the clusters first: %s", f.Ours("network", "connect")))}
	case r.Peer == "":
		return refuse(fmt.Sprintf("%s is peered with %s", f.Sides[flows.A].ID, flows.Joined(known)), command.Hintf("name one: %s", f.Sides[flows.A].Ours("network", "renumber", "PEER")))
	case p.Peer != "" && p.Peer != r.Peer:
		return refuse(fmt.Sprintf("the remote cluster is %s, not %s", r.Peer, p.Peer), command.Text("leave the peer's name out, or choose another --remote-context"))
	case !slices.Contains(known, r.Peer):
		return refuse(fmt.Sprintf("%s has no peer %s; its peers: %s", f.Sides[flows.A].ID, r.Peer, flows.Joined(known)), command.Text("name one of them"))
	}
	return nil
}

// unrenumberable returns the reason that one side can't renumber, as a failed step; nil if there is
// none.
func unrenumberable(c flows.Connection, side flows.Side) *flows.Step {
	f, conf := c.Facts.Sides[side], c.Ends[side].Configuration
	switch {
	case !f.Can().Renumber:
		return new(flows.Refuse(side, flows.CodeSoftware, "operator", flows.FailedPreflight,
			fmt.Sprintf("Liqo chooses under which ranges %s sees its peers, and can't change them in operation", f.ID),
			command.Hintf("%s, then %s, chooses them again; traffic stops until the clusters are connected", c.Facts.Ours("network", "reset"), c.Facts.Ours("network", "connect"))))
	case conf == nil || !flows.CIDRsConfigured(conf):
		return new(flows.Refuse(side, flows.CodeNotConnected, "ranges of the peer", flows.FailedPreflight,
			fmt.Sprintf("%s sees %s under no ranges yet", f.ID, c.Facts.Sides[side.Other()].ID), command.Hintf("connect the clusters first: %s", c.Facts.Ours("network", "connect"))))
	}
	return nil
}

// renumbering is one side's view of its peer during the change.
type renumbering struct {
	c     flows.Connection
	side  flows.Side
	conf  *networkingv1beta1.Configuration
	asked wire.Renumbering
}

func (r renumbering) plan() (steps []flows.Step, kept []string) {
	me, other := r.c.Facts.Sides[r.side].ID, r.c.Facts.Sides[r.side.Other()].ID
	if len(r.asked.Leave) == 0 {
		return []flows.Step{{
			ID: flows.IDOf(r.side, stepRenumber), Side: r.side, Action: flows.Update, Title: "ranges of " + string(other), Status: flows.Done,
			Reason: fmt.Sprintf("%s sees %s under its own ranges, and nothing overlaps them", me, other),
		}}, nil
	}
	becomes, err := check.Renumbered(r.c.Facts.Sides[r.side], r.conf, r.asked.Leave)
	if err != nil {
		return []flows.Step{flows.Refuse(r.side, flows.CodeRemapping, "another range", flows.FailedPreflight,
			fmt.Sprintf("%s has no room for %s: %v", me, other, err), r.c.Facts.Sides[r.side].MoreRoom())}, nil
	}
	if !r.switched() {
		for _, b := range becomes {
			kept = append(kept, fmt.Sprintf("on %s, %s", me, b))
		}
		kept = append(kept, fmt.Sprintf("%s still works on %s, %s: renew addresses that are written down, as in EndpointSlices and applications; %s",
			joinedRanges(r.asked.Leave), me, lasting(r.asked.Keep), r.policies(becomes)))
	}
	return []flows.Step{r.ask(becomes), r.change(becomes), r.former()}, kept
}

// policies describes the NetworkPolicies that name a range to give up. Our programs don't change
// policies.
func (r renumbering) policies(becomes []check.Becomes) string {
	const rule = "NetworkPolicies that name it have to name the new range before the change"
	c := r.c.Facts.Sides[r.side]
	f := c.Policies.Value()
	switch why := c.PoliciesUnknown(); {
	case why != "":
		return rule + "; they can't be read: " + why
	case f == nil:
		return rule
	}
	text := "no NetworkPolicy names it alone"
	if names, _ := r.outdated(becomes); len(names) > 0 {
		text = rule + ", such as " + flows.Some(names)
	}
	if len(f.Others) > 0 {
		text += "; policies of " + strings.Join(f.Others, ", ") + " are not read"
	}
	return text
}

// outdated lists the NetworkPolicies that name a range to give up, but not its new range. It also
// lists these new ranges.
func (r renumbering) outdated(becomes []check.Becomes) (names []string, next []netip.Prefix) {
	f := r.c.Facts.Sides[r.side].Policies.Value()
	if f == nil {
		return nil, nil
	}
	for _, b := range becomes {
		if more := f.Outdated(b.Left, b.Next); len(more) > 0 {
			names, next = append(names, more...), append(next, b.Next)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), next
}

// Steps of a renumbering.
const (
	stepRenumber = "renumber"
	stepChange   = "renumbered"
	stepFormer   = "former-range"
)

func lasting(keep time.Duration) string {
	if keep <= 0 {
		return "until the change"
	}
	return "for " + keep.String() + " after the change"
}

func joinedRanges(all []netip.Prefix) string {
	text := make([]string, len(all))
	for i, p := range all {
		text[i] = p.String()
	}
	return strings.Join(text, ", ")
}

// switched reports whether the peer is seen at none of the ranges to give up.
func (r renumbering) switched() bool {
	return !slices.ContainsFunc(check.Decided(r.conf), func(v check.View) bool { return slices.Contains(r.asked.Leave, v.Remapped) })
}

// ask returns the step that requests other ranges from the operator.
func (r renumbering) ask(becomes []check.Becomes) flows.Step {
	end := r.c.Ends[r.side]
	cidr := r.conf.Spec.Remote.CIDR
	want := render.Configuration(end.Tenant, render.Networks{Pod: cidr.Pod, External: cidr.External})
	flows.KeepName(want, r.conf)
	want.Annotations = wire.Lasting(r.conf)
	maps.Copy(want.Annotations, r.asked.Annotations())
	s := flows.Ensure(r.side, stepRenumber, r.conf, want)
	text := make([]string, len(becomes))
	for i, b := range becomes {
		text[i] = b.String()
	}
	if s.Status != flows.Waiting {
		s.Reason = strings.Join(text, "; ")
	}
	if s.Status != flows.Ready {
		return s
	}
	var ends []string
	if names, next := r.outdated(becomes); len(names) > 0 {
		ends = append(ends, fmt.Sprintf("on %s, NetworkPolicy %s would no longer match %s: name %s in it, too, before you go on",
			r.c.Facts.Sides[r.side].ID, flows.Some(names), r.c.Facts.Sides[r.side.Other()].ID, joinedRanges(next)))
	}
	if r.asked.Keep <= 0 {
		ends = append(ends, fmt.Sprintf("on %s, connections that use addresses in %s end: add --keep, and they work for some time",
			r.c.Facts.Sides[r.side].ID, joinedRanges(r.asked.Leave)))
	}
	s.Interrupts = strings.Join(ends, "; ")
	return s
}

// change waits until the operator has switched to the new ranges. The operator switches when nodes
// and gateway have both ranges.
func (r renumbering) change(becomes []check.Becomes) flows.Step {
	s := flows.Step{
		ID: flows.IDOf(r.side, stepChange), Side: r.side, Action: flows.Wait, Status: flows.Waiting, Code: flows.CodeRemapping,
		Title: fmt.Sprintf("%s's nodes and gateway have both ranges", r.c.Facts.Sides[r.side].ID),
	}
	condition := meta.FindStatusCondition(r.conf.Status.Conditions, wire.ConditionRenumbering)
	switch {
	case r.switched():
		var seen []string
		for _, v := range check.Decided(r.conf) {
			seen = append(seen, v.String())
		}
		s.Status, s.Reason, s.Code = flows.Done, "sees "+strings.Join(seen, ", "), ""
	case r.ask(becomes).Status != flows.Done:
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the operator to be asked", ""
	case condition != nil && condition.Reason == wire.ReasonNotRenumbered:
		s.Fail(flows.FailedPreflight, flows.CodeRemapping, condition.Message, r.c.Facts.Sides[r.side].MoreRoom())
	case condition != nil:
		s.Reason = condition.Message
		s.Fix = []command.Hint{command.Hintf("see whether its agents run, and are up to date: %s, %s", r.c.Facts.Ours("check"), r.c.Facts.Sides[r.side].Ours("install"))}
	default:
		s.Reason = "the operator has not begun"
	}
	return s
}

// former waits until the former ranges are released, unless the admin keeps them for some time.
func (r renumbering) former() flows.Step {
	s := flows.Step{
		ID: flows.IDOf(r.side, stepFormer), Side: r.side, Action: flows.Wait, Status: flows.Done,
		Title: "former range of " + string(r.c.Facts.Sides[r.side.Other()].ID),
	}
	condition := meta.FindStatusCondition(r.conf.Status.Conditions, wire.ConditionRenumbering)
	switch {
	case !r.switched():
		s.Status, s.Reason = flows.Blocked, "needs the change"
	case r.conf.Annotations[wire.AnnotationAlso] == "":
		s.Reason = "given back"
	case r.asked.Keep > 0 && condition != nil:
		s.Reason = condition.Message
	case r.asked.Keep > 0:
		s.Reason = "works " + lasting(r.asked.Keep)
	default:
		s.Status, s.Reason, s.Code = flows.Waiting, "the operator has not given it back yet", flows.CodeRemapping
	}
	return s
}

// Renumbered describes the result of a plan that is done.
func Renumbered(p flows.Plan) string {
	var text []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		changed, ok := p.Step(flows.IDOf(side, stepChange))
		if !ok || changed.Status != flows.Done {
			continue
		}
		text = append(text, fmt.Sprintf("%s %s.", p.ID(side), changed.Reason))
		if former, _ := p.Step(flows.IDOf(side, stepFormer)); former.Status == flows.Done && former.Reason != "" {
			text = append(text, fmt.Sprintf("The former range: %s.", former.Reason))
		}
	}
	if len(text) == 0 {
		return "No range had to be changed."
	}
	return strings.Join(text, " ")
}
