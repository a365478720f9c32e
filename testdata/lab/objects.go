package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

// object is one of an API server's, and where it is served.
type object struct {
	Resource schema.GroupVersionResource `json:"resource"`
	*unstructured.Unstructured
}

// objects are all of a cluster, by the name that a listing has for them.
type objects map[string]object

// api reads and writes objects of all kinds.
type api struct {
	discovery *discovery.DiscoveryClient
	dynamic   *dynamic.DynamicClient
}

func newAPI(kubeconfig string) (api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return api{}, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1                           // the server's own limits are enough
	config.WarningHandler = rest.NoWarnings{} // old kinds are listed, too
	var a api
	if a.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return api{}, err
	}
	a.dynamic, err = dynamic.NewForConfig(config)
	return a, err
}

// passingKinds are those whose objects come and go by themselves: each Event is deleted
// after an hour, and a CertificateSigningRequest sooner.
func passingKinds() []string { return []string{"events", "certificatesigningrequests"} }

// list reads all objects of all kinds. Nothing is left out if it can't be read: that is an error.
func (a api) list(ctx context.Context) (objects, error) {
	kinds, err := discovery.ServerPreferredResources(a.discovery)
	if err != nil {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	var lists []*unstructured.UnstructuredList
	var resources []schema.GroupVersionResource
	for _, ofGroup := range kinds {
		version, err := schema.ParseGroupVersion(ofGroup.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range ofGroup.APIResources {
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || slices.Contains(passingKinds(), kind.Name) {
				continue // the others are no objects that somebody keeps
			}
			resource, into := version.WithResource(kind.Name), &unstructured.UnstructuredList{}
			lists, resources = append(lists, into), append(resources, resource)
			group.Go(func() error {
				found, err := a.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
				if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
					return nil // its definition was deleted meanwhile
				}
				if err != nil {
					return fmt.Errorf("list %s: %w", resource.GroupResource(), err)
				}
				*into = *found
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := objects{}
	for i, l := range lists {
		for j := range l.Items {
			o := object{resources[i], &l.Items[j]}
			if o.isKubelets() {
				continue
			}
			name := o.listedAs()
			for n := 2; all[name].Unstructured != nil; n++ {
				name = fmt.Sprintf("%s (%d)", o.listedAs(), n)
			}
			all[name] = o
		}
	}
	return all, nil
}

// isKubelets: a kubelet makes its Lease again, up to ten seconds after it has started.
// That of a virtual node has labels.
func (o object) isKubelets() bool {
	return o.GetKind() == "Lease" && o.GetNamespace() == corev1.NamespaceNodeLease && len(o.GetLabels()) == 0
}

// listedAs is what a listing calls an object: kind, namespace and name. Those that a
// controller makes from others, as pods of a Deployment, have another name each time.
func (o object) listedAs() string {
	name := o.GetName()
	if owner := metav1.GetControllerOf(o); owner != nil {
		name = fmt.Sprintf("(of %s %s)", owner.Kind, withoutHash.ReplaceAllString(owner.Name, "-*"))
	}
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.Resource.GroupResource().String() + " " + name
}

// withoutHash is the end of a ReplicaSet's name, which follows from its pods'.
var withoutHash = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)

// pemCertificate is in what Kubernetes keeps for clients. Each start of a cluster has others.
var pemCertificate = regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?`)

// state is what is not as it should be, a line each.
func (o object) state() (lines []string) {
	if o.GetDeletionTimestamp() != nil {
		lines = append(lines, "deleted, and kept by "+strings.Join(append(o.GetFinalizers(), o.finalizersOfSpec()...), ", "))
	}
	if o.GetKind() == "Node" && !o.ready() {
		lines = append(lines, "not ready")
	}
	return lines
}

// lines say how an object is: all that an admin can set, a field a line. The rest is the
// present state, which follows, or a record of what happened.
func (o object) lines() string {
	lines := o.state()
	if metav1.GetControllerOf(o) != nil {
		return strings.Join(lines, "\n") // its owner says how it is
	}
	flatten(o.settings(), "", func(path, value string) {
		lines = append(lines, path+": "+pemCertificate.ReplaceAllString(value, "(certificate)"))
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// settings are what an object is made of again if somebody has changed it.
func (o object) settings() map[string]any {
	content := maps.Clone(o.Object)
	delete(content, "status")
	metadata := map[string]any{}
	for _, field := range metadataSettings() {
		if value, found, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", field); found {
			metadata[field] = value
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, "endpoints.kubernetes.io/last-change-trigger-time")
		metadata["annotations"] = annotations
	}
	content["metadata"] = metadata
	switch o.GetKind() {
	case "Lease": // who holds it renews it
		delete(content, "spec")
	case "ClusterRole":
		if _, aggregated := content["aggregationRule"]; aggregated {
			delete(content, "rules") // follow from other ClusterRoles
		}
	case "Node":
		if spec, found, _ := unstructured.NestedMap(o.Object, "spec"); found {
			spec["taints"] = lastingTaints(spec["taints"])
			content["spec"] = spec
		}
	}
	return content
}

func metadataSettings() []string { return []string{"labels", "annotations", "finalizers"} }

// lastingTaints are those that nobody sets who only looks whether the node is ready.
func lastingTaints(taints any) any {
	list, _ := taints.([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(taint any) bool {
		t, _ := taint.(map[string]any)
		key, _ := t["key"].(string)
		return strings.HasPrefix(key, "node.kubernetes.io/") && key != "node.kubernetes.io/unschedulable"
	})
	if len(list) == 0 {
		return nil
	}
	return list
}

func (o object) finalizersOfSpec() []string {
	if o.GetKind() != "Namespace" {
		return nil
	}
	finalizers, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	return finalizers
}

func (o object) ready() bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		c, _ := condition.(map[string]any)
		return c["type"] == "Ready" && c["status"] == "True"
	})
}

// flatten calls leaf for each value that consists of no others. Empty ones are as good as none.
func flatten(value any, path string, leaf func(path, value string)) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			flatten(v[key], strings.TrimPrefix(path+"."+key, "."), leaf)
		}
	case []any:
		for i, element := range v {
			flatten(element, fmt.Sprintf("%s[%d]", path, i), leaf)
		}
	case nil:
	default:
		leaf(path, strings.TrimSpace(fmt.Sprint(v)))
	}
}

// listing has all objects but those of namespaces that before does not have. The namespace
// stands for them, and those that a finalizer keeps are named. What an object that is new
// consists of does not matter.
func (all objects) listing(section string, before objects) listing {
	list := listing{section: {}}
	for name, o := range all {
		if all.ofNewNamespace(o, before) && len(o.GetFinalizers()) == 0 {
			continue
		}
		list[section][name] = o.lines()
		if _, there := before[name]; !there && before != nil {
			list[section][name] = strings.Join(o.state(), "\n")
		}
	}
	return list
}

func (all objects) ofNewNamespace(o object, before objects) bool {
	if o.GetNamespace() == "" || before == nil {
		return false
	}
	_, there := before["namespaces "+o.GetNamespace()]
	return !there
}

// put makes a changed object what it was, or makes it again if there is none.
func (a api) put(ctx context.Context, was, is object) error {
	settings := was.settings()
	if is.Unstructured == nil {
		again := &unstructured.Unstructured{Object: settings}
		again.SetName(was.GetName())
		again.SetNamespace(was.GetNamespace())
		_, err := a.of(was).Create(ctx, again, metav1.CreateOptions{})
		return err
	}
	// A node writes its state every 2 s: what was listed may be out of date.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := a.of(is).Get(ctx, is.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = a.of(is).Update(ctx, withSettings(now, settings), metav1.UpdateOptions{})
		return err
	})
}

func withSettings(now *unstructured.Unstructured, settings map[string]any) *unstructured.Unstructured {
	changed := now.DeepCopy()
	for field := range changed.Object {
		if field != "metadata" && field != "status" {
			delete(changed.Object, field)
		}
	}
	metadata, _ := changed.Object["metadata"].(map[string]any)
	for _, field := range metadataSettings() {
		delete(metadata, field)
	}
	for field, value := range settings {
		if field == "metadata" {
			maps.Copy(metadata, value.(map[string]any))
		} else {
			changed.Object[field] = value
		}
	}
	return changed
}

func (a api) of(o object) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return a.dynamic.Resource(o.Resource)
	}
	return a.dynamic.Resource(o.Resource).Namespace(o.GetNamespace())
}

// remove deletes an object, and not another one that has its name meanwhile.
func (a api) remove(ctx context.Context, o object) error {
	uid, background := o.GetUID(), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
	if o.GetKind() == "Pod" {
		options.GracePeriodSeconds = new(int64(1))
	}
	err := a.of(o).Delete(ctx, o.GetName(), options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// removable tells whether an object goes only if somebody deletes it: others follow from
// them.
func (o object) removable() bool {
	switch {
	case o.GetDeletionTimestamp() != nil, len(o.GetOwnerReferences()) > 0:
		return false
	case o.GetKind() == "APIService": // of a definition
		return o.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] == ""
	case o.GetKind() == "IPAddress": // of a Service
		return false
	}
	return true
}

// clean makes one step towards what was there before, and tells what is otherwise: it deletes what is new, in an
// order in which those who have finalizers can still serve them, and puts back what was
// changed or is missing. impatient does not wait for them.
func (a api) clean(ctx context.Context, before objects, impatient bool) (objects, error) {
	now, err := a.list(ctx)
	if err != nil {
		return nil, err
	}
	var instances, webhooks, namespaced, namespaces, others, definitions []object
	defined := map[schema.GroupResource]bool{}
	for _, o := range now {
		if o.GetKind() == "CustomResourceDefinition" {
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			defined[schema.GroupResource{Group: group, Resource: plural}] = true
		}
	}
	going := 0 // instances that somebody has to let go
	for name, o := range now {
		was, there := before[name]
		switch {
		case there && o.lines() != was.lines():
			if o.GetDeletionTimestamp() == nil && metav1.GetControllerOf(o) == nil {
				if err := a.put(ctx, was, o); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					return nil, fmt.Errorf("put back %s: %w", name, err)
				}
			}
		case there:
		case defined[o.Resource.GroupResource()]:
			if o.GetDeletionTimestamp() != nil || len(o.GetFinalizers()) > 0 {
				going++
			}
			instances = append(instances, o)
		case strings.HasSuffix(o.GetKind(), "WebhookConfiguration"):
			webhooks = append(webhooks, o)
		case o.GetKind() == "Namespace":
			namespaces = append(namespaces, o)
		case o.GetKind() == "CustomResourceDefinition":
			definitions = append(definitions, o)
		case o.GetNamespace() == "":
			others = append(others, o)
		case !now.ofNewNamespace(o, before):
			namespaced = append(namespaced, o)
		}
	}
	for name, was := range before {
		_, there := now[name]
		if there || was.GetKind() == "Lease" || metav1.GetControllerOf(was) != nil {
			continue // or others make it again
		}
		if err := a.put(ctx, was, object{}); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("make %s again: %w", name, err)
		}
	}
	// An operator that is to be asked runs in a namespace, with rights that are others.
	remove := instances
	if going == 0 || impatient {
		remove = slices.Concat(remove, webhooks, namespaced, namespaces)
		if len(namespaces) == 0 || impatient {
			remove = slices.Concat(remove, others, definitions)
		}
	}
	for _, o := range remove {
		if !o.removable() {
			continue
		}
		if err := a.remove(ctx, o); err != nil && !impatient {
			// A webhook may refuse it as long as there is one.
			if len(webhooks) == 0 {
				return nil, fmt.Errorf("delete %s: %w", o.listedAs(), err)
			}
		}
	}
	return now, nil
}

// MarshalJSON is how a mark keeps objects.
func (o object) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource schema.GroupVersionResource `json:"resource"`
		Object   map[string]any              `json:"object"`
	}{o.Resource, o.Object})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *object) UnmarshalJSON(text []byte) error {
	var kept struct {
		Resource schema.GroupVersionResource `json:"resource"`
		Object   json.RawMessage             `json:"object"`
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		return err
	}
	o.Resource, o.Unstructured = kept.Resource, &unstructured.Unstructured{}
	return o.Unstructured.UnmarshalJSON(kept.Object) // numbers are what a client would have read
}
