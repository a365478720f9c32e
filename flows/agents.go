package flows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Unable returns the reason that our agent can't run on the node; "" if it can run.
func (n NodeFacts) Unable() string {
	switch {
	case n.Excluded != "":
		return n.Excluded
	case n.OldKernel():
		return fmt.Sprintf("its kernel %s is older than %s", n.Kernel, OldestKernel)
	case !n.Ready:
		return "not ready"
	}
	return ""
}

// Virtual reports whether a program, not a machine, is behind the node.
func (n NodeFacts) Virtual() bool { return strings.HasPrefix(n.Excluded, "virtual") }

// OldestKernel is the first kernel with the features of nftables that gateways and
// agents need. They refuse to run on an older kernel.
const OldestKernel = "5.10"

// OldKernel reports whether the node's kernel is too old for our programs.
func (n NodeFacts) OldKernel() bool {
	var major, minor int
	_, err := fmt.Sscanf(n.Kernel, "%d.%d", &major, &minor)
	return err == nil && (major < 5 || major == 5 && minor < 10)
}

// OldKernels returns a failed step if the cluster's nodes have kernels that are too old
// for any gateway. It returns nil if a gateway can run, or if the kernels are unknown.
func (c ClusterFacts) OldKernels(side Side) *Step {
	var old []string
	for _, n := range c.Nodes {
		switch {
		case n.OldKernel():
			old = append(old, n.Name+" "+n.Kernel)
		case n.Excluded == "":
			return nil
		}
	}
	if len(old) == 0 {
		return nil
	}
	return new(Refuse(side, CodeKernel, "kernel of the nodes", FailedPreflight,
		fmt.Sprintf("no node of %s can host a gateway, which needs Linux %s: %s", c.Name(), OldestKernel, Some(old)),
		command.Text("add a node with a newer kernel, or upgrade one")))
}

// UnableNodes returns the nodes that can't run an agent, each with the reason. Pods on
// these nodes reach no peer.
func (c ClusterFacts) UnableNodes() []string {
	var out []string
	for _, n := range c.Nodes {
		if why := n.Unable(); why != "" {
			out = append(out, n.Name+" ("+why+")")
		}
	}
	return out
}

// NoAgentOn names the nodes that can't run an agent; "" if there are none.
func (c ClusterFacts) NoAgentOn() string {
	if unable := c.UnableNodes(); len(unable) > 0 {
		return "not on " + Some(unable)
	}
	return ""
}

// Some writes the first few names, and how many more there are.
func Some[S ~string](names []S) string {
	const few = 3
	if len(names) <= few {
		return Joined(names)
	}
	return fmt.Sprintf("%s and %d more", Joined(names[:few]), len(names)-few)
}

// agents waits until every node that can run an agent has one. Pods on a node without
// an agent reach no peer, even if the gateways report Connected.
func (c Connection) agents(side Side) Step {
	s := Step{ID: IDOf(side, "agents"), Side: side, Action: Wait, Title: "node agents", Status: Waiting, Code: CodeNotReady}
	f := c.Facts.Sides[side]
	var missing []string
	fit := 0
	for _, n := range f.Nodes {
		if n.Unable() != "" {
			continue
		}
		fit++
		if !slices.Contains(f.Agents, n.Name) {
			missing = append(missing, n.Name)
		}
	}
	brought := c.Params.Install[side]
	switch {
	case f.Software != Operator:
		s.Status, s.Reason, s.Code = Blocked, "needs the operator", ""
	case len(f.Nodes) == 0 || f.AgentsUnknown:
		s.Status, s.Reason, s.Code = Done, "not known: nodes or InternalNodes may not be read", ""
	case brought != nil && brought.PlacesAgents():
		s.Status, s.Reason, s.Code = Done, "on the nodes that the settings of pods choose", ""
	case len(missing) > 0:
		s.Reason = fmt.Sprintf("%d of %d nodes have no agent yet: %s", len(missing), fit, Some(missing))
	default:
		s.Status, s.Code = Done, ""
		if unable := f.NoAgentOn(); unable != "" {
			s.Reason = fmt.Sprintf("on %d of %d nodes; %s", fit, len(f.Nodes), unable)
		}
	}
	return s
}
