package operator

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// TestRights has two peers. milan dials in. turin is dialled, and its gateway has two pods. Each program
// works with the rights that it has on a cluster.
func TestRights(t *testing.T) {
	abuses.Begin(t)
	w := newWorld(t)
	w.node("node-a", "192.0.2.11")
	w.runOperator()
	w.setReplicas(2)
	w.peer("milan", "10.244.0.0/16")
	w.peer("turin", "10.244.0.0/16")
	template := func(name string) render.TemplateRef { return render.TemplateRef{Name: name, Namespace: "liqo"} }
	server := render.GatewayServer(render.ServerParams{
		Tenant:   render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"},
		Template: template(wire.ServerTemplate), ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
	})
	dialling := render.GatewayClient(render.ClientParams{
		Tenant:   render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"},
		Template: template(wire.ClientTemplate), Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
	})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}})
	stray := server.DeepCopy() // of no peer, so it has no pods
	stray.Namespace, stray.Name, stray.Labels = "victim", "default", nil
	w.create(stray)
	w.create(server)
	w.create(dialling)
	w.testPodAddress(server)
	w.pod(dialling, "gw-turin-a", "10.244.0.21")
	until(w, dialling, "reported on", func(c *networkingv1beta1.GatewayClient) bool { return c.Status.InternalEndpoint != nil })
	for _, gateway := range []wire.Object{server, dialling} {
		delegate := render.Delegate{Tenant: render.Tenant{Namespace: gateway.GetNamespace(), Remote: wire.ClusterID(gateway.GetName())}, Gateway: gateway, PublicKey: gateway.GetName()}
		kind := networkingv1beta1.GatewayServerKind
		if gateway == wire.Object(dialling) {
			kind = networkingv1beta1.GatewayClientKind
		}
		gateway.GetObjectKind().SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(kind))
		w.create(render.PublicKey(delegate.Tenant, [32]byte{1}, gateway))
		for _, o := range delegate.Identity() {
			w.create(o)
		}
	}
	secret := func(namespace, name string) {
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	secret("victim", "token")
	secret("liqo", "token")
	secret("liqo-tenant-milan", "token")
	secret("liqo-tenant-turin", "token")
	t.Run("gateways", func(t *testing.T) { w.under(t).testGatewayRights() })
	t.Run("abuses", func(t *testing.T) { w.under(t).testAbuses() })
	t.Run("templates", func(t *testing.T) { w.under(t).testTemplates(server) })
}

