package kube

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/render"
)

// TestInstallSaysWhatItWaitsFor has an operator that runs, and a fabric on one
// of two nodes.
func TestInstallSaysWhatItWaitsFor(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	name := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "liqo", Name: name} }
	operator := &appsv1.Deployment{ObjectMeta: name(render.OperatorName), Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}}
	starting := operator.DeepCopy()
	starting.Status.AvailableReplicas = 0
	fabric := &appsv1.DaemonSet{ObjectMeta: name(render.FabricName), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 1}}
	pod := func(program string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: name(program + "-1")}
		p.Labels = map[string]string{render.LabelAppName: program}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if ready != corev1.ConditionTrue {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}
		return p
	}
	for want, test := range map[string]struct {
		operator *appsv1.Deployment
		pod      *corev1.Pod
	}{
		"the operator starts": {starting, pod(render.OperatorName, corev1.ConditionTrue)},
		"the operator starts: pod liqo-tui-operator-1: ImagePullBackOff":           {starting, pod(render.OperatorName, corev1.ConditionFalse)},
		"the fabric runs on 1 of 2 nodes":                                          {operator, pod(render.FabricName, corev1.ConditionTrue)},
		"the fabric runs on 1 of 2 nodes: pod liqo-tui-fabric-1: ImagePullBackOff": {operator, pod(render.FabricName, corev1.ConditionFalse)},
	} {
		c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.operator, fabric, test.pod).Build(), namespace: "liqo"}
		done, got, err := c.programsRun(t.Context())
		if done || err != nil || got != want {
			t.Errorf("got %v, %q, %v, want %q", done, got, err, want)
		}
	}
}

func TestUninstallTakesWhatTheFabricSaidOfNodes(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ours := render.InternalNode(node, render.NodeReport{IP: netip.MustParseAddr("192.0.2.1")})
	node.Name = "b"
	liqos := render.InternalNode(node, render.NodeReport{IP: netip.MustParseAddr("192.0.2.2")})
	liqos.Labels = nil
	c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(ours, liqos).Build(), namespace: "liqo"}
	if _, _, err := c.Uninstall(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var left networkingv1beta1.InternalNodeList
	if err := c.client.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "b" {
		t.Errorf("left are %v, want only the one that is not ours", left.Items)
	}
}

// Kubernetes before 1.30 has no admission policies.
func TestAnOlderKubernetesIsInstalledWithoutPolicies(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	old := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if kind := o.GetObjectKind().GroupVersionKind(); strings.HasPrefix(kind.Kind, "ValidatingAdmission") {
				return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "none"})
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o render.Object) bool {
		_, role := o.(*rbacv1.ClusterRole)
		return !role && !render.Optional(o)
	})
	c := &Cluster{client: old, namespace: "liqo"}
	changes, err := c.Apply(t.Context(), objects)
	if err != nil || len(changes) != len(objects)-2 {
		t.Errorf("apply: got %v, %v, want all but the two of the policy", changes, err)
	}
	if changes, _, err := c.Uninstall(t.Context(), objects); err != nil || len(changes) != len(objects)-2 {
		t.Errorf("uninstall: got %v, %v, want all but the two of the policy", changes, err)
	}
}
