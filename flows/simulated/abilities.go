package simulated

import (
	"context"
	"fmt"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/names"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

var (
	_ engine.Editor    = (*Cluster)(nil)
	_ engine.Forcer    = (*Cluster)(nil)
	_ engine.DryRunner = (*Cluster)(nil)
	_ engine.Reviewer  = (*Cluster)(nil)
)

// Ask implements [engine.Cluster].
func (c *Cluster) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	switch q := q.(type) {
	case flows.AskInstallation:
		found, err := c.Installation(ctx)
		return flows.Read(q, found), err
	case flows.AskDNS:
		found, err := c.dns()
		return flows.Read(q, found), err
	case flows.AskContents:
		return flows.Read(q, c.inspect(q.Tenant)), nil
	case flows.AskDefinitions:
		var found []flows.DefinitionFacts
		if c.behaviour.PrunesMTU {
			found = []flows.DefinitionFacts{{Name: "gatewayclients." + networkingv1beta1.GroupVersion.Group, Kind: "GatewayClient", Manager: "kubectl", Unusable: "in its version v1beta1, field .spec.mtu is missing or different"}}
		}
		return flows.Read(q, found), nil
	case flows.AskServices:
		return flows.Read(q, c.found(q.Name)), nil
	case flows.AskHistory:
		found, err := c.history(q.Gateway)
		return flows.Read(q, found), err
	case flows.AskOffers:
		return flows.Read(q, c.offers()), nil
	case flows.AskImage:
		return q.Reply(c.tryImage(*q.Try)), nil
	case flows.AskAPI:
		return q.Reply(c.askAPI(q.URL)), nil
	}
	return nil, engine.ErrNoWay
}

func (c *Cluster) askAPI(url string) trial.API {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.asked++
	t := trial.API{URL: url, Unknown: c.behaviour.NoPods}
	if there := c.world.other(c); t.Unknown == "" && (there.behaviour.Lending.Hides || url != there.identity.Server) {
		t.Problem = "no answer from " + url
	}
	return t
}

// Asked returns the number of pods that have tried to reach the other cluster's
// API server.
func (c *Cluster) Asked() int {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.asked
}

func (c *Cluster) tryImage(try trial.ImageTry) trial.Image {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.images = append(c.images, try)
	return trial.Image{Image: try.Image, Node: "node-1", Took: 2 * TickLength, Failed: c.behaviour.ImageFails, Unknown: c.behaviour.ImageUnknown}
}

// Images returns the images that nodes have tried to pull.
func (c *Cluster) Images() []trial.ImageTry {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return slices.Clone(c.images)
}

// User is the user on both clusters.
const User = "ada"

// ForceApply implements [engine.Forcer]. It takes over the fields that the
// objects set.
func (c *Cluster) ForceApply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.write(ctx, "apply", objects, func(o wire.Object) (flows.Verb, error) {
		if r := c.store.records[c.store.keyOf(o)]; r != nil {
			r.owned = map[string]map[string]any{wire.FieldManager: r.owned[wire.FieldManager]}
			r.object.SetManagedFields(slices.DeleteFunc(slices.Clone(r.object.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
				return e.Manager != wire.FieldManager
			}))
		}
		return c.store.apply(o, wire.FieldManager)
	})
}

// Edit implements [engine.Editor].
func (c *Cluster) Edit(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.ForceApply(ctx, objects)
}

// dns are the objects that show which DNS the cluster has.
func (c *Cluster) dns() (found []*unstructured.Unstructured, err error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, s := range names.Sources {
		if r := c.store.records[key{s.Kind.Kind, s.Namespace(), s.Name}]; r != nil {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.object)
			if err != nil {
				return nil, err
			}
			found = append(found, &unstructured.Unstructured{Object: content})
		}
	}
	return found, nil
}

// DryRun implements [engine.DryRunner].
func (c *Cluster) DryRun(_ context.Context, objects []wire.Object, force bool) ([]engine.DryRunResult, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.behaviour.unreachable(c.observed) {
		return nil, c.problem()
	}
	var out []engine.DryRunResult
	for _, o := range objects {
		out = append(out, c.dryRun(o, force))
	}
	return out, nil
}

func (c *Cluster) dryRun(o wire.Object, force bool) engine.DryRunResult {
	d := engine.DryRunResult{Change: flows.Change{Side: c.side, Object: apply.Name(o), Verb: flows.Unchanged}}
	want, err := apply.Wanted(o)
	if err != nil {
		d.Err = err
		return d
	}
	r := c.store.records[c.store.keyOf(o)]
	if r == nil {
		if d.Err = c.store.admit(want); d.Err == nil {
			d.Verb, d.Diff = flows.Created, apply.Diff(nil, o)
		}
		return d
	}
	if render.TakesOver(r.object, want) && !force {
		d.Err = &flows.ForeignError{Object: flows.RefTo(o)}
		return d
	}
	if manager, taken := r.conflict(want.Object); taken && !force {
		d.Err = &flows.ConflictError{Object: d.Object, Managers: []string{manager}}
		return d
	}
	if d.Diff = apply.Diff(r.object, o); d.Diff != "" {
		d.Verb = flows.Updated
	}
	return d
}

// Review implements [engine.Reviewer]. [Behaviour.Lacks] has the missing rights.
func (c *Cluster) Review(_ context.Context, permissions []rights.Permission) (rights.Review, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.behaviour.unreachable(c.observed) {
		return rights.Review{}, fmt.Errorf("review: %w", c.problem())
	}
	review := rights.Review{User: User}
	for _, p := range permissions {
		if slices.ContainsFunc(c.behaviour.Lacks, func(l rights.Permission) bool { return l.Verb == p.Verb && l.Resource == p.Resource }) {
			review.Missing = append(review.Missing, p)
		}
	}
	return review, nil
}
