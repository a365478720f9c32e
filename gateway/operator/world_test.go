package operator

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if kubeconfig := os.Getenv(kubeconfigVariable); kubeconfig != "" {
		if err := runAsProcess(kubeconfig); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := apitest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is the limit for events that come at once on an idle machine.
const patience = time.Minute

// world is a real API server with our operator, but without kubelets. The test writes the status of pods.
type world struct {
	client.Client
	t      testing.TB
	config *rest.Config
	server *apitest.Server
}

// newWorld returns a world in which our operator is installed and does not run.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := startWorld(t)
	w.install([]string{"10.244.0.0/16"}, "10.96.0.0/16")
	return w
}

// startWorld returns a world that has only the definitions of kinds.
func startWorld(t testing.TB) *world {
	t.Helper()
	s := apitest.Use(t, "../../render/crds")
	return &world{Client: s, t: t, config: s.Config, server: s}
}

// runOperator runs the operator until the test ends, with the rights that it has on a cluster.
func (w *world) runOperator() { w.runOperatorWith(Options{}) }

func (w *world) runOperatorWith(o Options) {
	o.Namespace, o.Identity = "liqo", w.t.Name()
	config := w.as(wire.OperatorName)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, config, o)
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the operator ended with: %v", err)
		}
	})
}

// as returns access to the API with the rights of one of our programs.
func (w *world) as(program string) *rest.Config { return w.server.Account("liqo", program, "node-a") }

// install applies the objects of `liqo-tui install`.
func (w *world) install(podCIDRs []string, serviceCIDR string) {
	w.t.Helper()
	objects := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, podCIDRs, render.StatedByInstall)
	if serviceCIDR != "" {
		objects = append(objects, render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{serviceCIDR}, render.StatedByInstall)...)
	}
	w.installWith(render.InstallParams{}, objects...)
}

// installWith applies the objects of an installation, and more.
func (w *world) installWith(p render.InstallParams, more ...wire.Object) {
	w.t.Helper()
	p.ClusterID, p.Image = "rome", "lab.local/liqo-gateway:dev"
	objects, err := render.Install(p)
	if err != nil {
		w.t.Fatal(err)
	}
	objects = append(objects, more...)
	for _, o := range objects {
		u, err := apply.Wanted(o)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test")); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.Create(w.t.Context(), o); err != nil {
		w.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// until reads o again and again until holds returns true.
func until[O client.Object](w *world, o O, what string, holds func(O) bool) O {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	key := client.ObjectKeyFromObject(o)
	for {
		err := w.Get(w.t.Context(), key, o)
		if err == nil && holds(o) {
			return o
		}
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatalf("read %T %s: %v", o, key, err)
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%T %s: never %s; last: %+v (%v)", o, key, what, o, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) peer(id wire.ClusterID, pod networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	w.t.Helper()
	tenant := render.Tenant{Namespace: wire.TenantNamespaceName(id), Remote: id}
	w.create(render.TenantNamespace(tenant))
	conf := render.Configuration(tenant, render.Networks{Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
	w.create(conf)
	return until(w, conf, "remapped", func(c *networkingv1beta1.Configuration) bool {
		said := meta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
		return c.Status.Remote != nil && said != nil && said.ObservedGeneration == c.Generation
	})
}

func (w *world) under(t testing.TB) *world { return &world{w.Client, t, w.config, w.server} }

func (w *world) node(name, ip string) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}}}
	w.create(n)
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	if err := w.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) untilGone(o client.Object) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := w.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%T %s is still there (%v)", o, o.GetName(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func says(state wire.OperatorState, text string) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		s, ok, err := wire.ParseOperatorStatus(d.Annotations)
		return ok && err == nil && s.State == state && strings.Contains(s.Message, text)
	}
}

// untilEvent waits for an Event with the text, and returns all Events of the namespace with this type and
// reason.
func (w *world) untilEvent(namespace, kind, reason, text string) (found []corev1.Event) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var list corev1.EventList
		if err := w.List(w.t.Context(), &list, client.InNamespace(namespace)); err != nil {
			w.t.Fatal(err)
		}
		found = slices.DeleteFunc(slices.Clone(list.Items), func(e corev1.Event) bool { return e.Reason != reason || e.Type != kind })
		if slices.ContainsFunc(found, func(e corev1.Event) bool { return strings.Contains(e.Message, text) }) {
			return found
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no %s event %s with %q; events: %+v", kind, reason, text, list.Items)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func liqoManager() *appsv1.Deployment {
	labels := map[string]string{wire.LabelAppName: "controller-manager", wire.LabelPartOf: "liqo"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
		}},
	}
}
