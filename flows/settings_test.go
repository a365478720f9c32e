package flows_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/render"
)

func settingOf(t *testing.T, name string) flows.ConnectionSetting {
	t.Helper()
	for _, s := range flows.Settings() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no setting %s", name)
	return flows.ConnectionSetting{}
}

// The value of each setting is what it was set to, and its standard is valid.
func TestASettingKeepsWhatItIsSetTo(t *testing.T) {
	for _, c := range []struct{ name, text, want, problem string }{
		{"server-location", "local", "Local", ""},
		{"server-location", "provider", "Remote", ""},
		{"server-location", "Moon", "", "want Local or Remote"},
		{"server-service-type", "nodeport", "NodePort", ""},
		{"server-service-type", "Pigeon", "", "want LoadBalancer, NodePort or ClusterIP"},
		{"server-port", "65535", "65535", ""},
		{"server-port", "65536", "", "want a port, 1 to 65535"},
		{"server-port", "", "", "want a port, 1 to 65535"},
		{"node-port", "0", "", ""},
		{"node-port", "-1", "", "want a port, 1 to 65535"},
		{"load-balancer-ip", "2001:db8::7", "2001:db8::7", ""},
		{"load-balancer-ip", "lb.example", "", "want an IP address, such as 192.0.2.7"},
		{"client-address", "gw.example.org", "gw.example.org", ""},
		{"client-address", "gw.example.org:51840", "", "want an IP address or a DNS name, without a port"},
		{"mtu", "576", "576", ""},
		{"mtu", "large", "", "want a number of bytes, 576 to 9000"},
		{"namespace", "tenant", "tenant", ""},
		{"remote-namespace", "tenant", "tenant", ""},
		{"wait", "true", "connected", ""},
		{"wait", "FALSE", "none", ""},
		{"wait", "verified", "verified", ""},
	} {
		p, s := flows.Defaults(), settingOf(t, c.name)
		before := s.Write(p)
		err := s.Set(&p, c.text)
		if c.problem != "" {
			if err == nil || err.Error() != c.problem || s.Write(p) != before {
				t.Errorf("%s %q: got %q, %v; want %q as before, and %q", c.name, c.text, s.Write(p), err, before, c.problem)
			}
		} else if err != nil || s.Write(p) != c.want {
			t.Errorf("%s %q: got %q, %v; want %q", c.name, c.text, s.Write(p), err, c.want)
		}
	}
}

// Each part of a connection that an admin can give has its setting, and every
// setting that a connection can keep has a word for the sentence that says so.
func TestEveryFieldHasItsSetting(t *testing.T) {
	var all, told flows.Fields
	names := map[string]bool{}
	for _, s := range flows.Settings() {
		all |= s.Sets
		if s.Noun != "" {
			told |= s.Sets
		}
		if s.Valid == nil && s.Kind == setting.Text {
			t.Errorf("%s takes no text", s.Name)
		}
		if s.Help == "" || names[s.Name] || s.Label != "" && s.Explain == "" {
			t.Errorf("%s: no help, no explanation, or twice", s.Name)
		}
		names[s.Name] = true
	}
	if all != flows.AllFields || told != flows.AllFields {
		t.Errorf("got settings for %b, with words for %b; want %b", all, told, flows.AllFields)
	}
}

// What a setting says that it ends in exists.
func TestFieldsOfSettingsAreInTheDefinitions(t *testing.T) {
	objects, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, o := range objects {
		if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
			kinds[d.Spec.Names.Kind] = *d.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
	}
	for _, s := range flows.Settings() {
		kind, path, _ := strings.Cut(s.Field, ".")
		at, ok := kinds[kind]
		for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
			at, ok = at.Properties[part]
			if !ok {
				break
			}
		}
		if s.Field != "" && !ok {
			t.Errorf("--%s ends in %s, which does not exist", s.Name, s.Field)
		}
	}
}

func TestWordsOfForms(t *testing.T) {
	p := flows.Defaults()
	for _, s := range flows.Form(nil, "rome", "milan") {
		switch s.Name {
		case "server-location":
			if err := s.Set(&p, "Rome"); err != nil || p.Server != flows.A || s.Value(p) != "rome" {
				t.Errorf("got server %s, %q, %v; want rome", p.Server, s.Value(p), err)
			}
			if err := s.Set(&p, "C"); err == nil || err.Error() != "want rome or milan" {
				t.Errorf("got %v", err)
			}
		case "wait":
			if err := s.Set(&p, "applied"); err != nil || p.Wait != flows.WaitNone || s.Value(p) != "applied" {
				t.Errorf("got %s, %v; want applied", s.Value(p), err)
			}
		case "node-port":
			if p.ServiceType = corev1.ServiceTypeClusterIP; p.Uses(s) || s.Value(p) != "Kubernetes chooses" {
				t.Errorf("a node port of a ClusterIP is used: %q", s.Value(p))
			}
		}
	}
}
