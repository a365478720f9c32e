package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Pods need other objects of their namespace, so this program copies such objects to the provider: Services,
// endpoints that the provider does not find itself, and the ConfigMaps and Secrets that pods mention. After
// each change in a namespace, it compares all these objects with their copies.

var (
	services   = corev1.SchemeGroupVersion.WithKind("Service")
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secrets    = corev1.SchemeGroupVersion.WithKind("Secret")
	shadows    = offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowEndpointSlice")
	// alongs are the kinds of the copies on the provider.
	alongs = []schema.GroupVersionKind{configMaps, secrets, services, shadows}
)

// metadata returns an empty object by which only the metadata of a kind is read and cached. So the contents
// of Secrets are not in the cache. The metadata is enough to compare a copy, because an annotation contains
// the version.
func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}}
}

// kindsHere returns the kinds that are watched on this cluster, in addition to pods.
func kindsHere() []client.Object {
	return []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}, metadata(configMaps), metadata(secrets)}
}

// kindsThere returns the kinds that are watched on the provider, in addition to pods.
func kindsThere() (kinds []client.Object) {
	for _, kind := range alongs {
		kinds = append(kinds, metadata(kind))
	}
	return kinds
}

type thing struct {
	kind schema.GroupVersionKind
	name string
}

// refusal is the provider's refusal of one version of an object.
type refusal struct {
	message, version string
	at               time.Time
}

// refusedAgain is the time after which a refused version is sent again.
const refusedAgain = 30 * time.Second

// along is a wanted copy of an object.
type along struct {
	of      client.Object // the object on this cluster
	version string        // the version of the object
	// object returns the copy. It returns nil without an error if the object was deleted meanwhile.
	object func(context.Context) (client.Object, error)
}

// reflect creates, updates and deletes copies on the provider, until they are those that the pods of a namespace
// need.
func (m *mirror) reflect(ctx context.Context, name string) error {
	s, v := m.view(name)
	if s == nil || s.there == nil || !s.here.synced(ctx, append(kindsHere(), &corev1.Pod{})...) {
		return nil // when the first lists are complete, an event queues the namespace again
	}
	wanted, err := m.wanted(ctx, s, v)
	if err != nil {
		return err
	}
	needed := !s.there.synced(ctx, &offloadingv1beta1.ShadowPod{})
	if !needed {
		unclaimed, _, err := m.unclaimed(ctx, s)
		if err != nil {
			return err
		}
		needed = len(unclaimed) > 0
	}
	var errs []error
	unneeded := map[thing]*metav1.PartialObjectMetadata{}
	for _, kind := range alongs {
		if !s.there.synced(ctx, metadata(kind)) {
			continue // the first list is not complete, or an older provider gives no rights for this kind
		}
		there, err := s.lists(ctx, kind)
		if err != nil {
			return err
		}
		left := map[string]*metav1.PartialObjectMetadata{}
		for i := range there {
			left[there[i].Name] = &there[i]
		}
		for _, t := range slices.SortedFunc(maps.Keys(wanted), func(a, b thing) int { return strings.Compare(a.name, b.name) }) {
			if t.kind == kind {
				errs = append(errs, m.bring(ctx, s, t, wanted[t], left[t.name]))
				delete(left, t.name)
			}
		}
		for name, o := range left {
			what, err := m.fateOf(ctx, s, kind, o, needed)
			if err == nil && what == goes {
				unneeded[thing{kind, name}] = o
			}
			errs = append(errs, err)
		}
	}
	if len(unneeded) == 0 {
		return errors.Join(errs...)
	}
	// An object may have appeared here after the first call of wanted. Its copy must stay.
	if wanted, err = m.wanted(ctx, s, v); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for t, o := range unneeded {
		if _, is := wanted[t]; !is {
			errs = append(errs, m.takeBack(ctx, s, t.kind, o))
		}
	}
	return errors.Join(errs...)
}

// wanted returns the copies that the pods of a namespace need.
func (m *mirror) wanted(ctx context.Context, s *space, v decide.View) (map[thing]along, error) {
	out := map[thing]along{}
	add := func(kind schema.GroupVersionKind, of, o client.Object) {
		out[thing{kind, o.GetName()}] = along{of, o.GetAnnotations()[peering.AnnotationVersion], func(context.Context) (client.Object, error) { return o, nil }}
	}
	var served corev1.ServiceList
	var slices discoveryv1.EndpointSliceList
	var pods corev1.PodList
	if err := errors.Join(s.here.cache.List(ctx, &served), s.here.cache.List(ctx, &slices), s.here.cache.List(ctx, &pods, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("list the objects in namespace %s: %w", s.name, err)
	}
	for i := range served.Items {
		if o := v.Service(&served.Items[i]); o != nil {
			add(services, &served.Items[i], o)
		}
	}
	for i := range slices.Items {
		of := &slices.Items[i]
		if _, goes := out[thing{services, of.Labels[discoveryv1.LabelServiceName]}]; !goes {
			continue
		}
		if o := v.Endpoints(of); o != nil {
			add(shadows, of, o)
		}
	}
	mentioned := decide.NewMentioned()
	for i := range pods.Items {
		if decide.Unrunnable(&pods.Items[i].Spec) == "" {
			mentioned.Add(&pods.Items[i].Spec)
		}
	}
	for kind, names := range map[schema.GroupVersionKind]map[string]bool{configMaps: mentioned.ConfigMaps, secrets: mentioned.Secrets} {
		for name := range names {
			of := metadata(kind)
			if err := s.here.cache.Get(ctx, client.ObjectKey{Namespace: s.name, Name: name}, of); apierrors.IsNotFound(err) || err == nil && decide.Stays(of, "") {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, s.name, name, err)
			}
			version := string(of.UID) + "/" + of.ResourceVersion
			out[thing{kind, name}] = along{of, version, func(ctx context.Context) (client.Object, error) { return m.content(ctx, v, kind, of, version) }}
		}
	}
	maps.DeleteFunc(s.said, func(t thing, _ refusal) bool {
		_, still := out[t]
		return !still // otherwise s.said would grow without end, if names are used only once, such as those of a Job's Secrets
	})
	return out, nil
}

