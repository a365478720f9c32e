package flows

import (
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Flags returns the flags that select the context.
func (r ContextRef) Flags() (c command.Cluster) {
	c.Context = r.Name
	if r.File != "" {
		c.Kubeconfigs = []string{r.File}
	}
	return c
}

// Flags returns the flags that select the cluster as in this run.
func (c ClusterFacts) Flags() command.Cluster {
	out := c.Context.Flags()
	out.Instead = c.Instead
	if c.Namespace != wire.DefaultNamespace {
		out.Namespace = c.Namespace
	}
	return out
}

// Ours returns a command of our program for both clusters. If only the first cluster is known, the
// command has a placeholder for the other context.
func (f Facts) Ours(words ...string) command.Command {
	a, b := f.Sides[A], f.Sides[B]
	if b.Context == (ContextRef{}) && (b.Described || a.Context != ContextRef{}) {
		return a.OursWith(words...)
	}
	return command.Ours(words...).On(a.Flags(), b.Flags())
}

// OursWith returns a command of our program for this cluster and another one. Its context is unknown,
// so the command has a placeholder for it.
func (c ClusterFacts) OursWith(words ...string) command.Command {
	return c.Ours(words...).Flag("--remote-context", "CONTEXT")
}

// Ours returns a command of our program for the cluster.
func (c ClusterFacts) Ours(words ...string) command.Command {
	return command.Ours(words...).On(c.Flags())
}

// Rbac returns the command that prints the missing rights of the users of both clusters.
func (f Facts) Rbac(flags ...string) command.Command {
	rbac := command.Ours("rbac").Add(flags...).On(f.Sides[A].Flags(), f.Sides[B].Flags())
	if f.Sides[B].Context == (ContextRef{}) { // rbac needs both clusters
		return rbac.Flag("--remote-context", "CONTEXT")
	}
	return rbac
}

// AskForRights is the advice for a missing right.
func (f Facts) AskForRights(flags ...string) command.Hint {
	return command.Hintf("ask the cluster's administrator for the Role that %s prints", f.Rbac(flags...))
}

// Alone returns facts that lack the other cluster, because its context is unknown.
func (c ClusterFacts) Alone() Facts { return Facts{Sides: [2]ClusterFacts{A: c}} }

// Kubectl returns a kubectl command for the cluster.
func (c ClusterFacts) Kubectl(words ...string) command.Command {
	return command.Kubectl(c.Flags(), words...)
}

// KubectlIn returns a kubectl command for a namespace of the cluster.
func (c ClusterFacts) KubectlIn(namespace string, words ...string) command.Command {
	return c.Kubectl("-n", namespace).Add(words...)
}

// See returns the command that shows an object.
func (c ClusterFacts) See(o ObjectRef) command.Command {
	if o.Namespace != "" {
		return c.KubectlIn(o.Namespace, "get", strings.ToLower(o.Kind), o.Name, "-o", "yaml")
	}
	return c.Kubectl("get", strings.ToLower(o.Kind), o.Name, "-o", "yaml")
}

// Privilege returns the command that allows pods of gateways in a namespace.
func (c ClusterFacts) Privilege(namespace string) command.Command {
	return c.Kubectl("label", "namespace", namespace, render.PodSecurity+"=privileged", "--overwrite")
}

// MoreRoom is the advice if no range is left for a peer.
func (c ClusterFacts) MoreRoom() command.Hint {
	return command.Hintf("reset peerings that are no longer needed, or give the operator more ranges: %s", c.Ours("install").Flag("--pools", "RANGE"))
}

// OperatorFix returns the advice if install has to state a range, or if the operator may not replace
// one. In all other cases it returns other.
func (c ClusterFacts) OperatorFix(other command.Hint) command.Hint {
	unstated, state := c.Operator.Unstated, c.Ours("install")
	if unstated.Pods {
		state = state.Flag("--pod-cidr", "CIDR")
	}
	if unstated.Services {
		state = state.Flag("--service-cidr", "CIDR")
	}
	switch {
	case c.Operator.KeepsRange:
		return command.Hintf("run %s for each peer (%s lists them)", c.OursWith("network", "reset"), c.Ours("info"))
	case unstated.Pods || unstated.Services:
		return command.Hintf("state it: %s", state)
	}
	return other
}

// SeeWriters returns the command that shows which programs have written an object.
func (c ClusterFacts) SeeWriters(o ObjectRef) command.Command {
	return c.See(o).Add("--show-managed-fields")
}

// SeeOperator is the command that lists objects in the namespace of Liqo or of
// our operator.
func (c ClusterFacts) SeeOperator(kinds string) command.Command {
	return c.KubectlIn(c.Namespace, "get", kinds)
}
