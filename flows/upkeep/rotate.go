// Package upkeep plans changes of an existing connection: new keys, other ranges, and operators
// that send their changes to each other.
package upkeep

import (
	"fmt"
	"maps"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Rotation has the gateways' public keys to replace; zero for a key that stays. They are chosen
// once, at the start of a run. If a side has another key than the chosen one, its key was replaced.
// Rotation is the goal of gateways with new keys.
type Rotation struct {
	Old   [2]wgtypes.Key
	begun bool
}

// Settle implements [flows.Goal]. It chooses the keys when both clusters answer, and nothing prevents
// the rotation.
func (r Rotation) Settle(f flows.Facts) flows.Goal {
	if !r.begun && len(flows.Obstacles(f)) == 0 {
		r = StartRotation(f)
	}
	return r
}

// Plan implements [flows.Goal].
func (r Rotation) Plan(f flows.Facts) flows.Plan { return Rotate(r, f) }

// StartRotation chooses the keys that the gateways have now. It continues an unfinished rotation.
func StartRotation(f flows.Facts) Rotation {
	c := flows.NewConnection(flows.Params{}, f)
	r := Rotation{begun: true}
	for _, side := range []flows.Side{flows.A, flows.B} {
		end := c.Ends[side]
		if end.Key == nil || !f.Sides[side].Can().RotateKey {
			continue // only Liqo can replace its gateways' keys
		}
		r.Old[side] = *end.Key
		known := c.Ends[side.Other()].PublicKey
		gateway := c.AnyGateway(side)
		if known == nil || !flows.Exists(gateway) || string(known.Spec.PublicKey) == string(end.Key[:]) {
			continue
		}
		// The key was replaced already, but the peer does not have the new key yet.
		if before, err := wgtypes.ParseKey(gateway.GetAnnotations()[wire.AnnotationRotateKey]); err == nil {
			r.Old[side] = before
		}
	}
	return r
}

// keptKey is the reason that the key of a Liqo gateway stays.
const keptKey = "it is Liqo's own, which can't replace a key in operation"

// Rotated names the sides whose keys a finished plan has replaced, and the sides whose keys stay.
func Rotated(p flows.Plan) string {
	var replaced, kept []flows.Side
	for _, side := range []flows.Side{flows.A, flows.B} {
		if s, ok := p.Step(flows.IDOf(side, stepUseKey)); ok && s.Status == flows.Done {
			replaced = append(replaced, side)
		} else {
			kept = append(kept, side)
		}
	}
	switch {
	case len(kept) == 0:
		return "Both gateways use new keys."
	case len(replaced) == 0:
		return "No key was replaced."
	}
	return fmt.Sprintf("%s's gateway uses a new key. The key of %s's gateway was kept: %s.", p.ID(replaced[0]), p.ID(kept[0]), keptKey)
}

// Rotate replaces the keys of both gateways, one after the other. There is no interruption, because
// the peer prepares for the next key before it is used. A peer that runs Liqo can't prepare:
// packets are lost for one handshake, and its own key stays. If both sides run Liqo, no key can be
// replaced, and the plan fails.
func Rotate(r Rotation, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), B: f.Sides[flows.B].Name()}
	if plan.Steps = flows.Obstacles(f); len(plan.Steps) > 0 {
		return plan
	}
	adopted, _ := flows.Adopt(flows.Params{}, f)
	c := flows.NewConnection(adopted, f)
	for _, side := range []flows.Side{flows.A, flows.B} {
		if !flows.Live(c.AnyGateway(side)) {
			plan.Steps = []flows.Step{flows.Refuse(side, flows.CodeNotConnected, "gateway", flows.FailedPreflight,
				fmt.Sprintf("%s has no gateway to %s", f.Sides[side].ID, f.Sides[side.Other()].ID), command.Hintf("connect the clusters first: %s", f.Ours("network", "connect")))}
			return plan
		}
	}
	if s := unrotatable(c, r); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		steps := rotate(c, r, side)
		if r.keeps(side) {
			plan.Kept = append(plan.Kept, fmt.Sprintf("the key of %s's gateway stays: %s", f.Sides[side].ID, keptKey))
		}
		if !plan.Done() {
			// If both keys changed at once, each gateway would dial with a key of the other that is
			// no longer valid.
			for i := range steps {
				if steps[i].Status == flows.Ready {
					steps[i].Status, steps[i].Reason, steps[i].Objects = flows.Blocked, fmt.Sprintf("needs %s's key to be replaced first", f.Sides[side.Other()].ID), nil
				}
			}
		}
		plan.Steps = append(plan.Steps, steps...)
	}
	plan.Steps = append(plan.Steps, c.Connected(flows.A), c.Connected(flows.B))
	return plan
}

