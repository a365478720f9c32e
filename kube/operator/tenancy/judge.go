package tenancy

import (
	"cmp"
	"errors"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// inputs are what a Tenant is judged by.
type inputs struct {
	tenant    *authv1beta1.Tenant
	namespace *corev1.Namespace // nil if no admin has labelled it for a peer
	home      render.ClusterID
	all       []authv1beta1.Tenant
	nonces    []corev1.Secret // in its namespace
	// stored is the Secret with what was signed before; nil if there is none.
	stored *corev1.Secret
	// strangers are names of users and groups that have rights here which this
	// operator has not given, and by which binding.
	strangers map[string]string
	// users are those of other consumers' slices, and whose each is.
	users map[string]render.ClusterID
}

func (in *inputs) id() render.ClusterID { return render.ClusterID(in.tenant.Spec.ClusterID) }

func (in *inputs) certified() peering.Certified { return peering.OfTenant(in.tenant) }

// accepted reports whether this Tenant was accepted before with the same key and the
// same request. Then its nonce may be gone.
func (in *inputs) accepted() bool { return holds(in.stored, in.certified()) }

// refusal is why a Tenant gets no access; nil if it does. nonce is then the one that it
// has signed, nil if none is asked of it any more.
func (in *inputs) refusal() (nonce *corev1.Secret, why error) {
	id := in.id()
	if err := id.Validate(); err != nil {
		return nil, err
	}
	switch {
	case in.namespace == nil || in.namespace.Labels[render.LabelRemoteCluster] != string(id):
		return nil, fmt.Errorf("namespace %s is not labelled for %s: want %s=true and %s=%s", in.tenant.Namespace, id, render.LabelTenantNamespace, render.LabelRemoteCluster, id)
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
	return nil, errors.New("its signature is not one of this namespace's present nonce by its key: run liqo-tui peer again")
}

// signed is the nonce that the Tenant has signed; nil if it has signed none that is good for
// it. Without one, nothing else of its inputs is read that others have.
func (in *inputs) signed() *corev1.Secret {
	for i := range in.nonces {
		s := &in.nonces[i]
		used := s.Annotations[peering.AnnotationUsed]
		if s.Labels[render.LabelRemoteCluster] == string(in.id()) && (used == "" || used == string(in.tenant.UID)) && in.certified().Signed(s.Data[peering.KeyNonce], in.tenant.Spec.Signature) {
			return s
		}
	}
	return nil
}

// first is the oldest of the Tenants that can't be there together with this one.
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

// sliceUsers are the users of slices of others than a consumer, answered or not: what a slice
// is answered with takes a while, and a Tenant must not have the name meanwhile.
func sliceUsers(tenants []authv1beta1.Tenant, all []authv1beta1.ResourceSlice, of render.ClusterID) map[string]render.ClusterID {
	users := map[string]render.ClusterID{}
	for i := range all {
		for j := range tenants {
			id := render.ClusterID(tenants[j].Spec.ClusterID)
			if s := &all[i]; tenants[j].Namespace == s.Namespace && id != of && !asksOthers(s) {
				users[peering.SliceUser(s.Name, id).User] = id
			}
		}
	}
	return users
}

// strangers are the users and groups of bindings that are not consumers' own. Those of
// slices are one consumer's own, and another must not have their names.
func strangers(cluster []rbacv1.ClusterRoleBinding, namespaced []rbacv1.RoleBinding, of render.ClusterID) map[string]string {
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
		access := b.Name == render.ConsumerAccessName && b.RoleRef.Name == render.ConsumerAccessName
		twin := b.Name == render.TwinAccessName && b.RoleRef.Name == render.TwinAccessName && b.Labels[render.LabelRemoteCluster] == string(of)
		if !access && !twin {
			add("RoleBinding "+b.Namespace+"/"+b.Name, b.Subjects)
		}
	}
	return names
}
