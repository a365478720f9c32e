package kinds

import (
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func ofCilium(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: kind}
}

func ofServices(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: mcsv1beta1.GroupVersion.Group, Version: mcsv1beta1.GroupVersion.Version, Kind: kind}
}

// table has one row for each kind. Packages collect and lending make facts from the objects; package kube
// does this for delegations.
var table = []Kind{
	// Connections.
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Root: true, Plans: Applied, Watches: []Watch{{
		Narrow: ToTenant, Right: InAll,
		Unlisted: otherPeers,
	}}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Plans: Applied, Watches: []Watch{
		{ // the cluster's ID, and what node agents don't reach
			In: Installation, Labels: wire.LabelAppName + " in (" + wire.ClusterIDAppName + "," + wire.FabricName + ")", Right: InInstallation,
		},
	}},
	{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plans: Applied, Watches: []Watch{
		{
			Labels: wire.LabelAppName + " in (" + wire.OperatorName + "," + collect.LiqoManager + ")", Narrow: ToInstallation, Right: InInstallation,
			Optional: true, // not Minor: without these objects, a plan would install an operator that already runs
			Keep:     keepManager,
			Unlisted: func(f *flows.ClusterFacts, hidden bool, only string) { f.ManagersHidden = hidden || only != "" },
		},
		{For: LendingPlanned, Labels: kubelets, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
		{For: LendingPlanned, In: Installation, Labels: wire.LabelPartOf + "=liqo", Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
	}},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Root: true, Plans: Applied, Watches: []Watch{
		{Labels: wire.LabelManagedBy + "=" + wire.ManagedBy, Optional: true, Minor: true},
		{For: LendingPlanned, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepSubjects},
	}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Plans: Evicted, Watches: []Watch{
		{ // the operator and the node agents
			In: Installation, Labels: wire.LabelComponent + "!=" + gateway, Optional: true, Minor: true, Keep: keepPod,
			Unlisted: func(f *flows.ClusterFacts, hidden bool, _ string) { f.AttendanceUnknown = hidden },
		},
		{
			Labels: wire.LabelComponent + "=" + gateway, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepPod,
			Unlisted: func(f *flows.ClusterFacts, hidden bool, only string) {
				if f.PodsHidden = hidden || only != ""; !hidden {
					f.PodsSeen = only
				}
			},
		},
		{In: System, Labels: "component=" + collect.APIServer, Optional: true, Minor: true, Keep: keepAPIServer},
		{For: LendingShown, Labels: peering.LabelOffloadedPod, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepOffloaded},
		{For: LendingShown, Labels: peering.LabelPodOrigin, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepOffloaded},
		{For: LendingShown, Field: "status.phase", Value: string(corev1.PodPending), Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepUnplaced},
		{For: LendingShown, Labels: kubelets, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepPod},
	}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Root: true, Plans: Applied, Watches: []Watch{
		{Optional: true, Minor: true, Keep: keepNode},
		{For: LendingShown, Labels: peering.LabelNodeType, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepMember},
		{For: LendingPlanned, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepHost},
	}},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.InternalNodeKind), Root: true, Plans: Applied, Watches: []Watch{{
		Right: InAll, Optional: true, Minor: true, Keep: keepInternalNode,
		Unlisted: func(f *flows.ClusterFacts, hidden bool, _ string) { f.AgentsUnknown = hidden },
	}}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Plans: Applied, Watches: []Watch{
		{Field: "spec.type", Value: string(corev1.ServiceTypeLoadBalancer), Optional: true, Minor: true, Keep: keepService, Unlisted: otherServices},
		{Field: "spec.type", Value: string(corev1.ServiceTypeNodePort), Optional: true, Minor: true, Keep: keepService, Unlisted: otherServices},
	}},
	{GroupVersionKind: ipamv1alpha1.SchemeGroupVersion.WithKind(ipamv1alpha1.NetworkKind), Plans: Applied, Watches: []Watch{{Narrow: ToInstallation, Right: InInstallation}}},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.WgGatewayServerTemplateKind), Untyped: true, Plans: Applied, Watches: ofTemplates},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.WgGatewayClientTemplateKind), Untyped: true, Plans: Applied, Watches: ofTemplates},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind), Plans: Applied, Watches: ofPeers},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind), Plans: Applied, Watches: ofPeers},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind), Plans: Applied, Watches: ofPeers},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.PublicKeyKind), Plans: Applied, Watches: ofPeers},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConnectionKind), Watches: ofPeers},
	{GroupVersionKind: networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.InternalFabricKind)},
	{GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")},
	{GroupVersionKind: ofCilium("CiliumNetworkPolicy"), Untyped: true},
	{GroupVersionKind: ofCilium("CiliumClusterwideNetworkPolicy"), Untyped: true, Root: true},
	{GroupVersionKind: ofCilium("CiliumCIDRGroup"), Untyped: true, Root: true},
	{GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), Root: true},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Event")},
	{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job")},

	// Services by name.
	{GroupVersionKind: ofServices(mcsv1beta1.ServiceExportKindName), Plans: Applied},
	{GroupVersionKind: ofServices(mcsv1beta1.ServiceImportKindName)},
	{GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")},

	// Lending.
	{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.TenantKind), Plans: Applied, Watches: lent},
	{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.IdentityKind), Plans: Applied, Watches: lent},
	{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), Plans: Applied, Watches: lent},
	{GroupVersionKind: offloadingv1beta1.SchemeGroupVersion.WithKind(offloadingv1beta1.VirtualNodeKind), Plans: Applied, Watches: lent},
	{GroupVersionKind: offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap"), Plans: Applied, Watches: lent},
	{GroupVersionKind: corev1beta1.GroupVersion.WithKind(corev1beta1.ForeignClusterKind), Root: true, Plans: Applied, Watches: []Watch{
		{For: LendingShown, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
	}},
	{GroupVersionKind: authv1beta1.GroupVersion.WithKind(authv1beta1.RenewKind), Plans: Applied, Watches: []Watch{
		{For: LendingPlanned, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
	}},
	{GroupVersionKind: offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceOffloading"), Plans: Applied, Watches: []Watch{
		{For: LendingPlanned, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
	}},
	{GroupVersionKind: ipamv1alpha1.SchemeGroupVersion.WithKind(ipamv1alpha1.IPKind), Plans: Applied, Watches: []Watch{
		{For: LendingPlanned, In: Installation, Field: metav1.ObjectNameField, Value: peering.ProxyIPName, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true},
	}},
	{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("Eviction")},

	// Delegation.
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"), Root: true, Plans: Applied, Watches: []Watch{
		{For: Delegation, Labels: wire.LabelManagedBy + "=" + wire.ManagedBy, Optional: true, Minor: true}, // Kubernetes has the kind since 1.30
	}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Plans: Applied, Watches: []Watch{delegated}},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("Role"), Plans: Applied, Watches: []Watch{delegated}},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Plans: Applied, Watches: []Watch{
		delegated,
		{For: LendingPlanned, Narrow: ToTenant, Right: InAll, Optional: true, Minor: true, Keep: keepSubjects},
	}},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), Plans: AppliedByName, Watches: []Watch{
		delegated,
		{For: LendingPlanned, In: Installation, Field: metav1.ObjectNameField, Value: peering.KeysName, Right: ByName, Optional: true, Minor: true},
		// A peering user may read only the nonce. The other Secrets are certificates, and belong to our
		// operator.
		{For: LendingPlanned, In: EachTenant, Labels: wire.LabelRemoteCluster, Narrow: ToNonce, Right: InTenant, Optional: true, Keep: keepSecret},
	}},

	// Installation.
	{GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), Root: true, Plans: Applied},
	{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Root: true, Plans: Applied},
	{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Plans: Applied},
	{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), Plans: Applied},
	{GroupVersionKind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), Root: true, Plans: Applied},
	{GroupVersionKind: schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "DNS"}, Untyped: true, Root: true, Plans: AppliedByName}, // see package names
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"), Root: true, Plans: Applied},
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"), Root: true, Plans: Applied},
	{GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"), Root: true, Plans: Applied},

	// Questions about the user's rights.
	{GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), Root: true},
	{GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), Root: true},
}

const (
	gateway  = "gateway" // the component whose pods are gateways
	kubelets = peering.LabelKubelet + "=" + peering.KubeletComponent
)

var (
	// A user who has access to only one tenant namespace, such as a peering user of Liqo, sees the objects in
	// this namespace. Facts about the whole cluster are then unknown.
	ofPeers     = []Watch{{Narrow: ToTenant, Right: InAll, Unlisted: otherPeers}}
	ofTemplates = []Watch{{Optional: true, Minor: true, Keep: keepTemplate}}
	lent        = []Watch{{For: LendingShown, Narrow: ToTenant, Right: InAll}}
	// A user who may not list the Secrets of all namespaces needs the right to list those in the namespace of
	// the connection.
	delegated = Watch{For: Delegation, Labels: render.LabelDelegate, Narrow: ToConnection}
)

// otherServices records that there may be Services which the user may not read.
func otherServices(f *flows.ClusterFacts, hidden bool, only string) {
	f.ServicesHidden = f.ServicesHidden || hidden || only != ""
}

// otherPeers records that there may be connections in namespaces which the user may not read.
func otherPeers(f *flows.ClusterFacts, _ bool, only string) {
	f.PeersHidden = f.PeersHidden || only != ""
}
