package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/flows/policy"
)

// policyMakers have policies of their own besides Kubernetes', by the API group that
// shows that they are there.
var policyMakers = map[string]string{
	"crd.projectcalico.org": "Calico", "projectcalico.org": "Calico", "cilium.io": "Cilium", "crd.antrea.io": "Antrea",
	"policy.networking.k8s.io": "Kubernetes' admin network policies", "k8s.ovn.org": "OVN-Kubernetes",
}

// Policies reads which pods are isolated from incoming packets, by which NetworkPolicies, and which
// of these policies name addresses. Only few commands need it, so nothing is watched.
func (c *Cluster) Policies(ctx context.Context) (policy.Facts, error) {
	var f policy.Facts
	groups, err := c.discovery.ServerGroupsWithContext(ctx)
	if err == nil {
		for _, g := range groups.Groups {
			if maker := policyMakers[g.Name]; maker != "" && !slices.Contains(f.Others, maker) {
				f.Others = append(f.Others, maker)
			}
		}
		slices.Sort(f.Others)
	}
	var namespaces []string
	err = eachPage(ctx, c.client, &networkingv1.NetworkPolicyList{}, func(list *networkingv1.NetworkPolicyList) {
		for i := range list.Items {
			p := &list.Items[i]
			if policy.Isolates(p) || policy.NamesRanges(p) {
				f.Policies = append(f.Policies, networkingv1.NetworkPolicy{ObjectMeta: kinds.Meta(p), Spec: p.Spec})
			}
			if policy.Isolates(p) {
				namespaces = append(namespaces, p.Namespace)
			}
		}
	})
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		if err != nil {
			break
		}
		err = eachPage(ctx, c.client, &corev1.PodList{}, func(list *corev1.PodList) {
			for i := range list.Items {
				// Pods in their node's network are not subject to policies.
				if p := &list.Items[i]; !p.Spec.HostNetwork && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
					f.Count(p.Namespace, p.Labels)
				}
			}
		}, client.InNamespace(namespace))
	}
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	if err != nil {
		f.Unknown = cmp.Or(strings.TrimSpace(err.Error()), "no answer")
	}
	return f, nil
}

// eachPage lists in pages, so that each request costs the API server of a large cluster little.
func eachPage[L client.ObjectList](ctx context.Context, c client.Reader, list L, do func(L), options ...client.ListOption) error {
	next := ""
	for {
		if err := c.List(ctx, list, append(slices.Clone(options), client.Limit(inspectPage), client.Continue(next))...); err != nil {
			return err
		}
		do(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
