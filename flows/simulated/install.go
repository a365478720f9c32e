package simulated

import (
	"context"
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Values that an installed operator finds on the cluster.
const (
	podRange     networkingv1beta1.CIDR = "10.244.0.0/16"
	serviceRange networkingv1beta1.CIDR = "10.96.0.0/12"
)

// Bare removes all installations from the cluster.
func (c *Cluster) Bare() {
	c.Be(func(f *flows.ClusterFacts) {
		f.Software, f.ID, f.HasCRDs, f.Networks = flows.NoSoftware, "", false, render.Networks{}
	})
}

// Installation returns the answer to [flows.AskInstallation].
func (c *Cluster) Installation(ctx context.Context) (flows.InstallationFacts, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	var f flows.InstallationFacts
	for _, r := range c.store.sorted() {
		switch r.object.(type) {
		case *authv1beta1.Tenant:
			f.Tenants++
		case *authv1beta1.Identity:
			f.Identities++
		}
		_, namespace := r.object.(*corev1.Namespace)
		if in := r.object.GetNamespace(); !namespace && (in == "" || in == c.identity.Namespace || in == corev1.NamespaceNodeLease) {
			f.Objects = append(f.Objects, r.object.DeepCopyObject().(wire.Object))
		}
	}
	return f, ctx.Err()
}

// install simulates one step of an installation. The API server serves a CRD a tick after it was
// applied. The operator begins a tick after its Deployment exists, and finds the address ranges
// one tick later.
func (c *Cluster) install() (news bool) {
	var program bool
	var told render.InstallParams
	var id wire.ClusterID
	var external []networkingv1beta1.CIDR
	f := &c.identity
	for _, r := range c.store.sorted() {
		switch o := r.object.(type) {
		case *apiextensionsv1.CustomResourceDefinition:
			if len(o.Status.Conditions) == 0 {
				o.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
				f.HasCRDs, news = true, true
			}
		case *appsv1.Deployment:
			if o.Name == wire.OperatorName {
				program, told = true, render.OperatorParams(o)
			}
			if o.Name == wire.OperatorName || o.Name == wire.DNSName {
				news = news || o.Status.ObservedGeneration < o.Generation
				o.Status = appsv1.DeploymentStatus{ObservedGeneration: o.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
			}
		case *corev1.Service:
			if o.Name == wire.DNSName && wire.ServiceIPv4(o) == "" {
				o.Spec.ClusterIP, news = "10.96.0.53", true
			}
		case *appsv1.DaemonSet:
			news = news || o.Status.ObservedGeneration < o.Generation
			o.Status = appsv1.DaemonSetStatus{ObservedGeneration: o.Generation, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: 1}
		case *corev1.ConfigMap:
			if o.Name == wire.ClusterIDConfigMap && o.Namespace == f.Namespace {
				id = wire.ClusterID(o.Data[wire.ClusterIDKey])
			}
		case *ipamv1alpha1.Network:
			if o.Labels[wire.LabelNetworkType] == wire.NetworkExternalCIDR {
				external = append(external, o.Spec.CIDR)
			}
			if program && o.Status.CIDR == "" {
				o.Status.CIDR, news = o.Spec.CIDR, true
			}
		}
	}
	switch {
	case program && f.Software == flows.NoSoftware:
		f.Software, f.ID = flows.Operator, id
		f.Operator.Problem = "pod liqo-tui-operator-7c9d: ContainerCreating"
	case program && len(f.Networks.Pod) == 0:
		f.Operator.Problem, f.Networks.Pod, f.Networks.External = "", []networkingv1beta1.CIDR{podRange}, slices.Clone(external)
		for kind, cidr := range map[string]networkingv1beta1.CIDR{wire.NetworkPodCIDR: podRange, wire.NetworkServiceCIDR: serviceRange} {
			n := render.ClusterNetworks(f.Namespace, kind, []string{string(cidr)}, "kubeadm")[0]
			if c.store.records[c.store.keyOf(n)] == nil {
				c.store.create(c.store.keyOf(n), n)
			}
		}
	default:
		return c.addRanges(told) || news
	}
	return true
}

// addRanges publishes ranges of pods that an admin has stated later, as the operator does. It
// replaces none.
func (c *Cluster) addRanges(told render.InstallParams) (news bool) {
	f := &c.identity
	for _, o := range render.ClusterNetworks(f.Namespace, wire.NetworkPodCIDR, told.PodCIDRs, render.StatedByInstall+"--pod-cidr") {
		cidr := o.(*ipamv1alpha1.Network).Spec.CIDR
		if key := c.store.keyOf(o); c.store.records[key] == nil && !slices.Contains(f.Networks.Pod, cidr) {
			c.store.create(key, o)
			f.Networks.Pod, news = append(f.Networks.Pod, cidr), true
		}
	}
	return news
}
