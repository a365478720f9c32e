package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// GatewayTemplate is the template of a gateway's objects.
type GatewayTemplate struct {
	// Kind is the kind of the object that the template describes. For Liqo's kinds, our operator makes pods
	// and a Service. Objects of other kinds are handled by another program.
	Kind    schema.GroupVersionKind
	content map[string]any
}

// ReadTemplate reads a template from the API server's object.
func ReadTemplate(o *unstructured.Unstructured) (GatewayTemplate, error) {
	var t GatewayTemplate
	content, found, err := unstructured.NestedMap(o.Object, "spec", "template") // a copy
	if err != nil || !found {
		return t, &FieldError{Field: ".spec.template", Problem: "is missing"}
	}
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "objectKind", "kind") // "" is refused
	version, _, _ := unstructured.NestedString(o.Object, "spec", "objectKind", "apiVersion")
	if t = (GatewayTemplate{schema.FromAPIVersionAndKind(version, kind), content}); kind == "" || t.Kind.Version == "" {
		return t, &FieldError{Field: ".spec.objectKind", Problem: "want apiVersion and kind of what it describes"}
	}
	return t, nil
}

// Ours reports whether our operator makes the gateway itself.
func (t GatewayTemplate) Ours() bool {
	return t.Kind.Group == networkingv1beta1.GroupVersion.Group &&
		(t.Kind.Kind == networkingv1beta1.WgGatewayServerKind || t.Kind.Kind == networkingv1beta1.WgGatewayClientKind)
}

// Filled is a template with the values of one gateway.
type Filled struct {
	gateway  Gateway
	kind     schema.GroupVersionKind
	metadata metadata
	spec     map[string]any
	strict   bool
}

// Strictly makes unknown fields errors. The operator itself drops unknown fields, because the API server may
// be newer than the operator.
func (f *Filled) Strictly() { f.strict = true }

type metadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Fill fills a template in for the gateway. The objects are in the gateway's own namespace, so a template
// with another namespace is refused. Errors wrap a [FieldError].
func (g Gateway) Fill(t GatewayTemplate, v Values) (Filled, error) {
	filled, err := Template(t.content, v)
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return Filled{}, wrong
	}
	spec, _ := filled["spec"].(map[string]any)
	f := Filled{gateway: g, kind: t.Kind, spec: spec}
	f.metadata, err = g.metadataOf(filled, "")
	return f, err
}

func (g Gateway) metadataOf(content map[string]any, path string) (m metadata, err error) {
	fields, _ := content["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &m); err != nil {
		return m, &FieldError{Field: path + ".metadata", Problem: err.Error()}
	}
	if m.Namespace != "" && m.Namespace != g.Tenant.Namespace {
		return m, &FieldError{
			Field:   path + ".metadata.namespace",
			Problem: fmt.Sprintf("%q is not the gateway's namespace, %q, where all its objects are", m.Namespace, g.Tenant.Namespace),
		}
	}
	return m, nil
}

// unknownField matches the error of a strict decoder.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// Deployment returns the Deployment of a gateway that our operator makes.
func (f Filled) Deployment() (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}}
	return d, f.part("deployment", d)
}

// Service returns the Service of a gateway that our operator makes.
func (f Filled) Service(server *networkingv1beta1.GatewayServer) (*corev1.Service, error) {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
	err := f.part("service", s)
	s.Labels, s.Annotations = merged(s.Labels, server.Spec.ServiceLabels), merged(s.Annotations, server.Spec.ServiceAnnotations)
	return s, err
}

// part reads one part of the template into o, and makes o a child of the gateway. Each part also
// gets the template's own metadata.
func (f Filled) part(name string, o wire.Object) error {
	path := ".spec." + name
	content, ok := f.spec[name].(map[string]any)
	if !ok {
		return &FieldError{Field: path, Problem: "is missing"}
	}
	if _, err := f.gateway.metadataOf(content, path); err != nil {
		return err
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, o, f.strict); err != nil {
		if unknown := unknownField.FindStringSubmatch(err.Error()); unknown != nil {
			return &FieldError{Field: path + "." + unknown[1], Problem: "no such field"}
		}
		return &FieldError{Field: path, Problem: err.Error()}
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	child := f.gateway.meta(wire.GatewayObjectName(f.gateway.Name))
	o.SetName(child.Name)
	o.SetNamespace(child.Namespace)
	o.SetOwnerReferences(child.OwnerReferences)
	o.SetLabels(merged(f.metadata.Labels, o.GetLabels(), child.Labels))
	o.SetAnnotations(merged(f.metadata.Annotations, o.GetAnnotations()))
	return nil
}

// Object returns the object of a kind that another program handles.
func (f Filled) Object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(f.spec)}}
	u.SetGroupVersionKind(f.kind)
	child := f.gateway.meta(cmp.Or(f.metadata.Name, f.gateway.Name))
	u.SetName(child.Name)
	u.SetNamespace(child.Namespace)
	u.SetOwnerReferences(child.OwnerReferences)
	u.SetLabels(merged(f.metadata.Labels, child.Labels))
	if len(f.metadata.Annotations) > 0 {
		u.SetAnnotations(f.metadata.Annotations)
	}
	return u
}

// Unused returns the parts of the template that our operator ignores.
func (f Filled) Unused() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.spec)), func(part string) bool { return part == "deployment" || part == "service" })
}

// merged returns the entries of all maps. If several maps have the same key, the last one counts. It returns
// nil if there are no entries.
func merged(all ...map[string]string) map[string]string {
	var out map[string]string
	for _, m := range all {
		if len(m) > 0 && out == nil {
			out = map[string]string{}
		}
		maps.Copy(out, m)
	}
	return out
}
