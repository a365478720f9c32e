//go:build linux

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollout is a cluster of which each look sees the next state.
type rollout struct {
	client.Reader
	deployments []*appsv1.DeploymentStatus // nil: there is none
	daemons     []*appsv1.DaemonSetStatus
}

// next takes the first; the last one stays.
func next[T any](states *[]T) T {
	first := (*states)[0]
	if len(*states) > 1 {
		*states = (*states)[1:]
	}
	return first
}

func (r *rollout) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetGeneration(2)
	switch o := o.(type) {
	case *appsv1.Deployment:
		if s := next(&r.deployments); s != nil {
			o.Status = *s
			return nil
		}
	case *appsv1.DaemonSet:
		if s := next(&r.daemons); s != nil {
			o.Status = *s
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "programs"}, key.Name)
}

func TestReadyOnceBothProgramsRun(t *testing.T) {
	up := &appsv1.DeploymentStatus{ObservedGeneration: 2, UpdatedReplicas: 1, AvailableReplicas: 1}
	older := &appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	all := &appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3}
	some := &appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 2}
	for name, tc := range map[string]struct {
		deployments []*appsv1.DeploymentStatus
		daemons     []*appsv1.DaemonSetStatus
		want        string // "" if it is ready in the end
	}{
		"at once":        {[]*appsv1.DeploymentStatus{up}, []*appsv1.DaemonSetStatus{all}, ""},
		"in the end":     {[]*appsv1.DeploymentStatus{nil, older, up}, []*appsv1.DaemonSetStatus{nil, some, all}, ""},
		"no operator":    {[]*appsv1.DeploymentStatus{nil}, []*appsv1.DaemonSetStatus{all}, `read the operator's Deployment: programs "liqo-tui-operator" not found`},
		"an older one":   {[]*appsv1.DeploymentStatus{older}, []*appsv1.DaemonSetStatus{all}, "the operator does not run yet"},
		"some nodes":     {[]*appsv1.DeploymentStatus{up}, []*appsv1.DaemonSetStatus{some}, "the node agent runs on 2 of 3 nodes"},
		"no node at all": {[]*appsv1.DeploymentStatus{up}, []*appsv1.DaemonSetStatus{{ObservedGeneration: 2}}, "the node agent runs on 0 of 0 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tc.want != "" {
				ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
			}
			defer cancel()
			err := waitReady(ctx, &rollout{deployments: tc.deployments, daemons: tc.daemons}, "liqo", time.Millisecond)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
