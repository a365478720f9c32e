// Package bundle says what a bug report needs of a cluster, and what of that may
// leave it: what is secret is told by the type of an object, and looked for in
// texts.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Kind is one that a bundle has the objects of.
type Kind struct {
	schema.GroupVersionKind
	// Everywhere has those of all namespaces, or of none. Of the others, only those of
	// the installation and of tenants are ours to collect.
	Everywhere bool
	// Names has only names and labels read: the values never leave the API server.
	Names bool
	// secret are the fields, by their paths, that may have a password, a token or a
	// key in them, or what is signed with one. "*" stands for all entries of a list or
	// a map.
	secret []string
}

// Kinds are all that are collected.
func Kinds() []Kind {
	v1 := schema.GroupVersion{Version: "v1"}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	container := func(pod string) (paths []string) {
		for _, list := range []string{"containers", "initContainers"} {
			at := pod + list + ".*."
			paths = append(paths, at+"env.*.value", at+"lifecycle",
				at+"livenessProbe.httpGet.httpHeaders", at+"readinessProbe.httpGet.httpHeaders", at+"startupProbe.httpGet.httpHeaders")
		}
		return append(paths, pod+"volumes.*.csi.volumeAttributes", pod+"volumes.*.flexVolume.options")
	}
	kinds := []Kind{
		{GroupVersionKind: v1.WithKind("Node"), Everywhere: true},
		{GroupVersionKind: v1.WithKind("Secret"), Names: true},
		{GroupVersionKind: v1.WithKind("ConfigMap"), secret: []string{"data.*", "binaryData.*"}},
		{GroupVersionKind: v1.WithKind("Pod"), secret: container("spec.")},
		{GroupVersionKind: v1.WithKind("Service")},
		{GroupVersionKind: v1.WithKind("ServiceAccount")},
		{GroupVersionKind: v1.WithKind("Event")},
		{GroupVersionKind: apps.WithKind("Deployment"), secret: container("spec.template.spec.")},
		{GroupVersionKind: apps.WithKind("DaemonSet"), secret: container("spec.template.spec.")},
		{GroupVersionKind: rbac.WithKind("Role")},
		{GroupVersionKind: rbac.WithKind("RoleBinding")},
	}
	template := container("spec.template.spec.deployment.spec.template.spec.")
	for _, kind := range []string{
		networkingv1beta1.ConfigurationKind, networkingv1beta1.GatewayServerKind, networkingv1beta1.GatewayClientKind, networkingv1beta1.ConnectionKind,
		networkingv1beta1.PublicKeyKind, networkingv1beta1.InternalFabricKind, networkingv1beta1.InternalNodeKind,
	} {
		kinds = append(kinds, Kind{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(kind), Everywhere: true})
	}
	for _, kind := range []string{networkingv1beta1.WgGatewayServerTemplateKind, networkingv1beta1.WgGatewayClientTemplateKind} {
		kinds = append(kinds, Kind{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(kind), Everywhere: true, secret: template})
	}
	request := []string{"spec.csr", "spec.signature", "spec.proxyURL", "status.authParams"}
	return append(kinds,
		Kind{GroupVersionKind: ipamv1alpha1.SchemeGroupVersion.WithKind(ipamv1alpha1.NetworkKind), Everywhere: true},
		Kind{GroupVersionKind: ipamv1alpha1.SchemeGroupVersion.WithKind(ipamv1alpha1.IPKind), Everywhere: true},
		Kind{GroupVersionKind: schema.GroupVersionKind{Group: "core.liqo.io", Version: "v1beta1", Kind: "ForeignCluster"}, Everywhere: true},
		Kind{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.TenantKind), Everywhere: true, secret: request},
		Kind{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), Everywhere: true, secret: request},
		Kind{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.IdentityKind), Everywhere: true, secret: []string{"spec.authParams"}},
		Kind{
			GroupVersionKind: offloadingv1beta1.SchemeGroupVersion.WithKind(offloadingv1beta1.VirtualNodeKind), Everywhere: true,
			secret: container("spec.template.spec.template.spec."),
		},
	)
}

// Object is what of an object of kind k may leave the cluster. It changes o.
func (k Kind) Object(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
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
		if !ourAnnotation(name) { // kubectl's copy of an object, and whatever tools note
			annotations[name] = removed(value)
		}
	}
	o.SetAnnotations(annotations)
	texts(o.Object)
}

// plainConfigMap reports whether a ConfigMap is one of ours, which have no secrets.
func plainConfigMap(o *unstructured.Unstructured) bool {
	return o.GetName() == wire.ClusterIDConfigMap || o.GetLabels()[wire.LabelManagedBy] == wire.OperatorName
}

// ourAnnotation reports whether an annotation has a meaning for a connection.
func ourAnnotation(name string) bool {
	group, _, _ := strings.Cut(name, "/")
	return group == "liqo-tui.dev" || strings.HasSuffix(group, "liqo.io") || group == "deployment.kubernetes.io" || group == "meta.helm.sh"
}

func removed(value any) string { return fmt.Sprintf("<removed: %d bytes>", len(fmt.Sprint(value))) }

// remove has the size of a field in place of the field.
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

// texts looks through all texts of a value.
func texts(value any) any {
	switch v := value.(type) {
	case string:
		return Text(v)
	case []any:
		for i := range v {
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

// secretName is what fields are called whose text is a secret.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|token|secret|(api|private|access|preshared)[-_]?key|credentials?)$`)

// secrets are what of a text is left out, wherever it is.
var secrets = []struct {
	is *regexp.Regexp
	to string // what takes its place
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)`), "<removed: PEM>"},
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`), "<removed: PEM>"}, // the same in base64
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), "<removed: token>"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{6,}`), "$1$2<removed>"},
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s"'@]+@`), "$1<removed>@"},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), "<removed: key of AWS>"},
	{regexp.MustCompile(`\b(ghp|gho|ghs|ghu|github_pat|glpat|xox[abp])[_-][A-Za-z0-9_-]{10,}`), "<removed: token>"},
	// what is called a secret. A quoted value may have spaces, any other ends at one.
	{regexp.MustCompile(`(?i)((?:password|passwd|passphrase|token|secret|api[-_]?key|private[-_]?key|access[-_]?key|preshared[-_]?key|credentials?|auth)\\?["']?\s*[:=]\s*)(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s"',;}{]+)`), "$1<removed>"},
}

// wireGuardKey is 32 bytes in base64.
var wireGuardKey = regexp.MustCompile(`[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=`)

// Text is a text without what is secret in it. Of a key of WireGuard, which may be
// public or private, a fingerprint stays: two that are the same still look the same.
func Text(text string) string {
	for _, s := range secrets {
		text = s.is.ReplaceAllString(text, s.to)
	}
	return wireGuardKey.ReplaceAllStringFunc(text, func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "<key " + hex.EncodeToString(sum[:6]) + ">"
	})
}
