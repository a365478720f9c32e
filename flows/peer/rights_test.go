package peer_test

import (
	"context"
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// restricted is a cluster whose user has only some rights.
type restricted struct {
	*flowtest.Cluster

	side flows.Side
	may  []rights.Permission
}

func (r restricted) Apply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	for _, o := range objects {
		action := flows.Create
		if slices.ContainsFunc(r.Objects(), func(live wire.Object) bool { return apply.Name(live) == apply.Name(o) }) {
			action = flows.Update
		}
		if err := r.allowed(action, o); err != nil {
			return nil, err
		}
	}
	return r.Cluster.Apply(ctx, objects)
}

func (r restricted) Delete(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	for _, o := range objects {
		if err := r.allowed(flows.Delete, o); err != nil {
			return nil, err
		}
	}
	return r.Cluster.Delete(ctx, objects)
}

func (r restricted) allowed(action flows.Action, o wire.Object) error {
	step := flows.Step{Side: r.side, Action: action, Status: flows.Ready, Object: flows.RefTo(o)}
	for _, p := range rights.Needed(flows.Plan{Steps: []flows.Step{step}}, r.side) {
		if !slices.Contains(r.may, p) {
			return flowtest.Forbidden("ada", p.Verb+" "+p.Resource, p.Namespace)
		}
	}
	return nil
}

// A run needs only the rights of its first plan, because rbac prints these before any object exists.
func TestAPeeringNeedsNoMoreRightsThanItsFirstPlanSays(t *testing.T) {
	for name, c := range map[string]struct {
		past func(*testing.T) *flowtest.Pair
		goal flows.Goal
	}{
		"peer":                  {func(*testing.T) *flowtest.Pair { return flowtest.LiqoPair() }, peering(peer.Params{CPU: "2"})},
		"peer the other way":    {peered, peering(peer.Params{Consumer: flows.B})},
		"peer with more":        {peered, peering(peer.Params{CPU: "9"})},
		"unpeer":                {peered, unpeering(peer.RemoveOptions{})},
		"unpeer, gone provider": {peeredWithGoneProvider, unpeering(peer.RemoveOptions{RemoveOptions: flows.RemoveOptions{LocalOnly: true}})},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.past(t)
			first, err := engine.Look(t.Context(), c.goal, p.A, p.B)
			if err != nil {
				t.Fatal(err)
			}
			run := func(without int) error {
				var sides [2]engine.Cluster
				for _, side := range []flows.Side{flows.A, flows.B} {
					may := rights.Needed(first.Plan, side)
					if without >= 0 && side == flows.A {
						may = slices.Delete(slices.Clone(may), without, without+1)
					}
					sides[side] = restricted{p.Side(side), side, may}
				}
				return engine.Run(t.Context(), c.goal, sides[flows.A], sides[flows.B], func(engine.Event) {}, engine.Options{Now: p.Now})
			}
			if len(rights.Needed(first.Plan, flows.A)) == 0 || run(0) == nil {
				t.Error("it works without the first of the rights: this test shows nothing")
			}
			if err := run(-1); err != nil {
				t.Error(err)
			}
		})
	}
}