// pod acts as the kubelet.
func (w *world) pod(gateway client.Object, name, ip string) {
	w.t.Helper()
	key := metav1.ObjectMeta{Namespace: gateway.GetNamespace(), Name: wire.GatewayObjectName(gateway.GetName())}
	d := until(w, &appsv1.Deployment{ObjectMeta: key}, "there", func(*appsv1.Deployment) bool { return true })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	pod.Spec.NodeName = "node-a"
	w.create(pod)
	pod.Status.PodIP, pod.Status.PodIPs, pod.Status.Phase = ip, []corev1.PodIP{{IP: ip}}, corev1.PodRunning
	if err := w.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// account returns a client of the API with the rights of a ServiceAccount.
func (w *world) account(namespace, name string) client.Client {
	w.t.Helper()
	config := w.server.Account(namespace, name, "node-a")
	config.Wrap(abuses.Watch(w.t))
	c, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func merge(patch string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(patch))
}

// testGatewayRights makes the requests of turin's gateway when one of its pods takes over the tunnel, and
// reports.
func (w *world) testGatewayRights() {
	const namespace = "liqo-tenant-turin"
	c := w.account(namespace, "turin")
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "gw-turin"}
	until(w, &rbacv1.Role{ObjectMeta: meta}, "about the pod", func(r *rbacv1.Role) bool {
		last := r.Rules[len(r.Rules)-1]
		return len(last.ResourceNames) == 1 && last.ResourceNames[0] == "gw-turin-a"
	})
	until(w, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: wire.GatewayAccessName}}, "about it", func(b *rbacv1.ClusterRoleBinding) bool { return len(b.Subjects) == 2 })
	lease := &coordinationv1.Lease{}
	own := metav1.ObjectMeta{Namespace: namespace, Name: "turin"}
	for what, do := range map[string]func() error{
		"read its Configuration": func() error {
			return c.List(w.t.Context(), &networkingv1beta1.ConfigurationList{}, client.InNamespace(namespace))
		},
		"read its peer's key": func() error {
			return c.List(w.t.Context(), &networkingv1beta1.PublicKeyList{}, client.InNamespace(namespace))
		},
		"read its GatewayClient": func() error {
			return c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "turin"}, &networkingv1beta1.GatewayClient{})
		},
		"read where pods are": func() error { return c.List(w.t.Context(), &networkingv1beta1.InternalNodeList{}) },
		"read its keys": func() error {
			return c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "gw-turin"}, &corev1.Secret{})
		},
		"read its hosts": func() error {
			return c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "gw-turin-hosts"}, &corev1.ConfigMap{})
		},
		"read its history": func() error {
			return c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "gw-turin-history"}, &corev1.ConfigMap{})
		},
		"write its history": func() error {
			return c.Patch(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gw-turin-history"}}, merge(`{"data":{"history.json":"x"}}`))
		},
		"annotate its Connection": func() error {
			return c.Patch(w.t.Context(), &networkingv1beta1.Connection{ObjectMeta: meta}, merge(`{"metadata":{"annotations":{"a":"b"}}}`))
		},
		"report on it": func() error {
			return c.Status().Patch(w.t.Context(), &networkingv1beta1.Connection{ObjectMeta: meta}, merge(`{"status":{"value":"Connected"}}`))
		},
		"record an Event about it": func() error { return c.Create(w.t.Context(), eventOf(namespace, "gw-turin")) },
		"list its pods":            func() error { return c.List(w.t.Context(), &corev1.PodList{}, client.InNamespace(namespace)) },
		"say that its pod has the tunnel": func() error {
			return c.Patch(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gw-turin-a"}}, merge(`{"metadata":{"labels":{"networking.liqo.io/active":"true"}}}`))
		},
		"take the Lease": func() error {
			if err := c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "gw-turin"}, lease); err != nil {
				return err
			}
			lease.Spec.HolderIdentity = new("gw-turin-a")
			return c.Update(w.t.Context(), lease)
		},
		"tell the nodes its address": func() error {
			return c.Patch(w.t.Context(), &networkingv1beta1.InternalFabric{ObjectMeta: own}, merge(`{"spec":{"gatewayIP":"10.244.0.22","interface":{"gateway":{"ip":"10.244.0.22"}}}}`))
		},
	} {
		abuses.Permitted(w.t, "a gateway", what, do())
	}
}

func eventOf(namespace, about string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"namespace": namespace, "name": "abuse"},
		"eventTime": time.Now().UTC().Format(metav1.RFC3339Micro), "type": corev1.EventTypeWarning, "reason": "KeyMismatch", "action": "Ping",
		"reportingController": wire.GatewayReporter, "reportingInstance": "abuse", "note": "no",
		"regarding": map[string]any{"apiVersion": networkingv1beta1.GroupVersion.String(), "kind": networkingv1beta1.ConnectionKind, "namespace": namespace, "name": about},
	}}
}

// abuse is a request that has to be impossible. With an admin's rights it is possible, so missing rights are
// the only reason for the refusal. internal/abuses names these rights.
type abuse struct {
	name string
	do   func(client.Client) error
	// nobody means that nobody may make the request, or that it can't be tried as a dry run.
	nobody bool
}

