package render

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

//go:embed crds/*.yaml crds/peering/*.yaml
var crdFiles embed.FS

//go:embed operator.yaml
var operatorManifest string

// policies has admission policies for all clusters. They limit which fields and namespaces our programs may
// change, because RBAC can't express such limits.
//
//go:embed policies.yaml
var policies string

// Clusters with a role in lending need these manifests, too.
var (
	//go:embed peering.yaml
	peeringManifest string
	//go:embed consumer.yaml
	consumerManifest string
	//go:embed provider.yaml
	providerManifest string
)

// servicesManifest has the objects that Services by name need.
//
//go:embed services.yaml
var servicesManifest string

// DefaultExternalCIDR is Liqo's default external range.
const DefaultExternalCIDR = "10.70.0.0/16"

// StatedByInstall is the beginning of [wire.AnnotationSource] on Networks whose range an admin has stated.
const StatedByInstall = "stated by install "

// InstallParams describe an installation of our operator and fabric.
type InstallParams struct {
	Namespace string // default: DefaultNamespace
	ClusterID wire.ClusterID
	Image     string
	// PodCIDRs and ServiceCIDR are the ranges of pods and of Services that the admin states. If they are
	// empty, the operator finds them out. In both cases the operator makes their Networks.
	PodCIDRs     []string
	ServiceCIDR  string
	ExternalCIDR string // default: DefaultExternalCIDR
	// Reserve are ranges under which the cluster must not see a peer.
	Reserve []string
	// Pools are the ranges from which the operator takes the remapped ranges of peers; default: the
	// operator's own pools.
	Pools []string
	// Pods are the admin's settings for the pods of our programs; nil means no settings.
	Pods *ProgramSettings
	// GatewayReplicas is the number of pods of a gateway; default: 1. Only one of them has the
	// tunnel, the others are standbys.
	GatewayReplicas int
	// OperatorReplicas is the number of the operator's pods; default: 1. Only one of them works at a
	// time.
	OperatorReplicas int
	// Peering is the cluster's role in lending; "" is [PeeringNone].
	Peering PeeringRole
	// APIServer is the URL at which consumers reach the cluster's API server; default: the address
	// that the API servers publish in the cluster.
	APIServer string
	// Lend limits the resources that all consumers get together, such as cpu=8; default: the
	// resources of the nodes.
	Lend []string
	// Announce is the URL of the API server that nodes announce in their LANs, together with the
	// cluster's ID. If it is "" or [AnnounceNone], nodes announce nothing.
	Announce string
	// Services is [On] if the cluster exchanges exported Services with its peers.
	Services Switch
	// Names is [On] if the DNS server is installed that answers for the names of imported Services.
	Names Switch
}

// AnnounceNone is the value of Announce with which an admin ends an earlier announcement.
const AnnounceNone = "none"

// A Switch is a setting that is on or off. The zero value is off in an installation, and in the settings of
// an admin it means "unchanged".
type Switch string

// The values of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// PeeringRole is a cluster's role in lending.
type PeeringRole string

// Roles in lending.
const (
	PeeringNone     PeeringRole = "none"
	PeeringConsumer PeeringRole = "consumer"
	PeeringProvider PeeringRole = "provider"
	PeeringBoth     PeeringRole = "both"
)

// Consumes reports whether the cluster uses resources of other clusters.
func (r PeeringRole) Consumes() bool { return r == PeeringConsumer || r == PeeringBoth }

// Provides reports whether the cluster lends resources to other clusters.
func (r PeeringRole) Provides() bool { return r == PeeringProvider || r == PeeringBoth }

// signers returns the names of the signers from which the operator may request certificates, as the items of
// a list in CEL.
func (r PeeringRole) signers() string {
	var all []string
	if r.Provides() {
		all = append(all, `"kubernetes.io/kube-apiserver-client"`)
	}
	if r.Consumes() {
		all = append(all, `"kubernetes.io/kubelet-serving"`)
	}
	return strings.Join(all, ", ")
}

