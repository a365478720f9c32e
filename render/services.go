package render

import (
	"fmt"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// exchangeFlag makes a gateway exchange Services with its peer, and the operator export and import them. Its
// value is the cluster's ID.
const exchangeFlag = "--services="

// ExchangesServices reports whether a gateway's pod exchanges Services with its peer.
func ExchangesServices(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, exchangeFlag) })
	})
}

// ServicesRules are the rights that the pods of a gateway need besides [Gateway.Role] if it
// exchanges Services. They keep copies of the peer's EndpointSlices in the tenant namespace.
func (g Gateway) ServicesRules() []rbacv1.PolicyRule { return []rbacv1.PolicyRule{keepCopies} }

var keepCopies = rbacv1.PolicyRule{
	APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "create", "patch", "delete"},
}

// exchange changes the objects of an installation, so that its gateways exchange Services: the flag of
// the gateways' templates, and the rights. The operator gets the same rights in tenant namespaces,
// because Kubernetes lets it grant only rights that it has.
func exchange(objs []wire.Object, id wire.ClusterID) error {
	for _, o := range objs {
		var err error
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			switch o.Name {
			case wire.GatewayAccessName:
				read := keepCopies
				read.Verbs = []string{"get", "list", "watch"}
				o.Rules = append(o.Rules, read)
			case wire.TenantAccessName:
				o.Rules = append(o.Rules, keepCopies)
			}
		case *networkingv1beta1.WgGatewayServerTemplate:
			err = addArgument(o.Spec.Template, exchangeFlag+string(id))
		case *networkingv1beta1.WgGatewayClientTemplate:
			err = addArgument(o.Spec.Template, exchangeFlag+string(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addArgument adds an argument to the first container of a gateway template.
func addArgument(template unstructured.Unstructured, arg string) error {
	found, _, err := unstructured.NestedFieldNoCopy(template.Object, "spec", "deployment", "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	if containers, ok := found.([]any); ok && len(containers) > 0 {
		if container, ok := containers[0].(map[string]any); ok {
			if args, ok := container["args"].([]any); ok {
				container["args"] = append(slices.Clone(args), arg)
				return nil
			}
		}
	}
	return fmt.Errorf("add %s to a gateway template: it has no arguments", arg)
}
