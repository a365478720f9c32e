package bundle_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/bundle"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// planted are secrets of every kind, as they look.
var planted = map[string]string{
	"private key of WireGuard": "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=",
	"token of an account":      "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl-_x",
	"private key":              "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIplanted\n-----END EC PRIVATE KEY-----",
	"cut off private key":      "-----BEGIN RSA PRIVATE KEY-----\nMIIEplantedcut",
	"private key in base64":    base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----")),
	"key of AWS":               "AKIAIOSFODNN7EXAMPLE",
	"token of GitHub":          "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	"password":                 "hunter2-planted",
}

// said is how a secret comes in a text, if it says what it is.
func said(kind, secret string) []string {
	if kind != "password" {
		return []string{secret, "got " + secret + ", ok", `{"x":"` + secret + `"}`}
	}
	quoted, _ := json.Marshal(map[string]string{"password": secret})
	nested, _ := json.Marshal(map[string]string{"body": string(quoted)})
	return []string{
		"password=" + secret, "password: " + secret, `--password="` + secret + ` x"`, "Authorization: Bearer " + secret, "authorization: Basic " + secret,
		"dial https://ada:" + secret + "@proxy.example:3128/", "ADMIN_TOKEN=" + secret, "api-key: '" + secret + "'", "clientSecret: " + secret,
		string(quoted), string(nested), "PrivateKey = " + secret,
	}
}

func TestSecretsInTextsAreLeftOut(t *testing.T) {
	for kind, secret := range planted {
		for _, text := range said(kind, secret) {
			text = "before\n" + text
			if got := bundle.Text(text); leaks(got, secret) || !strings.HasPrefix(got, "before\n") {
				t.Errorf("%s: %q becomes %q", kind, text, got)
			}
		}
	}
}

// leaks reports whether any part of a secret is there that is long enough to be one.
func leaks(text, secret string) bool {
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "---") && len(line) > 7 && (strings.Contains(text, line) || strings.Contains(text, line[len(line)/2:])) {
			return true
		}
	}
	return false
}

// What a reader needs stays.
func TestWhatIsNoSecretStays(t *testing.T) {
	for _, text := range []string{
		"apply GatewayServer liqo-tenant-milan/rome on milan: forbidden: user \"ada\" cannot create gatewayservers",
		"secretName: gw-milan", "10.244.0.0/16 is seen as 253.18.0.0/16", "https://192.0.2.1:6443/api", "Secret liqo-tenant-milan/gw-rome does not exist",
		"image registry.example/liqo-gateway:v1@sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
		"uid 0b1f4a6e-8f0e-4d43-9a70-2f3a8c3b3b55", "--keys-dir=/etc/wireguard/keys", "tokens are renewed after 12h",
	} {
		if got := bundle.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	unreached, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wire.UnreachedConfigMap("liqo", &corev1.Node{}, []string{"liqo-tenant-milan/milan"}))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: unreached}
	bundle.Kinds()[slices.IndexFunc(bundle.Kinds(), func(k bundle.Kind) bool { return k.Kind == "ConfigMap" })].Object(o)
	if got, _, _ := unstructured.NestedString(o.Object, "data", "unreached"); got != "liqo-tenant-milan/milan" {
		t.Errorf("of the gateways that a node does not reach: got %q", got)
	}
	key := planted["private key of WireGuard"]
	if a, b := bundle.Text(key), bundle.Text("x "+key); "x "+a != b || a == bundle.Text("z"+key[1:]) {
		t.Errorf("the same key is %q and %q", a, b)
	}
}

// Secrets of every kind are planted in every field of every kind that could have
// one: as the values of free maps, as environment, as arguments, in messages.
func TestSecretsInObjectsAreLeftOut(t *testing.T) {
	for _, k := range bundle.Kinds() {
		for kind, secret := range planted {
			o := object(t, k, kind, secret)
			k.Object(o)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			if leaks(string(text), secret) || leaks(fmt.Sprint(o.Object), secret) {
				t.Errorf("%s has a %s:\n%s", k.Kind, kind, text)
			}
			if o.GetName() != "planted" || o.GetKind() != k.Kind || o.GetAnnotations()["liqo-tui.dev/source"] != "stated" {
				t.Errorf("%s lost its name, kind or annotation:\n%s", k.Kind, text)
			}
		}
	}
}

func TestASecretMayBeAnArgumentOfItsOwn(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{
		"containers": []any{map[string]any{"args": []any{"--password", "xyz", "--token", "--quiet", "run"}}},
	}}}
	i := slices.IndexFunc(bundle.Kinds(), func(k bundle.Kind) bool { return k.Kind == "Pod" })
	bundle.Kinds()[i].Object(o)
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
	if got := fmt.Sprint(containers); got != "[map[args:[--password <removed: 3 bytes> --token --quiet run]]]" {
		t.Errorf("got %s", got)
	}
}

// object has a secret in all fields that take any text, bare where the field is for
// secrets, and said where it is a text.
func object(t *testing.T, k bundle.Kind, kind, secret string) *unstructured.Unstructured {
	t.Helper()
	pod := map[string]any{
		"containers": []any{map[string]any{
			"name": "c", "env": []any{map[string]any{"name": "A", "value": secret}},
			"args":          []any{said(kind, secret)[0]},
			"lifecycle":     map[string]any{"postStart": map[string]any{"exec": map[string]any{"command": []any{secret}}}},
			"livenessProbe": map[string]any{"httpGet": map[string]any{"httpHeaders": []any{map[string]any{"name": "Authorization", "value": secret}}}},
		}},
		"initContainers": []any{map[string]any{"env": []any{map[string]any{"name": "B", "value": secret}}}},
		"volumes":        []any{map[string]any{"csi": map[string]any{"volumeAttributes": map[string]any{"key": secret}}}},
	}
	inTemplate := map[string]any{"spec": pod}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": k.GroupVersion().String(), "kind": k.Kind,
		"metadata": map[string]any{
			"name": "planted", "managedFields": []any{map[string]any{"manager": secret}},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": secret, "example.com/note": secret, "liqo-tui.dev/source": "stated"},
		},
		"message": said(kind, secret)[1], "clientSecret": secret, "list": []any{map[string]any{"adminPassword": secret}},
		"status": map[string]any{"conditions": []any{map[string]any{"message": said(kind, secret)[1]}}},
	}}
	switch k.Kind {
	case "Secret":
		o.Object["data"] = map[string]any{"key": secret}
		o.Object["stringData"] = map[string]any{"key": secret}
	case "ConfigMap":
		o.Object["data"] = map[string]any{"key": secret}
		o.Object["binaryData"] = map[string]any{"key": secret}
	case "Pod":
		o.Object["spec"] = pod
	case "Deployment", "DaemonSet":
		o.Object["spec"] = map[string]any{"template": inTemplate}
	case "VirtualNode":
		o.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"template": inTemplate}}}
	case "WgGatewayServerTemplate", "WgGatewayClientTemplate":
		o.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"deployment": map[string]any{"spec": map[string]any{"template": inTemplate}}}}}
	case "Identity":
		o.Object["spec"] = map[string]any{"authParams": map[string]any{"signedCRT": secret, "awsConfig": map[string]any{"awsSecretAccessKey": secret}}}
	case "Tenant", "ResourceSlice":
		o.Object["spec"] = map[string]any{"csr": secret, "signature": secret, "proxyURL": secret}
		o.Object["status"] = map[string]any{"authParams": map[string]any{"signedCRT": secret}}
	}
	return o
}
