package flows

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Installation is our operator as it is to be brought to one cluster. Package
// install makes them.
type Installation interface {
	// ClusterID is by which name the peers will know the cluster.
	ClusterID() wire.ClusterID
	// PlacesAgents reports whether an admin has said on which nodes agents run.
	PlacesAgents() bool
	// Bring is what a plan for a connection has of the installation on a side: its
	// steps, the cluster as the rest of the plan may count on it, and whether the
	// plan has to know what is there of an installation: [AskInstallation].
	Bring(side Side, c ClusterFacts) (steps []Step, expected ClusterFacts, asks bool)
}

// AskInstallation asks what is there of an installation of ours.
type AskInstallation struct{ Side Side }

// On implements [Question].
func (q AskInstallation) On() Side { return q.Side }

// Terms implements [Question].
func (q AskInstallation) Terms() Terms { return Terms{} }

func (q AskInstallation) slot(f *Facts) slot { return q.in(f) }

func (q AskInstallation) in(f *Facts) *Answer[InstallationFacts] {
	return &f.Sides[q.Side].Installation
}

// InstallationFacts are what is there of an installation of ours, or in its place.
type InstallationFacts struct {
	// Objects are those that an installation consists of, with the Networks of the
	// cluster itself and what the fabric said of nodes. Their kinds are set.
	Objects []wire.Object
	// Gateways are the Deployments of the cluster's gateways.
	Gateways []appsv1.Deployment
	// Hosts counts the IPs that have an address of the external range.
	Hosts int
	// Tenants counts those who have access by our operator, Identities whom it has
	// access to.
	Tenants, Identities int
	// Unserved are kinds of which the API server knows nothing. An installation does
	// without them.
	Unserved []string
	// Waiting says what keeps the pods of a program from running, by its name.
	Waiting map[string]string
	// Unknown says why there may be more objects; "" if all may be read.
	Unknown string
}

// InstallationUnknown says why not all of an installation is known; "" if it is, or nobody
// has asked.
func (c ClusterFacts) InstallationUnknown() string {
	if f := c.Installation.Value(); f != nil {
		return f.Unknown
	}
	return c.Installation.Unknown()
}

// DefinitionFacts are a definition of one of Liqo's kinds that is another
// program's.
type DefinitionFacts struct {
	Name    string
	Manager string // the program that wrote it last; "" if the API server doesn't say
	// Unusable says why our programs can't work with it, as the end of a sentence;
	// "" when they can, and it stays as it is.
	Unusable string
}

// Installable reports whether our operator can be brought to the cluster as the
// first part of a plan: nothing manages connections there, from no namespace.
func (c ClusterFacts) Installable() bool {
	return c.Problem == nil && c.Software == NoSoftware && c.Elsewhere.Software == NoSoftware && c.Unseen() == ""
}

// Unseen says why nobody knows whether Liqo or our operator is installed, "" if that is
// known.
func (c ClusterFacts) Unseen() string {
	if c.Software != NoSoftware || c.Elsewhere.Software != NoSoftware || !c.ManagersHidden {
		return ""
	}
	return "Deployments in namespace " + c.Namespace + " may not be read"
}

// SeeManagers is what to do where [ClusterFacts.Unseen] says something.
const SeeManagers = "ask for the right to list deployments there: the Role that liqo-tui rbac prints has it"

// installation is what it takes to bring our operator to the sides that want
// it, and the facts as a plan may count on them.
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

// Expected are the facts as a plan of p may count on them: where it installs our
// operator, they are what that will make of the cluster.
func Expected(p Params, f Facts) Facts {
	_, expected, _ := installation(p, f)
	return expected
}

// behindInstallation holds back what needs an operator that does not work yet.
func behindInstallation(steps []Step) []Step {
	for i := range steps {
		if s := &steps[i]; s.Status == Ready || s.Status == Waiting {
			s.Status, s.Reason, s.Objects = Blocked, "needs the operator", nil
		}
	}
	return steps
}
