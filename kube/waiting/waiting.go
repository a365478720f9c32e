// Package waiting finds the reason that a pod waits, or is not created. It reads the pod's status and Events,
// because the status does not show a registry that hangs.
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

// hopeless are the reasons of waiting containers that usually never start.
var hopeless = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// InVain reports whether a container of the pod waits for one of the hopeless reasons.
func InVain(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && slices.Contains(hopeless, s.State.Waiting.Reason)
	})
}

// Patience is longer than a node needs to pull our image from a near registry.
const Patience = 10 * time.Second

// ToBePulled returns a text about a node that has been pulling an image of one of the pods for longer than
// Patience; "" if there is none, or if this user may not read Events. It takes up to 5 s, even if ctx has
// ended. now is by the cluster's clock.
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

// NotMade returns the reason that Kubernetes creates no pods of a Deployment or DaemonSet, because an
// admission refuses them; "" if there is none, or if it is not known. A Deployment has the reason as a
// condition. A DaemonSet has it only in an Event, which may be older than the pods.
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

// At returns the time of the last occurrence in an Event of either kind.
func At(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case e.LastTimestamp.IsZero():
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
