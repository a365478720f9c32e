package operator

import (
	"encoding/json"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// In TestGatewaysAreReplacedOneAfterTheOther, three gateways get a newer image: two that work, and one that
// does not work.
func TestGatewaysAreReplacedOneAfterTheOther(t *testing.T) {
	deployment := func(name, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
		d.Namespace, d.Name, d.Labels = "liqo-tenant-"+name, "gw-"+name, map[string]string{wire.LabelGatewayName: name}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "tunnel", Image: image}}
		return d
	}
	var there []client.Object
	for _, name := range []string{"milan", "turin", "asti"} {
		d := deployment(name, "v1")
		d.UID, d.Generation = types.UID(name), 1
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if name == "asti" {
			d.Status.AvailableReplicas, d.Status.Conditions = 0, []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse}}
		}
		c := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
		c.Status.Value = networkingv1beta1.Connected
		there = append(there, d, c)
	}
	cl := clusterWith(t, there...)
	order := &turns{}
	try := func(name, want string) {
		t.Helper()
		if got, err := order.apply(t.Context(), cl, deployment(name, "v2")); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	becomes := func(name string, status appsv1.DeploymentStatus, value networkingv1beta1.ConnectionStatusValue) {
		t.Helper()
		d, c := deployment(name, ""), &networkingv1beta1.Connection{}
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			t.Fatal(err)
		}
		status.Replicas, status.ObservedGeneration = 1, 99
		// The gateway has been available all the time, because its new pod was there before the old pod
		// ended.
		status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: metav1.NewTime(time.Now())},
		}
		d.Status = status
		if err := cl.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(d), c); err != nil {
			t.Fatal(err)
		}
		c.Status.Value = value
		if err := cl.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	try("milan", "")
	becomes("milan", appsv1.DeploymentStatus{UpdatedReplicas: 1}, networkingv1beta1.Connected) // the report of the old pod
	try("turin", "liqo-tenant-milan/gw-milan")
	try("asti", "") // asti has no traffic
	becomes("milan", appsv1.DeploymentStatus{UpdatedReplicas: 1, AvailableReplicas: 1}, networkingv1beta1.Connecting)
	try("turin", "liqo-tenant-milan/gw-milan")
	becomes("milan", appsv1.DeploymentStatus{UpdatedReplicas: 1, AvailableReplicas: 1}, networkingv1beta1.Connected)
	reports := func(at time.Time) {
		t.Helper()
		c := &networkingv1beta1.Connection{}
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(deployment("milan", "")), c); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(wire.Report{At: at, Interval: 10})
		if err != nil {
			t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, wire.AnnotationStatus, string(text))
		if err := cl.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	reports(time.Now().Add(-time.Minute)) // the last report of the replaced pod
	try("turin", "liqo-tenant-milan/gw-milan")
	reports(time.Now().Add(time.Second))
	try("turin", "")
	if _, remembered := order.applied["milan"]; remembered {
		t.Error("a generation that the cache shows is remembered for ever")
	}
}

// If a quota has no room for a second pod, the old pod ends first.
func TestAGatewayWithoutRoomForASecondPodIsReplacedInPlace(t *testing.T) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	d.Namespace, d.Name, d.Labels = "liqo-tenant-milan", "gw-milan", map[string]string{wire.LabelGatewayName: "milan"}
	for _, c := range []struct {
		message string
		surge   int32
		want    appsv1.DeploymentStrategyType
	}{
		{`pods "gw-milan-x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4`, 1, appsv1.RecreateDeploymentStrategyType},
		{`admission webhook "x" denied the request`, 1, appsv1.RollingUpdateDeploymentStrategyType},
		{`pods "gw-milan-x" is forbidden: exceeded quota`, 0, appsv1.RollingUpdateDeploymentStrategyType}, // several pods share the tunnel
	} {
		want := d.DeepCopy()
		want.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(c.surge))}}
		live := want.DeepCopy()
		live.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: c.message}}
		cl := clusterWith(t, live)
		if waits, err := new(turns).apply(t.Context(), cl, want); err != nil || waits != "" {
			t.Fatalf("got %q, %v", waits, err)
		}
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(d), live); err != nil || live.Spec.Strategy.Type != c.want {
			t.Errorf("%s: got %+v, %v, want %s", c.message, live.Spec.Strategy, err, c.want)
		}
	}
}
