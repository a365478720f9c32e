package check

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// The tested minor versions of Kubernetes 1. TestTheTestedReleasesAreThose compares them
// with the versions in the tests.
const (
	oldestMinor = 35
	newestMinor = 37
)

// release compares Kubernetes with the tested releases. It refuses no release, because
// most of the API that we use has been stable for years.
func (in preflight) release(side flows.Side) Result {
	version, verify := in.cluster(side).Version, in.facts.Ours("network", "verify")
	var minor int
	_, err := fmt.Sscanf(version, "v1.%d", &minor)
	tested := fmt.Sprintf("1.%d to 1.%d", oldestMinor, newestMinor)
	switch {
	case err != nil:
		return result(Inconclusive, fmt.Sprintf("version %q is not understood; tested are %s", version, tested))
	case minor < oldestMinor:
		return result(Warn, fmt.Sprintf("%s is older than the releases that liqo-tui is tested with, %s: it may work", version, tested),
			command.Text("upgrade the cluster"), command.Hintf("before you rely on it: %s", verify))
	case minor > newestMinor:
		return result(Warn, fmt.Sprintf("%s is newer than the releases that liqo-tui is tested with, %s: it may work", version, tested),
			command.Text("look for a newer liqo-tui"), command.Hintf("before you rely on it: %s", verify))
	}
	return pass(fmt.Sprintf("%s; tested are %s", version, tested))
}

func (in preflight) kernels(side flows.Side) Result {
	c := in.cluster(side)
	if s := c.OldKernels(side); s != nil {
		return result(Fail, s.Reason, s.Fix...)
	}
	var known, old []string
	for _, n := range c.Nodes {
		switch {
		case n.Excluded != "" || n.Kernel == "":
		case n.OldKernel():
			old = append(old, n.Name+" "+n.Kernel)
		default:
			known = append(known, n.Name+" "+n.Kernel)
		}
	}
	switch {
	case len(old) > 0:
		r := result(Warn, fmt.Sprintf("older than %s: %s; a gateway that is scheduled there does not start", flows.OldestKernel, flows.Some(old)),
			command.Hintf("keep gateways off these nodes: %s, with a nodeSelector", in.cluster(side).Ours("install").Flag("--pod-settings", "FILE")))
		r.Evidence = old[:min(len(old), maxGroups)]
		return r
	case len(known) == 0:
		return result(Inconclusive, "the nodes' kernels are not known")
	}
	return pass(flows.Some(known))
}

// Liqo's documentation advises these resources for a cluster before an installation. A
// machine sold with 2 GB reports less, because the kernel reserves some.
const (
	advisedCPUs   = 2000
	advisedMemory = 1_800_000_000
)

// room compares the cluster with this advice. Our own programs need only a small part of
// it.
func (in preflight) room(side flows.Side) Result {
	var cpus, memory int64
	for _, n := range in.cluster(side).Nodes {
		if n.Excluded == "" {
			cpus, memory = cpus+n.CPUs, memory+n.Memory
		}
	}
	if cpus == 0 || memory == 0 {
		return result(Inconclusive, "the nodes' CPUs and memory are not known")
	}
	text := fmt.Sprintf("%.3g CPUs, %.1f GB of memory", float64(cpus)/1000, float64(memory)/1e9)
	if cpus < advisedCPUs || memory < advisedMemory {
		return result(Warn, text+": 2 CPUs and 2 GB are advised, Kubernetes' own programs included", command.Text("it may work; watch the nodes' load, or add a node"))
	}
	return pass(text)
}

// admission reports whether the API server would accept the first objects of the plan.
// The cluster's quotas, admission policies and webhooks take part in its answer.
func (in preflight) admission(side flows.Side) Result {
	if in.facts.Tried == nil {
		return result(Inconclusive, "") // pointless removes this result
	}
	asked, due := false, false
	for _, s := range in.facts.Tried.Steps {
		if s.Side == side && s.Status == flows.Failed && s.Code == flows.CodeRefused {
			return result(Fail, fmt.Sprintf("%s would be refused: %s", s.Title, s.Reason), command.Text("ask the admin of the policy or program that the message names"))
		}
		asked = asked || s.Side == side && s.Tried
		due = due || s.Side == side && s.Status != flows.Done && (s.Action == flows.Create || s.Action == flows.Update || s.Action == flows.Replace)
	}
	switch {
	case asked:
	case in.facts.Tried.Failure() != nil:
		return result(Inconclusive, noPlan)
	case due:
		return result(Inconclusive, "nothing can be tried yet: the first steps are the other cluster's")
	default:
		return pass("the plan applies nothing here")
	}
	return pass("the API server would take what can be applied now; pods of gateways are checked only when they are made")
}
