package offload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a container counts that states nothing: no pod is free of charge.
var (
	LeastCPU    = resource.MustParse("100m")
	LeastMemory = resource.MustParse("256Mi")
	// LeastStorage is what it may write to its node's disk.
	LeastStorage = resource.MustParse("512Mi")
)

// complete states what a container does not state. Memory and disk are bounded by what is
// counted: a container that asks for some and has no limit may use what it asks for.
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

// bounded are counted by their limits: a node has no more of them when they are used up.
var bounded = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// rounded is as Kubernetes counts: it knows thousandths of a CPU, and whole units of all
// else. No CPU, no memory and no disk are left out: a kubelet takes them for no bound at all.
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

// counted is what one container counts: memory and disk by their limits, all else by its
// requests.
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

// Sum is what a pod counts, as Kubernetes schedules it: containers run together,
// those before them one after the other, but for those that go on.
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

// Add adds to a sum.
func Add(sum, more corev1.ResourceList) {
	for name, q := range more {
		all := sum[name]
		all.Add(q)
		sum[name] = all
	}
}

// Subtract takes from a sum.
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

// GrantDisk adds to what was granted the disk that its pods use who state none, where none
// was granted: nodes need not say how much they have.
func GrantDisk(granted corev1.ResourceList) {
	if disk := granted[corev1.ResourceEphemeralStorage]; disk.IsZero() {
		pods := granted[corev1.ResourcePods]
		granted[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(pods.Value()*LeastStorage.Value(), resource.BinarySI)
	}
}

// Fits is why what is asked for does not fit into what was granted, beside what is used
// of it; nil if it does. It says the same for as long as nothing else is granted.
func Fits(asked, used, granted corev1.ResourceList) error {
	var waits error
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		q, all := asked[name], granted[name]
		sum := q.DeepCopy()
		sum.Add(used[name])
		switch {
		case q.IsZero() || sum.Cmp(all) <= 0:
		case q.Cmp(all) > 0 && all.IsZero():
			return fmt.Errorf("%s: %s asked for, and nothing of it was granted", name, q.String())
		case q.Cmp(all) > 0:
			return fmt.Errorf("%s: %s asked for, and %s were granted in all", name, q.String(), all.String())
		case waits == nil:
			waits = fmt.Errorf("%s: %s asked for, and so much is not free now of the %s that were granted", name, q.String(), all.String())
		}
	}
	return waits
}
