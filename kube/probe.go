package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/kube/waiting"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// WaitError means that a wait has ended before the awaited state was reached.
type WaitError struct {
	What, Last string
	Cause      error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("wait for %s: %v; last seen: %s", e.What, e.Cause, e.Last)
}

func (e *WaitError) Unwrap() error { return e.Cause }

// Hint returns the advice to the admin.
func (e *WaitError) Hint() command.Hint {
	return command.Text("what was applied stays; run the same command again to go on")
}

var _ engine.Prober = (*Cluster)(nil)

// probe is a pod that measures. A Job runs it.
type probe struct {
	cluster *Cluster
	job     *batchv1.Job
	pods    *store
	changed chan struct{}
	stop    context.CancelFunc
	stopped sync.WaitGroup
	pod     engine.ProbePod
	began   time.Time // the creation time of the Job, by this machine's clock
}

// StartProbe runs a probe's pod from our gateways' image.
func (c *Cluster) StartProbe(ctx context.Context, r engine.ProbeRequest, progress func(string)) (engine.Probe, error) {
	image := r.Image
	var pods render.PodSettings
	if d := c.operator(); d != nil {
		installed := render.OperatorParams(d)
		image = cmp.Or(image, installed.Image)                               // the image also contains the probe's program
		pods.ImagePullSecrets = installed.Pods.ForGateway().ImagePullSecrets // the operator has copied these Secrets there
	}
	if image = cmp.Or(image, c.options.Image); image == "" {
		return nil, engine.ErrNoImage
	}
	p, err := c.runProbe(ctx, render.ProbeParams{Tenant: r.Tenant, Image: image, Pods: pods, Token: r.Token, Owner: r.Owner, Node: r.Node})
	if err != nil {
		return nil, err
	}
	pod, err := p.await(ctx, progress, running)
	if err != nil {
		return nil, errors.Join(err, p.removeNow(ctx))
	}
	address, err := netip.ParseAddr(wire.PodIPv4(pod))
	p.pod = engine.ProbePod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Address: address}
	return p, err
}

func (c *Cluster) runProbe(ctx context.Context, r render.ProbeParams) (*probe, error) {
	r.Name = render.ProbeName + "-" + r.Token[:8]
	p := &probe{cluster: c, changed: make(chan struct{}, 1), job: render.Probe(r)}
	if err := c.client.Create(ctx, p.job); err != nil {
		return nil, fmt.Errorf("create %s: %w", apply.Name(p.job), err)
	}
	p.began = time.Now()
	p.watch(ctx)
	return p, nil
}

// removeNow removes the probe, even if ctx has ended.
func (p *probe) removeNow(ctx context.Context) error { return p.Remove(context.WithoutCancel(ctx)) }

func (c *Cluster) operator() *appsv1.Deployment {
	for _, st := range c.mirrored {
		objects, _ := st.snapshot()
		for _, o := range objects {
			if d, ok := o.(*appsv1.Deployment); ok && collect.SoftwareOf(d) == flows.Operator {
				return d
			}
		}
	}
	return nil
}

// watch mirrors the Job's pods until the probe is removed or ctx ends.
func (p *probe) watch(ctx context.Context) {
	p.pods = newStore("Pod", func() client.ObjectList { return &corev1.PodList{} }, p.notify,
		client.InNamespace(p.job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: p.job.Name})
	ctx, p.stop = context.WithCancel(ctx)
	p.stopped.Go(func() { p.pods.run(ctx, p.cluster.client) })
}

func (p *probe) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// await waits until the pod is as wanted. Meanwhile it calls progress with the reason for the wait.
func (p *probe) await(ctx context.Context, progress func(string), wanted func(*corev1.Pod) (bool, error)) (*corev1.Pod, error) {
	last := "the pod is not there yet"
	told := ""
	for {
		objects, err := p.pods.snapshot()
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("list pods in namespace %s: %w", p.job.Namespace, err)
		}
		if err != nil { // the store lists again in a moment
			last = fmt.Sprintf("list pods in namespace %s: %v", p.job.Namespace, err)
		}
		for _, o := range objects {
			pod := o.(*corev1.Pod)
			if done, err := wanted(pod); done || err != nil {
				return pod, err
			}
			last = "pod " + pod.Name + " is " + strings.ToLower(string(pod.Status.Phase))
			if f := collect.Pod(pod); f.Waiting != "" {
				last = "pod " + pod.Name + ": " + f.Waiting
			}
		}
		if last != told {
			progress(last)
			told = last
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return nil, &WaitError{What: "the probe", Last: last, Cause: context.Cause(ctx)}
		}
	}
}

// stuckError is an error about a pod that will never run.
type stuckError struct{ pod, node, words string }

func (e *stuckError) Error() string { return "pod " + e.pod + ": " + e.words }

// stuck returns the reason that a pod will never run; nil if it may still run.
func stuck(pod *corev1.Pod) error {
	if waiting.InVain(pod) {
		return &stuckError{pod.Name, pod.Spec.NodeName, collect.Pod(pod).Waiting}
	}
	return nil
}

func running(pod *corev1.Pod) (bool, error) {
	for _, s := range pod.Status.ContainerStatuses {
		if end := s.State.Terminated; end != nil {
			words := fmt.Sprintf("it ended at once: exit status %d", end.ExitCode)
			if text := cmp.Or(credentials.LastLine(end.Message), end.Reason); text != "" {
				words += ": " + text
			}
			return false, &stuckError{pod.Name, pod.Spec.NodeName, words}
		}
	}
	return pod.Status.Phase == corev1.PodRunning && wire.PodIPv4(pod) != "", stuck(pod)
}

func ended(pod *corev1.Pod) (bool, error) {
	if err := stuck(pod); err != nil {
		return false, err
	}
	if pod.DeletionTimestamp != nil && len(pod.Status.ContainerStatuses) == 0 {
		return false, fmt.Errorf("pod %s was deleted", pod.Name)
	}
	return outcome(pod) != nil, nil
}

// outcome returns the result of the probe's container; nil if the container still runs. An admission webhook
// may have added other containers, which go on.
func outcome(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == render.ProbeContainer {
			return s.State.Terminated
		}
	}
	return nil
}

func (p *probe) Pod() engine.ProbePod { return p.pod }

func (p *probe) Measure(ctx context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	target, err := json.Marshal(t)
	if err != nil {
		return render.ProbeResult{}, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{render.AnnotationProbeTarget: string(target)}}})
	if err != nil {
		return render.ProbeResult{}, err
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = p.pod.Namespace, p.pod.Name
	if err := p.cluster.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return render.ProbeResult{}, fmt.Errorf("write the target of pod %s: %w", pod.Name, err)
	}
	pod, err = p.await(ctx, func(string) {}, ended)
	if err != nil {
		return render.ProbeResult{}, err
	}
	return render.ParseProbeResult(outcome(pod).Message)
}

func (p *probe) Remove(ctx context.Context) error {
	if p.stop != nil {
		p.stop()
		p.stopped.Wait()
	}
	err := p.cluster.client.Delete(ctx, p.job, client.PropagationPolicy("Background"), client.Preconditions{UID: new(p.job.UID)})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // the Job is gone, or replaced by another Job, which we must not delete
		return fmt.Errorf("delete %s, which Kubernetes will do itself within 3 minutes: %w", apply.Name(p.job), err)
	}
	return nil
}
