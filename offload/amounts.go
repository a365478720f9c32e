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
)

// complete states what a container does not state. Memory is bounded by what is counted:
// a container that asks for some and has no limit may use what it asks for.
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
	if _, stated := limits[corev1.ResourceMemory]; !stated {
		limits[corev1.ResourceMemory] = requests[corev1.ResourceMemory]
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// rounded is as Kubernetes counts: it knows thousandths of a CPU, and whole units of
// all else. No CPU and no memory are left out: a kubelet takes them for no bound at all.
func rounded(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		q = q.DeepCopy()
		if name == corev1.ResourceCPU {
			q.RoundUp(resource.Milli)
		} else {
			q.RoundUp(0)
		}
		if q.IsZero() && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			continue
		}
		out[name] = q
	}
	return out
}

// counted is what one container counts: memory by its limit, all else by its requests.
func counted(c *corev1.Container) corev1.ResourceList {
	out := maps.Clone(c.Resources.Requests)
	if out == nil {
		out = corev1.ResourceList{}
	}
	if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && limit.Cmp(out[corev1.ResourceMemory]) > 0 {
		out[corev1.ResourceMemory] = limit
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
