package files

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestExamplesAreRead(t *testing.T) {
	files, err := filepath.Glob("../../../../examples/networking/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := ReadTemplates(file, text, "default")
		want := 1 // a Deployment; of a server with its Service, for two types of Service
		if strings.HasPrefix(filepath.Base(file), "wireguard-server") {
			want = 4
		}
		if err != nil || len(all) != 1 || len(all[0].Objects) != want || len(all[0].Unused) > 0 {
			t.Errorf("%s: got %+v, %v", file, all, err)
		}
	}
}

// What is wrong with a template has its file, line and field.
func TestWhatIsWrongHasItsLine(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/networking/wireguard-server-local.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	lineWith := func(text, part string) string {
		t.Helper()
		before, _, ok := strings.Cut(text, part)
		if !ok {
			t.Fatalf("no %q in the file", part)
		}
		return "t.yaml:" + strconv.Itoa(strings.Count(before, "\n")+1) + ": "
	}
	for name, c := range map[string]struct{ old, now, at, want string }{
		"unknown variable": {"type: '{{ .Spec.Endpoint.ServiceType }}'", "type: '{{ .Spec.Endpoint.Kind }}'", "type: '{{ .Spec.Endpoint.Kind", ".spec.template.spec.service.spec.type: 1:8: executing"},
		"endless":          {"type: '{{ .Spec.Endpoint.ServiceType }}'", "type: '{{range 1000000000}}x{{end}}'", "type: '{{range", ".spec.template.spec.service.spec.type: range is for a field of the gateway"},
		"cyclic":           {"type: '{{ .Spec.Endpoint.ServiceType }}'", `type: '{{define "a"}}{{template "a"}}{{end}}{{template "a"}}'`, "type: '{{define", ".spec.template.spec.service.spec.type: define, block and template are not for"},
		"host mount":       {"secretName: '{{ .SecretName }}'", "secretName: '{{ .SecretName }}'\n              - name: etc\n                hostPath: {path: /etc}", "- name: etc", ".spec.template.spec.deployment.spec.template.spec.volumes[1]: hostPath /etc is refused"},
		"namespace":        {" namespace: '{{ .Namespace }}'", " namespace: kube-system", "namespace: kube-system", `.spec.template.metadata.namespace: "kube-system" is not the gateway's namespace`},
		"typo":             {"externalTrafficPolicy: Local\n", "externalTraficPolicy: Local\n", "externalTraficPolicy", `.spec.template.spec.service.spec.externalTraficPolicy: no such field`},
		"no kind":          {"kind: WgGatewayServer\n", "knid: WgGatewayServer\n", "objectKind", ".spec.objectKind: want apiVersion and kind"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.now, 1)
			if bad == good {
				t.Fatalf("no %q in the example", c.old)
			}
			_, err := ReadTemplates("t.yaml", []byte(bad), "default")
			if want := lineWith(bad, c.at) + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	for text, want := range map[string]string{"": "t.yaml: there is no template in it", "a: [": "t.yaml: yaml: line 1", "a: b\n---\nspec: {}\n": "t.yaml:1: .spec.template: is missing"} {
		if _, err := ReadTemplates("t.yaml", []byte(text), "default"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
