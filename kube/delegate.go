package kube

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// delegationKinds are what the operators' access to each other consists of.
func (c *Cluster) delegationKinds() []*store {
	s := func(kind string, newList func() client.ObjectList) *store {
		return newStore(kind, newList, c.notify, client.HasLabels{render.LabelDelegate})
	}
	return []*store{
		s("ServiceAccount", func() client.ObjectList { return &corev1.ServiceAccountList{} }),
		s("Role", func() client.ObjectList { return &rbacv1.RoleList{} }),
		s("RoleBinding", func() client.ObjectList { return &rbacv1.RoleBindingList{} }),
		s("Secret", func() client.ObjectList { return &corev1.SecretList{} }),
	}
}

func collectDelegation(f *flows.DelegationFacts, o client.Object) {
	switch o := o.(type) {
	case *corev1.ServiceAccount:
		f.Accounts = append(f.Accounts, *o)
	case *rbacv1.Role:
		f.Roles = append(f.Roles, *o)
	case *rbacv1.RoleBinding:
		f.Bindings = append(f.Bindings, *o)
	case *corev1.Secret:
		f.Secrets = append(f.Secrets, *o)
	}
}

// certificateAuthority is what the kubeconfig trusts, nil if it leaves that to
// the machine.
func certificateAuthority(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	return os.ReadFile(config.CAFile)
}
