package consumer

import (
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
)

func ofOffloading(namespace string) control.Deletion {
	return control.Deletion{Of: "NamespaceOffloading", NamespacedName: types.NamespacedName{Namespace: namespace}}
}

func ofSlice(slice types.NamespacedName) control.Deletion {
	return control.Deletion{Of: "ResourceSlice", NamespacedName: slice}
}

// ofProvider is the deletion of the last ResourceSlice that requests resources of this provider.
func ofProvider(provider types.NamespacedName) control.Deletion {
	return control.Deletion{Of: "provider", NamespacedName: provider}
}

// deletionsOf returns the deletions to remember when an admin's object on this cluster is deleted.
func deletionsOf(o client.Object, _ bool) []control.Deletion {
	switch o := o.(type) {
	case *offloadingv1beta1.NamespaceOffloading:
		return []control.Deletion{ofOffloading(o.Namespace)}
	case *authv1beta1.ResourceSlice:
		out := []control.Deletion{ofSlice(client.ObjectKeyFromObject(o))}
		if o.Spec.ProviderClusterID != nil {
			out = append(out, ofProvider(types.NamespacedName{Namespace: o.Namespace, Name: string(*o.Spec.ProviderClusterID)}))
		}
		return out
	}
	return nil
}

// ended reports whether this cluster has stopped using a provider: no slice requests resources of the
// provider now, and the deletion of the last one was seen.
func ended(seen *control.Deletions, all []authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	if slices.ContainsFunc(all, func(s authv1beta1.ResourceSlice) bool { return asksProvider(&s, provider) }) {
		return false
	}
	return seen.Has(ofProvider(provider)) || slices.ContainsFunc(all, func(s authv1beta1.ResourceSlice) bool {
		return s.DeletionTimestamp != nil && isOf(&s, provider)
	})
}

// asksProvider reports whether a ResourceSlice requests resources of this provider, and is not being deleted.
func asksProvider(s *authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	return s.DeletionTimestamp == nil && isOf(s, provider)
}

func isOf(s *authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	return s.Namespace == provider.Namespace && s.Spec.ProviderClusterID != nil && string(*s.Spec.ProviderClusterID) == provider.Name
}
