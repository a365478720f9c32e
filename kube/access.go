package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/rights"
)

var (
	_ engine.Reviewer = (*Cluster)(nil)
	_ engine.Logger   = (*Cluster)(nil)
)

// parallelReviews is the largest number of reviews at the same time.
const parallelReviews = 16

// instead contains the verb that [Cluster] uses if a verb is forbidden.
var instead = map[string]string{"patch": "update", "watch": "list"}

// Review checks all permissions, several at the same time.
func (c *Cluster) Review(ctx context.Context, wanted []rights.Permission) (rights.Review, error) {
	var r rights.Review
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(parallelReviews)
	g.Go(func() error {
		user := c.user(ctx)
		mu.Lock()
		defer mu.Unlock()
		r.User = user
		return nil
	})
	missing := make([]bool, len(wanted))
	for i, p := range wanted {
		g.Go(func() error {
			allowed, err := c.mayOrElse(ctx, p)
			missing[i] = !allowed
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	for i, p := range wanted {
		if missing[i] {
			r.Missing = append(r.Missing, p)
		}
	}
	return r, nil
}

// mayOrElse reports whether p is allowed, or the verb in instead.
func (c *Cluster) mayOrElse(ctx context.Context, p rights.Permission) (bool, error) {
	allowed, err := c.may(ctx, p)
	if other, ok := instead[p.Verb]; ok && !allowed && err == nil {
		p.Verb = other
		return c.may(ctx, p)
	}
	return allowed, err
}

// may reports whether p is allowed in all namespaces or, for a user with access to only one tenant namespace,
// in that namespace.
func (c *Cluster) may(ctx context.Context, p rights.Permission) (bool, error) {
	namespaces := []string{p.Namespace}
	if tenant := c.tenant(); tenant != "" && p.Namespace == "" {
		namespaces = append(namespaces, tenant)
	}
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	for _, ns := range namespaces {
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: resource, Subresource: subresource, Namespace: ns, Name: p.Name},
		}}
		if err := c.client.Create(ctx, &review); err != nil {
			return false, fmt.Errorf("ask whether %s is allowed: %w", p, c.problem("ask for rights", err))
		}
		if review.Status.Allowed {
			return true, nil
		}
	}
	return false, nil
}

// Logs returns the logs of all containers of a pod. If there are several containers, each log follows the
// name of its container.
func (c *Cluster) Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error) {
	var p corev1.Pod
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, &p); err != nil {
		return "", fmt.Errorf("read Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var out strings.Builder
	for _, container := range p.Spec.Containers {
		text, err := c.discovery.RESTClient().Get().AbsPath("/api/v1/namespaces", pod.Namespace, "pods", pod.Name, "log").
			Param("container", container.Name).Param("tailLines", fmt.Sprint(lines)).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("read the log of Pod %s/%s, container %s: %w", pod.Namespace, pod.Name, container.Name, err)
		}
		if len(p.Spec.Containers) > 1 {
			fmt.Fprintf(&out, "== container %s\n", container.Name)
		}
		out.Write(text)
	}
	return out.String(), nil
}
