package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var _ engine.Finder = (*Cluster)(nil)

// Find reads a pod, or a Service and the pods that it selects.
func (c *Cluster) Find(ctx context.Context, t address.Target) (f address.Found, err error) {
	key := client.ObjectKey{Namespace: t.Namespace, Name: t.Name}
	if t.Kind == address.Pod {
		var pod corev1.Pod
		if err := c.client.Get(ctx, key, &pod); err != nil {
			return f, fmt.Errorf("get %s: %w", t, err)
		}
		f.Ends = []address.End{endOf(&pod)}
		return f, nil
	}
	var service corev1.Service
	if err := c.client.Get(ctx, key, &service); err != nil {
		return f, fmt.Errorf("get %s: %w", t, err)
	}
	if len(service.Spec.Selector) == 0 {
		return f, fmt.Errorf("%s selects no pods: ask for the addresses that it leads to", t)
	}
	f.ClusterIP = wire.ServiceIPv4(&service)
	err = eachPage(ctx, c.client, &corev1.PodList{}, func(list *corev1.PodList) {
		for i := range list.Items {
			if phase := list.Items[i].Status.Phase; phase != corev1.PodFailed && phase != corev1.PodSucceeded {
				f.Ends = append(f.Ends, endOf(&list.Items[i]))
			}
		}
	}, client.InNamespace(t.Namespace), client.MatchingLabels(service.Spec.Selector))
	if err != nil {
		return f, fmt.Errorf("list pods of %s: %w", t, err)
	}
	return f, nil
}

func endOf(pod *corev1.Pod) address.End {
	e := address.End{Name: pod.Name, Address: wire.PodIPv4(pod), HostNetwork: pod.Spec.HostNetwork}
	for _, c := range pod.Status.Conditions {
		e.Ready = e.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return e
}
