package flowtest

import (
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// podRange is what an operator that was installed finds out about the cluster.
const podRange networkingv1beta1.CIDR = "10.244.0.0/16"

// Bare makes the cluster one on which nothing is installed.
func (c *Cluster) Bare() {
	c.Be(func(f *flows.ClusterFacts) {
		f.Software, f.ID, f.HasCRDs, f.Networks = flows.NoSoftware, "", false, render.Networks{}
	})
}

// install is one stage of an installation: definitions are served a tick after
// they were applied; the operator begins a tick after its Deployment exists, and
// finds the address ranges in the one after that.
func (c *Cluster) install() bool {
	var definitions, program bool
	var id render.ClusterID
	var external []networkingv1beta1.CIDR
	for _, r := range c.store.records {
		switch o := r.object.(type) {
		case *apiextensionsv1.CustomResourceDefinition:
			definitions = true
		case *appsv1.Deployment:
			program = program || o.Name == render.OperatorName
		case *corev1.ConfigMap:
			id = render.ClusterID(o.Data[render.ClusterIDKey])
		case *ipamv1alpha1.Network:
			if o.Labels[render.LabelNetworkType] == render.NetworkExternalCIDR {
				external = append(external, o.Spec.CIDR)
			}
		}
	}
	f := &c.identity
	switch {
	case definitions && !f.HasCRDs:
		f.HasCRDs = true
	case program && f.Software == flows.NoSoftware:
		f.Software, f.ID = flows.Operator, id
		f.Operator.Problem = "pod liqo-tui-operator-7c9d: ContainerCreating"
	case program && len(f.Networks.Pod) == 0:
		f.Operator.Problem, f.Networks.Pod, f.Networks.External = "", []networkingv1beta1.CIDR{podRange}, slices.Clone(external)
	default:
		return false
	}
	return true
}
