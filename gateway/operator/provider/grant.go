package provider

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// usual contains the grants of resources that a consumer does not request, as far as they are available.
// Liqo's providers grant the same amounts.
var usual = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
}

// budget is a limited stock of resources that grants are taken from.
type budget struct {
	whose string // the subject of messages such as "the nodes of rome have 8"
	holds corev1.ResourceList
	// spent is the amount that other slices have taken from the budget.
	spent corev1.ResourceList
	// only means that the budget has only the resources in holds. Otherwise a resource that holds does not
	// name is unlimited.
	only bool
}

// left returns the rest of a resource, the amount before all grants, and whether the budget limits the
// resource.
func (p budget) left(name corev1.ResourceName) (left, of resource.Quantity, bounds bool) {
	of, bounds = p.holds[name]
	if !bounds && !p.only {
		return left, of, false
	}
	left = of.DeepCopy()
	left.Sub(p.spent[name])
	if left.Sign() < 0 { // nodes have left the cluster, or an admin lends less now
		left.Sub(left)
	}
	return left, of, true
}

// fits returns nil if the budget has q of a resource left, and otherwise an error with the missing amount.
func (p budget) fits(name corev1.ResourceName, q resource.Quantity) error {
	left, of, bounds := p.left(name)
	switch {
	case !bounds || q.Cmp(left) <= 0:
		return nil
	case of.IsZero():
		return fmt.Errorf("%s: %s asked for; %s have none", name, q.String(), p.whose)
	}
	return fmt.Errorf("%s: %s asked for; %s have %s, of which %s are not lent yet", name, q.String(), p.whose, of.String(), left.String())
}

// grant returns the amounts that a consumer gets for a request. Each budget must have enough for all of the
// request. Otherwise the consumer gets nothing, and why names the first resource that is missing.
func grant(asked corev1.ResourceList, budgets []budget) (granted corev1.ResourceList, why error) {
	granted = corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		q := asked[name]
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %s is less than nothing", name, q.String())
		}
		if whole := resource.NewQuantity(q.Value(), q.Format); name != corev1.ResourceCPU && q.Cmp(*whole) != 0 {
			return nil, fmt.Errorf("%s: %s is not a whole number", name, q.String())
		}
		for _, p := range budgets {
			if err := p.fits(name, q); err != nil {
				return nil, err
			}
		}
		granted[name] = q
	}
	for name, q := range usual {
		if _, named := asked[name]; named {
			continue
		}
		for _, p := range budgets {
			if left, _, bounds := p.left(name); bounds && left.Cmp(q) < 0 {
				q = left
			}
		}
		if !q.IsZero() {
			granted[name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := granted[name]; q.IsZero() {
			if _, named := asked[name]; named {
				return nil, fmt.Errorf("%s: a node without it runs nothing", name)
			}
			return nil, fmt.Errorf("%s: all of it is lent", name)
		}
	}
	return granted, nil
}

// stays reports whether an earlier grant still fits the limits that admins have set. The capacity of nodes
// does not count, because grants stay although nodes come and go.
func stays(granted corev1.ResourceList, budgets []budget) bool {
	for name, q := range granted {
		for _, p := range budgets {
			if !p.only && p.fits(name, q) != nil {
				return false
			}
		}
	}
	return true
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		all := sum[name]
		all.Add(q)
		sum[name] = all
	}
}

// most returns, for each resource, the larger amount of the two.
func most(a, b corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{a, b} {
		for name, q := range list {
			if has := out[name]; q.Cmp(has) > 0 {
				out[name] = q
			}
		}
	}
	return out
}

// capacity sums the allocatable resources of all nodes that lend.
func capacity(nodes []corev1.Node) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range nodes {
		if n := &nodes[i]; lends(n) {
			add(sum, n.Status.Allocatable)
		}
	}
	return sum
}

// shared returns the labels that all nodes that lend have, with the same value, as far as virtual nodes may
// have them.
func shared(nodes []corev1.Node) map[string]string {
	var out map[string]string
	for i := range nodes {
		n := &nodes[i]
		if !lends(n) {
			continue
		}
		if out == nil {
			out = peering.NodeLabels(n.Labels)
		}
		maps.DeleteFunc(out, func(key, value string) bool { return n.Labels[key] != value })
	}
	return out
}

// lends reports whether a node is not virtual, is ready, and takes new pods.
func lends(n *corev1.Node) bool {
	if _, virtual := n.Labels[peering.LabelNodeType]; virtual || n.Spec.Unschedulable {
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
