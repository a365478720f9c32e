// Package waiting returns the reason that a pod waits: from its status, and from a
// kubelet's events, because a pod's status does not show a registry that hangs.
package waiting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reasons of a container that waiting does not help.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// InVain reports whether waiting does not help the pod.
func InVain(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && slices.Contains(hopeless, s.State.Waiting.Reason)
	})
}

// Patience is longer than a node takes to pull our image from a near registry.
const Patience = 10 * time.Second

// ToBePulled describes how long a node has been pulling an image of one of the pods, if
// that is longer than Patience; "" if none pulls, or if events may not be read. It asks
// for some seconds even if ctx has ended. now is by the cluster's clock.
func ToBePulled[O client.Object](ctx context.Context, c client.Client, pods []O, now time.Time) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, o := range pods {
		if pod, ok := client.Object(o).(*corev1.Pod); ok {
			if words := toBePulled(ctx, c, pod, now); words != "" {
				return words
			}
		}
	}
	return ""
}

func toBePulled(ctx context.Context, c client.Client, pod *corev1.Pod, now time.Time) string {
	var list corev1.EventList
	about := client.MatchingFields{"involvedObject.name": pod.Name, "involvedObject.namespace": pod.Namespace}
	if err := c.List(ctx, &list, client.InNamespace(pod.Namespace), about); err != nil {
		return ""
	}
	var began, ended corev1.Event
	for i := range list.Items {
		e := list.Items[i]
		switch {
		case e.InvolvedObject.UID != pod.UID:
		case e.Reason == "Pulling" && At(&e).After(At(&began)):
			began = e
		case (e.Reason == "Pulled" || e.Reason == "Failed" || e.Reason == "BackOff") && At(&e).After(At(&ended)):
			ended = e
		}
	}
	since := now.Sub(At(&began)).Round(time.Second)
	if At(&began).IsZero() || At(&ended).After(At(&began)) || since < Patience {
		return ""
	}
	image := strings.TrimPrefix(began.Message, "Pulling image ")
	return fmt.Sprintf("node %s has been pulling %s for %s: its registry hangs, or is slow", pod.Spec.NodeName, strings.Trim(image, `"`), since)
}

// At is when something last happened, according to an event of either kind.
func At(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case e.LastTimestamp.IsZero():
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
