package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func server() *networkingv1beta1.GatewayServer {
	return render.GatewayServer(render.ServerParams{
		Tenant:   render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"},
		Template: render.TemplateRef{Name: "wireguard-server", Namespace: "liqo"}, ServiceType: "NodePort", Port: 51840, MTU: 1340,
	})
}

func values(edit func(*networkingv1beta1.GatewayServerSpec)) render.Values {
	spec := server().Spec
	if edit != nil {
		edit(&spec)
	}
	return render.Values{Spec: spec, Name: "rome", Namespace: "liqo-tenant-rome", GatewayUID: "5e3b", ClusterID: "rome", SecretName: "gw-rome"}
}

func TestTemplate(t *testing.T) {
	for _, tc := range []struct{ name, template, want, err string }{
		{name: "a string without a variable stays", template: `{a: plain}`, want: `{a: plain}`},
		{name: "variables", template: `{a: "{{ .Name }}/{{ .SecretName }}"}`, want: `{a: rome/gw-rome}`},
		{name: "a number becomes one", template: `{port: "{{ .Spec.Endpoint.Port }}"}`, want: `{port: 51840}`},
		{name: "a number within a text does not", template: `{a: "port {{ .Spec.Endpoint.Port }}"}`, want: `{a: port 51840}`},
		{name: "a number in a list becomes one", template: `{ports: ["{{ .Spec.Endpoint.Port }}"]}`, want: `{ports: [51840]}`},
		{name: "a number in maps in lists becomes one", template: `{ports: [{port: "{{ .Spec.MTU }}"}]}`, want: `{ports: [{port: 1340}]}`},
		{name: "what is no string stays", template: `{a: 7, b: true, c: null, d: [1.5]}`, want: `{a: 7, b: true, c: null, d: [1.5]}`},
		{name: "an integer that its author wrote as a string stays one", template: `{a: "7"}`, want: `{a: "7"}`},
		{name: "strings stay strings below metadata", template: `{metadata: {name: "{{ .Spec.MTU }}"}}`, want: `{metadata: {name: "1340"}}`},
		{name: "strings stay strings deep below metadata", template: `{metadata: {a: {b: ["{{ .Spec.MTU }}"]}}}`, want: `{metadata: {a: {b: ["1340"]}}}`},
		{name: "strings stay strings beside and below labels", template: `{labels: {a: "{{ .Spec.MTU }}"}, b: "{{ .Spec.MTU }}"}`, want: `{labels: {a: "1340"}, b: "1340"}`},
		{name: "strings stay strings beside and below annotations", template: `{annotations: {a: "{{ .Spec.MTU }}"}, b: "{{ .Spec.MTU }}"}`, want: `{annotations: {a: "1340"}, b: "1340"}`},
		{name: "numbers beside metadata are numbers", template: `{metadata: {name: x}, spec: {mtu: "{{ .Spec.MTU }}"}}`, want: `{metadata: {name: x}, spec: {mtu: 1340}}`},
		{name: "an optional field that is not set is left out", template: `{a: 1, "?nodePort": "{{ .Spec.Endpoint.NodePort }}"}`, want: `{a: 1}`},
		{name: "an optional field that is set loses its mark", template: `{"?mtu": "{{ .Spec.MTU }}"}`, want: `{mtu: 1340}`},
		{name: "an optional field, trimmed", template: `{"?mtu": "  {{- .Spec.MTU -}}  "}`, want: `{mtu: 1340}`},
		{name: "an optional pointer that is set", template: `{"?lb": "{{ .Spec.Endpoint.LoadBalancerIP }}"}`, want: `{lb: 203.0.113.7}`},
		{name: "an optional map", template: `{spec: {"?a": {b: "{{ .Name }}"}, "?c": {"?d": "{{ .Spec.Endpoint.NodePort }}"}}}`, want: `{spec: {a: {b: rome}}}`},
		{name: "an optional list", template: `{"?a": ["{{ .Spec.MTU }}"], "?b": []}`, want: `{a: [1340]}`},
		{name: "an optional integer, and what is none", template: `{"?a": 7, "?b": 0, "?c": false, "?d": ""}`, want: `{a: 7}`},
		{name: "an optional text without a variable", template: `{"?a": plain}`, want: `{a: plain}`},
		{name: "of several variables of an optional field the first decides", template: `{"?a": "{{ .Spec.Endpoint.LoadBalancerIP }}-{{ .Name }}", "?b": "{{ .Spec.Endpoint.NodePort }}-{{ .Name }}"}`, want: `{a: 203.0.113.7-rome}`},
		{name: "several variables that make an integer", template: `{"?a": "{{ .Spec.MTU }}{{ .Spec.Endpoint.Port }}"}`, want: `{a: 134051840}`},
		{name: "a map", template: `{annotations: "{{ .Spec.ServiceAnnotations }}", "?none": "{{ .Spec.ServiceLabels }}"}`, want: `{annotations: {cost: low}}`},
		{name: "all variables", template: `{a: "{{ .Name }} {{ .Namespace }} {{ .GatewayUID }} {{ .ClusterID }} {{ .SecretName }} {{ .Spec.MTU }}"}`, want: `{a: rome liqo-tenant-rome 5e3b rome gw-rome 1340}`},
		{name: "variables in all of metadata", template: `{metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {uid: "{{ .GatewayUID }}"}, annotations: {mtu: "{{ .Spec.MTU }}"}}}`, want: `{metadata: {name: rome, namespace: liqo-tenant-rome, labels: {uid: 5e3b}, annotations: {mtu: "1340"}}}`},
		{name: "an unknown variable", template: `{a: "{{ .Nobody }}"}`, err: "gateway template: .a: 1:3: executing"},
		{name: "a template of itself", template: `{spec: {a: '{{define "x"}}{{template "x"}}{{end}}{{template "x"}}'}}`, err: "gateway template: .spec.a: define, block and template are not for gateways' templates"},
		{name: "a template of another's", template: `{a: '{{template "a"}}'}`, err: "gateway template: .a: define, block and template"},
		{name: "a loop that ends late", template: `{a: "{{range 1000000000}}{{end}}"}`, err: "gateway template: .a: range is for a field of the gateway"},
		{name: "a loop within a loop", template: `{a: "{{range .Spec.ServiceAnnotations}}{{if true}}{{range $.Spec.ServiceAnnotations}}{{end}}{{end}}{{end}}"}`, err: "gateway template: .a: a range within a range"},
		{name: "a loop over what the gateway has", template: `{a: "{{range .Spec.ServiceAnnotations}}{{.}};{{end}}"}`, want: `{a: low;}`},
		{name: "a text without end", template: `{a: '{{printf "%100000d" 1}}'}`, err: "gateway template: .a: 1:2: executing"},
		{name: "a text that doubles", template: `{a: '{{$x := printf "%9999d" 1}}{{$x = printf "%s%s%s%s%s%s%s" $x $x $x $x $x $x $x}}{{$x}}'}`, err: "gateway template: .a: 1:"},
		{name: "a field that does not exist", template: `{spec: {list: [{a: "{{ .Spec.Nope }}"}]}}`, err: "gateway template: .spec.list[0].a: "},
		{name: "a template that can't be parsed", template: `{spec: {a: "{{ .Spec"}}`, err: "gateway template: .spec.a: "},
		{name: "a function that does not exist", template: `{a: "{{ env }}"}`, err: "gateway template: .a: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := values(func(s *networkingv1beta1.GatewayServerSpec) {
				s.Endpoint.LoadBalancerIP, s.ServiceAnnotations = new("203.0.113.7"), map[string]string{"cost": "low"}
			})
			tmpl := parse(t, tc.template)
			got, err := render.Template(tmpl, v)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("got %v, want %s…", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// The test compares texts, because numbers of parsed YAML have another type than those of a
			// template.
			if g, w := asYAML(t, got), asYAML(t, parse(t, tc.want)); g != w {
				t.Errorf("got:\n%swant:\n%s", g, w)
			}
			if d := cmp.Diff(parse(t, tc.template), tmpl); d != "" {
				t.Errorf("the template was changed:\n%s", d)
			}
		})
	}
}

