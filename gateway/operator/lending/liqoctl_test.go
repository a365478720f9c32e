package lending_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// In TestLiqoctl, the released liqoctl, unmodified, gives rome access to milan, and our operators answer. Our
// plan uses the objects of liqoctl, and liqoctl ends the access.
func TestLiqoctl(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	program, err := filepath.Abs(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "..", "liqoctl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("liqoctl has not been built (make bin/liqoctl): %v", err)
	}
	w := &pair{t: t, rome: newPlane(t, "rome", render.PeeringBoth), milan: newPlane(t, "milan", render.PeeringBoth), proxy: proxy(t)}
	liqoctl := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("liqoctl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	both := []string{"--kubeconfig", w.rome.kubecfg, "--remote-kubeconfig", w.milan.kubecfg}
	liqoctl(append([]string{"authenticate", "--proxy-url", w.proxy, "--timeout", "1m"}, both...)...)
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	until(t, w.rome, fc, "reached", answers(corev1beta1.ConditionStatusEstablished))
	if err := w.mayRead(t); err != nil {
		t.Error(err)
	}
	w.milan.node("node-a", "8", "16Gi")
	liqoctl("create", "resourceslice", "mine", "--remote-cluster-id", "milan", "--cpu", "1", "--memory", "1Gi", "--no-virtual-node", "--kubeconfig", w.rome.kubecfg)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "mine"), "")
	liqoctl("create", "resourceslice", "mine", "--remote-cluster-id", "milan", "--cpu", "9", "--memory", "1Gi", "--no-virtual-node", "--kubeconfig", w.rome.kubecfg)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "mine"), "cpu: 9 asked for")
	liqoctl("create", "resourceslice", "mine", "--remote-cluster-id", "milan", "--cpu", "3", "--memory", "1Gi", "--no-virtual-node", "--kubeconfig", w.rome.kubecfg)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "mine"), "")
	there := strings.Join(strings.Fields(liqoctl("info", "peer", "--kubeconfig", w.milan.kubecfg)), " ")
	for _, want := range []string{"Role: Consumer", "Resource slice accepted", "Action: Providing", "cpu: 3"} {
		if !strings.Contains(there, want) {
			t.Errorf("liqoctl info on the provider does not say %q: %s", want, there)
		}
	}
	info := strings.Join(strings.Fields(liqoctl("info", "peer", "--kubeconfig", w.rome.kubecfg)), " ")
	for _, want := range []string{"Cluster ID: milan", "Role: Provider", "Resource slice accepted", "Action: Consuming", "cpu: 3", "Authentication ─────────────────────────────────────────────────────────────────┐ | Status: Healthy"} {
		if !strings.Contains(info, want) {
			t.Errorf("liqoctl info does not say %q: %s", want, info)
		}
	}
	access := w.config(t)
	w.peer(t)
	if now := w.config(t); !bytes.Equal(now.CertData, access.CertData) {
		t.Error("peer had another certificate made")
	}
	w.rome.runDelete(t, slice("liqo-tenant-milan", "mine"))
	untilGone(t, w.milan, slice("liqo-tenant-rome", "mine"))
	liqoctl(append([]string{"peer", "--networking-disabled", "--create-virtual-node=false", "--cpu", "2", "--memory", "2Gi", "--proxy-url", w.proxy, "--timeout", "1m"}, both...)...)
	w.answered(t, w.rome, slice("liqo-tenant-milan", "milan"), "")
	w.rome.runDelete(t, slice("liqo-tenant-milan", "milan"))
	untilGone(t, w.milan, slice("liqo-tenant-rome", "milan"))
	w.rome.runPrograms()
	liqoctl(append([]string{"peer", "--networking-disabled", "--cpu", "2", "--memory", "2Gi", "--proxy-url", w.proxy, "--timeout", "1m"}, both...)...)
	until(t, w.rome, fc, "with a virtual node", func(fc *corev1beta1.ForeignCluster) bool {
		m := fc.Status.Modules.Offloading
		return m.Enabled && len(m.Conditions) == 2 && m.Conditions[0].Status == corev1beta1.ConditionStatusReady && m.Conditions[1].Status == corev1beta1.ConditionStatusReady
	})
	info = strings.Join(strings.Fields(liqoctl("info", "peer", "--kubeconfig", w.rome.kubecfg)), " ")
	if !strings.Contains(info, "Offloading ─────────────────────────────────────────────────────────────────────┐ | Status: Healthy") {
		t.Errorf("liqoctl info does not see the virtual node: %s", info)
	}
	w.milan.runPods(t)
	w.rome.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	liqoctl("offload", "namespace", "demo", "--timeout", "1m", "--kubeconfig", w.rome.kubecfg)
	// The cluster also has consumers, whose namespaces the operator makes.
	until(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, "labelled", func(ns *corev1.Namespace) bool { return ns.Labels[peering.LabelOffloaded] == "true" })
	p := onMilan("demo", "web")
	w.rome.create(p)
	until(t, w.rome, p, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
	w.goes(t, p)
	liqoctl("unoffload", "namespace", "demo", "--timeout", "1m", "--skip-confirm", "--kubeconfig", w.rome.kubecfg)
	untilGone(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo-rome"}})
	w.rome.runDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	liqoctl(append([]string{"unpeer", "--timeout", "20s", "--skip-confirm"}, both...)...)
	untilGone(t, w.rome, member())
	liqoctl(append([]string{"unauthenticate", "--timeout", "1m"}, both...)...)
	untilGone(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}})
	untilGone(t, w.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}})
	if err := w.consumerClient(t, access).List(t.Context(), &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsForbidden(err) {
		t.Errorf("after unauthenticate: got %v", err)
	}
}
