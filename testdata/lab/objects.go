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

// object is an object of an API server, with the resource that serves it.
type object struct {
	Resource schema.GroupVersionResource `json:"resource"`
	*unstructured.Unstructured
}

// objects are all objects of a cluster, by their names in a listing.
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
	config.WarningHandler = rest.NoWarnings{} // deprecated kinds are listed as well
	var a api
	if a.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return api{}, err
	}
	a.dynamic, err = dynamic.NewForConfig(config)
	return a, err
}

// passingKinds returns the kinds whose objects come and go by themselves: Events are deleted after an hour,
// CertificateSigningRequests earlier.
func passingKinds() []string { return []string{"events", "certificatesigningrequests"} }

// list reads all objects of all kinds. If a kind can't be read, that is an error.
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
				continue // objects of other kinds can't be listed and deleted
			}
			resource, into := version.WithResource(kind.Name), &unstructured.UnstructuredList{}
			lists, resources = append(lists, into), append(resources, resource)
			group.Go(func() error {
				found, err := a.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
				if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
					return nil // its CRD was deleted meanwhile
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

// isKubelets reports whether the object is the Lease of a kubelet. The kubelet may create it up to ten
// seconds after its start. A Lease of a virtual node has labels.
func (o object) isKubelets() bool {
	return o.GetKind() == "Lease" && o.GetNamespace() == corev1.NamespaceNodeLease && len(o.GetLabels()) == 0
}

// listedAs returns an object's name in a listing: kind, namespace and name. If a controller makes an object
// from another one, such as a pod of a Deployment, the random part of its name is left out.
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

// withoutHash matches the end of a ReplicaSet's name, which is a hash of its pods' template.
var withoutHash = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)

// pemCertificate matches certificates in the objects that Kubernetes keeps for clients. A cluster has other
// certificates after each start.
var pemCertificate = regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?`)

// state lists the problems of an object, one line each.
func (o object) state() (lines []string) {
	if o.GetDeletionTimestamp() != nil {
		lines = append(lines, "deleted, and kept by "+strings.Join(append(o.GetFinalizers(), o.finalizersOfSpec()...), ", "))
	}
	if o.GetKind() == "Node" && !o.ready() {
		lines = append(lines, "not ready")
	}
	return lines
}

// lines describes an object: all fields that an admin can set, one in each line. Other fields are the present
// state, or a record of the past.
func (o object) lines() string {
	lines := o.state()
	if metav1.GetControllerOf(o) != nil {
		return strings.Join(lines, "\n") // its owner determines the rest
	}
	flatten(o.settings(), "", func(path, value string) {
		lines = append(lines, path+": "+pemCertificate.ReplaceAllString(value, "(certificate)"))
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// settings returns the fields from which a changed object is restored.
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
	case "Lease": // its holder renews it
		delete(content, "spec")
	case "ClusterRole":
		if _, aggregated := content["aggregationRule"]; aggregated {
			delete(content, "rules") // the rules follow from other ClusterRoles
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

// lastingTaints leaves out the taints that follow from the node's readiness.
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

// flatten calls leaf for each value without parts. Empty values count as missing.
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

// listing lists all objects. If a namespace is not in before, it lists only the namespace and the objects
// that a finalizer keeps. It lists new objects without their content.
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

// put restores a changed object, or creates it again if it is missing.
func (a api) put(ctx context.Context, was, is object) error {
	settings := was.settings()
	if is.Unstructured == nil {
		again := &unstructured.Unstructured{Object: settings}
		again.SetName(was.GetName())
		again.SetNamespace(was.GetNamespace())
		_, err := a.of(was).Create(ctx, again, metav1.CreateOptions{})
		return err
	}
	// A node writes its state every 2 s, so the listed version may be out of date.
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

// remove deletes an object, but not a newer object with the same name.
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

// removable reports whether an object disappears only if somebody deletes it. Other objects disappear
// together with such an object.
func (o object) removable() bool {
	switch {
	case o.GetDeletionTimestamp() != nil, len(o.GetOwnerReferences()) > 0:
		return false
	case o.GetKind() == "APIService": // it follows from a CRD
		return o.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] == ""
	case o.GetKind() == "IPAddress": // it follows from a Service
		return false
	}
	return true
}

// clean makes one step towards the objects before, and returns the objects that still differ. It deletes new
// objects, in an order in which the programs that own finalizers can still remove these, and restores changed
// or missing objects. If impatient is set, it does not wait for these programs.
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
	going := 0 // objects whose finalizers another program has to remove
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
			continue // or controllers would make it again
		}
		if err := a.put(ctx, was, object{}); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("make %s again: %w", name, err)
		}
	}
	// An operator that has to remove finalizers runs in a namespace, and needs rights from other objects.
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
			// A webhook may refuse the deletion as long as the webhook exists.
			if len(webhooks) == 0 {
				return nil, fmt.Errorf("delete %s: %w", o.listedAs(), err)
			}
		}
	}
	return now, nil
}

// MarshalJSON returns an object in the form of a mark.
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
	return o.Unstructured.UnmarshalJSON(kept.Object) // with numbers as for clients
}
