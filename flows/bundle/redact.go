// Package bundle selects the objects of a cluster for a bug report, and removes secrets from them. It
// removes the fields of each kind that can hold secrets, and secrets in texts.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Kind is a kind of objects in a bundle.
type Kind struct {
	schema.GroupVersionKind
	// Everywhere is set if the objects of all namespaces are collected, or if the kind has no
	// namespace. Otherwise only the objects in the namespaces of the installation and of tenants are
	// collected.
	Everywhere bool
	// Names is set if only names and labels are read: the values never leave the API
	// server.
	Names bool
	// without are long fields that don't matter for connections.
	without []string
	// secret lists the paths of fields that may contain a password, a token, a key, or something that
	// such a secret signed. "*" stands for all entries of a list or a map.
	secret []string
}

// Kinds returns the kinds that a bundle collects.
func Kinds() []Kind {
	container := func(pod string) (paths []string) {
		for _, list := range []string{"containers", "initContainers"} {
			at := pod + list + ".*."
			paths = append(paths, at+"env.*.value", at+"lifecycle",
				at+"livenessProbe.httpGet.httpHeaders", at+"readinessProbe.httpGet.httpHeaders", at+"startupProbe.httpGet.httpHeaders")
		}
		return append(paths, pod+"volumes.*.csi.volumeAttributes", pod+"volumes.*.flexVolume.options")
	}
	request := []string{"spec.csr", "spec.signature", "spec.proxyURL", "status.authParams"}
	template := container("spec.template.spec.deployment.spec.template.spec.")
	return []Kind{
		{GroupVersionKind: of("Node"), Everywhere: true, without: []string{"status.images"}},
		{GroupVersionKind: of("Secret"), Names: true},
		{GroupVersionKind: of("ConfigMap"), secret: []string{"data.*", "binaryData.*"}},
		{GroupVersionKind: of("Pod"), secret: container("spec.")},
		{GroupVersionKind: of("Service")},
		{GroupVersionKind: of("ServiceAccount")},
		{GroupVersionKind: of("Event")},
		{GroupVersionKind: of("Deployment"), secret: container("spec.template.spec.")},
		{GroupVersionKind: of("DaemonSet"), secret: container("spec.template.spec.")},
		{GroupVersionKind: of("Role")},
		{GroupVersionKind: of("RoleBinding")},
		{GroupVersionKind: of("Configuration"), Everywhere: true},
		{GroupVersionKind: of("GatewayServer"), Everywhere: true},
		{GroupVersionKind: of("GatewayClient"), Everywhere: true},
		{GroupVersionKind: of("Connection"), Everywhere: true},
		{GroupVersionKind: of("PublicKey"), Everywhere: true},
		{GroupVersionKind: of("InternalFabric"), Everywhere: true},
		{GroupVersionKind: of("InternalNode"), Everywhere: true},
		{GroupVersionKind: of("WgGatewayServerTemplate"), Everywhere: true, secret: template},
		{GroupVersionKind: of("WgGatewayClientTemplate"), Everywhere: true, secret: template},
		{GroupVersionKind: of("Network"), Everywhere: true},
		{GroupVersionKind: of("IP"), Everywhere: true},
		{GroupVersionKind: of("ForeignCluster"), Everywhere: true},
		{GroupVersionKind: of("Tenant"), Everywhere: true, secret: request},
		{GroupVersionKind: of("ResourceSlice"), Everywhere: true, secret: request},
		{GroupVersionKind: of("Identity"), Everywhere: true, secret: []string{"spec.authParams"}},
		{GroupVersionKind: of("VirtualNode"), Everywhere: true, secret: container("spec.template.spec.template.spec.")},
	}
}

func of(kind string) schema.GroupVersionKind {
	k, ok := kinds.Named(kind)
	if !ok {
		panic("bundle: no kind " + kind) // all callers pass constants
	}
	return k.GroupVersionKind
}

// Object removes the parts of o, an object of kind k, that must not leave the cluster.
func (k Kind) Object(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	for _, path := range k.without {
		unstructured.RemoveNestedField(o.Object, strings.Split(path, ".")...)
	}
	if k.Names {
		for field := range o.Object {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, field) {
				delete(o.Object, field)
			}
		}
	}
	for _, path := range k.secret {
		if k.Kind == "ConfigMap" && plainConfigMap(o) {
			break
		}
		remove(o.Object, strings.Split(path, "."))
	}
	annotations := o.GetAnnotations()
	for name, value := range annotations {
		if !ourAnnotation(name) { // removes kubectl's copy of an object, and notes of other tools
			annotations[name] = removed(value)
		}
	}
	o.SetAnnotations(annotations)
	texts(o.Object)
}

