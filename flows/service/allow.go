package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"

	"k8s.io/apimachinery/pkg/types"
)

// AllowParams say into which namespaces of cluster A the Services of a peer are imported.
type AllowParams struct {
	From       wire.ClusterID
	Namespaces services.Namespaces
}

// Allow changes the namespaces into which the cluster imports Services of a peer.
func Allow(p AllowParams, f flows.Facts) flows.Plan {
	a := f.Sides[flows.A]
	plan := flows.Plan{A: a.Name()}
	if plan.Steps = flows.NoAnswer(f, flows.A); len(plan.Steps) > 0 {
		return plan
	}
	refuse := func(code flows.Code, kind flows.FailureKind, reason string, fix ...command.Hint) flows.Plan {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, code, "import from "+string(p.From), kind, reason, fix...)}
		return plan
	}
	if s := flows.FirstObstacle(flows.A, a); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	if !a.Can().ImportServices {
		return refuse(flows.CodeServicesOff, flows.FailedPreflight, fmt.Sprintf("Liqo connects %s, and its gateways exchange no Services", a.Name()))
	}
	end := a.End(p.From)
	if !flows.Live(end.Configuration) {
		return refuse(flows.CodeNotConnected, flows.FailedPreflight, fmt.Sprintf("%s has no connection with %s", a.Name(), p.From), command.Hintf("its peers: %s", a.Ours("info")))
	}
	for _, n := range p.Namespaces.Names {
		if services.Reserved(n, own(a)) {
			return refuse(flows.CodeUsage, flows.FailedUsage, fmt.Sprintf("nothing is imported into the namespace %s: clusters don't mean the same by it", n))
		}
		if exists, known := a.HasNamespace(n); known && !exists {
			plan.Kept = append(plan.Kept, fmt.Sprintf("%s has no namespace %s: Services are imported once it exists", a.Name(), n))
		}
	}
	plan.Asks = Asks(types.NamespacedName{}, flows.A)
	if found := found(a); found.Imports.Undefined || found.Exports.Undefined {
		plan.Kept = append(plan.Kept, fmt.Sprintf("%s has no Services by name yet; to switch them on: %s", a.Name(), a.Ours("install", "--services")))
	}
	s := flows.Allowing(a, p.From, p.Namespaces)
	if lost := p.lost(found(a), end); len(lost) > 0 && s.Status == flows.Ready {
		s.Interrupts = fmt.Sprintf("pods of %s no longer reach the endpoints of %s under %s", a.Name(), p.From, flows.Some(lost))
	}
	plan.Steps = []flows.Step{s}
	return plan
}

// lost returns the names whose endpoints in the peer are imported now, and would not be imported any more.
func (p AllowParams) lost(found *services.Found, end flows.End) (names []string) {
	next := services.Policy{Allowed: map[wire.ClusterID]services.Namespaces{p.From: p.Namespaces}}
	for i := range found.Imports.Items {
		o := &found.Imports.Items[i]
		for _, c := range o.Status.Clusters {
			if c.Cluster == string(end.Tenant.Remote) && !next.Imports(o.Namespace, p.From) {
				names = append(names, o.Namespace+"/"+o.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Allowed describes the result of [Allow].
func Allowed(p AllowParams, f flows.Facts) string {
	a := f.Sides[flows.A].Name()
	switch {
	case p.Namespaces.All:
		return fmt.Sprintf("%s imports the Services of %s into all namespaces that it has.", a, p.From)
	case len(p.Namespaces.Names) == 0:
		return fmt.Sprintf("%s imports no Services of %s.", a, p.From)
	}
	return fmt.Sprintf("%s imports the Services of %s into: %s.", a, p.From, strings.Join(p.Namespaces.Names, ", "))
}