// Install returns all objects that a cluster needs so that our operator can connect it: definitions, cluster
// ID, address ranges, gateway templates, operator and node agents. It does not check p: if an admin gave the
// values, the caller has to check them.
func Install(p InstallParams) ([]wire.Object, error) {
	p.Namespace = cmp.Or(p.Namespace, wire.DefaultNamespace)
	definitions := CRDs
	if p.Peering.Consumes() || p.Peering.Provides() {
		definitions = AllCRDs
	}
	objs, err := definitions()
	if err != nil {
		return nil, err
	}
	if p.Services == On {
		more, err := ClustersetCRDs()
		if err != nil {
			return nil, err
		}
		objs = append(objs, more...)
	}
	pods := cmp.Or(p.Pods, &ProgramSettings{})
	programs, err := operatorObjects(p, pods)
	if err != nil {
		return nil, err
	}
	templates, err := GatewayTemplates(p.Namespace, p.Image, cmp.Or(p.GatewayReplicas, 1), pods.ForGateway())
	if err != nil {
		return nil, err
	}
	objs = append(objs, clusterID(p), Network(p.Namespace, wire.NetworkExternalCIDR, wire.NetworkExternalCIDR, cmp.Or(p.ExternalCIDR, DefaultExternalCIDR), 1))
	objs = append(objs, reserved(p)...)
	objs = append(objs, programs...)
	objs = append(objs, templates...)
	if p.Names == On {
		server, err := names(p, pods)
		if err != nil {
			return nil, err
		}
		objs = append(objs, server...)
	}
	if p.Services == On {
		if err := exchange(objs, p.ClusterID); err != nil {
			return nil, err
		}
	}
	apply.Sort(objs)
	return objs, nil
}

// ClusterNetworks returns the Networks of a cluster's own pods or Services, which are not remapped. The
// parameter source names the origin of the ranges.
func ClusterNetworks(namespace, kind string, cidrs []string, source string) []wire.Object {
	objs := make([]wire.Object, 0, len(cidrs))
	for i, cidr := range cidrs {
		name := kind // the first Network has Liqo's name
		if i > 0 {
			name = fmt.Sprintf("%s-%d", kind, i+1)
		}
		n := Network(namespace, name, kind, cidr, 0)
		n.Labels[wire.LabelNotRemapped] = "true"
		n.Annotations = map[string]string{wire.AnnotationSource: source}
		objs = append(objs, n)
	}
	return objs
}

// reserved returns the Networks for [InstallParams.Reserve]. Liqo's chart makes such Networks from its value
// reservedSubnets. The range of a Network can't be changed, so a Network's name contains its range.
func reserved(p InstallParams) []wire.Object {
	objs := make([]wire.Object, 0, len(p.Reserve))
	for _, cidr := range p.Reserve {
		name := "reserved-" + strings.NewReplacer(".", "-", "/", "-").Replace(cidr)
		n := Network(p.Namespace, name, wire.NetworkReserved, cidr, 0)
		n.Labels[wire.LabelNotRemapped] = "true"
		n.Annotations = map[string]string{wire.AnnotationSource: StatedByInstall + "--reserve"}
		objs = append(objs, n)
	}
	return objs
}

func clusterID(p InstallParams) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: wire.ClusterIDConfigMap, Namespace: p.Namespace,
			Labels: map[string]string{wire.LabelAppName: wire.ClusterIDAppName, wire.LabelManagedBy: wire.ManagedBy},
		},
		Data: map[string]string{wire.ClusterIDKey: string(p.ClusterID)},
	}
}

// CRDs returns the definitions of the kinds that connections need. They are generated from Liqo's types.
func CRDs() ([]wire.Object, error) { return copies(parsedCRDs()) }

// AllCRDs returns the definitions of [CRDs], followed by the definitions that lending needs besides.
func AllCRDs() ([]wire.Object, error) {
	all, err := CRDs()
	if err != nil {
		return nil, err
	}
	more, err := copies(parsedPeeringCRDs())
	return append(all, more...), err
}

// ClustersetCRDs returns the definitions of the Multi-Cluster Services API, as its project publishes them.
func ClustersetCRDs() ([]wire.Object, error) { return copies(parsedClustersetCRDs()) }

