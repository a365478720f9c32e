package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/waiting"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

var _ engine.Reacher = (*Cluster)(nil)

const (
	// unscheduledFor is the longest wait for a node that fits a trial's pod. Schedulers decide within
	// milliseconds, and a new node is ready within seconds.
	unscheduledFor = 5 * time.Second
	// leftoverAge is more than the time after which Kubernetes itself deletes a probe, see [render.Probe].
	leftoverAge = 5 * time.Minute
)

// TryImage runs a pod with the image on each kind of node, and removes the pods.
func (c *Cluster) TryImage(ctx context.Context, try trial.ImageTry) trial.Image {
	pods := try.Each()
	found := make([]trial.Image, len(pods))
	var trying sync.WaitGroup
	for i, settings := range pods {
		trying.Go(func() { found[i] = c.tryImage(ctx, try.Image, settings) })
	}
	trying.Wait()
	return try.Joined(found)
}

// tryImage runs one of these pods.
func (c *Cluster) tryImage(ctx context.Context, image string, pods render.PodSettings) trial.Image {
	t := trial.Image{Image: image}
	began := time.Now()
	var token [16]byte
	_, err := rand.Read(token[:])
	var p *probe
	if err == nil {
		p, err = c.runTrial(ctx, render.ProbeParams{Image: image, Pods: pods, Token: hex.EncodeToString(token[:])})
	}
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.namespace == c.namespace {
		t.Refused = err.Error()
		return t
	}
	if err != nil {
		t.Unknown = err.Error()
		return t
	}
	pod, err := p.await(ctx, func(string) {}, p.scheduled(unscheduledFor, running))
	t.Took = time.Since(began)
	left := p.removeNow(ctx)
	end, failed := errors.AsType[*stuckError](err)
	wait, late := errors.AsType[*WaitError](err)
	switch {
	case failed && strings.Contains(end.words, "ImagePull") && p.job.Namespace != c.namespace && len(pods.ImagePullSecrets) > 0:
		t.Unknown = fmt.Sprintf("the pull secrets have to be in namespace %s, which does not exist yet; without them: %s", c.namespace, end.words)
	case failed:
		t.Node, t.Failed = end.node, end.words
	case late:
		pods, _ := p.pods.snapshot() // the kubelet's Events about a pod remain after the pod is deleted
		last := cmp.Or(waiting.ToBePulled(ctx, c.client, pods, time.Now().Add(c.clock.Difference())), wait.Last)
		t.Unknown = fmt.Sprintf("the pod has not started within %s; last seen: %s", t.Took.Round(time.Second), last)
	case err != nil:
		t.Unknown = err.Error()
	case left != nil:
		t.Unknown = left.Error()
	default:
		t.Node = pod.Spec.NodeName
	}
	return t
}

// scheduled returns a function like wanted. The function returns an error if the pod has no node after patience.
func (p *probe) scheduled(patience time.Duration, wanted func(*corev1.Pod) (bool, error)) func(*corev1.Pod) (bool, error) {
	var since time.Time
	return func(pod *corev1.Pod) (bool, error) {
		why := collect.Pod(pod).Waiting
		switch {
		case pod.Spec.NodeName != "" || why == "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			time.AfterFunc(patience, p.notify)
		case time.Since(since) >= patience:
			return false, errors.New("no node takes the pod: " + why)
		}
		return wanted(pod)
	}
}

// runTrial runs a probe that belongs to no connection, in the installation's namespace with its pull secrets,
// or otherwise in the namespace default. First it removes earlier trials that were killed.
func (c *Cluster) runTrial(ctx context.Context, r render.ProbeParams) (*probe, error) {
	r.Tenant.Namespace = metav1.NamespaceDefault
	var home corev1.Namespace
	if err := c.client.Get(ctx, client.ObjectKey{Name: c.namespace}, &home); err == nil && home.DeletionTimestamp == nil {
		r.Tenant.Namespace = home.Name
	}
	c.removeLeftovers(ctx, r.Tenant.Namespace, leftoverAge)
	if err := c.admits(ctx, r); err != nil {
		return nil, err
	}
	return c.runProbe(ctx, r)
}

// admits tests whether the API server would accept the pod. If it would not, the Job's controller would get
// the error, and this program would not.
func (c *Cluster) admits(ctx context.Context, r render.ProbeParams) error {
	r.Name = render.ProbeName
	template := render.Probe(r).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = r.Tenant.Namespace, render.ProbeName+"-"
	err := c.client.Create(ctx, pod, client.DryRunAll)
	if apierrors.IsForbidden(err) { // by the user's rights, which may still be enough for a Job, or by an admission
		if allowed, asking := c.may(ctx, rights.Permission{Verb: "create", Resource: "pods", Namespace: r.Tenant.Namespace}); asking == nil && !allowed {
			return nil
		}
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return &refusedError{r.Tenant.Namespace, err}
	}
	if err != nil {
		return fmt.Errorf("create a pod in namespace %s: %w", r.Tenant.Namespace, err)
	}
	return nil
}

// refusedError means that an admission of the cluster refuses pods like the trial's in the namespace.
type refusedError struct {
	namespace string
	cause     error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("create a pod in namespace %s: %v", e.namespace, e.cause)
}

func (e *refusedError) Unwrap() error { return e.cause }

// removeLeftovers removes earlier trials that Kubernetes should have removed. It ignores errors.
func (c *Cluster) removeLeftovers(ctx context.Context, namespace string, age time.Duration) {
	var jobs batchv1.JobList
	labels := client.MatchingLabels{wire.LabelAppName: render.ProbeName, wire.LabelManagedBy: wire.ManagedBy}
	if err := c.client.List(ctx, &jobs, client.InNamespace(namespace), labels); err != nil {
		return
	}
	now := time.Now().Add(c.clock.Difference())
	for i := range jobs.Items {
		if job := &jobs.Items[i]; now.Sub(job.CreationTimestamp.Time) >= age {
			_ = (&probe{cluster: c, job: job}).Remove(ctx)
		}
	}
}

