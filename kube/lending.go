package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lendingKinds are what peerings consist of besides the network.
func (c *Cluster) lendingKinds() []*store {
	s := func(kind string, newList func() client.ObjectList, options ...client.ListOption) *store {
		st := newStore(kind, newList, c.notify, options...)
		st.narrow, st.lending = c.tenantNamespace, true
		return st
	}
	optional := func(st *store, keep func(client.Object) client.Object) *store {
		st.optional, st.minor, st.keep = true, true, keep
		return st
	}
	here := client.InNamespace(c.namespace)
	keys := optional(s("Secret", func() client.ObjectList { return &corev1.SecretList{} }, here, client.MatchingFields{"metadata.name": peering.KeysName}), nil)
	keys.narrow = nil
	secrets := s("Secret", func() client.ObjectList { return &corev1.SecretList{} }, client.HasLabels{render.LabelRemoteCluster})
	secrets.keep = keepSecret
	return []*store{
		keys, secrets,
		s("Tenant", func() client.ObjectList { return &authv1beta1.TenantList{} }),
		s("Identity", func() client.ObjectList { return &authv1beta1.IdentityList{} }),
		s("ResourceSlice", func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }),
		optional(s("Renew", func() client.ObjectList { return &authv1beta1.RenewList{} }), nil),
		s("VirtualNode", func() client.ObjectList { return &offloadingv1beta1.VirtualNodeList{} }),
		s("NamespaceMap", func() client.ObjectList { return &offloadingv1beta1.NamespaceMapList{} }),
		optional(s("NamespaceOffloading", func() client.ObjectList { return &offloadingv1beta1.NamespaceOffloadingList{} }), nil),
		optional(s("ForeignCluster", func() client.ObjectList { return &corev1beta1.ForeignClusterList{} }), nil),
		optional(s("Node", func() client.ObjectList { return &corev1.NodeList{} }, client.HasLabels{peering.LabelNodeType}), keepMember),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.HasLabels{peering.LabelOffloadedPod}), keepOffloaded),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.MatchingLabels{peering.LabelKubelet: peering.KubeletComponent}), keepPod),
		optional(s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, client.MatchingLabels{peering.LabelKubelet: peering.KubeletComponent}), nil),
		optional(s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, here, client.MatchingLabels{render.LabelPartOf: "liqo"}), nil),
		optional(s("IP", func() client.ObjectList { return &ipamv1alpha1.IPList{} }, here, client.MatchingFields{"metadata.name": peering.ProxyIPName}), nil),
	}
}

// collectLending adds what one store of these kinds has.
func (c *Cluster) collectLending(f *flows.ClusterFacts, s *store) {
	l := f.Lending
	objects, err := s.snapshot()
	switch {
	case apierrors.IsNotFound(err):
		l.Missing = append(l.Missing, c.resourceOf(s))
	case err != nil && !s.minor:
		f.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Secret:
			if o.Name == peering.KeysName && o.Namespace == c.namespace {
				c.request(l, o, f.ID)
			} else {
				l.Secrets = append(l.Secrets, *o)
			}
		case *authv1beta1.Tenant:
			l.Tenants = append(l.Tenants, *o)
		case *authv1beta1.Identity:
			l.Identities = append(l.Identities, *o)
		case *authv1beta1.Renew:
			l.Renews = append(l.Renews, *o)
		case *authv1beta1.ResourceSlice:
			l.Slices = append(l.Slices, *o)
		case *offloadingv1beta1.VirtualNode:
			l.Nodes = append(l.Nodes, *o)
		case *offloadingv1beta1.NamespaceMap:
			l.Maps = append(l.Maps, *o)
		case *offloadingv1beta1.NamespaceOffloading:
			l.Offloadings = append(l.Offloadings, *o)
		case *corev1beta1.ForeignCluster:
			l.Clusters = append(l.Clusters, *o)
		case *corev1.Node:
			l.Members = append(l.Members, *o)
		case *corev1.Pod:
			c.collectPod(l, o)
		case *appsv1.Deployment:
			if o.Labels[peering.LabelKubelet] != "" {
				l.Kubelets = append(l.Kubelets, *o)
			} else {
				l.Components = append(l.Components, *o)
			}
		case *ipamv1alpha1.IP:
			l.Proxies = append(l.Proxies, *o)
		}
	}
}

// request makes of the cluster's key what it shows to others; the key itself goes no
// further.
func (c *Cluster) request(l *lending.Facts, s *corev1.Secret, id render.ClusterID) {
	r, err := peering.NewRequest(s.Data[render.SecretPrivateKey], id, rand.Reader)
	if err != nil {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s: %v", s.Namespace, s.Name, err)
		return
	}
	l.Request = &r
}

// collectPod adds a pod of a virtual node: one that runs on it, or its own.
func (c *Cluster) collectPod(l *lending.Facts, p *corev1.Pod) {
	if p.Labels[peering.LabelKubelet] == "" {
		l.Pods = append(l.Pods, *p)
		return
	}
	if facts := podFacts(p); !facts.Ready {
		l.Waiting[p.Namespace+"/"+p.Labels[peering.LabelVirtualNode]] = "pod " + p.Name + ": " + cmp.Or(facts.Waiting, "it is not ready")
	}
}

// finishLending adds what several objects tell together.
func (c *Cluster) finishLending(f *flows.ClusterFacts) {
	if l := f.Lending; l.Request == nil && l.RequestProblem == "" {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s does not exist, or may not be read", c.namespace, peering.KeysName)
	}
}

// keepSecret leaves out what nobody but the cluster's own programs needs: the private
// keys in kubeconfigs.
func keepSecret(o client.Object) client.Object {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return nil
	}
	out := &corev1.Secret{ObjectMeta: kept(s), Data: map[string][]byte{}}
	out.Annotations, out.Finalizers, out.OwnerReferences = s.Annotations, s.Finalizers, s.OwnerReferences
	out.ManagedFields, out.CreationTimestamp = s.ManagedFields, s.CreationTimestamp
	for key, value := range s.Data {
		switch key {
		case peering.KeyNonce, peering.KeySignedNonce, peering.KeyCSR, peering.KeyCertificate:
			out.Data[key] = value
		default:
			out.Data[key] = nil
		}
	}
	return out
}

// keepMember leaves out the images, and the times that change with each heartbeat.
func keepMember(o client.Object) client.Object {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	out := &corev1.Node{ObjectMeta: kept(n), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.ManagedFields = ours(n.ManagedFields)
	out.Status.Allocatable = n.Status.Allocatable
	for _, cond := range n.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{
			Type: cond.Type, Status: cond.Status, Reason: cond.Reason, Message: cond.Message, LastTransitionTime: cond.LastTransitionTime,
		})
	}
	return out
}

// ours are the entries of this program: those of the others say when they wrote, which
// changes with each heartbeat.
func ours(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != render.FieldManager })
}

func keepOffloaded(o client.Object) client.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: kept(p), Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: corev1.PodStatus{Phase: p.Status.Phase}}
	out.OwnerReferences = p.OwnerReferences
	return out
}

// evict asks Kubernetes to end a pod, as its PodDisruptionBudgets allow.
func (c *Cluster) evict(ctx context.Context, o client.Object, seen client.Preconditions) error {
	return c.client.SubResource("eviction").Create(ctx, o, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: seen.UID}},
	})
}
