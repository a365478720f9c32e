package flows

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Installation is a wanted installation of our operator on one cluster. Package install
// makes them.
type Installation interface {
	// ClusterID is the name by which peers will know the cluster.
	ClusterID() wire.ClusterID
	// PlacesAgents reports whether an admin has chosen the nodes of agents.
	PlacesAgents() bool
	// Bring returns the installation as part of a plan for a connection: its steps, and
	// the cluster as later steps may expect it. asks means that the plan needs an answer
	// to [AskInstallation].
	Bring(side Side, c ClusterFacts) (steps []Step, expected ClusterFacts, asks bool)
}

// AskInstallation asks for the objects of an installation of ours.
type AskInstallation struct{ Side Side }

// On implements [Question].
func (q AskInstallation) On() Side { return q.Side }

// Terms implements [Question].
func (q AskInstallation) Terms() Terms { return Terms{} }

func (q AskInstallation) slot(f *Facts) slot { return q.in(f) }

func (q AskInstallation) in(f *Facts) *Answer[InstallationFacts] {
	return &f.Sides[q.Side].Installation
}

// InstallationFacts are the objects of an installation of ours, or in its place.
type InstallationFacts struct {
	// Objects are those of the installation, the Networks of the cluster itself, and the
	// fabric's reports about nodes. Their kinds are set.
	Objects []wire.Object
	// Gateways are the Deployments of the cluster's gateways.
	Gateways []appsv1.Deployment
	// Hosts counts the IPs that have an address of the external range.
	Hosts int
	// Tenants counts the consumers with access by our operator, Identities its accesses to
	// providers.
	Tenants, Identities int
	// Unserved are kinds that the API server does not serve. An installation works without
	// them.
	Unserved []string
	// Waiting has the reason that a program's pods don't run, by the program's name.
	Waiting map[string]string
	// Unknown is the reason that there may be more objects; "" if all may be read.
	Unknown string
}

// InstallationUnknown returns the reason that not all of an installation is known; "" if
// it is, or if nobody has asked.
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
	Kind    string // of the objects that it defines
	Manager string // the program that wrote it last; "" if the API server does not name it
	// Unusable is the reason that our programs can't work with it, as the end of a
	// sentence; "" if they can, and it stays as it is.
	Unusable string
}

// Installable reports whether a plan can begin with the installation of our operator:
// neither Liqo nor our operator is installed in any namespace.
func (c ClusterFacts) Installable() bool {
	return c.Problem == nil && !c.Can().Connect && c.Elsewhere == ElsewhereFacts{} && c.Unseen() == ""
}

// Unseen returns the reason that nobody knows whether Liqo or our operator is installed;
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

// installation returns the steps that install our operator on the sides of p.Install, and
// the facts as later steps may expect them.
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

// Expected returns the facts as later steps of p may expect them: where p installs our
// operator, they are those after the installation.
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
