package render_test

import (
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/render"
)

func server() *networkingv1beta1.GatewayServer {
	return render.GatewayServer(render.ServerParams{
		Tenant:   render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"},
		Template: render.TemplateRef{Name: "wireguard-server", Namespace: "liqo"}, ServiceType: "NodePort", Port: 51840, MTU: 1340,
	})
}

// live is what an API server makes of o: with its own fields, and without the
// kind, which typed clients drop.
func live[O interface {
	render.Object
	SetGroupVersionKind(gvk schemaKind)
}](o O) O {
	o.SetUID("5e3b")
	o.SetResourceVersion("17")
	o.SetGeneration(3)
	o.SetCreationTimestamp(metav1.NewTime(reportTime))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	o.SetGroupVersionKind(schemaKind{})
	return o
}

func TestContains(t *testing.T) {
	deployment := func(edit func(*corev1.Container)) *appsv1.Deployment {
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "gw"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "tunnel", Image: "image:1"}}
		if edit != nil {
			edit(&d.Spec.Template.Spec.Containers[0])
		}
		return d
	}
	owned := func(uids ...types.UID) *corev1.ServiceAccount {
		s := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: "gw"}}
		for _, uid := range uids {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "x", UID: uid})
		}
		return s
	}
	edited := func(edit func(*networkingv1beta1.GatewayServer)) *networkingv1beta1.GatewayServer {
		s := live(server())
		edit(s)
		return s
	}
	for _, tc := range []struct {
		name       string
		live, want render.Object
		contained  bool
	}{
		{"the same", server(), server(), true},
		{"what an API server adds", live(server()), server(), true},
		{"a status", edited(func(s *networkingv1beta1.GatewayServer) {
			s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Port: 1}
		}), server(), true},
		{"more labels", edited(func(s *networkingv1beta1.GatewayServer) { s.Labels["more"] = "yes" }), server(), true},
		{"a field that is not wanted", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.Endpoint.NodePort = new(int32(31000)) }), server(), true},
		{"a changed number", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.MTU = 1400 }), server(), false},
		{"a changed string deep inside", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.ServerTemplateRef.Name = "else" }), server(), false},
		{"a missing label", edited(func(s *networkingv1beta1.GatewayServer) { s.Labels = nil }), server(), false},
		{"nothing", nil, server(), false},
		{"a nil pointer", (*networkingv1beta1.GatewayServer)(nil), server(), false},
		{"defaults inside a list", deployment(func(c *corev1.Container) {
			c.ImagePullPolicy, c.TerminationMessagePath = "Always", "/dev/termination-log"
		}), deployment(nil), true},
		{"a change inside a list", deployment(func(c *corev1.Container) { c.Image = "image:2" }), deployment(nil), false},
		{"a longer list", deployment(func(c *corev1.Container) { c.Args = []string{"a", "b"} }), deployment(func(c *corev1.Container) { c.Args = []string{"a"} }), false},
		{"another order", deployment(func(c *corev1.Container) { c.Args = []string{"b", "a"} }), deployment(func(c *corev1.Container) { c.Args = []string{"a", "b"} }), false},
		{"one more owner", owned("other", "mine"), owned("mine"), true},
		{"another owner", owned("other"), owned("mine"), false},
		{"no owner", owned(), owned("mine"), false},
		{"no owner wanted", owned("other"), owned(), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := render.Contains(tc.live, tc.want); got != tc.contained {
				t.Errorf("got %v, want %v", got, tc.contained)
			}
			d := render.Diff(tc.live, tc.want)
			if (d == "") != tc.contained {
				t.Errorf("Contains says %v, and the diff is:\n%s", tc.contained, d)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	changed := live(server())
	changed.Spec.MTU = 1400
	changed.Annotations = map[string]string{"somebody": "else"}
	const want = `--- live
+++ wanted
@@ -10,7 +10,7 @@
   endpoint:
     port: 51840
     serviceType: NodePort
-  mtu: 1400
+  mtu: 1340
   serverTemplateRef:
     apiVersion: networking.liqo.io/v1beta1
     kind: WgGatewayServerTemplate
`
	if got := render.Diff(changed, server()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestDiffOfANewObjectShowsAllOfIt(t *testing.T) {
	got := render.Diff(nil, server())
	text, err := render.YAML(server())
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(string(text), "\n")
	var added []string
	for line := range strings.SplitSeq(strings.TrimSuffix(got, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "+"); ok && !strings.HasPrefix(line, "+++") {
			added = append(added, rest)
		}
	}
	if strings.Join(added, "\n") != want {
		t.Errorf("got:\n%s\nwant all of:\n%s", got, want)
	}
}

func TestDiffMasksSecrets(t *testing.T) {
	secret := func(key string) *corev1.Secret {
		return &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Data:       map[string][]byte{"privateKey": []byte(key), "publicKey": []byte("known to all")},
			StringData: map[string]string{"plain": key},
		}
	}
	old, wanted := secret("old key"), secret("new key")
	old.TypeMeta = metav1.TypeMeta{} // as a typed client decodes it
	for name, d := range map[string]string{"update": render.Diff(old, wanted), "creation": render.Diff(nil, wanted)} {
		for _, leak := range []string{"old key", "new key", "b2xkIGtleQ", "bmV3IGtleQ", "known to all"} {
			if strings.Contains(d, leak) {
				t.Errorf("%s: the diff contains %q:\n%s", name, leak, d)
			}
		}
		if !strings.Contains(d, "+  privateKey: <redacted sha256:") {
			t.Errorf("%s: the diff does not show that the key changes:\n%s", name, d)
		}
	}
	if d := render.Diff(old, wanted); strings.Contains(d, "-  publicKey") || strings.Contains(d, "+  publicKey") {
		t.Errorf("the value that stays is shown as changed:\n%s", d)
	}
}

func TestDiffDoesNotChangeItsArguments(t *testing.T) {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{"k": []byte("v")}}
	render.Diff(nil, s)
	if string(s.Data["k"]) != "v" {
		t.Errorf("the Secret says %q now", s.Data["k"])
	}
}

func TestWanted(t *testing.T) {
	s := live(server())
	s.Kind, s.APIVersion = "GatewayServer", "networking.liqo.io/v1beta1"
	s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: 1}
	s.Finalizers = []string{"keep"}
	got, err := render.Wanted(s)
	if err != nil {
		t.Fatal(err)
	}
	clean, err := render.Wanted(func() render.Object { c := server(); c.Finalizers = s.Finalizers; return c }())
	if err != nil {
		t.Fatal(err)
	}
	if d := compare(clean.Object, got.Object); d != "" {
		t.Errorf("what an API server made is still there (-clean +got):\n%s", d)
	}
	spec := got.Object["spec"].(map[string]any)
	for _, empty := range []string{"secretRef", "serviceAnnotations", "serviceLabels"} {
		if _, ok := spec[empty]; ok {
			t.Errorf("spec.%s is claimed: %v", empty, spec[empty])
		}
	}
	if _, ok := got.Object["status"]; ok {
		t.Error("the status is claimed")
	}
}

// What is empty inside of a list carries meaning: emptyDir, a rule's core group.
func TestWantedKeepsEmptyValuesInLists(t *testing.T) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "ipc", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	text, err := render.YAML(d)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "- emptyDir: {}\n") {
		t.Errorf("the volume is lost:\n%s", text)
	}
}

func TestName(t *testing.T) {
	untyped := server()
	untyped.TypeMeta = metav1.TypeMeta{}
	for want, o := range map[string]render.Object{
		"GatewayServer liqo-tenant-rome/rome": server(),
		"Namespace liqo-tenant-rome":          render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-rome"}),
	} {
		if got := render.Name(o); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := render.Name(untyped), "GatewayServer liqo-tenant-rome/rome"; got != want {
		t.Errorf("without a kind: got %s, want %s", got, want)
	}
}
