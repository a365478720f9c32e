package offload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A container that states no amount counts this much, so that no pod is free.
var (
	LeastCPU    = resource.MustParse("100m")
	LeastMemory = resource.MustParse("256Mi")
	// LeastStorage is for the disk of the container's node.
	LeastStorage = resource.MustParse("512Mi")
)

// complete adds the amounts that a container does not state. For memory and disk, it sets the limit to the
// counted amount: without a limit, the limit becomes the request.
func complete(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	requests, limits := rounded(r.Requests), rounded(r.Limits)
	for name, q := range limits {
		if _, stated := requests[name]; !stated {
			requests[name] = q
		}
	}
	if _, stated := requests[corev1.ResourceCPU]; !stated {
		requests[corev1.ResourceCPU] = LeastCPU
	}
	if _, stated := requests[corev1.ResourceMemory]; !stated {
		requests[corev1.ResourceMemory] = LeastMemory
	}
	if _, stated := requests[corev1.ResourceEphemeralStorage]; !stated {
		requests[corev1.ResourceEphemeralStorage] = LeastStorage
	}
	for _, name := range bounded {
		if _, stated := limits[name]; !stated {
			limits[name] = requests[name]
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// bounded resources are counted by their limits, because a node can't take back memory or disk from a
// container.
var bounded = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// rounded returns the amounts as Kubernetes counts them: CPU in thousandths, everything else in whole units.
// Zero CPU, memory and disk are left out, because a kubelet treats zero as no limit.
func rounded(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		q = q.DeepCopy()
		if name == corev1.ResourceCPU {
			q.RoundUp(resource.Milli)
		} else {
			q.RoundUp(0)
		}
		if q.IsZero() && (name == corev1.ResourceCPU || slices.Contains(bounded, name)) {
			continue
		}
		out[name] = q
	}
	return out
}

// counted returns the amounts that one container counts: memory and disk by their limits, everything else by
// its requests.
func counted(c *corev1.Container) corev1.ResourceList {
	out := maps.Clone(c.Resources.Requests)
	if out == nil {
		out = corev1.ResourceList{}
	}
	for _, name := range bounded {
		if limit, ok := c.Resources.Limits[name]; ok && limit.Cmp(out[name]) > 0 {
			out[name] = limit
		}
	}
	return out
}

// Sum returns the amounts that a pod counts, as Kubernetes schedules it. Init containers run one after the
// other, before the containers, which run together. Sidecars run together with all later ones.
func Sum(p *corev1.PodSpec) corev1.ResourceList {
	together, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.InitContainers {
		c := &p.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			Add(together, counted(c))
			atLeast(most, together)
			continue
		}
		now := corev1.ResourceList{}
		Add(now, together)
		Add(now, counted(c))
		atLeast(most, now)
	}
	for i := range p.Containers {
		Add(together, counted(&p.Containers[i]))
	}
	atLeast(most, together)
	Add(most, p.Overhead)
	most[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return most
}

// Add adds more to sum.
func Add(sum, more corev1.ResourceList) {
	for name, q := range more {
		all := sum[name]
		all.Add(q)
		sum[name] = all
	}
}

// Subtract subtracts less from sum, which may become negative.
func Subtract(sum, less corev1.ResourceList) {
	for name, q := range less {
		all := sum[name]
		all.Sub(q)
		sum[name] = all
	}
}

func atLeast(sum, least corev1.ResourceList) {
	for name, q := range least {
		if q.Cmp(sum[name]) > 0 {
			sum[name] = q
		}
	}
}

// GrantDisk adds disk to a grant without disk: the amount that its pods count if they state none. Nodes need
// not report their disk.
func GrantDisk(granted corev1.ResourceList) {
	if disk := granted[corev1.ResourceEphemeralStorage]; disk.IsZero() {
		pods := granted[corev1.ResourcePods]
		granted[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(pods.Value()*LeastStorage.Value(), resource.BinarySI)
	}
}

// Fits returns nil if the request fits into the grant in addition to used, and otherwise the reason. The text
// changes only if the request or the grant changes.
func Fits(asked, used, granted corev1.ResourceList) error {
	var waits error
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		q, all := asked[name], granted[name]
		sum := q.DeepCopy()
		sum.Add(used[name])
		switch {
		case q.IsZero() || sum.Cmp(all) <= 0:
		case q.Cmp(all) > 0 && all.IsZero():
			return fmt.Errorf("%s: %s asked for, and none was granted", name, q.String())
		case q.Cmp(all) > 0:
			return fmt.Errorf("%s: %s asked for, and %s were granted in all", name, q.String(), all.String())
		case waits == nil:
			waits = fmt.Errorf("%s: %s asked for, and so much is not free now of the %s that were granted", name, q.String(), all.String())
		}
	}
	return waits
}
