package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/flows/policy"
)

// policyMakers are programs with their own policies, by an API group that they install. The policies of
// Cilium are read, see readCilium.
var policyMakers = map[string]string{
	"crd.projectcalico.org": "Calico", "projectcalico.org": "Calico", "crd.antrea.io": "Antrea",
	"policy.networking.k8s.io": "Kubernetes' admin network policies", "k8s.ovn.org": "OVN-Kubernetes",
}

// ovnPolicies are the kinds of k8s.ovn.org whose objects can keep a pod and a peer from reaching each other.
// EgressQoS and NetworkQoS only mark packets, or limit their rate.
var ovnPolicies = []string{"EgressFirewall", "EgressIP", "EgressService", "AdminPolicyBasedExternalRoute"}

const cilium = "cilium.io"

// Policies reads which pods can't receive or send all packets, by which policies, and which of these policies
// name addresses. Nothing is watched, because few commands need this.
func (c *Cluster) Policies(ctx context.Context) (policy.Facts, error) {
	var f policy.Facts
	err := c.readPolicies(ctx, &f)
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	if err != nil {
		f.Unknown = cmp.Or(strings.TrimSpace(err.Error()), "no answer")
	}
	return f, nil
}

func (c *Cluster) readPolicies(ctx context.Context, f *policy.Facts) error {
	groups, err := c.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return fmt.Errorf("list API groups: %w", err)
	}
	hasCilium := false
	for _, g := range groups.Groups {
		hasCilium = hasCilium || g.Name == cilium
		if maker := policyMakers[g.Name]; maker != "" && !slices.Contains(f.Others, maker) && c.hasPolicies(ctx, g.Versions) {
			f.Others = append(f.Others, maker)
		}
	}
	slices.Sort(f.Others)
	var namespaces []string // of pods that policies may select
	err = eachPage(ctx, c.client, &networkingv1.NetworkPolicyList{}, func(list *networkingv1.NetworkPolicyList) {
		for i := range list.Items {
			p := &list.Items[i]
			isolates := policy.Isolates(policy.Ingress, p) || policy.Isolates(policy.Egress, p)
			if isolates || policy.NamesRanges(p) {
				f.Policies = append(f.Policies, networkingv1.NetworkPolicy{ObjectMeta: kinds.Meta(p), Spec: p.Spec})
			}
			if isolates {
				namespaces = append(namespaces, p.Namespace)
			}
		}
	})
	if err != nil {
		return err
	}
	labels := map[string]map[string]string{}
	if hasCilium {
		if err := c.readCilium(ctx, f); err != nil {
			return err
		}
	}
	if len(f.Cilium) > 0 { // selectors may select by labels of namespaces
		err = eachPage(ctx, c.client, &corev1.NamespaceList{}, func(list *corev1.NamespaceList) {
			for i := range list.Items {
				labels[list.Items[i].Name] = list.Items[i].Labels
			}
		})
		if err != nil {
			return err
		}
	}
	for _, p := range f.Cilium {
		if p.Namespace == "" {
			namespaces = slices.Collect(maps.Keys(labels))
			break
		}
		namespaces = append(namespaces, p.Namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		err := eachPage(ctx, c.client, &corev1.PodList{}, func(list *corev1.PodList) {
			for i := range list.Items {
				// Policies have no effect on pods in their node's network.
				if p := &list.Items[i]; !p.Spec.HostNetwork && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
					f.Count(policy.Pod{Namespace: p.Namespace, ServiceAccount: p.Spec.ServiceAccountName, Labels: p.Labels, NamespaceLabels: labels[p.Namespace]})
				}
			}
		}, client.InNamespace(namespace))
		if err != nil {
			return err
		}
	}
	return nil
}

// readCilium reads Cilium's policies, the groups of ranges that they name, and Cilium's mode. If this user
// may not read the groups or the mode, policies with a group are not judged, or the mode is unknown.
func (c *Cluster) readCilium(ctx context.Context, f *policy.Facts) error {
	for _, kind := range []string{"CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"} {
		var broken error
		err := c.eachOfCilium(ctx, kind, func(o *unstructured.Unstructured) {
			text, err := o.MarshalJSON()
			if err == nil {
				var p policy.Cilium
				if p, err = policy.ParseCilium(text); err == nil {
					f.Cilium = append(f.Cilium, p)
				}
			}
			broken = errors.Join(broken, err)
		})
		if err := errors.Join(err, broken); err != nil {
			return err
		}
	}
	f.CIDRGroups = map[string][]netip.Prefix{}
	err := c.eachOfCilium(ctx, "CiliumCIDRGroup", func(o *unstructured.Unstructured) {
		ranges, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "externalCIDRs")
		f.CIDRGroups[o.GetName()] = policy.Prefixes(ranges)
	})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var settings corev1.ConfigMap
	err = c.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cilium-config"}, &settings)
	if f.CiliumMode = settings.Data["enable-policy"]; apierrors.IsForbidden(err) {
		f.CiliumMode = policy.HiddenMode
		return nil
	}
	return client.IgnoreNotFound(err)
}

// eachOfCilium calls do for all objects of one of Cilium's kinds; none if Cilium does not have the kind.
func (c *Cluster) eachOfCilium(ctx context.Context, kind string, do func(*unstructured.Unstructured)) error {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: cilium, Version: "v2", Kind: kind + "List"})
	return client.IgnoreNotFound(eachPage(ctx, c.client, &list, func(list *unstructured.UnstructuredList) {
		for i := range list.Items {
			do(&list.Items[i])
		}
	}))
}

// hasPolicies reports whether there is a policy of one of the kinds of an API group. It also returns true if
// this user may not list them. Each version of a group may have other kinds: policy.networking.k8s.io has
// ClusterNetworkPolicy only in v1alpha2, and AdminNetworkPolicy only in v1alpha1.
func (c *Cluster) hasPolicies(ctx context.Context, versions []metav1.GroupVersionForDiscovery) bool {
	return slices.ContainsFunc(versions, func(v metav1.GroupVersionForDiscovery) bool { return c.hasPoliciesIn(ctx, v.GroupVersion) })
}

func (c *Cluster) hasPoliciesIn(ctx context.Context, version string) bool {
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, version)
	if err != nil {
		return true
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return true
	}
	for _, r := range list.APIResources {
		isPolicy := strings.HasSuffix(r.Kind, "NetworkPolicy") && !strings.HasPrefix(r.Kind, "Staged") || slices.Contains(ovnPolicies, r.Kind)
		if !isPolicy || strings.Contains(r.Name, "/") {
			continue
		}
		found, err := c.metadata.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || len(found.Items) > 0 {
			return true
		}
	}
	return false
}

// eachPage lists in pages, so that each request costs little on the API server of a large cluster.
func eachPage[L client.ObjectList](ctx context.Context, c client.Reader, list L, do func(L), options ...client.ListOption) error {
	next, empty := "", list
	for {
		list := empty.DeepCopyObject().(L) // a list that already has objects would be merged with the next page
		if err := c.List(ctx, list, append(slices.Clone(options), client.Limit(inspectPage), client.Continue(next))...); err != nil {
			return err
		}
		do(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
