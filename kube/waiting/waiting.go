// Package waiting returns the reason that a pod waits, or is not made: from its status, and from
// events, because a pod's status does not show a registry that hangs.
package waiting

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
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

// NotMade returns why Kubernetes makes no pods of a Deployment or DaemonSet: admission refuses them. It
// is "" if it makes them, or if nothing says so. A Deployment has the reason as a condition, and a
// DaemonSet only in an event, which may be older than the pods.
func NotMade(ctx context.Context, c client.Client, key client.ObjectKey) string {
	var deployment appsv1.Deployment
	if err := c.Get(ctx, key, &deployment); err == nil {
		return flows.NotMade(&deployment)
	}
	var set appsv1.DaemonSet
	var list corev1.EventList
	about := client.MatchingFields{"involvedObject.name": key.Name, "involvedObject.namespace": key.Namespace}
	if err := c.Get(ctx, key, &set); err != nil || set.Status.CurrentNumberScheduled >= set.Status.DesiredNumberScheduled {
		return ""
	}
	if err := c.List(ctx, &list, client.InNamespace(key.Namespace), about); err != nil {
		return ""
	}
	var last corev1.Event
	for i := range list.Items {
		if e := list.Items[i]; e.InvolvedObject.UID == set.UID && e.Reason == flows.FailedCreate && !At(&e).Before(At(&last)) {
			last = e
		}
	}
	return last.Message
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
