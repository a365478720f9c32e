package flows

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Installation is an installation of our operator that a plan makes on one cluster.
// Package install implements it.
type Installation interface {
	// ClusterID is the name by which peers will know the cluster.
	ClusterID() wire.ClusterID
	// PlacesAgents reports whether an admin has chosen the nodes of agents.
	PlacesAgents() bool
	// Bring returns the installation as part of a plan for a connection: the steps, and
	// the facts about the cluster after them, on which later steps rely. asks means that
	// the plan needs an answer to [AskInstallation].
	Bring(side Side, c ClusterFacts) (steps []Step, expected ClusterFacts, asks bool)
}

// AskInstallation asks for the objects of our installation.
type AskInstallation struct{ Side Side }

// On implements [Question].
func (q AskInstallation) On() Side { return q.Side }

// Terms implements [Question].
func (q AskInstallation) Terms() Terms { return Terms{} }

func (q AskInstallation) slot(f *Facts) slot { return q.in(f) }

func (q AskInstallation) in(f *Facts) *Answer[InstallationFacts] {
	return &f.Sides[q.Side].Installation
}

// InstallationFacts lists the objects of our installation, and foreign objects with their
// names.
type InstallationFacts struct {
	// Objects are the objects of the installation, the cluster's own Networks, and the
	// node agents' reports. Their kinds are set.
	Objects []wire.Object
	// Gateways are the Deployments of the cluster's gateways.
	Gateways []appsv1.Deployment
	// Hosts counts the IP objects with an address of the external range.
	Hosts int
	// Tenants counts the consumers that our operator has admitted. Identities counts its
	// accesses to providers.
	Tenants, Identities int
	// Unserved lists kinds that the API server does not have. An installation works
	// without them.
	Unserved []string
	// Waiting has the reason why a program's pods don't run, by the program's name.
	Waiting map[string]string
	// Unknown is the reason that there may be more objects; "" if this user may read all
	// of them.
	Unknown string
}

// InstallationUnknown returns the reason that a part of the installation is unknown; "" if
// all is known, or if the question was not asked.
func (c ClusterFacts) InstallationUnknown() string {
	if f := c.Installation.Value(); f != nil {
		return f.Unknown
	}
	return c.Installation.Unknown()
}

// DefinitionFacts describe a definition of one of Liqo's kinds that belongs to another
// program, or that lacks something.
type DefinitionFacts struct {
	Name    string
	Kind    string // the kind that it defines
	Manager string // the program that wrote it last; "" if the API server does not name it
	// Unusable is the reason that our programs can't use the definition, as the end of a
	// sentence; "" if they can use it. Then it is not changed.
	Unusable string
}

// Installable reports whether a plan can begin with the installation of our operator: no
// namespace has Liqo or our operator.
func (c ClusterFacts) Installable() bool {
	return c.Problem == nil && !c.Can().Connect && c.Elsewhere == ElsewhereFacts{} && c.Unseen() == ""
}

// Unseen returns the reason that it is unknown whether Liqo or our operator is installed;
// "" if it is known.
func (c ClusterFacts) Unseen() string {
	if c.Can().Connect || c.Elsewhere != (ElsewhereFacts{}) || !c.ManagersHidden {
		return ""
	}
	return "Deployments may not be read in all namespaces"
}

// SeeManagers is the advice if [ClusterFacts.Unseen] returns a reason.
func (f Facts) SeeManagers() command.Hint { return f.askToList("deployments") }

// SeePods is the advice if pods may not be read.
func (f Facts) SeePods() command.Hint { return f.askToList("pods") }

func (f Facts) askToList(kinds string) command.Hint {
	return command.Hintf("ask for the right to list %s there: the Role that %s prints has it", kinds, f.Rbac())
}

// installation returns the steps that install our operator on the sides of p.Install. It
// also returns the facts after these steps, on which later steps rely.
func installation(p Params, f Facts) (steps []Step, expected Facts, asks []Question) {
	sides := f.Sides
	for side, i := range p.Install {
		if i != nil {
			part, expected, ask := i.Bring(Side(side), sides[side])
			if steps, sides[side] = append(steps, part...), expected; ask {
				asks = append(asks, AskInstallation{Side(side)})
			}
		}
	}
	f.Sides[A], f.Sides[B] = sides[A], sides[B]
	return steps, f, asks
}

// Expected returns the facts on which later steps of p rely: where p installs our
// operator, the facts after the installation.
func Expected(p Params, f Facts) Facts {
	_, expected, _ := installation(p, f)
	return expected
}

// behindInstallation blocks the steps that need an operator which does not work yet.
func behindInstallation(steps []Step) []Step {
	for i := range steps {
		if s := &steps[i]; s.Status == Ready || s.Status == Waiting {
			s.Status, s.Reason, s.Objects = Blocked, "needs the operator", nil
		}
	}
	return steps
}