// testAbuses makes the requests that an attacker could make with a program's token. Package gateway/linux
// tests forged packets of the fabric, which a pod could send.
func (w *world) testAbuses() {
	ctx := w.t.Context()
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	create := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Create(ctx, o.DeepCopyObject().(client.Object)) }
	}
	apply := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			kind, err := apiutil.GVKForObject(o, c.Scheme())
			if err != nil {
				return err
			}
			o.GetObjectKind().SetGroupVersionKind(kind)
			u, err := apply.Wanted(o)
			if err != nil {
				return err
			}
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("abuse"), client.ForceOwnership)
		}
	}
	remove := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(ctx, o) }
	}
	patch := func(o client.Object, text string) func(client.Client) error {
		return func(c client.Client) error { return c.Patch(ctx, o.DeepCopyObject().(client.Object), merge(text)) }
	}
	image := func(pod *corev1.Pod) func(client.Client) error { // the only field of a container that can be changed
		return func(c client.Client) error {
			return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"x"}]`)))
		}
	}
	read := func(namespace, name string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		}
	}
	list := func(list client.ObjectList, options ...client.ListOption) func(client.Client) error {
		return func(c client.Client) error { return c.List(ctx, list, options...) }
	}
	binding := func(namespace, role, of, account string) client.Object {
		return &rbacv1.RoleBinding{
			ObjectMeta: at(namespace, "abuse"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: of, Name: account}},
		}
	}
	pod := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		s := corev1.PodSpec{ServiceAccountName: "milan", Containers: []corev1.Container{{Name: "a", Image: "a"}}}
		change(&s)
		return s
	}
	deployment := func(namespace string, change func(*corev1.PodSpec)) client.Object {
		labels := map[string]string{wire.LabelGatewayName: "milan"}
		meta := at(namespace, "abuse")
		meta.Labels = labels
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(change)},
		}}
	}
	as := func(*corev1.PodSpec) {}
	const milan, turin = "liqo-tenant-milan", "liqo-tenant-turin"
	role := func(namespace, resource string) client.Object {
		return &rbacv1.Role{ObjectMeta: at(namespace, "abuse"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"create"}}}}
	}
	node := func(name string) client.Object {
		return wire.InternalNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "x"}}, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.77")})
	}
	own := func(namespace string) client.Object {
		b := binding(namespace, wire.TenantAccessName, "liqo", wire.OperatorName)
		b.SetName(wire.OperatorName)
		return b
	}
	invited := func(namespace string) client.Object {
		b := own(namespace)
		b.SetName(wire.InvitedAccessName)
		return b
	}
	operator := &appsv1.Deployment{ObjectMeta: at("liqo", wire.OperatorName)}
	service := func(namespace string, change func(*corev1.ServiceSpec)) client.Object {
		labels := map[string]string{wire.LabelGatewayName: "milan"}
		s := &corev1.Service{ObjectMeta: at(namespace, "abuse"), Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 1}}}}
		s.Labels = labels
		change(&s.Spec)
		return s
	}
	typed := func(namespace string, kind corev1.SecretType) client.Object {
		s := &corev1.Secret{ObjectMeta: at(namespace, "abuse"), Type: kind}
		if kind == corev1.SecretTypeServiceAccountToken {
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "milan"}
		}
		return s
	}
	confined := func(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{}
			change(s.Containers[0].SecurityContext)
		}
	}
	lists := func(subjects string) func(client.Client) error {
		return patch(&rbacv1.ClusterRoleBinding{ObjectMeta: at("", wire.GatewayAccessName)}, `{"subjects":[`+subjects+`]}`)
	}
	gateway, holder := &networkingv1beta1.GatewayServer{ObjectMeta: at(milan, "milan")}, &corev1.Pod{ObjectMeta: at(turin, "gw-turin-a")}
	dials := &networkingv1beta1.GatewayClient{ObjectMeta: at(turin, "turin")}
	w.create(&corev1.Secret{ObjectMeta: at(milan, "bootstrap"), Type: corev1.SecretTypeBootstrapToken})
	program := w.account("liqo", wire.OperatorName)
	for _, b := range []client.Object{own("victim"), invited("victim")} {
		// An API server enforces a new policy a moment later.
		for deadline := time.Now().Add(time.Minute); apply(b)(client.NewDryRunClient(program)) == nil; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				w.t.Fatal("nothing keeps the operator from giving itself rights")
			}
		}
	}
	// Each request is similar to a refused request below.
	w.permitted("the operator", program, []abuse{
		{name: "says how it does", do: patch(operator, `{"metadata":{"annotations":{"liqo-tui.dev/operator-status":"x"}}}`)},
		{name: "asks for a Service at home", do: create(service("liqo", func(s *corev1.ServiceSpec) { s.Selector = nil }))},
		{name: "makes a gateway's Service", do: create(service(milan, func(s *corev1.ServiceSpec) { s.Type, s.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "192.0.2.1" }))},
		{name: "makes a Secret", do: create(typed(milan, corev1.SecretTypeOpaque))},
		{name: "says that a pod has the tunnel", do: patch(holder, `{"metadata":{"labels":{"networking.liqo.io/active":"true"}}}`)},
		{name: "annotates a gateway", do: patch(gateway, `{"metadata":{"annotations":{"liqo-tui.dev/problem":"x"}}}`)},
		{name: "lists a gateway", do: lists(`{"kind":"ServiceAccount","namespace":"liqo-tenant-milan","name":"milan"}`)},
		{name: "runs a gateway", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{
				Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}}, SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t"},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}
			s.PriorityClassName = wire.GatewayPriorityClass
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "gw-milan"}}}}
			s.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "MKNOD"}}}
		}))},
	})
	w.refused("the operator", program, []abuse{
		{name: "has its own pod be privileged", do: patch(operator, `{"spec":{"template":{"spec":{"hostPID":true}}}}`)},
		{name: "runs more of its own pods", do: patch(operator, `{"spec":{"replicas":5}}`)},
		{name: "says what install is to ask of pods", do: patch(operator, `{"metadata":{"annotations":{"liqo-tui.dev/pod-settings":"{\"imagePullSecrets\":[{\"name\":\"token\"}]}"}}}`)},
		{name: "takes back of what level it is", do: patch(operator, `{"metadata":{"annotations":{"liqo-tui.dev/level":null}}}`)},
		{name: "holds its own deletion up", do: patch(operator, `{"metadata":{"finalizers":["example.org/stay"]}}`)},
		{name: "draws others' traffic", do: create(service(milan, func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1"} }))},
		{name: "draws others' traffic later", do: patch(&corev1.Service{ObjectMeta: at(milan, "gw-milan")}, `{"spec":{"externalIPs":["192.0.2.1"]}}`)},
		{name: "is another name", do: create(service(milan, func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.org" }))},
		{name: "leads to other pods", do: create(service(milan, func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "db"} }))},
		{name: "leads to what it says", do: create(service(milan, func(s *corev1.ServiceSpec) { s.Selector = nil }))},
		{name: "makes a Service at home", do: create(service("liqo", func(*corev1.ServiceSpec) {}))},
		{name: "has a token be made", do: create(typed(milan, corev1.SecretTypeServiceAccountToken))},
		{name: "has another type of Secret", do: create(typed(milan, "helm.sh/release.v1"))},
		{name: "changes a Secret of another type", do: patch(&corev1.Secret{ObjectMeta: at(milan, "bootstrap")}, `{"metadata":{"labels":{"a":"b"}}}`)},
		{name: "runs another image in a pod", do: image(holder)},
		{name: "has a pod be another's", do: patch(holder, `{"metadata":{"labels":{"networking.liqo.io/gateway-name":"x"}}}`)},
		{name: "mounts another Secret into a gateway", do: patch(gateway, `{"spec":{"secretRef":{"name":"token"}}}`)},
		{name: "has a gateway dial others", do: patch(dials, `{"spec":{"endpoint":{"addresses":["192.0.2.66"]}}}`)},
		{name: "says whose peer a gateway is", do: patch(gateway, `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"x"}}}`)},
		{name: "lets everybody see where pods are", do: lists(`{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:authenticated"}`)},
		{name: "runs without SELinux", do: create(deployment(milan, confined(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} })))},
		{name: "runs as another user of SELinux", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "system_u"}}
		}))},
		{name: "runs without seccomp", do: create(deployment(milan, confined(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		})))},
		{name: "runs without AppArmor", do: create(deployment(milan, confined(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		})))},
		{name: "changes its node's kernel", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}))},
		{name: "takes a port of the host", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 22, HostPort: 22}}
		}))},
		{name: "has a kubelet ask others", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
		}))},
		{name: "mounts another's volume", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db"}}}}
		}))},
		{name: "chooses its node", do: create(deployment(milan, func(s *corev1.PodSpec) { s.NodeName = "node-a" }))},
		{name: "chooses its runtime", do: create(deployment(milan, func(s *corev1.PodSpec) { s.RuntimeClassName = new("x") }))},
		{name: "evicts others", do: create(deployment(milan, func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" }))},
		{name: "reads another's Secret", do: read("victim", "token")},
		{name: "reads a Secret beside it", do: read("liqo", "token")},
		{name: "lists all Secrets", do: list(&corev1.SecretList{})},
		{name: "makes itself an admin", do: create(&rbacv1.ClusterRoleBinding{ObjectMeta: at("", "abuse"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})},
		{name: "widens its ClusterRole", do: patch(&rbacv1.ClusterRole{ObjectMeta: at("", wire.OperatorName)}, `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)},
		{name: "gives itself its rights where nobody is connected", do: create(binding("victim", wire.TenantAccessName, "liqo", wire.OperatorName))},
		{name: "gives itself its rights there under its own name", nobody: true, do: create(own("victim"))},
		{name: "applies them there", nobody: true, do: apply(own("victim"))},
		{name: "applies them there as if a peer was invited", nobody: true, do: apply(invited("victim"))},
		{name: "shares its rights with another", do: patch(own(milan), `{"subjects":[{"kind":"ServiceAccount","namespace":"victim","name":"eve"}]}`)},
		{name: "gives its rights to another", do: create(binding(milan, wire.TenantAccessName, "victim", "eve"))},
		{name: "gives an admin's rights", do: create(binding(milan, "cluster-admin", "liqo", wire.OperatorName))},
		{name: "makes a Role beyond its rights", do: create(role(milan, "pods/exec"))},
		{name: "makes a Role elsewhere", do: create(role("victim", "services"))},
		{name: "makes a place to be", do: create(render.Configuration(render.Tenant{Namespace: "victim", Remote: "x"}, render.Networks{Pod: []networkingv1beta1.CIDR{"10.1.0.0/16"}}))},
		{name: "runs pods elsewhere", do: create(deployment("victim", as))},
		{name: "mounts the host", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}))},
		{name: "uses the host's network", do: create(deployment(milan, func(s *corev1.PodSpec) { s.HostNetwork = true }))},
		{name: "runs a privileged container", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}))},
		{name: "adds a capability", do: create(deployment(milan, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i", SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}}}
		}))},
		{name: "runs pods as another", do: create(deployment(milan, func(s *corev1.PodSpec) { s.ServiceAccountName = "default" }))},
		{name: "makes a pod by itself", do: create(&corev1.Pod{ObjectMeta: at(milan, "abuse"), Spec: pod(func(s *corev1.PodSpec) { s.ServiceAccountName = "" })})},
		{name: "makes a Service elsewhere", do: create(&corev1.Service{ObjectMeta: at("victim", "abuse"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})},
		{name: "records an Event elsewhere", do: create(eventOf("victim", "token"))},
		{name: "changes another program", do: patch(&appsv1.DaemonSet{ObjectMeta: at("liqo", wire.FabricName)}, `{"metadata":{"labels":{"a":"b"}}}`)},
		{name: "deletes a namespace", do: remove(&corev1.Namespace{ObjectMeta: at("", milan)})},
		{name: "changes a node", do: patch(&corev1.Node{ObjectMeta: at("", "node-a")}, `{"metadata":{"labels":{"a":"b"}}}`)},
		{name: "speaks for a node", do: create(node("abuse"))},
		{name: "lifts a policy", do: remove(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: at("", "liqo-tui-operator-rights")})},
		{name: "becomes another account", nobody: true, do: func(c client.Client) error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: at(milan, "milan")}, &authenticationv1.TokenRequest{})
		}},
	})
	fabric := func(namespace, name string) client.Object {
		return &networkingv1beta1.InternalFabric{ObjectMeta: at(namespace, name)}
	}
	w.refused("a gateway", w.account(turin, "turin"), []abuse{
		{name: "claims all pods' ranges", do: patch(fabric(turin, "turin"), `{"spec":{"remoteCIDRs":["10.244.0.0/16"]}}`)},
		{name: "changes what nodes take from it", do: patch(fabric(turin, "turin"), `{"metadata":{"annotations":{"liqo-tui.dev/node-ips":"0.0.0.0"}}}`)},
		{name: "claims another gateway's traffic", do: patch(fabric(milan, "milan"), `{"spec":{"gatewayIP":"10.244.0.21"}}`)},
		{name: "claims traffic besides", do: create(&networkingv1beta1.InternalFabric{ObjectMeta: at(turin, "abuse"), Spec: networkingv1beta1.InternalFabricSpec{GatewayIP: "10.244.0.21", Interface: networkingv1beta1.InternalFabricSpecInterface{
			Node: networkingv1beta1.InternalFabricSpecInterfaceNode{Name: "x"}, Gateway: networkingv1beta1.InternalFabricSpecInterfaceGateway{IP: "10.244.0.21"},
		}}})},
		{name: "reads another gateway's keys", do: read(milan, "gw-milan")},
		{name: "reads a Secret beside its keys", do: read(turin, "token")},
		{name: "lists the Secrets beside its keys", do: list(&corev1.SecretList{}, client.InNamespace(turin))},
		{name: "writes another gateway's history", do: patch(&corev1.ConfigMap{ObjectMeta: at(milan, "gw-milan-history")}, `{"data":{"history.json":""}}`)},
		{name: "writes which hosts its peer may reach", do: patch(&corev1.ConfigMap{ObjectMeta: at(turin, "gw-turin-hosts")}, `{"data":{"hosts.json":"[]"}}`)},
		{name: "keeps a second history", do: create(&corev1.ConfigMap{ObjectMeta: at(turin, "abuse")})},
		{name: "records an Event elsewhere", do: create(eventOf(milan, "gw-milan"))},
		{name: "takes an Event back", do: remove(eventOf(turin, "gw-turin"))},
		{name: "reports for another", do: patch(&networkingv1beta1.Connection{ObjectMeta: at(milan, "gw-milan")}, `{"metadata":{"annotations":{"a":"b"}}}`)},
		{name: "speaks for a node", do: create(node("abuse"))},
		{name: "changes its settings", do: patch(&networkingv1beta1.GatewayClient{ObjectMeta: at(turin, "turin")}, `{"spec":{"mtu":1000}}`)},
		{name: "changes its peer's ranges", do: patch(&networkingv1beta1.Configuration{ObjectMeta: at(turin, "turin")}, `{"spec":{"remote":{"cidr":{"pod":["10.0.0.0/8"]}}}}`)},
		{name: "makes a pod", do: create(&corev1.Pod{ObjectMeta: at(turin, "abuse"), Spec: pod(func(s *corev1.PodSpec) { s.ServiceAccountName = "" })})},
		{name: "runs another image in its pod", do: image(holder)},
		{name: "has its pod be another's", do: patch(holder, `{"metadata":{"labels":{"networking.liqo.io/gateway-name":"milan"}}}`)},
		{name: "changes another's pod", do: patch(&corev1.Pod{ObjectMeta: at(milan, "gw-milan-0")}, `{"metadata":{"labels":{"a":"b"}}}`)},
		{name: "reads others' pods", do: list(&corev1.PodList{})},
	})
	key := &networkingv1beta1.PublicKey{ObjectMeta: at(turin, "turin")}
	delegate := w.account(turin, "turin-delegate")
	w.permitted("the delegate of a client", delegate, []abuse{
		{name: "says where its server is", do: patch(dials, `{"spec":{"endpoint":{"addresses":["192.0.2.8"]}}}`)},
		{name: "says its key", do: patch(key, `{"spec":{"publicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`)},
		{name: "makes its next token", do: func(c client.Client) error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: at(turin, "turin-delegate")},
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}})
		}},
	})
	w.refused("the delegate of a client", delegate, []abuse{
		{name: "changes its template", do: patch(dials, `{"spec":{"clientTemplateRef":{"name":"other"}}}`)},
		{name: "changes its MTU", do: patch(dials, `{"spec":{"mtu":1000}}`)},
		{name: "changes its keys", do: patch(dials, `{"spec":{"secretRef":{"name":"token"}}}`)},
		{name: "asks for new keys", do: patch(dials, `{"metadata":{"annotations":{"liqo-tui.dev/rotate-key":"x"}}}`)},
		{name: "takes away what the operator says", do: patch(dials, `{"metadata":{"annotations":{"liqo-tui.dev/public-key":null}}}`)},
		{name: "changes whose peer it is", do: patch(dials, `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"milan"}}}`)},
		{name: "holds its deletion up", do: patch(dials, `{"metadata":{"finalizers":["example.org/stay"]}}`)},
		{name: "says its ranges on the gateway", do: patch(dials, `{"metadata":{"annotations":{"liqo-tui.dev/peer-ranges":"10.0.0.0/8;"}}}`)},
		{name: "has a range count as agreed to", do: patch(key, `{"metadata":{"annotations":{"liqo-tui.dev/carried-ranges":"10.0.0.0/8"}}}`)},
		{name: "changes its ranges", do: patch(&networkingv1beta1.Configuration{ObjectMeta: at(turin, "turin")}, `{"spec":{"remote":{"cidr":{"pod":["10.0.0.0/8"]}}}}`)},
		{name: "leaves the key behind", do: patch(key, `{"metadata":{"ownerReferences":null}}`)},
		{name: "reads Secrets", do: read(turin, "gw-turin")},
		{name: "makes a pod", do: create(&corev1.Pod{ObjectMeta: at(turin, "abuse"), Spec: pod(func(s *corev1.PodSpec) { s.ServiceAccountName = "" })})},
		{name: "deletes the gateway", do: remove(dials)},
		{name: "makes its token last", nobody: true, do: func(c client.Client) error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: at(turin, "turin-delegate")},
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(365 * 24 * 3600))}})
		}},
		{name: "becomes the gateway", nobody: true, do: func(c client.Client) error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: at(turin, "turin")}, &authenticationv1.TokenRequest{})
		}},
		{name: "changes another peer's key", do: patch(&networkingv1beta1.PublicKey{ObjectMeta: at(milan, "milan")}, `{"spec":{"publicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`)},
	})
	delegate = w.account(milan, "milan-delegate")
	w.permitted("the delegate of a server", delegate, []abuse{
		{name: "says its key", do: patch(&networkingv1beta1.PublicKey{ObjectMeta: at(milan, "milan")}, `{"spec":{"publicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`)},
	})
	w.refused("the delegate of a server", delegate, []abuse{
		{name: "changes its Service's type", do: patch(&networkingv1beta1.GatewayServer{ObjectMeta: at(milan, "milan")}, `{"spec":{"endpoint":{"serviceType":"LoadBalancer"}}}`)},
		{name: "changes the Service", do: patch(&corev1.Service{ObjectMeta: at(milan, "gw-milan")}, `{"metadata":{"labels":{"a":"b"}}}`)},
	})
	agent := w.account("liqo", wire.FabricName)
	unreached := func(name, app string) client.Object {
		m := wire.UnreachedConfigMap("liqo", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "x"}}, []string{"liqo-tenant-milan/milan"})
		m.Labels[wire.LabelAppName] = app
		return m
	}
	w.permitted("a node's agent", agent, []abuse{
		{name: "speaks for its node", do: create(node("node-a"))},
		{name: "says what its node does not reach", do: create(unreached("node-a", wire.FabricName))},
	})
	w.refused("a node's agent", agent, []abuse{
		{name: "speaks for another node", do: create(node("node-b"))},
		{name: "says anew where another node's pods are", do: apply(node("node-b"))},
		{name: "says what another node does not reach", do: apply(unreached("node-b", wire.FabricName))},
		{name: "gives the cluster another ID", do: create(unreached("node-a", wire.ClusterIDAppName))},
		{name: "changes a gateway's traffic", do: patch(fabric(milan, "milan"), `{"spec":{"gatewayIP":"10.244.0.21"}}`)},
		{name: "reads Secrets", do: read(milan, "gw-milan")},
		{name: "changes its node", do: patch(&corev1.Node{ObjectMeta: at("", "node-a")}, `{"metadata":{"labels":{"a":"b"}}}`)},
	})
}

