package render_test

import (
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/examples/networking"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// example is a template that differs from our own.
type example struct {
	name, why string
	client    bool
	edit      func(spec map[string]any) error // of spec.template.spec
}

func set(value any, path ...string) func(map[string]any) error {
	return func(spec map[string]any) error { return unstructured.SetNestedField(spec, value, path...) }
}

func all(edits ...func(map[string]any) error) func(map[string]any) error {
	return func(spec map[string]any) error {
		for _, edit := range edits {
			if err := edit(spec); err != nil {
				return err
			}
		}
		return nil
	}
}

// first edits the first element of a list.
func first(edit func(map[string]any), path ...string) func(map[string]any) error {
	return func(spec map[string]any) error {
		list, _, err := unstructured.NestedSlice(spec, path...)
		if err != nil {
			return err
		}
		edit(list[0].(map[string]any))
		return unstructured.SetNestedSlice(spec, list, path...)
	}
}

func examples() []example {
	pod := []string{"deployment", "spec", "template", "spec"}
	inPod := func(field string) []string { return append(slices.Clip(pod), field) }
	annotations := func(pairs ...string) func(map[string]any) error {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return set(m, "service", "metadata", "annotations")
	}
	replicas := set(int64(3), "deployment", "spec", "replicas")
	placed := all(
		set(map[string]any{"node-role.example/gateway": "true"}, inPod("nodeSelector")...),
		set([]any{map[string]any{"key": "node-role.example/gateway", "operator": "Exists", "effect": "NoSchedule"}}, inPod("tolerations")...),
	)
	quiet := all(
		set(map[string]any{}, "deployment", "spec", "template", "metadata", "annotations"),
		first(func(c map[string]any) {
			c["args"] = append(c["args"].([]any), "--metrics-address=0")
			delete(c, "ports")
		}, inPod("containers")...),
	)
	const both = "Three pods: one holds the tunnel, and another takes over when it is lost."
	const nodes = "On nodes with the label node-role.example/gateway=true, which nothing else uses."
	const none = "Prometheus is told nothing, and asks nobody. In our own templates it finds the metrics by the pod's annotations."
	return []example{
		{name: "wireguard-server-replicas", why: both, edit: replicas},
		{name: "wireguard-client-replicas", why: both, client: true, edit: replicas},
		{name: "wireguard-server-nodes", why: nodes, edit: placed},
		{name: "wireguard-client-nodes", why: nodes, client: true, edit: placed},
		{name: "wireguard-server-no-metrics", why: none, edit: quiet},
		{name: "wireguard-client-no-metrics", why: none, client: true, edit: quiet},
		{
			name: "wireguard-server-node-port", why: "Always at node port 31840, for which a firewall is open. Of the peers of one cluster, one can use it.",
			edit: first(func(p map[string]any) { delete(p, "?nodePort"); p["nodePort"] = int64(31840) }, "service", "spec", "ports"),
		},
		{
			name: "wireguard-server-local", why: "externalTrafficPolicy Local: only the node with the gateway answers, and sees the client's own address. After the gateway has moved, a load balancer needs some seconds more.",
			edit: set("Local", "service", "spec", "externalTrafficPolicy"),
		},
		{
			name: "wireguard-server-aws", why: "A network load balancer of AWS, by the AWS Load Balancer Controller, that is reached from the Internet. It can't check UDP: it asks kube-proxy.",
			edit: all(set("service.k8s.aws/nlb", "service", "spec", "loadBalancerClass"), annotations(
				"service.beta.kubernetes.io/aws-load-balancer-scheme", "internet-facing",
				"service.beta.kubernetes.io/aws-load-balancer-nlb-target-type", "instance",
				"service.beta.kubernetes.io/aws-load-balancer-healthcheck-protocol", "http",
				"service.beta.kubernetes.io/aws-load-balancer-healthcheck-port", "10256",
				"service.beta.kubernetes.io/aws-load-balancer-healthcheck-path", "/healthz",
			)),
		},
		{
			name: "wireguard-server-gke", why: "A regional passthrough load balancer of Google Cloud.",
			edit: annotations("cloud.google.com/l4-rbs", "enabled"),
		},
		{
			name: "wireguard-server-aks", why: "A load balancer of Azure. It has no health check for UDP ports: with externalTrafficPolicy Local it asks the node whether the gateway is there.",
			edit: set("Local", "service", "spec", "externalTrafficPolicy"),
		},
	}
}

// TestExamplesDifferInWhatTheyShow writes the files of examples/networking from our own templates and the
// edits of each example. So the files are never outdated.
func TestExamplesDifferInWhatTheyShow(t *testing.T) {
	ours, err := render.GatewayTemplates("liqo", networking.Image, 1, render.PodSettings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples() {
		i := 0
		if e.client {
			i = 1
		}
		u, err := apply.Wanted(ours[i])
		if err != nil {
			t.Fatal(err)
		}
		u = u.DeepCopy()
		u.SetName(e.name)
		u.SetLabels(nil) // the labels would make the template a part of the installation
		spec, _, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
		if err == nil {
			err = e.edit(spec)
		}
		if err == nil {
			err = unstructured.SetNestedMap(u.Object, spec, "spec", "template", "spec")
		}
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "../../examples/networking/"+e.name+".yaml", "# "+e.why+"\n"+string(text))
	}
	there, err := networking.Templates("image")
	if err != nil || len(there) != len(examples()) {
		t.Errorf("there are %d files, want %d (%v)", len(there), len(examples()), err)
	}
}

// TestExamplesAreAllowed fills each example in, as the operator does.
func TestExamplesAreAllowed(t *testing.T) {
	there, err := networking.Templates("registry.example/gateway:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range there {
		template, err := render.ReadTemplate(u)
		if err != nil {
			t.Fatal(err)
		}
		gateway := server()
		g := render.Gateway{Tenant: render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, Name: "rome", Owner: gateway}
		v := values(func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.ServiceType = corev1.ServiceTypeLoadBalancer })
		filled, err := g.Fill(template, v)
		if err != nil {
			t.Errorf("%s: %v", u.GetName(), err)
			continue
		}
		d, err := filled.Deployment()
		if err == nil {
			err = g.CheckPods(d, "gw-rome")
		}
		if err == nil && strings.HasPrefix(u.GetName(), "wireguard-server") {
			var s *corev1.Service
			if s, err = filled.Service(gateway); err == nil {
				err = g.CheckService(s)
			}
		}
		if err != nil || d.Spec.Template.Spec.Containers[0].Image != "registry.example/gateway:1" {
			t.Errorf("%s: %v, image %s", u.GetName(), err, d.Spec.Template.Spec.Containers[0].Image)
		}
	}
}

