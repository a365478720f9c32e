package apply_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// clock is the creation time of the API server's objects.
var clock = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// gateway returns an object of a kind that plans often contain.
func gateway() *networkingv1beta1.GatewayServer {
	return &networkingv1beta1.GatewayServer{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: networkingv1beta1.GatewayServerKind},
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome", Labels: map[string]string{"app.kubernetes.io/managed-by": "liqo-tui", "liqo.io/remote-cluster-id": "rome"}},
		Spec: networkingv1beta1.GatewayServerSpec{
			MTU: 1340, Endpoint: networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
			ServerTemplateRef: corev1.ObjectReference{
				APIVersion: networkingv1beta1.GroupVersion.String(), Kind: networkingv1beta1.WgGatewayServerTemplateKind, Name: "wireguard-server", Namespace: "liqo",
			},
		},
	}
}

// live returns o as an API server returns it: with the server's fields, and without the kind, which typed
// clients drop.
func live[O interface {
	wire.Object
	SetGroupVersionKind(gvk schema.GroupVersionKind)
}](o O) O {
	o.SetUID("5e3b")
	o.SetResourceVersion("17")
	o.SetGeneration(3)
	o.SetCreationTimestamp(metav1.NewTime(clock))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
	o.SetGroupVersionKind(schema.GroupVersionKind{})
	return o
}

// fieldsOf returns the entry of a manager that has applied these fields.
func fieldsOf(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
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
		s := live(gateway())
		edit(s)
		return s
	}
	// applied returns s as a real API server has answered after manager has applied it, without unimportant
	// fields.
	applied := func(s *networkingv1beta1.GatewayServer, entries ...metav1.ManagedFieldsEntry) *networkingv1beta1.GatewayServer {
		s.ManagedFields = entries
		return s
	}
	withNodePort := edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.Endpoint.NodePort = new(int32(31000)) })
	const nodePort = `{"f:spec":{"f:endpoint":{"f:nodePort":{},"f:port":{}},"f:mtu":{}}}`
	ownerFields := func(uid string) string {
		return fmt.Sprintf(`{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"%s\"}":{}}}}`, uid)
	}
	childOf := func(fields string, uids ...types.UID) *corev1.ServiceAccount {
		s := owned(uids...)
		s.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager, fields)}
		return s
	}
	// A Service and a Deployment have lists that are merged by keys.
	service := func(edit func(*corev1.ServicePort)) *corev1.Service {
		s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "gw"}}
		s.Spec.Ports = []corev1.ServicePort{{Name: "wireguard", Protocol: "UDP", Port: 51840, NodePort: 31000}}
		s.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager,
			`{"f:spec":{"f:ports":{"k:{\"port\":51840,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:nodePort":{},"f:port":{},"f:protocol":{}}}}}`)}
		edit(&s.Spec.Ports[0])
		return s
	}
	metrics := func(d *appsv1.Deployment) *appsv1.Deployment {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8082}}
		d.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager, `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"tunnel\"}":{`+
			`".":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":8082,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}},`+
			`"f:securityContext":{"f:capabilities":{"f:add":{}}}}}}}}}`)}
		return d
	}
	endpoints := func(all []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, Endpoints: all}
	}
	for _, tc := range []struct {
		name       string
		live, want wire.Object
		contained  bool
	}{
		{"an empty list, for which the API server answers null", endpoints(nil), endpoints([]discoveryv1.Endpoint{}), true},
		{"an empty list in place of others", endpoints(make([]discoveryv1.Endpoint, 1)), endpoints([]discoveryv1.Endpoint{}), false},
		{"the same", gateway(), gateway(), true},
		{"what an API server adds", live(gateway()), gateway(), true},
		{"a status", edited(func(s *networkingv1beta1.GatewayServer) {
			s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Port: 1}
		}), gateway(), true},
		{"more labels", edited(func(s *networkingv1beta1.GatewayServer) { s.Labels["more"] = "yes" }), gateway(), true},
		{"a field that is not wanted", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.Endpoint.NodePort = new(int32(31000)) }), gateway(), true},
		{"a changed number", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.MTU = 1400 }), gateway(), false},
		{"a changed string deep inside", edited(func(s *networkingv1beta1.GatewayServer) { s.Spec.ServerTemplateRef.Name = "else" }), gateway(), false},
		{"a missing label", edited(func(s *networkingv1beta1.GatewayServer) { s.Labels = nil }), gateway(), false},
		{"nothing", nil, gateway(), false},
		{"a nil pointer", (*networkingv1beta1.GatewayServer)(nil), gateway(), false},
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
		{"a field that we applied and want no more", applied(withNodePort.DeepCopy(), fieldsOf(wire.FieldManager, nodePort)), gateway(), false},
		{"one that another manager applied", applied(withNodePort.DeepCopy(), fieldsOf("argocd", nodePort)), gateway(), true},
		{"one that we and another manager applied", applied(withNodePort.DeepCopy(), fieldsOf(wire.FieldManager, nodePort), fieldsOf("argocd", nodePort)), gateway(), true},
		{"one that we wrote by an update", applied(withNodePort.DeepCopy(), metav1.ManagedFieldsEntry{
			Manager: wire.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(nodePort),
		}), gateway(), true},
		{"one that we applied and that is gone already", applied(live(gateway()), fieldsOf(wire.FieldManager, nodePort)), gateway(), true},
		{"fields that can't be read", applied(withNodePort.DeepCopy(), fieldsOf(wire.FieldManager, `{"k:unknown":{}}`)), gateway(), true},
		{"an owner that we want no more", childOf(ownerFields("gone"), "gone"), owned(), false},
		{"an owner that we still want", childOf(ownerFields("mine"), "mine", "other"), owned("mine"), true},
		{"a port's field that we want no more", service(func(*corev1.ServicePort) {}), func() wire.Object {
			s := service(func(p *corev1.ServicePort) { p.NodePort = 0 })
			s.ManagedFields = nil
			return s
		}(), false},
		{"all of a port's fields", service(func(*corev1.ServicePort) {}), service(func(*corev1.ServicePort) {}), true},
		{"a key that the API server has completed", metrics(deployment(nil)), deployment(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8082}}
		}), true},
		{"a container's field that we want no more", metrics(deployment(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
		})), deployment(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8082}} }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := apply.Contains(wire.FieldManager, tc.live, tc.want); got != tc.contained {
				t.Errorf("got %v, want %v", got, tc.contained)
			}
			d := apply.Diff(tc.live, tc.want)
			if (d == "") != tc.contained {
				t.Errorf("Contains says %v, and the diff is:\n%s", tc.contained, d)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	changed := live(gateway())
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
	if got := apply.Diff(changed, gateway()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// The API server adds defaults to the elements of a list, and no apply removes them.
func TestDiffShowsNoDefaultOfElementsAsRemoved(t *testing.T) {
	deployment := func(image string) *appsv1.Deployment {
		return &appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "operator", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				Env: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
			}}}}},
		}
	}
	there := live(deployment("v1"))
	c := &there.Spec.Template.Spec.Containers[0]
	c.TerminationMessagePath, c.Ports[0].Protocol, c.Env[0].ValueFrom.FieldRef.APIVersion = "/dev/termination-log", "TCP", "v1"
	c.Args = []string{"--gone"}
	there.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager, `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"operator\"}":{".":{},"f:name":{},"f:args":{}}}}}}}`)}
	var removed []string
	for line := range strings.Lines(apply.Diff(there, deployment("v2"))) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			removed = append(removed, strings.TrimSpace(line[1:]))
		}
	}
	if want := []string{"- args:", "- --gone", "env:", "image: v1"}; !slices.Equal(removed, want) {
		t.Errorf("got %q removed, want %q", removed, want)
	}
}