// plainConfigMap reports whether we made the ConfigMap. Then it has no secrets.
func plainConfigMap(o *unstructured.Unstructured) bool {
	labels := o.GetLabels()
	return o.GetName() == wire.ClusterIDConfigMap || labels[wire.LabelManagedBy] == wire.OperatorName || labels[wire.LabelAppName] == wire.FabricName
}

// ourAnnotation reports whether an annotation matters for a connection.
func ourAnnotation(name string) bool {
	group, _, _ := strings.Cut(name, "/")
	return group == "liqo-tui.dev" || strings.HasSuffix(group, "liqo.io") || group == "deployment.kubernetes.io" || group == "meta.helm.sh"
}

func removed(value any) string { return fmt.Sprintf("<removed: %d bytes>", len(fmt.Sprint(value))) }

// remove replaces a field by its size.
func remove(o any, path []string) {
	switch o := o.(type) {
	case []any:
		for _, entry := range o {
			if path[0] == "*" {
				remove(entry, path[1:])
			}
		}
	case map[string]any:
		for key, value := range o {
			switch {
			case path[0] != "*" && path[0] != key:
			case len(path) == 1:
				o[key] = removed(value)
			default:
				remove(value, path[1:])
			}
		}
	}
}

// texts removes the secrets from all texts of a value.
func texts(value any) any {
	switch v := value.(type) {
	case string:
		return Text(v)
	case []any:
		for i := range v {
			if text, ok := v[i].(string); ok && i > 0 && takesSecret(v[i-1]) && !strings.HasPrefix(text, "-") {
				v[i] = removed(text)
				continue
			}
			v[i] = texts(v[i])
		}
	case map[string]any:
		for key, entry := range v {
			if _, text := entry.(string); text && secretName.MatchString(key) {
				v[key] = removed(entry)
				continue
			}
			v[key] = texts(entry)
		}
	}
	return value
}

// secretName matches the names of fields whose text is a secret.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|token|secret|(api|private|access|preshared)[-_]?key|credentials?)$`)

// takesSecret reports whether an argument of a command is a flag with a secret as its value. The value
// is the next argument.
func takesSecret(argument any) bool {
	flag, ok := argument.(string)
	return ok && strings.HasPrefix(flag, "-") && secretName.MatchString(flag)
}

// secrets are the patterns that are removed from all texts.
var secrets = []struct {
	// A text that the expression matches contains one of these words. This test is a hundred times as
	// fast as the expression, and a bundle has millions of texts, most of them short.
	any []string
	is  *regexp.Regexp
	to  string // the replacement
}{
	{[]string{"-----BEGIN "}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)`), "<removed: PEM>"},
	{[]string{"LS0tLS1CRUdJTi"}, regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`), "<removed: PEM>"}, // the same in base64
	{[]string{"eyJ"}, regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), "<removed: token>"},
	{[]string{" ", "\t", "\n", "\f", "\r"}, regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{6,}`), "$1$2<removed>"},
	{[]string{"://"}, regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s"'@]+@`), "$1<removed>@"},
	{[]string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), "<removed: key of AWS>"},
	{[]string{"gh", "git", "glpat", "xox"}, regexp.MustCompile(`\b(ghp|gho|ghs|ghu|github_pat|glpat|xox[abp])[_-][A-Za-z0-9_-]{10,}`), "<removed: token>"},
	// A value with the name of a secret. A quoted value may contain spaces; any other value ends at a
	// space.
	{[]string{":", "="}, regexp.MustCompile(`(?i)((?:password|passwd|passphrase|token|secret|api[-_]?key|private[-_]?key|access[-_]?key|preshared[-_]?key|credentials?|auth)\\?["']?\s*[:=]\s*)(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s"',;}{]+)`), "$1<removed>"},
}

var wireGuardKey = regexp.MustCompile(`[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=`)

// Text returns a text without its secrets. A WireGuard key, which may be public or private, is
// replaced by a fingerprint, so equal keys still look equal.
func Text(text string) string {
	for _, s := range secrets {
		if slices.ContainsFunc(s.any, func(part string) bool { return strings.Contains(text, part) }) {
			text = s.is.ReplaceAllString(text, s.to)
		}
	}
	if !strings.Contains(text, "=") {
		return text
	}
	return wireGuardKey.ReplaceAllStringFunc(text, func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "<key " + hex.EncodeToString(sum[:6]) + ">"
	})
}