func copies(parsed []wire.Object, err error) ([]wire.Object, error) {
	objs := make([]wire.Object, len(parsed))
	for i, crd := range parsed {
		objs[i] = crd.DeepCopyObject().(wire.Object)
	}
	return objs, err
}

// These functions parse the definitions only once. A plan is made again after each observation, and parsing
// takes longer than all its other parts.
var (
	parsedCRDs        = sync.OnceValues(func() ([]wire.Object, error) { return parseCRDs("crds/*.yaml") })
	parsedPeeringCRDs = sync.OnceValues(func() ([]wire.Object, error) { return parseCRDs("crds/peering/*.yaml") })

	parsedClustersetCRDs = sync.OnceValues(func() (objs []wire.Object, err error) {
		for _, text := range [][]byte{mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD} {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(text, crd); err != nil {
				return nil, fmt.Errorf("parse the definitions of the Multi-Cluster Services API: %w", err)
			}
			objs = append(objs, crd)
		}
		return objs, nil
	})
)

func parseCRDs(pattern string) ([]wire.Object, error) {
	files, err := fs.Glob(crdFiles, pattern)
	if err != nil {
		return nil, err
	}
	objs := make([]wire.Object, 0, len(files))
	for _, file := range files {
		text, err := crdFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		if strings.HasSuffix(crd.Spec.Names.Plural, "templates") {
			// Liqo finds the kinds that are templates by this label of their CRDs.
			crd.Labels = map[string]string{"networking.liqo.io/gatewaytemplate": "true"}
		}
		objs = append(objs, crd)
	}
	return objs, nil
}

// shared has values of variables in the manifests: texts that occur several times, and lists that other code
// needs, too. The values contain variables themselves, so they are filled in first.
var shared = map[string]string{
	"$BY_OPERATOR":  `request.userInfo.username == "system:serviceaccount:$NAMESPACE:liqo-tui-operator"`,
	"$KEEPS_OWNERS": `object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences && object.metadata.?finalizers == oldObject.metadata.?finalizers`,
	// True if no real kubelet runs the pod: the pod has the label, or no hostIP. The kubelet of a real
	// node writes hostIP when it starts a pod, and no program removes hostIP. A virtual kubelet writes
	// the label with its first change of a pod's status.
	"$ON_NO_KUBELET": `(oldObject.metadata.?labels[?"liqo.io/shadowPod"].orValue("") == "true" || oldObject.status.?hostIP.orValue("") == "")`,
	// Namespaces that neither export nor import Services: see services.Reserved.
	"$RESERVED":        `(request.namespace in ["default", "liqo", "$NAMESPACE"] || request.namespace.startsWith("kube-") || request.namespace.startsWith("liqo-tenant-"))`,
	"$GUARDS_CONSUMER": strings.Join(PeeringConsumer.Guards(), ", "),
	"$GUARDS_PROVIDER": strings.Join(PeeringProvider.Guards(), ", "),
}

// Guards returns the names of the ValidatingAdmissionPolicies that a cluster in this role needs. Their bindings
// have the same names. The policies limit consumers, virtual kubelets, and anybody with the operator's token.
func (r PeeringRole) Guards() []string {
	var all []string
	if r.Consumes() {
		all = append(all, wire.NodeAccessName, wire.OffloadedAccessName, wire.OperatorName+"-nodes", wire.OperatorName+"-offloading")
	}
	if r.Provides() {
		all = append(all, wire.ConsumerAccessName, wire.MappedAccessName, wire.MappedAccessName+"-pods", wire.MappedAccessName+"-sessions", wire.MappedAccessName+"-writers", wire.OperatorName+"-twins")
	}
	if len(all) > 0 {
		all = append(all, wire.OperatorName+"-certificates", wire.OperatorName+"-rights")
	}
	return all
}

