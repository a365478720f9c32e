package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// othersAgain is the interval at which the operator reads an object from which another program makes a
// gateway, because it may have no right to watch the object.
const othersAgain = 5 * time.Second

// ours reports whether ref names a template of Liqo's kind for this gateway. Changes of such templates are watched.
func (k kind) ours(ref corev1.ObjectReference) bool {
	version, kind := cmp.Or(ref.APIVersion, networkingv1beta1.GroupVersion.String()), cmp.Or(ref.Kind, k.template)
	return version == networkingv1beta1.GroupVersion.String() && kind == k.template
}

// readTemplate reads the template of a gateway, of any kind.
func (r *gateways) readTemplate(ctx context.Context, ref corev1.ObjectReference) (t render.GatewayTemplate, err error) {
	o := r.kind.newTemplate()
	ours := r.kind.ours(ref)
	if !ours {
		o.SetGroupVersionKind(ref.GroupVersionKind())
		if err := r.templatesKind(ctx, o.GroupVersionKind()); err != nil {
			return t, fmt.Errorf("gateway template %s/%s: %w", ref.Namespace, ref.Name, err)
		}
	}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o); err != nil {
		return t, fmt.Errorf("read gateway template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if t, err = render.ReadTemplate(o); err == nil && (t.Ours() != ours || !ours && t.Kind.Group != o.GroupVersionKind().Group) {
		// Without this check, everybody with the right to write templates could create objects with the
		// operator's rights.
		err = &render.FieldError{Field: ".spec.objectKind", Problem: fmt.Sprintf("a %s describes no %s: one of its own API group", o.GetKind(), t.Kind.GroupKind())}
	}
	if err != nil {
		err = fmt.Errorf("gateway template %s/%s: %w: %w", ref.Namespace, ref.Name, err, errTemplate)
	}
	return t, err
}

// templatesKind refuses a kind whose definition has no label that marks its objects as templates of gateways.
func (r *gateways) templatesKind(ctx context.Context, kind schema.GroupVersionKind) error {
	mapping, err := r.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("there is no kind %s in %s on this cluster: install its definition, or name another template", kind.Kind, kind.GroupVersion())
	}
	if err != nil {
		return err
	}
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := mapping.Resource.Resource + "." + kind.Group
	err = r.reader.Get(ctx, client.ObjectKey{Name: name}, definition)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the operator may not read CustomResourceDefinition %s: bind its ServiceAccount to a ClusterRole for kind %s: %w", name, kind.Kind, err)
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err != nil || definition.Labels[wire.LabelGatewayTemplate] != "true":
		return fmt.Errorf("%s is no kind of template: its CustomResourceDefinition has no label %s=true: %w", kind.Kind, wire.LabelGatewayTemplate, errTemplate)
	}
	return nil
}

// othersStatus is the status that another program writes about its gateway.
type othersStatus struct {
	Endpoint         *networkingv1beta1.EndpointStatus          `json:"endpoint,omitempty"`
	InternalEndpoint *networkingv1beta1.InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
}

// readOthers reads the status of an object that another program handles; nothing if it does not exist yet.
func readOthers(ctx context.Context, c client.Reader, want *unstructured.Unstructured) (s othersStatus, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return s, client.IgnoreNotFound(err)
	}
	status, _, err := unstructured.NestedMap(live.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &s)
	}
	if err != nil {
		return s, fmt.Errorf("status of %s: %w", apply.Name(want), err)
	}
	return s, nil
}

func (p *prepared) child() *corev1.ObjectReference {
	if p.other != nil {
		return &corev1.ObjectReference{APIVersion: p.other.GetAPIVersion(), Kind: p.other.GetKind(), Namespace: p.other.GetNamespace(), Name: p.other.GetName()}
	}
	return &corev1.ObjectReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Namespace: p.deployment.Namespace, Name: p.deployment.Name}
}

// removeFormer removes the objects that were made from a former template of another kind.
func (r *gateways) removeFormer(ctx context.Context, in *inputs, p *prepared, former *corev1.ObjectReference) error {
	if former == nil || former.Kind == p.child().Kind && former.Name == p.child().Name {
		return nil
	}
	child := &unstructured.Unstructured{}
	child.SetGroupVersionKind(former.GroupVersionKind())
	child.SetNamespace(in.gateway.Tenant.Namespace)
	child.SetName(former.Name)
	err := r.deleteOrphan(ctx, child, in.gateway.Name)
	if meta.IsNoMatchError(err) {
		err = nil // the definition of the kind is gone, and the object with it
	}
	if p.service == nil {
		err = errors.Join(err, r.deleteOrphan(ctx, &corev1.Service{ObjectMeta: in.gateway.Connection().ObjectMeta}, in.gateway.Name))
	}
	return err
}