// content reads a ConfigMap or Secret from the API server, and returns its copy for the provider; nil if the
// object was deleted, or must not be copied.
func (m *mirror) content(ctx context.Context, v decide.View, kind schema.GroupVersionKind, of client.Object, version string) (client.Object, error) {
	key := client.ObjectKeyFromObject(of)
	if kind == configMaps {
		o := &corev1.ConfigMap{}
		if err := m.client.Get(ctx, key, o); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return v.ConfigMap(o, version), nil
	}
	o := &corev1.Secret{}
	if err := m.client.Get(ctx, key, o); err != nil || decide.Stays(o, o.Type) {
		return nil, client.IgnoreNotFound(err)
	}
	return v.Secret(o, version), nil
}

// manager returns the field manager by which this virtual node writes copies. Each virtual node has its own: one
// provider can have two virtual nodes on this cluster, and both may need the same copy.
func (m *mirror) manager() string {
	name := writer + ":" + m.Name
	return name[:min(len(name), 128)] // API servers refuse longer names of field managers
}

// bring creates or updates one copy on the provider. there is the present copy; nil if there is none.
func (m *mirror) bring(ctx context.Context, s *space, t thing, a along, there *metav1.PartialObjectMetadata) error {
	if there != nil && there.Annotations[peering.AnnotationVersion] == a.version && m.told(there) {
		return nil
	}
	if was, refused := s.said[t]; refused && was.version == a.version && time.Since(was.at) < refusedAgain {
		return nil // the provider has refused this version a short time ago
	}
	o, err := a.object(ctx)
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", t.kind.Kind, s.name, t.name, err)
	}
	if o == nil { // the object was deleted and an event will follow, or it is a Secret with a token
		return nil
	}
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	// Empty fields are sent, too, because a key without a value has a meaning in a ConfigMap.
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	err = s.direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(m.manager()), client.ForceOwnership)
	switch {
	case err == nil:
		delete(s.said, t)
		return nil
	case apierrors.IsInvalid(err) && there != nil:
		// The changed field is immutable, such as the type of a Secret.
		if err := s.remove(ctx, t.kind, there); err != nil {
			return err
		}
		return fmt.Errorf("create %s %s again on %s: %w", t.kind.Kind, t.name, m.Provider, err)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err):
		m.complain(ctx, s, t, a, err)
	}
	return fmt.Errorf("write %s %s on %s: %w", t.kind.Kind, t.name, m.Provider, err)
}

// complain records an Event on the object of this cluster, if the provider has refused the copy for another
// reason than before.
func (m *mirror) complain(ctx context.Context, s *space, t thing, a along, why error) {
	message := m.Provider + " does not take it: " + why.Error()
	was := s.said[t]
	s.said[t] = refusal{message: message, version: a.version, at: time.Now()}
	m.queue.AddAfter(client.ObjectKey{Namespace: s.name}, refusedAgain)
	if was.message == message {
		return
	}
	of := a.of
	at := t.kind
	if at == shadows {
		at = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	}
	m.record(ctx, corev1.ObjectReference{
		APIVersion: at.GroupVersion().String(), Kind: at.Kind, Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID(),
	}, peering.ReasonRefused, message)
}

// takeBack deletes a copy that no pod of this virtual node needs any more. If another virtual node of this
// cluster needs the copy, takeBack only removes this node's fields from the list of managed fields.
func (m *mirror) takeBack(ctx context.Context, s *space, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata) error {
	if !managed(o, m.manager()) {
		return nil
	}
	if !slices.ContainsFunc(o.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager != m.manager() && strings.HasPrefix(f.Manager, writer+":")
	}) {
		return s.remove(ctx, kind, o)
	}
	u := &unstructured.Unstructured{} // an apply of an empty object releases all fields of the field manager
	u.SetGroupVersionKind(kind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	u.SetUID(o.UID)
	err := s.direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(m.manager()), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("release %s %s on %s for another node: %w", kind.Kind, o.Name, m.Provider, err)
	}
	return nil
}

// told reports whether this virtual node has written the version in the annotation of a copy. If another virtual
// node has written another version afterwards, the other node owns the annotation.
func (m *mirror) told(o *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(o.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == m.manager() && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:`+peering.AnnotationVersion+`"`)
	})
}

func managed(o *metav1.PartialObjectMetadata, manager string) bool {
	return slices.ContainsFunc(o.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == manager })
}

// remove deletes a copy. It is no error if the copy was deleted or replaced before.
func (s *space) remove(ctx context.Context, kind schema.GroupVersionKind, of client.Object) error {
	o := metadata(kind)
	o.Namespace, o.Name = of.GetNamespace(), of.GetName()
	err := s.direct.Delete(ctx, o, preconditions(of.GetUID()), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s/%s, which nothing needs any more: %w", kind.Kind, o.Namespace, o.Name, err)
	}
	return nil
}