func operatorObjects(p InstallParams, pods *ProgramSettings) ([]wire.Object, error) {
	manifests := []string{operatorManifest, policies}
	if p.Peering.Consumes() || p.Peering.Provides() {
		manifests = append(manifests, peeringManifest)
	}
	if p.Peering.Consumes() {
		manifests = append(manifests, consumerManifest)
	}
	if p.Peering.Provides() {
		manifests = append(manifests, providerManifest)
	}
	if p.Services == On {
		manifests = append(manifests, servicesManifest)
	}
	text := replaceAll(replaceAll(strings.Join(manifests, "---\n"), shared), map[string]string{
		"$NAMESPACE": p.Namespace, "$IMAGE": p.Image, "$PRIORITY": wire.GatewayPriorityClass, "$TENANT": wire.TenantAccessName,
		"$PEERING": wire.PeeringAccessName, "$CONSUMER": wire.ConsumerAccessName, "$NODE": wire.NodeAccessName, "$OFFLOADED": wire.OffloadedAccessName, "$TWIN": wire.MappedAccessName, "$PROXY": wire.ProxyName, "$PORT": wire.ProxyPort,
		"$CLUSTER": string(p.ClusterID), "$SIGNERS": p.Peering.signers(),
	})
	objs, err := copies(lastManifests.parse(text))
	if err != nil {
		return nil, err
	}
	for _, o := range objs {
		switch o := o.(type) {
		case *appsv1.Deployment:
			pod := &o.Spec.Template
			args := &pod.Spec.Containers[0].Args
			for _, stated := range []struct {
				flag   string
				ranges []string
			}{{poolsFlag, p.Pools}, {podsFlag, p.PodCIDRs}, {servicesFlag, services(p)}, {lendFlag, p.Lend}} {
				if len(stated.ranges) > 0 {
					*args = append(*args, stated.flag+strings.Join(stated.ranges, ","))
				}
			}
			if p.Peering != "" && p.Peering != PeeringNone {
				*args = append(*args, peeringFlag+string(p.Peering))
			}
			if p.APIServer != "" {
				*args = append(*args, apiServerFlag+p.APIServer)
			}
			if p.Services == On {
				*args = append(*args, exchangeFlag+string(p.ClusterID))
			}
			o.Spec.Replicas = new(int32(cmp.Or(p.OperatorReplicas, 1))) //nolint:gosec // install.Settings bounds it
			pods.ForOperator().Apply(&pod.ObjectMeta, &pod.Spec)
			if err := p.Pods.remember(o); err != nil {
				return nil, err
			}
		case *rbacv1.Role:
			var names []string
			for _, s := range pods.ForGateway().ImagePullSecrets {
				names = append(names, s.Name)
			}
			if o.Name == wire.OperatorName+"-home" && len(names) > 0 { // the operator copies pull secrets to the namespaces of gateways. Without names, the right would be for all Secrets
				o.Rules = append(o.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"}})
			}
			if o.Name == wire.OperatorName+"-home" && p.Peering.Provides() { // the operator makes the IP object by which consumers reach the proxy of the API server
				o.Rules = append(o.Rules, rbacv1.PolicyRule{APIGroups: []string{"ipam.liqo.io"}, Resources: []string{"ips"}, Verbs: []string{"create", "patch", "delete"}})
			}
		case *rbacv1.ClusterRole:
			if o.Name == wire.PeeringAccessName && p.Peering.Provides() { // the operator makes the quotas that limit a consumer's objects
				o.Rules = append(o.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"get", "create", "patch", "delete"}})
			}
			if o.Name == wire.PeeringAccessName && p.Peering.Consumes() { // the operator makes the Deployments of virtual kubelets
				write := []string{"create", "patch", "delete"}
				o.Rules = append(o.Rules,
					rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: write},
					rbacv1.PolicyRule{APIGroups: []string{appsv1.GroupName}, Resources: []string{"deployments"}, Verbs: write},
					rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: write})
			}
		case *appsv1.DaemonSet:
			if p.Announce != "" && p.Announce != AnnounceNone {
				args := &o.Spec.Template.Spec.Containers[0].Args
				*args = append(*args, announceFlag+p.Announce+","+string(p.ClusterID))
			}
			pods.ForFabric().Apply(&o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec)
		}
	}
	return objs, nil
}

// lastManifests keeps the parsed manifests, because an installation makes a plan after each observation.
var lastManifests manifests

type manifests struct {
	mu   sync.Mutex
	text string
	objs []wire.Object
}

