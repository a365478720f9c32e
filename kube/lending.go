package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lendingKinds returns the stores for the other objects of peerings, besides the network.
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
	shown := []*store{
		s("Tenant", func() client.ObjectList { return &authv1beta1.TenantList{} }),
		s("Identity", func() client.ObjectList { return &authv1beta1.IdentityList{} }),
		s("ResourceSlice", func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }),
		s("VirtualNode", func() client.ObjectList { return &offloadingv1beta1.VirtualNodeList{} }),
		s("NamespaceMap", func() client.ObjectList { return &offloadingv1beta1.NamespaceMapList{} }),
		optional(s("ForeignCluster", func() client.ObjectList { return &corev1beta1.ForeignClusterList{} }), nil),
		optional(s("Node", func() client.ObjectList { return &corev1.NodeList{} }, client.HasLabels{peering.LabelNodeType}), keepMember),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.HasLabels{peering.LabelOffloadedPod}), keepOffloaded),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.HasLabels{peering.LabelPodOrigin}), keepOffloaded),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.MatchingLabels{peering.LabelKubelet: peering.KubeletComponent}), keepPod),
	}
	if c.options.Lending == LendingShown {
		return lenient(shown)
	}
	all := append(shown,
		keys,
		optional(s("Renew", func() client.ObjectList { return &authv1beta1.RenewList{} }), nil),
		optional(s("NamespaceOffloading", func() client.ObjectList { return &offloadingv1beta1.NamespaceOffloadingList{} }), nil),
		optional(s("Node", func() client.ObjectList { return &corev1.NodeList{} }), keepHost),
		optional(s("ClusterRoleBinding", func() client.ObjectList { return &rbacv1.ClusterRoleBindingList{} }), keepSubjects),
		optional(s("RoleBinding", func() client.ObjectList { return &rbacv1.RoleBindingList{} }), keepSubjects),
		optional(s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, client.MatchingLabels{peering.LabelKubelet: peering.KubeletComponent}), nil),
		optional(s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, here, client.MatchingLabels{wire.LabelPartOf: "liqo"}), nil),
		optional(s("IP", func() client.ObjectList { return &ipamv1alpha1.IPList{} }, here, client.MatchingFields{"metadata.name": peering.ProxyIPName}), nil),
	)
	if c.options.Lending == LendingOffered {
		return lenient(all)
	}
	return all
}

// lenient makes the stores optional and minor: their kinds may be forbidden, and may fail.
func lenient(all []*store) []*store {
	for _, s := range all {
		s.optional, s.minor = true, true
	}
	return all
}

// collectLending adds the objects of one store of lending kinds.
func (c *Cluster) collectLending(f *flows.ClusterFacts, s *store) {
	l := f.Lending
	objects, err := s.snapshot()
	switch {
	case apierrors.IsNotFound(err):
		l.Missing = append(l.Missing, c.resourceOf(s))
	case err != nil && !s.minor:
		f.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
		f.Problem.Hint = strings.Replace(f.Problem.Hint, "liqo-tui rbac", "liqo-tui rbac --peering", 1)
	}
	// Other kinds that are narrowed to a tenant namespace are complete.
	if s.isHidden() || s.kind == "Pod" && s.isNarrowed() {
		if l.Hidden == nil {
			l.Hidden = map[string]bool{}
		}
		l.Hidden[s.kind] = true
	}
	for _, o := range objects {
		secret, isSecret := o.(*corev1.Secret)
		pod, isPod := o.(*corev1.Pod)
		switch {
		case isSecret && secret.Name == peering.KeysName && secret.Namespace == c.namespace:
			c.request(l, secret, f.ID)
		case isPod && pod.Labels[peering.LabelKubelet] != "":
			if facts := collect.Pod(pod); !facts.Ready {
				l.Waiting[pod.Namespace+"/"+pod.Labels[peering.LabelVirtualNode]] = "pod " + pod.Name + ": " + cmp.Or(facts.Waiting, "it is not ready")
			}
		default:
			l.Add(o)
		}
	}
}

// request makes the part of the cluster's key that other clusters may see. The key itself is not
// kept.
func (c *Cluster) request(l *lending.Facts, s *corev1.Secret, id wire.ClusterID) {
	r, err := peering.NewRequest(s.Data[wire.SecretPrivateKey], id, rand.Reader)
	if err != nil {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s: %v", s.Namespace, s.Name, err)
		return
	}
	l.Request = &r
}

// tenantSecrets mirrors the Secrets of peerings, with one store for each tenant namespace. So a
// user who peers two clusters needs no right to list Secrets in other namespaces.
type tenantSecrets struct {
	mu sync.Mutex
	of map[string]*store // by namespace
}

