package lending_test

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// attempt is a request that has to be refused.
type attempt func() error

func (w *pair) refused(t *testing.T, who string, attempts map[string]attempt) {
	t.Helper()
	for name, try := range attempts {
		err := try()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		abuses.Refused(t, who, name, err)
	}
	t.Logf("figure: %d attempts of %s refused", len(attempts), who)
}

func (p *plane) clientAs(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(abuses.Watch(t))
	c, err := client.New(config, client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mergePatch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

// testProgramRights makes an attacker's requests with the token of a node's program. The first rows prove
// that the later requests reach the API server.
func (w *pair) testProgramRights(t *testing.T) {
	ctx := t.Context()
	c := w.rome.clientAs(t, w.rome.as("system:serviceaccount:liqo-tenant-milan:liqo-tui-node-milan", "system:serviceaccounts"))
	for name, try := range map[string]attempt{
		"its node": func() error {
			return c.Status().Patch(ctx, member(), mergePatch(`{"status":{"nodeInfo":{"kernelVersion":"x"}}}`))
		},
		"its Lease": func() error { return c.Patch(ctx, lease(), mergePatch(`{"spec":{"leaseDurationSeconds":41}}`)) },
	} {
		abuses.Permitted(t, "a node's program", name, try())
	}
	w.rome.node("real", "4", "8Gi")
	defer w.rome.runDelete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}})
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"liqo.io/type": "virtual-node", "liqo-tui.dev/virtual-node-of": "liqo-tenant-turin"}}}
	defer func() { _ = w.rome.Delete(ctx, other) }() // the operator also deletes it
	realLease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "real"}}
	w.rome.create(realLease.DeepCopy())
	defer w.rome.runDelete(t, realLease)
	w.rome.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "token"}})
	defer w.rome.runDelete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "token"}})
	status := func(node, text string) attempt {
		return func() error {
			return c.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, mergePatch(text))
		}
	}
	elsewhere := func() error {
		for { // the operator deletes it, because it has no VirtualNode
			if err := w.rome.Create(ctx, other.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			if err := status("other", `{"status":{"capacity":{"cpu":"0"}}}`)(); !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	in := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "x"}
	w.refused(t, "a node's program", map[string]attempt{
		"a real node's status":          status("real", `{"status":{"capacity":{"cpu":"0"}}}`),
		"a real node's state":           status("real", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
		"another virtual node's status": elsewhere,
		"an address":                    status("milan", `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`),
		"a port":                        status("milan", `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":6443}}}}`),
		"a volume":                      status("milan", `{"status":{"volumesAttached":[{"name":"a","devicePath":"/dev/a"}]}}`),
		"its labels":                    status("milan", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`),
		"no label":                      status("milan", `{"metadata":{"labels":{"liqo.io/type":null}}}`),
		"its annotations":               status("milan", `{"metadata":{"annotations":{"a":"b"}}}`),
		"a finalizer":                   status("milan", `{"metadata":{"finalizers":["x.io/y"]}}`),
		"an owner":                      status("milan", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`),
		"its taints":                    func() error { return c.Patch(ctx, member(), mergePatch(`{"spec":{"taints":[]}}`)) },
		"its node, deleted":             func() error { return c.Delete(ctx, member()) },
		"a node":                        func() error { return c.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}}) },
		"nodes":                         func() error { return c.List(ctx, &corev1.NodeList{}) },
		"a real node's Lease": func() error {
			return c.Patch(ctx, realLease.DeepCopy(), mergePatch(`{"spec":{"leaseDurationSeconds":1}}`))
		},
		"its Lease's owner":  func() error { return c.Patch(ctx, lease(), mergePatch(`{"metadata":{"ownerReferences":null}}`)) },
		"its Lease, deleted": func() error { return c.Delete(ctx, lease()) },
		"a Lease of its own": func() error {
			return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "x"}})
		},
		"another Lease": func() error { return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: in}) },
		"Secrets":       func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-milan")) },
		"another Secret": func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "token"}, &corev1.Secret{})
		},
		"the control plane's access": func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}, &corev1.Secret{})
		},
		"the cluster's key": func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: peering.KeysName}, &corev1.Secret{})
		},
		"its access, changed": func() error {
			return c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-resourceslice-milan"}}, mergePatch(`{"data":null}`))
		},
		"its grant": func() error {
			return c.Patch(ctx, virtual(), mergePatch(`{"spec":{"resourceQuota":{"hard":{"cpu":"99"}}}}`))
		},
		"its slice": func() error {
			return c.Get(ctx, client.ObjectKeyFromObject(virtual()), slice("liqo-tenant-milan", "milan"))
		},
		"the tunnel's state": func() error { return c.Create(ctx, &networkingv1beta1.Connection{ObjectMeta: in}) },
		"a pod": func() error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: in, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}})
		},
		"pods": func() error { return c.List(ctx, &corev1.PodList{}, client.InNamespace("default")) },
		"its role": func() error {
			return c.Patch(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: "liqo-tui-node-milan"}}, mergePatch(`{"rules":[]}`))
		},
		"its policy": func() error {
			return c.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-node"}})
		},
	})
}

