package kube

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

const probeToken = "00112233445566778899aabbccddeeff"

func probeRequest(c *Cluster, t *testing.T) engine.ProbeRequest {
	t.Helper()
	owner := observe(t, c).End("milan").Configuration.DeepCopy()
	owner.SetGroupVersionKind(configuration().GroupVersionKind())
	return engine.ProbeRequest{Tenant: tenant, Token: probeToken, Owner: owner}
}

// testProbe runs a probe's pod without nodes. The test writes the pod's status, as a node would.
func testProbe(t *testing.T, env *envtest.Environment, admin *Cluster) {
	request := probeRequest(admin, t)
	if _, err := admin.StartProbe(t.Context(), request, func(string) {}); err == nil || !strings.Contains(err.Error(), "the liqo-tui operator, whose image the probe needs") {
		t.Errorf("without an operator: got %v", err)
	}
	operator := manager(wire.OperatorName, "", "registry/gateway:v9", 1, "")
	operator.Spec.Template.Labels, operator.Spec.Template.Spec.Containers[0].Name = operator.Spec.Selector.MatchLabels, "operator"
	operator.Annotations = map[string]string{"liqo-tui.dev/pod-settings": `{"imagePullSecrets": [{"name": "registry"}]}`}
	if err := admin.client.Create(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	await(t, admin, "the operator", func(f flows.ClusterFacts) bool { return f.Software == flows.Operator })

	reader := restricted(t, env, "spectator", "get", "list", "watch")
	await(t, reader, "the operator", func(f flows.ClusterFacts) bool { return f.Software == flows.Operator })
	if _, err := reader.StartProbe(t.Context(), request, func(string) {}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create Job liqo-tenant-milan/liqo-tui-probe-00112233") {
		t.Errorf("who may not: got %v", err)
	}

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := admin.StartProbe(short, request, func(string) {})
	var waited *WaitError
	if !errors.As(err, &waited) || waited.Last != "the pod is not there yet" {
		t.Errorf("without nodes: got %v", err)
	}
	wantNoJobs(t, admin)
	testProbeMeasures(t, admin, request)
	testProbeImage(t, admin, request)
}

func testProbeMeasures(t *testing.T, admin *Cluster, request engine.ProbeRequest) {
	told := make(chan string, 1)
	untilGone := node(t, admin, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "10.244.0.9", []corev1.PodIP{{IP: "10.244.0.9"}}
		if p.Annotations[render.AnnotationProbeTarget] != "" {
			select {
			case told <- p.Annotations[render.AnnotationProbeTarget]:
			default: // the signal was sent before
			}
			sidecar := corev1.ContainerStatus{Name: "istio-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{sidecar, {Name: "probe", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Message: `{"sent": 40, "received": 39, "largestPacket": 1340}`},
			}}}
		}
	})
	probe, err := admin.StartProbe(t.Context(), request, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := admin.client.Get(t.Context(), client.ObjectKey{Namespace: tenant.Namespace, Name: "liqo-tui-probe-00112233"}, &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if pod.Containers[0].Image != "registry/gateway:v9" || *pod.AutomountServiceAccountToken || *job.Spec.TTLSecondsAfterFinished > 60 || len(job.OwnerReferences) != 1 {
		t.Errorf("got image %s, token %t, kept for %d s, %d owners", pod.Containers[0].Image, *pod.AutomountServiceAccountToken, *job.Spec.TTLSecondsAfterFinished, len(job.OwnerReferences))
	}
	if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("got pull secrets %v, want those of gateways", pod.ImagePullSecrets)
	}
	got, err := probe.Measure(t.Context(), render.ProbeTarget{Address: "10.71.0.5"})
	if want := (render.ProbeResult{Sent: 40, Received: 39, LargestPacket: 1340}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if target := <-told; target != `{"address":"10.71.0.5"}` {
		t.Errorf("the pod was told %s", target)
	}
	if p := probe.Pod(); p.Address.String() != "10.244.0.9" {
		t.Errorf("got %+v", p)
	}
	if err := probe.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNoJobs(t, admin)
	untilGone()
}

func testProbeImage(t *testing.T, admin *Cluster, request engine.ProbeRequest) {
	request.Token = "ff" + request.Token[2:]
	untilGone := node(t, admin, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
		}}}
	})
	_, err := admin.StartProbe(t.Context(), request, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "ErrImagePull: no such image") {
		t.Errorf("without the image: got %v", err)
	}
	wantNoJobs(t, admin)
	untilGone()
}

// node creates the pods of the next Jobs, and writes their status until all Jobs are gone. untilGone waits
// for this. The test does not end before.
func node(t *testing.T, c *Cluster, becomes func(*corev1.Pod)) (untilGone func()) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- runJobs(t.Context(), c, becomes) }()
	untilGone = sync.OnceFunc(func() {
		// After the test, its context has ended, and the node's requests too.
		if err := <-ended; err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(untilGone)
	return untilGone
}

// runJobs acts as the nodes: as node-1, and, if a Job wants an architecture, as the node with the name of the
// architecture. It ends when the Jobs are gone, or with ctx.
func runJobs(ctx context.Context, c *Cluster, becomes func(*corev1.Pod)) error {
	pods := map[string]*corev1.Pod{} // by Job
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		var jobs batchv1.JobList
		if err := c.client.List(ctx, &jobs); err != nil {
			return err
		}
		if len(jobs.Items) == 0 && len(pods) > 0 {
			return nil
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			pod := pods[job.Name]
			if pod == nil {
				pod = &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: map[string]string{batchv1.JobNameLabel: job.Name}},
					Spec:       job.Spec.Template.Spec,
				}
				pod.Spec.ServiceAccountName, pod.Spec.NodeName = "", cmp.Or(pod.Spec.NodeSelector[corev1.LabelArchStable], "node-1")
				if err := c.client.Create(ctx, pod); err != nil {
					return err
				}
				pods[job.Name] = pod
				continue
			}
			if err := c.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			becomes(pod)
			if err := c.client.Status().Update(ctx, pod); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return nil
}

func wantNoJobs(t *testing.T, c *Cluster) {
	t.Helper()
	var jobs batchv1.JobList
	if err := c.client.List(t.Context(), &jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		if j.DeletionTimestamp == nil {
			t.Errorf("Job %s is left", j.Name)
		}
	}
}