// secretsIn returns the mirrors for the tenant namespaces in all, and starts the new ones.
func (c *Cluster) secretsIn(all []corev1.Namespace) (stores []*store) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	for i := range all {
		ns := &all[i]
		if ns.Labels[wire.LabelTenantNamespace] == "" {
			continue
		}
		s := c.secrets.of[ns.Name]
		if s == nil {
			s = newStore("Secret", func() client.ObjectList { return &corev1.SecretList{} }, c.notify, client.InNamespace(ns.Name), client.HasLabels{wire.LabelRemoteCluster})
			s.keep, s.lending, s.optional, s.minor = keepSecret, true, true, c.options.Lending == LendingOffered
			// A peering user may read only this Secret. The others are certificates, which our operator keeps.
			s.narrow = func() (client.ListOption, bool) {
				return client.MatchingFields{"metadata.name": peering.NonceName}, true
			}
			if c.secrets.of == nil {
				c.secrets.of = map[string]*store{}
			}
			c.secrets.of[ns.Name] = s
			go s.run(c.ctx, c.client)
		}
		stores = append(stores, s)
	}
	return stores
}

// mirrors are all stores of a kind.
func (c *Cluster) mirrors(kind string) []*store {
	all := slices.Clone(c.kinds)
	c.secrets.mu.Lock()
	all = slices.AppendSeq(all, maps.Values(c.secrets.of))
	c.secrets.mu.Unlock()
	return slices.DeleteFunc(all, func(s *store) bool { return s.kind != kind })
}

func (c *Cluster) startLending() {
	c.lend.Do(func() {
		for _, s := range c.watched(true) {
			go s.run(c.ctx, c.client)
		}
	})
}

// observeLending adds the objects of lending, if the options ask for them. If they are only to be shown, it
// skips clusters that can't have any: there are such objects only with Liqo, or if our operator has a role in
// lending.
func (c *Cluster) observeLending(ctx context.Context, f *flows.ClusterFacts) error {
	if c.options.Lending == LendingIgnored || c.options.Lending != LendingPlanned && !lends(f) {
		return nil
	}
	c.startLending()
	all := c.watched(true)
	var secrets []*store
	if c.options.Lending != LendingShown {
		secrets = c.secretsIn(f.Namespaces)
		all = append(all, secrets...)
	}
	if err := tried(ctx, all); err != nil {
		return err
	}
	f.Lending = &lending.Facts{Waiting: map[string]string{}}
	if c.tenant() != "" { // a user who sees one tenant namespace does not know the others
		f.Lending.Hidden = map[string]bool{"Namespace": true}
	}
	for _, s := range all {
		c.collectLending(f, s)
	}
	for _, s := range secrets {
		if s.isHidden() {
			f.Lending.Unread = append(f.Lending.Unread, s.namespace())
		}
	}
	if l := f.Lending; l.Request == nil && l.RequestProblem == "" {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s does not exist, or may not be read", c.namespace, peering.KeysName)
	}
	return nil
}

func lends(f *flows.ClusterFacts) bool {
	role := f.Operator.Peering
	return f.Software == flows.Liqo || f.Software == flows.Operator && (role.Consumes() || role.Provides())
}

// keepSecret leaves out the private keys in kubeconfigs: only the cluster's own programs need them.
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

// keepHost keeps a real node's resources for pods, its addresses and whether it is ready.
func keepHost(o client.Object) client.Object {
	n, ok := o.(*corev1.Node)
	if !ok || n.Labels[peering.LabelNodeType] != "" {
		return nil
	}
	out := &corev1.Node{ObjectMeta: kept(n), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.Status = corev1.NodeStatus{Addresses: n.Status.Addresses, Allocatable: n.Status.Allocatable}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady { // without the time, which is renewed every few minutes
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

// keepSubjects leaves out the bindings of programs.
func keepSubjects(o client.Object) client.Object {
	people := func(all []rbacv1.Subject) bool {
		return slices.ContainsFunc(all, func(s rbacv1.Subject) bool { return s.Kind != rbacv1.ServiceAccountKind })
	}
	switch b := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		if people(b.Subjects) {
			return &rbacv1.ClusterRoleBinding{ObjectMeta: kept(b), RoleRef: b.RoleRef, Subjects: b.Subjects}
		}
	case *rbacv1.RoleBinding:
		if people(b.Subjects) {
			return &rbacv1.RoleBinding{ObjectMeta: kept(b), RoleRef: b.RoleRef, Subjects: b.Subjects}
		}
	}
	return nil
}

// keepMember leaves out the images, and the times that change with each heartbeat.
func keepMember(o client.Object) client.Object {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	out := &corev1.Node{ObjectMeta: kept(n), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.ManagedFields = ours(n.ManagedFields)
	out.Status.Allocatable, out.Status.Capacity = n.Status.Allocatable, n.Status.Capacity
	for _, cond := range n.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{
			Type: cond.Type, Status: cond.Status, Reason: cond.Reason, Message: cond.Message, LastTransitionTime: cond.LastTransitionTime,
		})
	}
	return out
}

// ours returns this program's entries. Other programs' entries have the time of their last write,
// which changes with each heartbeat.
func ours(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != wire.FieldManager })
}

func keepOffloaded(o client.Object) client.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: kept(p), Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: corev1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message,
	}}
	out.OwnerReferences = p.OwnerReferences
	for _, container := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: container.Resources.Requests}})
	}
	return out
}

// evict asks Kubernetes to end a pod, as its PodDisruptionBudgets allow.
func (c *Cluster) evict(ctx context.Context, o client.Object, seen client.Preconditions) error {
	return c.client.SubResource("eviction").Create(ctx, o, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: seen.UID}},
	})
}
