// Package contents finds the objects in a namespace that are not ours.
package contents

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Object is one object of a namespace, of any kind.
type Object struct {
	Group, Kind string
	metav1.Object
}

// Foreign returns the objects of others. It leaves out objects that every namespace
// has, and our objects: those of the connection with the tenant's peer, or, if there is
// no peer, those of our installation.
func Foreign(tenant render.Tenant, all []Object) []string {
	byUID := make(map[types.UID]Object, len(all))
	for _, c := range all {
		byUID[c.GetUID()] = c
	}
	var out []string
	for _, c := range all {
		if !c.belongs(tenant, byUID, 0) {
			out = append(out, c.Kind+" "+c.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// maxOwners limits the search for owners of owners. A pod of a Job of a CronJob has two
// owners above it. The limit also stops the search in a circle of owners.
const maxOwners = 8

func (c Object) belongs(tenant render.Tenant, byUID map[types.UID]Object, depth int) bool {
	labels := c.GetLabels()
	if c.GetDeletionTimestamp() != nil {
		return true // the object is being deleted anyway
	}
	switch manager := labels[wire.LabelManagedBy]; {
	case manager == wire.ManagedBy, manager == wire.OperatorName, automatic[[2]string{c.Kind, c.GetName()}]:
		return true
	case strings.HasSuffix(c.Group, "liqo.io") && c.ofConnection() && tenant.Remote != "" && labels[wire.LabelRemoteCluster] == string(tenant.Remote):
		return true // made by liqoctl or by hand: a reset removes it
	case c.ofConnection() && labels[wire.LabelManaged] == "true" && labels[wire.LabelRemoteCluster] == "":
		return true // Liqo's controllers make it from objects of the connection, and delete it with them, even without an owner reference
	case c.Kind == "Lease" && tenant.Remote != "" && (c.GetName() == virtualKubelets || c.GetName() == string(tenant.Remote)):
		return true // the Lease of virtual kubelets; a virtual node that still exists is itself a foreign object
	case depth == maxOwners:
		return false
	}
	return slices.ContainsFunc(c.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		owner, here := byUID[r.UID]
		// An owner in these groups is in the same namespace. If the owner does not
		// exist, Kubernetes deletes the objects that it owned.
		gone := !here && slices.Contains(namespacedOwners, groupOf(r))
		return gone || here && owner.belongs(tenant, byUID, depth+1)
	})
}

// namespacedOwners are the API groups of the kinds that own a connection's objects.
var namespacedOwners = []string{"apps", "batch", "networking.liqo.io", "ipam.liqo.io", "authentication.liqo.io", "offloading.liqo.io"}

// virtualKubelets is the Lease by which the virtual kubelets of a peer elect a leader.
// Liqo does not delete it.
const virtualKubelets = "virtual-kubelet-leader-election"

func groupOf(r metav1.OwnerReference) string {
	group, _, _ := strings.Cut(r.APIVersion, "/")
	return group
}

// ofConnection reports whether an object of Liqo is about the network, and not about
// authentication or offloading.
func (c Object) ofConnection() bool {
	return strings.HasPrefix(c.Group, "networking.") || strings.HasPrefix(c.Group, "ipam.")
}

// automatic lists objects that a cluster's own controllers put into every namespace:
// those of Kubernetes, OpenShift and Istio.
var automatic = map[[2]string]bool{
	{"ConfigMap", "kube-root-ca.crt"}:         true,
	{"ServiceAccount", "default"}:             true,
	{"ConfigMap", "openshift-service-ca.crt"}: true,
	{"ServiceAccount", "builder"}:             true,
	{"ServiceAccount", "deployer"}:            true,
	{"RoleBinding", "system:deployers"}:       true,
	{"RoleBinding", "system:image-builders"}:  true,
	{"RoleBinding", "system:image-pullers"}:   true,
	{"ConfigMap", "istio-ca-root-cert"}:       true,
	{"Lease", wire.OperatorName}:              true, // the pods of our operator elect a leader by it
}