func (m *manifests) parse(text string) ([]wire.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.text == text {
		return m.objs, nil
	}
	var objs []wire.Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			return nil, fmt.Errorf("parse the manifests of the operator: %w", err)
		}
		o := manifestObject(kind.Kind)
		if o == nil {
			return nil, fmt.Errorf("parse the manifests of the operator: kind %q is not supported", kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			return nil, fmt.Errorf("parse the manifests of the operator: %s: %w", kind.Kind, err)
		}
		objs = append(objs, o)
	}
	m.text, m.objs = text, objs
	return objs, nil
}

// Flags of the operator. The last one is a flag of the node agent.
const (
	poolsFlag     = "--pools="
	podsFlag      = "--pod-cidr="
	servicesFlag  = "--service-cidr="
	peeringFlag   = "--peering="
	apiServerFlag = "--api-server="
	lendFlag      = "--lend="
	announceFlag  = "--announce="
)

func services(p InstallParams) []string {
	if p.ServiceCIDR == "" {
		return nil
	}
	return []string{p.ServiceCIDR}
}

// OperatorParams reads the parameters of an installation from its operator's Deployment: image, pools, the
// cluster's ranges, role in lending, APIServer, Lend, Services, the operator's replicas and the settings of pods. A range
// is empty if the installation did not state it.
func OperatorParams(d *appsv1.Deployment) (p InstallParams) {
	p.Pods = rememberedPods(d)
	if d.Spec.Replicas != nil {
		p.OperatorReplicas = int(*d.Spec.Replicas)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		p.Image = c.Image
		if Rewritten(d, d.Spec.Template) != "" { // an admission webhook has changed the image of the only container
			p.Image = AskedImages(d, d.Spec.Template)[0]
		}
		for _, arg := range c.Args {
			if text, ok := strings.CutPrefix(arg, poolsFlag); ok {
				p.Pools = strings.Split(text, ",")
			}
			if text, ok := strings.CutPrefix(arg, podsFlag); ok {
				p.PodCIDRs = strings.Split(text, ",")
			}
			if text, ok := strings.CutPrefix(arg, servicesFlag); ok {
				p.ServiceCIDR = text
			}
			if text, ok := strings.CutPrefix(arg, peeringFlag); ok {
				p.Peering = PeeringRole(text)
			}
			if text, ok := strings.CutPrefix(arg, apiServerFlag); ok {
				p.APIServer = text
			}
			if strings.HasPrefix(arg, exchangeFlag) {
				p.Services = On
			}
			if text, ok := strings.CutPrefix(arg, lendFlag); ok {
				p.Lend = strings.Split(text, ",")
			}
		}
	}
	return p
}

// Announced returns the URL that the node agents of a DaemonSet announce; "" if they announce nothing.
func Announced(d *appsv1.DaemonSet) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if text, ok := strings.CutPrefix(arg, announceFlag); ok {
				server, _, _ := strings.Cut(text, ",")
				return server
			}
		}
	}
	return ""
}

func manifestObject(kind string) wire.Object {
	switch kind {
	case "Namespace":
		return &corev1.Namespace{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "Service":
		return &corev1.Service{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "ClusterRole":
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	case "ResourceQuota":
		return &corev1.ResourceQuota{}
	case "PriorityClass":
		return &schedulingv1.PriorityClass{}
	case "ValidatingAdmissionPolicy":
		return &admissionregistrationv1.ValidatingAdmissionPolicy{}
	case "ValidatingAdmissionPolicyBinding":
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	case "MutatingAdmissionPolicy":
		return &admissionregistrationv1.MutatingAdmissionPolicy{}
	case "MutatingAdmissionPolicyBinding":
		return &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	}
	return nil
}

// Optional reports whether an installation works without the object on a cluster that does not know its kind.
// Kubernetes has validating admission policies since 1.30, and mutating admission policies since 1.36.
func Optional(o wire.Object) bool {
	return o.GetObjectKind().GroupVersionKind().Group == admissionregistrationv1.GroupName
}

func replaceAll(text string, values map[string]string) string {
	for from, to := range values {
		text = strings.ReplaceAll(text, from, to)
	}
	return text
}