// Steps that show the state of a side's key.
const (
	stepUseKey  = "use-key"
	stepKeptKey = "rotate-key"
)

func (r Rotation) keeps(side flows.Side) bool { return r.Old[side] == wgtypes.Key{} }

// unrotatable returns the reason against a rotation, as a failed step; nil if there is none.
func unrotatable(c flows.Connection, r Rotation) *flows.Step {
	for _, side := range []flows.Side{flows.A, flows.B} {
		if r.keeps(side) && c.Facts.Sides[side].Can().RotateKey {
			return new(flows.Refuse(side, flows.CodeKey, "key of the gateway", flows.FailedPreflight,
				fmt.Sprintf("%s's gateway has not published its key yet", c.Facts.Sides[side].ID),
				command.Hintf("try again in a few seconds; if the error remains, see the operator's log: %s",
					c.Facts.Sides[side].KubectlIn(c.Facts.Sides[side].Namespace, "logs", "deployment/"+wire.OperatorName))))
		}
	}
	if !r.keeps(flows.A) || !r.keeps(flows.B) {
		return nil
	}
	return new(flows.Refuse(flows.A, flows.CodeKeysKept, "a gateway that can replace its key", flows.FailedPreflight,
		fmt.Sprintf("the gateways of %s and %s are Liqo's own, which can't replace a key in operation", c.Facts.Sides[flows.A].ID, c.Facts.Sides[flows.B].ID),
		command.Hintf("%s, then %s, makes new gateways with new keys; traffic stops until they are connected", c.Facts.Ours("network", "disconnect"), c.Facts.Ours("network", "connect"))))
}

// rotate returns the steps that replace one side's key.
func rotate(c flows.Connection, r Rotation, side flows.Side) []flows.Step {
	old := r.Old[side]
	if r.keeps(side) {
		return []flows.Step{{
			ID: flows.IDOf(side, stepKeptKey), Side: side, Action: flows.Update, Title: "key of " + string(c.Facts.Sides[side].ID), Status: flows.Done, Reason: "kept: " + keptKey,
		}}
	}
	k := keyRotation{c, side, old, wgtypes.Key{}, c.Ends[side].Key != nil && *c.Ends[side].Key != old}
	k.next, _ = wgtypes.ParseKey(c.AnyGateway(side).GetAnnotations()[wire.AnnotationNextPublicKey])
	if k.switched {
		k.next = *c.Ends[side].Key
	}
	return []flows.Step{k.make(), k.announce(), k.heard(), k.use(), k.known()}
}

// keyRotation is the replacement of one side's key.
type keyRotation struct {
	c         flows.Connection
	side      flows.Side
	old, next wgtypes.Key
	switched  bool // the gateway already uses the next key
}

// asking returns the gateway with annotations that are requests to its operator.
func (r keyRotation) asking(annotations map[string]string) wire.Object {
	o := r.c.AnyGateway(r.side)
	all := wire.Lasting(o)
	maps.Copy(all, annotations)
	o.SetAnnotations(all) // our manager applies only these annotations, and does not take over others
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
	return o
}

// make requests the next key pair from the operator.
func (r keyRotation) make() flows.Step {
	ask := r.asking(map[string]string{wire.AnnotationRotateKey: r.old.String()})
	s := flows.Step{
		ID: flows.IDOf(r.side, "next-key"), Side: r.side, Action: flows.Update, Object: flows.RefTo(ask),
		Title: "next key of " + string(r.c.Facts.Sides[r.side].ID),
	}
	switch {
	case r.next != wgtypes.Key{}:
		s.Status, s.Reason = flows.Done, r.next.String()
	case r.c.AnyGateway(r.side).GetAnnotations()[wire.AnnotationRotateKey] == r.old.String():
		s.Status, s.Reason = flows.Waiting, "the operator has not made it yet"
	default:
		s.Status, s.Objects, s.Diff = flows.Ready, []wire.Object{ask}, apply.Diff(r.c.AnyGateway(r.side), ask)
	}
	return s
}