// testOperatorsNodes makes an attacker's requests with the operator's token.
func (w *pair) testOperatorsNodes(t *testing.T) {
	ctx := t.Context()
	c := w.rome.clientAs(t, w.rome.as(operatorUser, "system:serviceaccounts"))
	good := peering.NodeProgram{VirtualNode: &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-x", Name: "x", Labels: map[string]string{"liqo.io/remote-cluster-id": "x"}}}}
	abuses.Permitted(t, "the operator", "a virtual node", c.Create(ctx, good.Member(), client.DryRunAll))
	create := func(change func(*corev1.Node)) attempt {
		return func() error {
			n := good.Member()
			change(n)
			return c.Create(ctx, n, client.DryRunAll)
		}
	}
	w.rome.node("real", "4", "8Gi")
	real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	defer w.rome.runDelete(t, real.DeepCopy())
	realLease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "real"}}
	w.rome.create(realLease.DeepCopy())
	defer w.rome.runDelete(t, realLease.DeepCopy())
	binding := func(name string) string {
		return `{"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"` + name + `"}]}`
	}
	all := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-node"}}
	leases := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "liqo-tui-node"}}
	deployment := func(change func(*appsv1.Deployment)) attempt {
		return func() error {
			d := peering.NodeProgram{VirtualNode: &offloadingv1beta1.VirtualNode{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "x", UID: "u"},
				Spec:       offloadingv1beta1.VirtualNodeSpec{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}},
			}, Image: "x"}.Deployment()
			change(d)
			return c.Create(ctx, d, client.DryRunAll)
		}
	}
	abuses.Permitted(t, "the operator", "a program", deployment(func(*appsv1.Deployment) {})())
	asksFor := func(signer string, days int32, usage certificatesv1.KeyUsage) attempt {
		return func() error {
			request := good.SigningRequest(w.csr(t, "real"))
			request.Spec.SignerName, request.Spec.ExpirationSeconds, request.Spec.Usages = signer, new(days*24*3600), []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage}
			if err := c.Create(ctx, request); err != nil {
				return err
			}
			defer func() {
				if err := w.rome.Delete(ctx, request); err != nil {
					t.Error(err)
				}
			}()
			request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x"}}
			return c.SubResource("approval").Update(ctx, request, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	abuses.Permitted(t, "the operator", "a kubelet's certificate", asksFor(certificatesv1.KubeletServingSignerName, 30, certificatesv1.UsageServerAuth)())
	theirs := good.SigningRequest(w.csr(t, "real"))
	theirs.Name = "of-a-kubelet"
	w.rome.create(theirs)
	defer w.rome.runDelete(t, theirs)
	secret := func(namespace, name string, kind corev1.SecretType) attempt {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind}
		if kind == corev1.SecretTypeServiceAccountToken {
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		}
		return func() error { return c.Create(ctx, s.DeepCopy(), client.DryRunAll) }
	}
	for name, try := range map[string]attempt{
		"a Secret": secret("liqo-tenant-milan", "x", corev1.SecretTypeOpaque),
		"a program, listed": func() error {
			return c.Patch(ctx, all.DeepCopy(), mergePatch(binding("liqo-tui-node-x")), client.DryRunAll)
		},
		"the end of a Lease": func() error { return c.Delete(ctx, lease(), client.DryRunAll) },
		"the end of a node":  func() error { return c.Delete(ctx, member(), client.DryRunAll) },
	} {
		abuses.Permitted(t, "the operator", name, try())
	}
	w.refused(t, "the operator", map[string]attempt{
		"others' request for a certificate": func() error { return c.Delete(ctx, theirs.DeepCopy(), client.DryRunAll) },
		"an account's token":                secret("liqo-tenant-milan", "x", corev1.SecretTypeServiceAccountToken),
		"a bootstrap token":                 secret("liqo-tenant-milan", "x", corev1.SecretTypeBootstrapToken),
		"a Secret at home":                  secret("liqo", "x", corev1.SecretTypeOpaque),
		"a token at home":                   secret("liqo", peering.KeysName, corev1.SecretTypeServiceAccountToken),
		"gateways that are everybody": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-gateway"}}, mergePatch(`{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:authenticated"}]}`))
		},
		"a program of a peering user": deployment(func(d *appsv1.Deployment) {
			d.Labels = map[string]string{"networking.liqo.io/gateway-name": peering.UserName}
			d.Spec.Template.Spec.ServiceAccountName = peering.UserName
		}),
		"a program before all others": deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.PriorityClassName = "system-node-critical" }),
		"a node that is not virtual":  create(func(n *corev1.Node) { delete(n.Labels, "liqo.io/type") }),
		"a node of nobody":            create(func(n *corev1.Node) { delete(n.Labels, "liqo-tui.dev/virtual-node-of") }),
		"a node without taints":       create(func(n *corev1.Node) { n.Spec.Taints = nil }),
		"a node that takes pods":      create(func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule }),
		"a real node's taints": func() error {
			return c.Patch(ctx, real.DeepCopy(), mergePatch(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`))
		},
		"a real node, made virtual": func() error {
			return c.Patch(ctx, real.DeepCopy(), mergePatch(`{"metadata":{"labels":{"liqo.io/type":"virtual-node","liqo-tui.dev/virtual-node-of":"x"}},"spec":{"taints":[{"key":"virtual-node.liqo.io/not-allowed","effect":"NoExecute"}]}}`))
		},
		"a real node, deleted": func() error { return c.Delete(ctx, real.DeepCopy()) },
		"all nodes":            func() error { return c.DeleteAllOf(ctx, &corev1.Node{}) },
		"a real node's status": func() error {
			return c.Status().Patch(ctx, real.DeepCopy(), mergePatch(`{"status":{"capacity":{"cpu":"0"}}}`))
		},
		"a virtual node's status": func() error {
			return c.Status().Patch(ctx, member(), mergePatch(`{"status":{"capacity":{"cpu":"0"}}}`))
		},
		"a virtual node's state": func() error {
			return c.Status().Patch(ctx, member(), mergePatch(`{"status":{"conditions":null}}`))
		},
		"a real node's address": func() error {
			return c.Status().Patch(ctx, real.DeepCopy(), mergePatch(`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`))
		},
		"a client's certificate":               asksFor(certificatesv1.KubeAPIServerClientSignerName, 30, certificatesv1.UsageClientAuth),
		"a kubelet's certificate for a year":   asksFor(certificatesv1.KubeletServingSignerName, 365, certificatesv1.UsageServerAuth),
		"a kubelet's certificate, as a client": asksFor(certificatesv1.KubeletServingSignerName, 30, certificatesv1.UsageClientAuth),
		"another signer's certificate":         asksFor("example.com/signer", 30, certificatesv1.UsageServerAuth),
		"a virtual node's label": func() error {
			return c.Patch(ctx, member(), mergePatch(`{"metadata":{"labels":{"liqo.io/type":null}}}`))
		},
		"a virtual node's taint": func() error { return c.Patch(ctx, member(), mergePatch(`{"spec":{"taints":null}}`)) },
		"a real node's Lease":    func() error { return c.Delete(ctx, realLease.DeepCopy()) },
		"a real node's Lease, made": func() error {
			return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "x"}}, client.DryRunAll)
		},
		"others as programs":         func() error { return c.Patch(ctx, all.DeepCopy(), mergePatch(binding("x"))) },
		"others as programs, Leases": func() error { return c.Patch(ctx, leases.DeepCopy(), mergePatch(binding("x"))) },
		"a user as program": func() error {
			return c.Patch(ctx, all.DeepCopy(), mergePatch(`{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"liqo-tui-node-x"}]}`))
		},
		"another list": func() error {
			return c.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-tui-node"}}, client.DryRunAll)
		},
		"more in the role": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-node"}}, mergePatch(`{"rules":[]}`))
		},
		"a program of another": deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "default" }),
		"a program with capabilities": deployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		}),
		"a program on the host": deployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostNetwork = true }),
		"a privileged program": deployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}),
		"a program elsewhere": deployment(func(d *appsv1.Deployment) { d.Namespace = "default" }),
	})
}