// API returns the address of the API server that this program uses.
func (c *Cluster) API() (render.ProbeAPI, error) {
	ca, err := c.trust()
	url := c.server
	if !strings.Contains(url, "://") {
		url = "https://" + url
	}
	return render.ProbeAPI{URL: url, CA: ca}, err
}

// reachPod is a probe behind a Service.
type reachPod struct {
	*probe
	service *corev1.Service
	refused error // the reason that the Service could not be created
}

// StartReach runs a probe and a Service for it.
func (c *Cluster) StartReach(ctx context.Context, r engine.ReachRequest) (engine.ReachPod, error) {
	p, err := c.runWays(ctx, r.Image, r.Token)
	if err != nil {
		return nil, err
	}
	out := &reachPod{probe: p, service: render.ProbeService(p.job, r.Service)}
	if err := c.client.Create(ctx, out.service); err != nil {
		out.refused = fmt.Errorf("create %s: %w", apply.Name(out.service), err)
	}
	return out, nil
}

// runWays runs a probe that tries connections to the other cluster.
func (c *Cluster) runWays(ctx context.Context, image, token string) (*probe, error) {
	params := render.ProbeParams{Image: image, Token: token}
	if d := c.operator(); d != nil && params.Image == "" {
		installed := render.OperatorParams(d)
		params.Image, params.Pods = installed.Image, installed.Pods.ForGateway()
	}
	if params.Image == "" {
		return nil, engine.ErrNoImage
	}
	return c.runTrial(ctx, params)
}

// apiWindow is the time in which a running pod tries another cluster's API server.
const apiWindow = 5 * time.Second

// AskAPI runs a pod that tests the path to another cluster's API server, without verifying certificates.
func (c *Cluster) AskAPI(ctx context.Context, url string) trial.API {
	t := trial.API{URL: url}
	var token [16]byte
	_, err := rand.Read(token[:])
	var p *probe
	if err == nil {
		p, err = c.runWays(ctx, c.options.Image, hex.EncodeToString(token[:]))
	}
	if err != nil {
		t.Unknown = err.Error()
		return t
	}
	pod := &reachPod{probe: p, refused: errors.New("nobody dials it")}
	r, err := pod.Measure(ctx, render.ProbeTarget{Ways: &render.ProbeWays{Token: hex.EncodeToString(token[:]), API: render.ProbeAPI{URL: url}, Alone: true, Until: time.Now().Add(apiWindow)}})
	left := p.removeNow(ctx)
	switch {
	case err != nil:
		t.Unknown = err.Error()
	case r.Ways == nil:
		t.Unknown = "the image is of an older release, which can't try this"
	case left != nil:
		t.Unknown = left.Error()
	default:
		t.Problem = r.Ways.APIError
	}
	return t
}

// exposedPoll is the time between two requests for a load balancer's address.
const exposedPoll = 200 * time.Millisecond

// Exposed returns the addresses and the port at which others can dial the Service.
func (p *reachPod) Exposed(ctx context.Context) (addresses []string, port int32, err error) {
	s := p.service
	switch {
	case p.refused != nil:
		return nil, 0, p.refused
	case s.Spec.Type == corev1.ServiceTypeNodePort:
		return nil, s.Spec.Ports[0].NodePort, nil
	case s.Spec.Type == corev1.ServiceTypeClusterIP:
		return []string{wire.ServiceIPv4(s)}, s.Spec.Ports[0].Port, nil
	}
	for len(s.Status.LoadBalancer.Ingress) == 0 {
		if !sleep.For(ctx, exposedPoll) {
			return nil, 0, errors.New("the load balancer has given no address yet")
		}
		if err := p.cluster.client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil && ctx.Err() == nil {
			return nil, 0, fmt.Errorf("read %s: %w", apply.Name(s), err)
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		addresses = append(addresses, in.IP+in.Hostname)
	}
	return addresses, s.Spec.Ports[0].Port, nil
}

// Measure gives the pod its target as soon as the pod exists, even if the pod does not run yet.
func (p *reachPod) Measure(ctx context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	pod, err := p.await(ctx, func(string) {}, func(*corev1.Pod) (bool, error) { return true, nil })
	if err != nil {
		return render.ProbeResult{}, err
	}
	p.pod = engine.ProbePod{Namespace: pod.Namespace, Name: pod.Name}
	ways := *t.Ways
	ways.Until = p.onItsClock(ways.Until)
	return p.probe.Measure(ctx, render.ProbeTarget{Ways: &ways})
}

// onItsClock converts a time of this machine's clock to the cluster's clock, by the creation time of the Job,
// in whole seconds. clock.Clock is not precise enough, because it ignores small differences.
func (p *probe) onItsClock(t time.Time) time.Time {
	return p.job.CreationTimestamp.Add(time.Second/2 + t.Sub(p.began))
}

// Remove removes the probe and its Service. Without Remove, Kubernetes would delete the Service later.
func (p *reachPod) Remove(ctx context.Context) error {
	err := p.probe.Remove(ctx)
	if p.refused != nil {
		return err
	}
	gone := p.cluster.client.Delete(ctx, p.service, client.Preconditions{UID: new(p.service.UID)})
	if client.IgnoreNotFound(gone) != nil && !apierrors.IsConflict(gone) {
		return errors.Join(err, fmt.Errorf("delete %s, which Kubernetes will do itself within 3 minutes: %w", apply.Name(p.service), gone))
	}
	return err
}
