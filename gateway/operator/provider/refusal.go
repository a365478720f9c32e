package provider

import (
	"cmp"
	"errors"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// inputs are the facts for the decision about a Tenant.
type inputs struct {
	tenant    *authv1beta1.Tenant
	namespace *corev1.Namespace // nil if no admin has labelled it for a peer
	home      wire.ClusterID
	all       []authv1beta1.Tenant
	nonces    []corev1.Secret // in the namespace of the Tenant
	// stored is the Secret with the earlier certificate; nil if there is none.
	stored *corev1.Secret
	// strangers maps users and groups to the binding that gives them rights on this cluster, except bindings
	// that this operator has made.
	strangers map[string]string
	// users maps the users of other consumers' slices to their consumers.
	users map[string]wire.ClusterID
}

func (in *inputs) id() wire.ClusterID { return wire.ClusterID(in.tenant.Spec.ClusterID) }

func (in *inputs) certified() peering.Certified { return peering.OfTenant(in.tenant) }

// accepted reports whether this Tenant was accepted before with the same key and the same signing request.
// Its nonce may be gone by now, and is not needed again.
func (in *inputs) accepted() bool { return holds(in.stored, in.certified()) }

// refusal returns the reason that a Tenant gets no access; nil if it gets access. nonce is the nonce that the
// Tenant has signed; nil if the Tenant was accepted before.
func (in *inputs) refusal() (nonce *corev1.Secret, why error) {
	id := in.id()
	if err := id.Validate(); err != nil {
		return nil, err
	}
	switch {
	case in.namespace == nil || in.namespace.Labels[wire.LabelRemoteCluster] != string(id):
		return nil, fmt.Errorf("namespace %s is not labelled for %s: want %s=true and %s=%s", in.tenant.Namespace, id, wire.LabelTenantNamespace, wire.LabelRemoteCluster, id)
	case id == in.home:
		return nil, fmt.Errorf("its cluster ID %s is this cluster's own", id)
	}
	if first := in.first(); first.UID != in.tenant.UID {
		return nil, fmt.Errorf("tenant %s/%s is older, and of the same cluster or in the same namespace: delete one of the two", first.Namespace, first.Name)
	}
	if err := in.certified().Acceptable(peering.ControlPlane(id)); err != nil {
		return nil, err
	}
	if in.accepted() {
		return nil, nil
	}
	for _, name := range []string{string(id), peering.Organization} {
		if binding := in.strangers[name]; binding != "" {
			return nil, fmt.Errorf("%s gives rights to a user or group %s, and the consumer's certificate would have this name: choose another cluster ID, or delete the binding", binding, name)
		}
	}
	if whose := in.users[string(id)]; whose != "" {
		return nil, fmt.Errorf("a slice of cluster %s has a user %s, and the consumer's certificate would have this name: choose another cluster ID", whose, id)
	}
	if s := in.signed(); s != nil {
		return s, nil
	}
	return nil, errors.New("its signature is not valid for this namespace's present nonce and its key: the consumer has to sign the present nonce")
}

// signed returns the nonce that the Tenant has signed; nil without a valid signature. Without one, the
// objects of other consumers were not read from the API server.
func (in *inputs) signed() *corev1.Secret {
	for i := range in.nonces {
		s := &in.nonces[i]
		used := s.Annotations[peering.AnnotationUsed]
		if s.Labels[wire.LabelRemoteCluster] == string(in.id()) && (used == "" || used == string(in.tenant.UID)) && in.certified().Signed(s.Data[peering.KeyNonce], in.tenant.Spec.Signature) {
			return s
		}
	}
	return nil
}

// first returns the oldest of the Tenants that exclude each other: same namespace, or same cluster ID.
func (in *inputs) first() *authv1beta1.Tenant {
	first := in.tenant
	for i := range in.all {
		t := &in.all[i]
		if t.Namespace != in.tenant.Namespace && t.Spec.ClusterID != in.tenant.Spec.ClusterID || t.DeletionTimestamp != nil {
			continue
		}
		if cmp.Or(t.CreationTimestamp.Compare(first.CreationTimestamp.Time), cmp.Compare(t.Namespace+"/"+t.Name, first.Namespace+"/"+first.Name)) < 0 {
			first = t
		}
	}
	return first
}

// sliceUsers maps the users of slices to their consumers, without the slices of consumer of. Slices without
// an answer count, too, because no Tenant may get the user's name before the answer.
func sliceUsers(tenants []authv1beta1.Tenant, all []authv1beta1.ResourceSlice, of wire.ClusterID) map[string]wire.ClusterID {
	users := map[string]wire.ClusterID{}
	for i := range all {
		for j := range tenants {
			id := wire.ClusterID(tenants[j].Spec.ClusterID)
			if s := &all[i]; tenants[j].Namespace == s.Namespace && id != of && peering.FromConsumer(s) {
				users[peering.SliceUser(s.Name, id).User] = id
			}
		}
	}
	return users
}

// strangers maps users and groups to the binding that gives them rights. It leaves out this operator's
// bindings in tenant namespaces. It also leaves out the bindings of users of slices, but only of the consumer
// with this ID, because another consumer must not get the name of such a user.
func strangers(cluster []rbacv1.ClusterRoleBinding, namespaced []rbacv1.RoleBinding, of wire.ClusterID) map[string]string {
	names := map[string]string{}
	add := func(binding string, subjects []rbacv1.Subject) {
		for _, s := range subjects {
			if s.Kind != rbacv1.ServiceAccountKind {
				names[s.Name] = binding
			}
		}
	}
	for _, b := range cluster {
		add("ClusterRoleBinding "+b.Name, b.Subjects)
	}
	for _, b := range namespaced {
		access := b.Name == wire.ConsumerAccessName && b.RoleRef.Name == wire.ConsumerAccessName
		mapped := b.Name == wire.MappedAccessName && b.RoleRef.Name == wire.MappedAccessName && b.Labels[wire.LabelRemoteCluster] == string(of)
		if !access && !mapped {
			add("RoleBinding "+b.Namespace+"/"+b.Name, b.Subjects)
		}
	}
	return names
}