// The metadata of a template is that of its objects, except for their names and namespace.
func TestMetadataOfATemplateIsRendered(t *testing.T) {
	template := func(text string) render.GatewayTemplate {
		t.Helper()
		template, err := render.ReadTemplate(&unstructured.Unstructured{Object: parse(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		return template
	}
	g := render.Gateway{Tenant: render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, Name: "rome", Owner: server()}
	filled, err := g.Fill(template(`{spec: {objectKind: {apiVersion: networking.liqo.io/v1beta1, kind: WgGatewayServer}, template: {
metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {team: "{{ .ClusterID }}", own: "no"}, annotations: {mtu: "{{ .Spec.MTU }}"}},
spec: {deployment: {metadata: {labels: {own: "yes"}}, spec: {}}, metrics: {}}}}}`), values(nil))
	if err != nil {
		t.Fatal(err)
	}
	d, err := filled.Deployment()
	if err != nil || d.Name != "gw-rome" || d.Namespace != "liqo-tenant-rome" || d.Labels["team"] != "rome" || d.Labels["own"] != "yes" || d.Annotations["mtu"] != "1340" {
		t.Errorf("got %+v, %v", d.ObjectMeta, err)
	}
	if unused := filled.Unused(); len(unused) != 1 || unused[0] != "metrics" {
		t.Errorf("got unused parts %q, want metrics", unused)
	}

	other := template(`{spec: {objectKind: {apiVersion: tunnels.example/v1, kind: IPIPGateway}, template: {
metadata: {name: "tunnel-{{ .Name }}", labels: {peer: "{{ .ClusterID }}"}}, spec: {port: "{{ .Spec.Endpoint.Port }}", "?none": "{{ .Spec.Endpoint.NodePort }}"}}}}`)
	if filled, err = g.Fill(other, values(nil)); err != nil || other.Ours() {
		t.Fatalf("ours: %v, %v", other.Ours(), err)
	}
	u := filled.Object()
	port, _, err := unstructured.NestedInt64(u.Object, "spec", "port")
	if err != nil || u.GetKind() != "IPIPGateway" || u.GetAPIVersion() != "tunnels.example/v1" || u.GetName() != "tunnel-rome" || u.GetNamespace() != "liqo-tenant-rome" ||
		u.GetLabels()["peer"] != "rome" || u.GetLabels()[wire.LabelRemoteCluster] != "rome" || port != 51840 || len(u.GetOwnerReferences()) != 1 {
		t.Errorf("got %s, %v", asYAML(t, u.Object), err)
	}

	for text, want := range map[string]string{
		`metadata: {namespace: kube-system}, spec: {}`:                             `.metadata.namespace: "kube-system" is not the gateway's namespace, "liqo-tenant-rome"`,
		`metadata: {}, spec: {deployment: {metadata: {namespace: "{{ .Name }}"}}}`: `.spec.deployment.metadata.namespace: "rome" is not`,
		`spec: {}`: ".spec.deployment: is missing",
		`spec: {deployment: {spec: {replicas: many}}}`: ".spec.deployment: ",
	} {
		filled, err := g.Fill(template(`{spec: {objectKind: {apiVersion: networking.liqo.io/v1beta1, kind: WgGatewayServer}, template: {`+text+`}}}`), values(nil))
		if err == nil {
			_, err = filled.Deployment()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{`{spec: {}}`: ".spec.template: is missing", `{spec: {template: {}}}`: ".spec.objectKind: want apiVersion and kind"} {
		if _, err := render.ReadTemplate(&unstructured.Unstructured{Object: parse(t, text)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