// The whole template is bounded, too, because many fields can be large together.
func TestATemplateRendersToNoMoreThanAnAPIServerTakes(t *testing.T) {
	fields := make([]any, 40)
	for i := range fields {
		fields[i] = `{{printf "%60000d" 1}}`
	}
	_, err := render.Template(map[string]any{"spec": map[string]any{"list": fields}}, values(nil))
	if wrong, ok := errors.AsType[*render.FieldError](err); !ok || wrong.Field != ".spec.list[17]" || !strings.Contains(wrong.Problem, "renders to more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

// A gateway is rendered again after each change of its inputs, within 1 ms each.
func BenchmarkTemplate(b *testing.B) {
	templates, err := render.GatewayTemplates("liqo", "registry.example/gateway:1", 1, render.PodSettings{})
	if err != nil {
		b.Fatal(err)
	}
	tmpl, v := templates[0].(*networkingv1beta1.WgGatewayServerTemplate).Spec.Template.Object, values(nil)
	for b.Loop() {
		if _, err := render.Template(tmpl, v); err != nil {
			b.Fatal(err)
		}
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func asYAML(t *testing.T, m any) string {
	t.Helper()
	text, err := yaml.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// For any template, there is no panic, and an error names the path. The output has no marks, and can be
// filled again without a change.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`{a: "{{ .Name }}"}`, `{"?a": "{{ .Spec.MTU }}"}`, `{"?a": [1]}`, `{metadata: {labels: {a: "{{ .Spec.MTU }}"}}}`,
		`{a: [{b: ["{{ .Spec.Endpoint.Port }}"]}]}`, `{"?": "{{ .Name }}"}`, `{a: "{{"}`, `{a: "{{ range .Name }}{{ end }}"}`, `{"": ""}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tmpl map[string]any
		if yaml.Unmarshal([]byte(text), &tmpl) != nil {
			return
		}
		v := values(nil)
		got, err := render.Template(tmpl, v)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gateway template: .") {
				t.Errorf("the error names no path: %v", err)
			}
			return
		}
		if len(got) > len(tmpl) {
			t.Errorf("%d fields became %d", len(tmpl), len(got))
		}
		if _, err := yaml.Marshal(got); err != nil {
			t.Errorf("the result is no YAML: %v", err)
		}
	})
}

func TestGatewayTemplates(t *testing.T) {
	templates, err := render.GatewayTemplates("liqo", "registry.example/gateway:1", 1, render.PodSettings{})
	if err != nil {
		t.Fatal(err)
	}
	serverTemplate := templates[0].(*networkingv1beta1.WgGatewayServerTemplate)
	clientTemplate := templates[1].(*networkingv1beta1.WgGatewayClientTemplate)

	t.Run("server behind a NodePort that Kubernetes chooses", func(t *testing.T) {
		d, s := fill(t, serverTemplate.Spec.Template.Object, values(nil))
		checkDeployment(t, d, "--role=server", "--remote-cluster-id=rome")
		if s.Spec.Type != corev1.ServiceTypeNodePort || s.Spec.LoadBalancerIP != "" {
			t.Errorf("service is %+v", s.Spec)
		}
		p := s.Spec.Ports[0]
		if len(s.Spec.Ports) != 1 || p.Port != 51840 || p.TargetPort.IntValue() != 51840 || p.Protocol != corev1.ProtocolUDP || p.NodePort != 0 {
			t.Errorf("ports are %+v", s.Spec.Ports)
		}
		for key, value := range s.Spec.Selector {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("the Service selects %s=%s, the pods have %q", key, value, d.Spec.Template.Labels[key])
			}
		}
	})
	t.Run("server behind a given NodePort", func(t *testing.T) {
		_, s := fill(t, serverTemplate.Spec.Template.Object, values(func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.NodePort = new(int32(31000)) }))
		if s.Spec.Ports[0].NodePort != 31000 {
			t.Errorf("node port is %d, want 31000", s.Spec.Ports[0].NodePort)
		}
	})
	t.Run("server behind a LoadBalancer with a given address", func(t *testing.T) {
		_, s := fill(t, serverTemplate.Spec.Template.Object, values(func(s *networkingv1beta1.GatewayServerSpec) {
			s.Endpoint.ServiceType, s.Endpoint.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, new("203.0.113.7")
		}))
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerIP != "203.0.113.7" {
			t.Errorf("service is %+v", s.Spec)
		}
	})
	t.Run("client", func(t *testing.T) {
		v := values(nil)
		v.Spec = render.GatewayClient(render.ClientParams{Addresses: []string{"192.0.2.1"}, Port: 1, MTU: 1340}).Spec
		d, s := fill(t, clientTemplate.Spec.Template.Object, v)
		checkDeployment(t, d, "--role=client")
		if s != nil {
			t.Errorf("a client has a Service: %+v", s)
		}
	})
}

// fill does what the operator does with a template. It refuses fields that the API server does not know.
func fill(t *testing.T, tmpl map[string]any, v render.Values) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	filled, err := render.Template(tmpl, v)
	if err != nil {
		t.Fatal(err)
	}
	spec := filled["spec"].(map[string]any)
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec["deployment"].(map[string]any), d, true); err != nil {
		t.Fatalf("Deployment: %v", err)
	}
	content, ok := spec["service"].(map[string]any)
	if !ok {
		return d, nil
	}
	s := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, s, true); err != nil {
		t.Fatalf("Service: %v", err)
	}
	return d, s
}

func checkDeployment(t *testing.T, d *appsv1.Deployment, args ...string) {
	t.Helper()
	pod := d.Spec.Template
	for key, value := range d.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("the Deployment selects %s=%s, its pods have %q", key, value, pod.Labels[key])
		}
	}
	for label, want := range map[string]string{
		wire.LabelComponent: "gateway", wire.LabelActive: "true", wire.LabelGatewayName: "rome",
		wire.LabelGatewayNamespace: "liqo-tenant-rome", wire.LabelRemoteCluster: "rome",
	} {
		if pod.Labels[label] != want {
			t.Errorf("pod label %s is %q, want %q", label, pod.Labels[label], want)
		}
	}
	if len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers) != 0 || pod.Spec.ServiceAccountName != "rome" {
		t.Fatalf("pod is %+v", pod.Spec)
	}
	c := pod.Spec.Containers[0]
	if c.Image != "registry.example/gateway:1" {
		t.Errorf("image is %s", c.Image)
	}
	for _, want := range append(args, "--name=rome", "--namespace=liqo-tenant-rome") {
		if !strings.Contains(" "+strings.Join(c.Args, " ")+" ", " "+want+" ") {
			t.Errorf("args are %q, want %s", c.Args, want)
		}
	}
	if sc := c.SecurityContext; sc == nil || sc.Privileged != nil && *sc.Privileged || *sc.AllowPrivilegeEscalation {
		t.Errorf("the pod is privileged: %+v", sc)
	}
	if v := pod.Spec.Volumes[0]; v.Name != c.VolumeMounts[0].Name || v.Secret == nil || v.Secret.SecretName != "gw-rome" {
		t.Errorf("volume is %+v, mount %+v", v, c.VolumeMounts[0])
	}
}