// prepared reports whether the peer can prepare for a key.
func (r keyRotation) prepared() bool {
	return r.c.Facts.Sides[r.side.Other()].Can().TakeNextKey
}

func (r keyRotation) key(k wgtypes.Key) *networkingv1beta1.PublicKey {
	other := r.side.Other()
	want := render.PublicKey(r.c.Ends[other].Tenant, k, r.c.AnyGateway(other))
	flows.KeepName(want, r.c.Ends[other].PublicKey)
	return want
}

// announce sends the next key to the peer.
func (r keyRotation) announce() flows.Step {
	other := r.side.Other()
	s := flows.Step{
		ID: flows.IDOf(other, "announce-key"), Side: other, Action: flows.Update, Status: flows.Done,
		Title: fmt.Sprintf("%s learns %s's next key", r.c.Facts.Sides[other].ID, r.c.Facts.Sides[r.side].ID),
	}
	live := r.c.Ends[other].PublicKey
	switch {
	case r.switched:
	case !r.prepared():
		s.Reason = "skipped: Liqo's gateway can't hold a second key"
	case r.next == wgtypes.Key{}:
		s.Status, s.Reason = flows.Blocked, "needs the next key"
	default:
		want := r.key(r.old)
		want.Annotations = map[string]string{wire.AnnotationNextPublicKey: r.next.String()}
		e := flows.Ensure(other, "announce-key", live, want)
		e.Title = s.Title
		return e
	}
	return s
}

// heard waits until the peer's gateway has prepared for the next key.
func (r keyRotation) heard() flows.Step {
	other := r.side.Other()
	s := flows.Step{
		ID: flows.IDOf(other, "key-ready"), Side: other, Action: flows.Wait, Status: flows.Done,
		Title: fmt.Sprintf("%s's gateway is ready for it", r.c.Facts.Sides[other].ID),
	}
	switch {
	case r.switched || !r.prepared():
	case r.announce().Status != flows.Done:
		s.Status, s.Reason = flows.Blocked, "needs the announcement"
	case !r.reported():
		s.Status, s.Reason = flows.Waiting, "its report does not name the next key yet"
	}
	return s
}

func (r keyRotation) reported() bool {
	reading := r.c.Ends[r.side.Other()].Reading()
	return !reading.Stale(r.c.Facts.At) && reading.NextKey == r.next.String()
}

// use makes the gateway use the next key.
func (r keyRotation) use() flows.Step {
	ask := r.asking(map[string]string{wire.AnnotationRotateKey: r.old.String(), wire.AnnotationUseKey: r.next.String()})
	s := flows.Step{
		ID: flows.IDOf(r.side, stepUseKey), Side: r.side, Action: flows.Update, Object: flows.RefTo(ask),
		Title: fmt.Sprintf("%s's gateway uses it", r.c.Facts.Sides[r.side].ID),
	}
	if !r.prepared() && !r.switched {
		s.Interrupts = fmt.Sprintf("traffic between %s and %s stops for one handshake, up to a few seconds: Liqo's gateway can't hold two keys of a peer",
			r.c.Facts.Sides[flows.A].ID, r.c.Facts.Sides[flows.B].ID)
	}
	switch {
	case r.switched:
		s.Status = flows.Done
	case r.next == wgtypes.Key{} || r.heard().Status != flows.Done:
		s.Status, s.Reason = flows.Blocked, "needs the peer to be ready"
	case r.c.AnyGateway(r.side).GetAnnotations()[wire.AnnotationUseKey] == r.next.String():
		s.Status, s.Reason = flows.Waiting, "the operator has not replaced the key yet"
	default:
		s.Status, s.Objects, s.Diff = flows.Ready, []wire.Object{ask}, apply.Diff(r.c.AnyGateway(r.side), ask)
	}
	return s
}

// known makes the next key the only one that the peer accepts.
func (r keyRotation) known() flows.Step {
	other := r.side.Other()
	title := fmt.Sprintf("%s forgets %s's old key", r.c.Facts.Sides[other].ID, r.c.Facts.Sides[r.side].ID)
	if !r.switched {
		return flows.Step{ID: flows.IDOf(other, "forget-key"), Side: other, Action: flows.Update, Title: title, Status: flows.Blocked, Reason: "needs the gateway to use the key"}
	}
	s := flows.Ensure(other, "forget-key", r.c.Ends[other].PublicKey, r.key(r.next))
	s.Title = title
	return s
}
