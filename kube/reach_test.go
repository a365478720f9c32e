package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// livingIn returns a cluster as its admin sees it, with the installation in a namespace.
func livingIn(t *testing.T, config *rest.Config, namespace string) *Cluster {
	t.Helper()
	c, err := ForConfig(config, Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// says sets a container's state, as a kubelet writes it.
func says(state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		if state.Running != nil {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "10.244.0.9", []corev1.PodIP{{IP: "10.244.0.9"}}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: render.ProbeContainer, State: state}}
	}
}

// testImageTrial tries a pod of an image, in a namespace with the strictest pod security, and without the
// namespace.
func testImageTrial(t *testing.T, env *envtest.Environment) {
	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	admin := livingIn(t, env.Config, strict.Name)
	if err := admin.client.Create(t.Context(), strict); err != nil {
		t.Fatal(err)
	}
	try := trial.ImageTry{Image: "registry/gateway:v9", Pods: render.PodSettings{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, NodeSelector: map[string]string{"pool": "edge"},
		Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
	}}
	for name, c := range map[string]struct {
		namespace string
		state     corev1.ContainerState
		want      trial.Image
	}{
		"it starts":                 {"strict", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, trial.Image{Node: "node-1"}},
		"there is no namespace yet": {"default", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, trial.Image{Node: "node-1"}},
		"it can't be pulled": {
			"strict",
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}},
			trial.Image{Node: "node-1", Failed: "ErrImagePull: no such image"},
		},
		"its pull secrets are not there yet": {
			"default",
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "unauthorized"}},
			trial.Image{Unknown: "the pull secrets have to be in namespace not-yet, which does not exist yet; without them: ErrImagePull: unauthorized"},
		},
		"its name is none": {
			"strict",
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "couldn't parse"}},
			trial.Image{Node: "node-1", Failed: "InvalidImageName: couldn't parse"},
		},
		"it is for another architecture": {
			"strict",
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Message: "exec /liqo-gateway: exec format error\n"}},
			trial.Image{Node: "node-1", Failed: "it ended at once: exit status 255: exec /liqo-gateway: exec format error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := admin
			if c.namespace == "default" {
				cluster = livingIn(t, env.Config, "not-yet")
			}
			ran := make(chan *corev1.Pod, 1)
			untilGone := node(t, admin, func(p *corev1.Pod) {
				says(c.state)(p)
				select {
				case ran <- p.DeepCopy():
				default: // the signal was sent before
				}
			})
			got := cluster.TryImage(t.Context(), try)
			if got.Took <= 0 || got.Took > time.Minute {
				t.Errorf("it took %s", got.Took)
			}
			got.Took, c.want.Image = 0, try.Image
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			pod := <-ran
			if pod.Namespace != c.namespace || pod.Spec.Containers[0].Image != try.Image || pod.Spec.NodeSelector["pool"] != "edge" ||
				!slices.Equal(pod.Spec.ImagePullSecrets, try.Pods.ImagePullSecrets) || len(pod.Spec.Tolerations) == 0 {
				t.Errorf("the pod in %s is not as asked for: %+v", pod.Namespace, pod.Spec)
			}
			wantNoJobs(t, admin)
			untilGone()
		})
	}
	t.Run("nodes of two kinds", func(t *testing.T) { testImageKinds(t, admin, try) })
	spectator := restricted(t, env, "image-spectator", "get", "list", "watch")
	if got := spectator.TryImage(t.Context(), try); !strings.Contains(got.Unknown, "forbidden") || got.Failed != "" {
		t.Errorf("who may not: got %+v", got)
	}
	wantNoJobs(t, admin)
}

// testImageKinds tries an image for only one of two architectures.
func testImageKinds(t *testing.T, admin *Cluster, try trial.ImageTry) {
	try.Kinds = []trial.Kind{{Arch: "amd64", Nodes: []string{"node-1", "amd64"}}, {Arch: "arm64", Nodes: []string{"arm64"}}}
	untilGone := node(t, admin, func(p *corev1.Pod) {
		if p.Spec.NodeName == "arm64" {
			says(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Message: "exec format error"}})(p)
			return
		}
		says(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})(p)
	})
	if got := admin.TryImage(t.Context(), try); got.Node != "arm64" || !strings.Contains(got.Failed, "exec format error") {
		t.Errorf("got %+v, want what the node of the other architecture says", got)
	}
	wantNoJobs(t, admin)
	untilGone()
}