func TestDiffShowsWhatGoes(t *testing.T) {
	labelled := live(gateway())
	labelled.Labels["ours"], labelled.Labels["theirs"] = "once", "still"
	labelled.Annotations = map[string]string{"only": "ours"}
	labelled.ManagedFields = []metav1.ManagedFieldsEntry{
		fieldsOf("theirs", `{"f:metadata":{"f:labels":{"f:theirs":{}}}}`),
		fieldsOf(wire.FieldManager, `{"f:metadata":{"f:annotations":{"f:only":{}},"f:labels":{"f:ours":{}}}}`),
	}
	got := apply.Diff(labelled, gateway())
	for _, line := range []string{"-  annotations:\n", "-    only: ours\n", "-    ours: once\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("the diff does not have the line %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "theirs") {
		t.Errorf("what stays is shown:\n%s", got)
	}
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{"gone": []byte("secret")}}
	secret.ManagedFields = []metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager, `{"f:data":{"f:gone":{}}}`)}
	got = apply.Diff(secret, &corev1.Secret{TypeMeta: secret.TypeMeta})
	if !strings.Contains(got, "-  gone: <redacted sha256:") || strings.Contains(got, "c2VjcmV0") {
		t.Errorf("a Secret's value that goes: got\n%s", got)
	}
}