func (w *world) refused(who string, c client.Client, all []abuse) {
	w.t.Helper()
	for _, a := range all {
		if err := a.do(client.NewDryRunClient(w.Client)); err != nil && !a.nobody {
			w.t.Errorf("%s %s: an admin can't either: %v", who, a.name, err)
		}
		err := a.do(c)
		if err == nil {
			w.t.Errorf("%s %s", who, a.name)
		} else if !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			w.t.Errorf("%s %s: got %v, want it refused for want of rights", who, a.name, err)
		}
		abuses.Refused(w.t, who, a.name, err)
	}
	w.t.Logf("%s: %d abuses, all refused", who, len(all))
}

// permitted tries requests that have to stay possible, as dry runs.
func (w *world) permitted(who string, c client.Client, all []abuse) {
	w.t.Helper()
	for _, a := range all {
		abuses.Permitted(w.t, who, a.name, a.do(client.NewDryRunClient(c)))
	}
}

// In testTemplates, an admin's template requests settings that the operator gives to no gateway. The template
// changes nothing, and the reason is reported.
func (w *world) testTemplates(server *networkingv1beta1.GatewayServer) {
	template := serverKind.newTemplate()
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "liqo", Name: wire.ServerTemplate}, template); err != nil {
		w.t.Fatal(err)
	}
	good := template.DeepCopy()
	meta := metav1.ObjectMeta{Namespace: server.Namespace, Name: "gw-milan"}
	before := until(w, &appsv1.Deployment{ObjectMeta: meta}, "there", func(*appsv1.Deployment) bool { return true }).Generation
	abuses.Permitted(w.t, "a template", "what install writes", nil)
	write := func(u *unstructured.Unstructured) {
		w.t.Helper()
		u.SetResourceVersion("")
		text, err := json.Marshal(u)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.Patch(w.t.Context(), u.DeepCopy(), merge(string(text))); err != nil {
			w.t.Fatal(err)
		}
	}
	at := []string{"spec", "template", "spec", "deployment", "spec", "template", "spec"}
	volume := func(source string, fields map[string]any) any {
		return []any{map[string]any{"name": "wireguard-config", source: fields}}
	}
	for _, c := range []struct {
		name, want string
		field      string
		value      any
	}{
		{"the host's files", "hostPath /etc", "volumes", volume("hostPath", map[string]any{"path": "/etc"})},
		{"the host's network", "hostNetwork", "hostNetwork", true},
		{"another account", `serviceAccountName "default"`, "serviceAccountName", "default"},
		{"another Secret", `Secret "token"`, "volumes", volume("secret", map[string]any{"secretName": "token"})},
	} {
		bad := good.DeepCopy()
		if err := unstructured.SetNestedField(bad.Object, c.value, append(at, c.field)...); err != nil {
			w.t.Fatal(err)
		}
		write(bad)
		refused := until(w, server, "refusing "+c.name, func(s *networkingv1beta1.GatewayServer) bool {
			return strings.HasPrefix(s.Annotations[wire.AnnotationProblem], wire.ProblemRefused+"gateway template liqo/wireguard-server: its pods may not have ") &&
				strings.Contains(s.Annotations[wire.AnnotationProblem], c.want)
		})
		abuses.Refused(w.t, "a template", c.name, errors.New(refused.Annotations[wire.AnnotationProblem]))
		reset := good.DeepCopy()
		if c.field == "hostNetwork" {
			if err := unstructured.SetNestedField(reset.Object, nil, append(at, c.field)...); err != nil {
				w.t.Fatal(err)
			}
		}
		write(reset)
		until(w, server, "without a problem", func(s *networkingv1beta1.GatewayServer) bool { return s.Annotations[wire.AnnotationProblem] == "" })
	}
	if d := until(w, &appsv1.Deployment{ObjectMeta: meta}, "there", func(*appsv1.Deployment) bool { return true }); d.Generation != before {
		w.t.Errorf("the Deployment was changed %d times", d.Generation-before)
	}
}