// testReach gives its target to a pod behind a Service.
func testReach(t *testing.T, admin *Cluster) {
	request := engine.ReachRequest{Image: "registry/gateway:v9", Token: probeToken, Service: render.ServerParams{ServiceType: corev1.ServiceTypeNodePort, Port: 51840}}
	told := make(chan string, 1)
	untilGone := node(t, admin, func(p *corev1.Pod) {
		target := p.Annotations[render.AnnotationProbeTarget]
		if target == "" {
			says(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})(p)
			return
		}
		select {
		case told <- target:
		default: // the signal was sent before
		}
		says(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"ways":{"arrived":7,"api":403}}`}})(p)
	})
	pod, err := admin.StartReach(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := pod.Exposed(t.Context())
	if err != nil || port < 30000 {
		t.Errorf("got port %d, %v", port, err)
	}
	var services corev1.ServiceList
	if err := admin.client.List(t.Context(), &services, client.MatchingLabels{wire.LabelAppName: render.ProbeName}); err != nil {
		t.Fatal(err)
	}
	if len(services.Items) != 1 {
		t.Fatalf("%d Services, want 1", len(services.Items))
	}
	s := services.Items[0]
	if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].Kind != "Job" || s.Spec.Selector[batchv1.JobNameLabel] != s.Name || s.Spec.Ports[0].Port != 51840 || s.Spec.Ports[0].TargetPort.IntValue() != render.ProbePort {
		t.Errorf("got %+v", s)
	}
	got, err := pod.Measure(t.Context(), render.ProbeTarget{Ways: &render.ProbeWays{Token: "aa", Addresses: []string{"192.0.2.7:31840"}}})
	if err != nil || got.Ways == nil || got.Ways.Arrived != 7 || got.Ways.API != 403 {
		t.Errorf("got %+v, %v", got, err)
	}
	if target := <-told; !strings.Contains(target, `"addresses":["192.0.2.7:31840"]`) {
		t.Errorf("the pod was told %s", target)
	}
	if err := pod.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	wantNoProbes(t, admin)
	untilGone()

	// The Service is refused, and a killed program has left objects.
	request.Token, request.Service.NodePort = "ee"+probeToken[2:], 80
	pod, err = admin.StartReach(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pod.Exposed(t.Context()); err == nil || !strings.Contains(err.Error(), "not in the valid range") {
		t.Errorf("a node port that there can't be: got %v", err)
	}
	pod.(*reachPod).stop()
	admin.removeLeftovers(t.Context(), "default", leftoverAge)
	admin.removeLeftovers(t.Context(), wire.DefaultNamespace, leftoverAge)
	var jobs batchv1.JobList
	if err := admin.client.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
		t.Errorf("what is young was removed: got %d Jobs, %v", len(jobs.Items), err)
	}
	admin.removeLeftovers(t.Context(), "default", 0)
	admin.removeLeftovers(t.Context(), wire.DefaultNamespace, 0)
	wantNoProbes(t, admin)
}

// In testAskAPI, a pod tries another cluster's API server, and nobody dials the pod.
func testAskAPI(t *testing.T, admin *Cluster) {
	before := admin.options
	admin.options.Image = "registry/gateway:v9"
	defer func() { admin.options = before }()
	for name, c := range map[string]struct {
		message string
		want    trial.API
	}{
		"answered": {`{"ways":{"api":401}}`, trial.API{}},
		"silent":   {`{"ways":{"apiError":"no answer from 192.0.2.7:6443"}}`, trial.API{Problem: "no answer from 192.0.2.7:6443"}},
		"older":    {`{}`, trial.API{Unknown: "the image is of an older release, which can't try this"}},
	} {
		told := make(chan string, 1)
		untilGone := node(t, admin, func(p *corev1.Pod) {
			target := p.Annotations[render.AnnotationProbeTarget]
			if target == "" {
				says(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})(p)
				return
			}
			select {
			case told <- target:
			default: // the signal was sent before
			}
			says(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: c.message}})(p)
		})
		c.want.URL = "https://192.0.2.7:6443"
		if got := admin.AskAPI(t.Context(), c.want.URL); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if target := <-told; !strings.Contains(target, `"alone":true`) || !strings.Contains(target, c.want.URL) {
			t.Errorf("%s: the pod was told %s", name, target)
		}
		wantNoProbes(t, admin)
		untilGone()
	}
}

func wantNoProbes(t *testing.T, c *Cluster) {
	t.Helper()
	wantNoJobs(t, c)
	var services corev1.ServiceList
	if err := c.client.List(t.Context(), &services, client.MatchingLabels{wire.LabelAppName: render.ProbeName}); err != nil {
		t.Fatal(err)
	}
	if len(services.Items) > 0 {
		t.Errorf("%d Services are left", len(services.Items))
	}
}

// The wait for a pod that no node takes is limited. New events about the pod don't restart the wait.
func TestAPodThatNoNodeTakesIsGivenUp(t *testing.T) {
	p := &probe{changed: make(chan struct{}, 1)}
	pod := &corev1.Pod{}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}
	wanted := p.scheduled(50*time.Millisecond, running)
	for range 2 {
		if done, err := wanted(pod); done || err != nil {
			t.Fatalf("at once: got %t, %v", done, err)
		}
	}
	select {
	case <-p.changed:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody looks again")
	}
	if _, err := wanted(pod); err == nil || err.Error() != "no node takes the pod: 0/2 nodes are available" {
		t.Errorf("later: got %v", err)
	}
	pod.Spec.NodeName = "node-1"
	if done, err := wanted(pod); done || err != nil {
		t.Errorf("on a node: got %t, %v", done, err)
	}
}