func TestWithdrawTakesOnlyWhatGoes(t *testing.T) {
	port := func(edit func(*corev1.Service)) *unstructured.Unstructured {
		s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "gw", Labels: map[string]string{"kept": "yes"}}}
		s.Spec.Ports = []corev1.ServicePort{{Name: "wireguard", Protocol: "UDP", Port: 51840}}
		edit(s)
		u, err := apply.Wanted(s)
		if err != nil {
			t.Fatal(err)
		}
		u.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsOf(wire.FieldManager, `{"f:metadata":{"f:labels":{"f:kept":{},"f:once":{}},"f:ownerReferences":{"k:{\"uid\":\"once\"}":{}}},`+
			`"f:spec":{"f:ports":{"k:{\"port\":51840,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:nodePort":{},"f:port":{},"f:protocol":{}},`+
			`"k:{\"port\":1,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}}}}`)})
		return u
	}
	owner := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "x", UID: uid}
	}
	live := port(func(s *corev1.Service) {
		s.Labels["once"], s.Labels["theirs"] = "yes", "yes"
		s.OwnerReferences = []metav1.OwnerReference{owner("once"), owner("theirs")}
		s.Spec.Ports[0].NodePort = 31000
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: "UDP", Port: 1}, corev1.ServicePort{Protocol: "UDP", Port: 2})
	})
	want := port(func(s *corev1.Service) {
		s.Labels["theirs"] = "yes"
		s.OwnerReferences = []metav1.OwnerReference{owner("theirs")}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: "UDP", Port: 2})
	})
	apply.Withdraw(wire.FieldManager, live, port(func(*corev1.Service) {}))
	if d := cmp.Diff(want.Object, live.Object); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDiffOfANewObjectShowsAllOfIt(t *testing.T) {
	got := apply.Diff(nil, gateway())
	text, err := apply.YAML(gateway())
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
	for name, d := range map[string]string{"update": apply.Diff(old, wanted), "creation": apply.Diff(nil, wanted)} {
		for _, leak := range []string{"old key", "new key", "b2xkIGtleQ", "bmV3IGtleQ", "known to all"} {
			if strings.Contains(d, leak) {
				t.Errorf("%s: the diff contains %q:\n%s", name, leak, d)
			}
		}
		if !strings.Contains(d, "+  privateKey: <redacted sha256:") {
			t.Errorf("%s: the diff does not show that the key changes:\n%s", name, d)
		}
	}
	if d := apply.Diff(old, wanted); strings.Contains(d, "-  publicKey") || strings.Contains(d, "+  publicKey") {
		t.Errorf("the value that stays is shown as changed:\n%s", d)
	}
}

func TestDiffDoesNotChangeItsArguments(t *testing.T) {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{"k": []byte("v")}}
	apply.Diff(nil, s)
	if string(s.Data["k"]) != "v" {
		t.Errorf("the Secret says %q now", s.Data["k"])
	}
}

func TestWanted(t *testing.T) {
	s := live(gateway())
	s.Kind, s.APIVersion = "GatewayServer", "networking.liqo.io/v1beta1"
	s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: 1}
	s.Finalizers = []string{"keep"}
	got, err := apply.Wanted(s)
	if err != nil {
		t.Fatal(err)
	}
	clean, err := apply.Wanted(func() wire.Object { c := gateway(); c.Finalizers = s.Finalizers; return c }())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(clean.Object, got.Object); d != "" {
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

// Empty values in a list have a meaning, such as emptyDir, or a rule's core group.
func TestWantedKeepsEmptyValuesInLists(t *testing.T) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "ipc", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	text, err := apply.YAML(d)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "- emptyDir: {}\n") {
		t.Errorf("the volume is lost:\n%s", text)
	}
}

func TestName(t *testing.T) {
	untyped := gateway()
	untyped.TypeMeta = metav1.TypeMeta{}
	for want, o := range map[string]wire.Object{
		"GatewayServer liqo-tenant-rome/rome": gateway(),
		"Namespace liqo-tenant-rome":          render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-rome"}),
	} {
		if got := apply.Name(o); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := apply.Name(untyped), "GatewayServer liqo-tenant-rome/rome"; got != want {
		t.Errorf("without a kind: got %s, want %s", got, want)
	}
}

// The API server sends a number as an integer, and a Go type may have it as float64.
func TestANumberIsTheSameInAnyGoType(t *testing.T) {
	crds, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range crds {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		live := &unstructured.Unstructured{}
		if err := live.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if !apply.Contains(wire.FieldManager, live, want) {
			t.Errorf("%s differs from what it is made of", apply.Name(want))
		}
	}
}
