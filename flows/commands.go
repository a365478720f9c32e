package flows

import (
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Flags are how commands find the context.
func (r ContextRef) Flags() (c command.Cluster) {
	c.Context = r.Name
	if r.File != "" {
		c.Kubeconfigs = []string{r.File}
	}
	return c
}

// Flags are how commands find the cluster as it was found now.
func (c ClusterFacts) Flags() command.Cluster {
	out := c.Context.Flags()
	out.Cluster, out.User = c.Instead.Cluster, c.Instead.User
	if c.Namespace != wire.DefaultNamespace {
		out.Namespace = c.Namespace
	}
	return out
}

// Ours is a command of our program for both clusters.
func (f Facts) Ours(words ...string) command.Command {
	return command.Ours(words...).On(f.Sides[A].Flags(), f.Sides[B].Flags())
}

// Ours is a command of our program for the cluster.
func (c ClusterFacts) Ours(words ...string) command.Command {
	return command.Ours(words...).On(c.Flags())
}

// Kubectl is a kubectl command for the cluster.
func (c ClusterFacts) Kubectl(words ...string) command.Command {
	return command.Kubectl(c.Flags(), words...)
}

// KubectlIn is a kubectl command for a namespace of the cluster.
func (c ClusterFacts) KubectlIn(namespace string, words ...string) command.Command {
	return c.Kubectl("-n", namespace).Add(words...)
}

// See shows an object.
func (c ClusterFacts) See(o ObjectRef) command.Command {
	if o.Namespace != "" {
		return c.KubectlIn(o.Namespace, "get", strings.ToLower(o.Kind), o.Name, "-o", "yaml")
	}
	return c.Kubectl("get", strings.ToLower(o.Kind), o.Name, "-o", "yaml")
}

// SeeOperator lists objects where Liqo or our operator lives.
func (c ClusterFacts) SeeOperator(kinds string) command.Command {
	return c.KubectlIn(c.Namespace, "get", kinds)
}
