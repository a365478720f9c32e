package kube

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
)

// connectionNamespace returns the given tenant namespace. If none is given, it returns the only namespace
// with gateways.
func (c *Cluster) connectionNamespace() (client.ListOption, bool) {
	if named, ok := c.tenantNamespace(); ok {
		return named, true
	}
	var found []string
	for _, st := range c.mirrored {
		if st.kind != networkingv1beta1.GatewayServerKind && st.kind != networkingv1beta1.GatewayClientKind {
			continue
		}
		select {
		case <-st.tried:
		case <-c.ctx.Done():
		}
		gateways, _ := st.snapshot()
		for _, g := range gateways {
			found = append(found, g.GetNamespace())
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		return nil, false
	}
	return client.InNamespace(found[0]), true
}

// Token requests a token of a ServiceAccount, and returns it with its time of expiry, which may be earlier
// than requested.
func (c *Cluster) Token(ctx context.Context, namespace, account string, valid time.Duration) (token string, expires time.Time, err error) {
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(valid / time.Second))}}
	if err := c.client.SubResource("token").Create(ctx, of, request); err != nil {
		return "", time.Time{}, fmt.Errorf("ask for a token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
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
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		f.Bounds = append(f.Bounds, o.Spec.PolicyName)
	}
}

// certificateAuthority returns the certificates that the kubeconfig trusts; nil if it uses those of the
// machine.
func certificateAuthority(config *rest.Config) ([]byte, error) {
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	return os.ReadFile(config.CAFile)
}
