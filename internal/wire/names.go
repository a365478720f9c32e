// Package wire is the language between the admin's program and the programs in clusters:
// names, labels and annotations of objects, IDs, ports, and the reports of gateways,
// nodes and operators. It is pure: it talks to no cluster.
//
// Kinds, names and labels are those of Liqo v1.2.0, so that clusters which run Liqo
// and clusters which run our operator understand each other's objects.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object with metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// First returns the first item by namespace and name; nil if items is empty. Lists come in
// any order, and a verdict that depends on one item must not change with the order.
func First[T any, O interface {
	*T
	Object
}](items []T) O {
	var out O
	for i := range items {
		o := O(&items[i])
		if out == nil || cmp.Or(cmp.Compare(o.GetNamespace(), out.GetNamespace()), cmp.Compare(o.GetName(), out.GetName())) < 0 {
			out = o
		}
	}
	return out
}

// FieldManager is the name under which the admin's program applies objects.
const FieldManager = "liqo-tui"

// GatewayPriorityClass is the priority of gateways' pods.
const GatewayPriorityClass = "liqo-tui-gateway"

// DefaultNamespace is the namespace of Liqo's installation, and of our operator's.
const DefaultNamespace = "liqo"

// Labels by which Liqo's programs find objects.
const (
	LabelManaged         = "liqo.io/managed" // "true": a controller made it from another object
	LabelRemoteCluster   = "liqo.io/remote-cluster-id"
	LabelTenantNamespace = "liqo.io/tenant-namespace"
	LabelGatewayResource = "networking.liqo.io/gateway-resource"
	LabelGatewayName     = "networking.liqo.io/gateway-name"
	// LabelGatewayTemplate marks the definition of a kind whose objects are templates of
	// gateways.
	LabelGatewayTemplate  = "networking.liqo.io/gatewaytemplate"
	LabelGatewayNamespace = "networking.liqo.io/gateway-namespace"
	LabelComponent        = "networking.liqo.io/component"
	LabelActive           = "networking.liqo.io/active"
	LabelCIDRType         = "configuration.liqo.io/cidr-type"
	LabelConfigured       = "configuration.liqo.io/configured"
	LabelNetworkType      = "ipam.liqo.io/network-type"
	LabelNotRemapped      = "ipam.liqo.io/network-not-remapped"
	LabelHostUnreachable  = "networking.liqo.io/host-unreachable" // of an IP: its address is only reserved
	LabelAppName          = "app.kubernetes.io/name"
	LabelManagedBy        = "app.kubernetes.io/managed-by"
	LabelPartOf           = "app.kubernetes.io/part-of"
)

// Our own annotations. Liqo's types have no fields for their values.
const (
	// AnnotationStatus on a Connection holds a [Report], on an InternalNode a [NodeStatus].
	AnnotationStatus = "liqo-tui.dev/status"
	// AnnotationPublicKey on a GatewayServer or GatewayClient is the base64 form
	// of the gateway's WireGuard public key. With it the admin's program need
	// not read the Secret, which also holds the private key.
	AnnotationPublicKey = "liqo-tui.dev/public-key"
	// AnnotationRotateKey on a GatewayServer or GatewayClient asks the operator
	// for a next key pair. Its value is the public key to be replaced: a second
	// request, or one that comes after the replacement, changes nothing.
	AnnotationRotateKey = "liqo-tui.dev/rotate-key"
	// AnnotationUseKey on a GatewayServer or GatewayClient tells the operator to
	// replace the key pair by the next one: the peer is ready for it. The value
	// is the next pair's public key.
	AnnotationUseKey = "liqo-tui.dev/use-key"
	// AnnotationNextPublicKey is a public key in base64: on a GatewayServer or
	// GatewayClient, that of its next key pair; on a PublicKey, that of the
	// peer's next key pair.
	AnnotationNextPublicKey = "liqo-tui.dev/next-public-key"
	// AnnotationAccount on the template of a program's pods is the UID of their ServiceAccount. If the
	// ServiceAccount is deleted and made again, the API server refuses the pods' tokens, and a kubelet
	// may ask for new tokens only after 48 minutes: a new UID in the template replaces the pods.
	AnnotationAccount = "liqo-tui.dev/account"
	// AnnotationRelay on a GatewayServer is the address of a relay, host:port. The
	// gateway dials the relay, because nobody can dial the gateway.
	AnnotationRelay = "liqo-tui.dev/relay"
	// AnnotationEndpoint on a GatewayServer is one sentence: the reason for its
	// endpoint, or what the endpoint waits for.
	AnnotationEndpoint = "liqo-tui.dev/endpoint"
	// AnnotationProblem on a GatewayServer or GatewayClient is one sentence: the reason that the
	// operator can't make the gateway's parts. It starts with [ProblemRefused] if trying again does
	// not help.
	AnnotationProblem = "liqo-tui.dev/problem"
	// AnnotationProblemOf on a Tenant or Identity is the object's generation for
	// which the operator wrote its [AnnotationProblem].
	AnnotationProblemOf = "liqo-tui.dev/problem-of"
	// AnnotationImages on a Deployment or DaemonSet of ours has the images that were applied, with
	// spaces between them.
	AnnotationImages = "liqo-tui.dev/images"
	// AnnotationInvitation on a GatewayServer is the nonce in invitations to it. Answers
	// repeat the nonce.
	AnnotationInvitation = "liqo-tui.dev/invitation"
	// AnnotationCreated on a Namespace says that our program has created it. Its
	// value is the namespace's name. Only the request that creates the namespace
	// writes the annotation; no apply and no manifest does. So a namespace that
	// existed before does not have it. See render.CreatedByUs.
	AnnotationCreated = "liqo-tui.dev/created"
	// AnnotationForPeering on a Configuration or a gateway says that it was made for lending, and is
	// deleted with the lending. Objects that existed before lack the annotation.
	AnnotationForPeering = "liqo-tui.dev/for-peering"
	// AnnotationPeerUID on a Configuration is the UID of the peer's namespace kube-system.
	// It tells the peer from another cluster with the same ID.
	AnnotationPeerUID = "liqo-tui.dev/peer-uid"
	// AnnotationSource on a Network is the source of its range: a person or a program.
	AnnotationSource = "liqo-tui.dev/source"
	// AnnotationNetworks on an InternalNode are the networks that the node has
	// routes to, with commas between them.
	AnnotationNetworks = "liqo-tui.dev/networks"
	// AnnotationPods on an InternalNode are the addresses of the node's pods, ranges
	// and single ones, with commas between them.
	AnnotationPods = "liqo-tui.dev/pods"
	// AnnotationAddresses on an InternalNode are the node's own addresses, with
	// commas between them.
	AnnotationAddresses = "liqo-tui.dev/addresses"
	// AnnotationNameservers on an InternalNode are the DNS servers that the node asks,
	// with commas between them. If there are none, the annotation is absent.
	AnnotationNameservers = "liqo-tui.dev/nameservers"
	// AnnotationMTU on an InternalNode is the smallest MTU of the node's routes to
	// gateways' pods, in bytes.
	AnnotationMTU = "liqo-tui.dev/mtu"
	// AnnotationUnreached on an InternalNode are the gateways that do not answer the
	// node over the fabric, with commas between them. If there are none, the annotation
	// is absent.
	AnnotationUnreached = "liqo-tui.dev/unreached"
	// AnnotationNodeIPs on an InternalFabric are the addresses of the nodes on which the
	// gateway's pods run, with commas between them.
	AnnotationNodeIPs = "liqo-tui.dev/node-ips"
	// AnnotationHosts on an InternalFabric are addresses outside of the pods' that the peer may reach
	// by an external address, with commas between them: nodes let the peer's packets to them pass.
	AnnotationHosts = "liqo-tui.dev/hosts"
	// AnnotationHost on an InternalFabric is GATEWAY-IP@NODE-IP: the node on which the
	// pod with this gateway IP runs. It does not hold for any other gateway IP.
	AnnotationHost = "liqo-tui.dev/host"
	// AnnotationGone on an InternalFabric is a gateway IP that no pod of the gateway
	// has any more. It does not hold for any other gateway IP.
	AnnotationGone = "liqo-tui.dev/gone"
	// AnnotationLeftOut on an InternalFabric has the addresses in the peer's ranges that nodes don't
	// send to the gateway, one a line, each with the reason.
	AnnotationLeftOut = "liqo-tui.dev/left-out"
	// AnnotationOperatorStatus on the operator's Deployment holds an [OperatorStatus].
	AnnotationOperatorStatus = "liqo-tui.dev/operator-status"
)

// ProblemRefused begins an [AnnotationProblem] if the API server has refused an object that the
// gateway requests.
const ProblemRefused = "refused: "

// Names of programs and objects.
const (
	ManagedBy           = "liqo-tui"
	OperatorName        = "liqo-tui-operator"
	FabricName          = "liqo-tui-fabric"
	GatewayAccessName   = "liqo-tui-gateway"
	TenantAccessName    = "liqo-tui-tenant" // the operator's ClusterRole in tenants' namespaces
	InvitedAccessName   = "liqo-tui-operator-invited"
	PeeringAccessName   = "liqo-tui-peering"       // the operator's rights in a peer's namespace, for lending
	ConsumerAccessName  = "liqo-tui-consumer"      // a consumer's rights in its namespace
	MappedAccessName    = "liqo-tui-twin"          // a consumer's rights in its mapped namespaces
	MappedOperatorName  = "liqo-tui-twin-operator" // the operator's rights in mapped namespaces
	ProxyName           = "liqo-tui-api-server"    // the Service of the operator's proxy to the API server
	ProxyPort           = "8118"                   // the proxy's port; the same as that of Liqo's proxy
	NodeAccessName      = "liqo-tui-node"          // rights of all virtual nodes' programs; NAME-NODE: rights of one node's program
	OffloadedAccessName = "liqo-tui-offloaded"     // rights of virtual nodes' programs in an offloaded namespace
	ClusterIDConfigMap  = "liqo-clusterid-configmap"
	ClusterIDAppName    = "clusterid-configmap"
	ClusterIDKey        = "CLUSTER_ID"
	ServerTemplate      = "wireguard-server"
	ClientTemplate      = "wireguard-client"
	NetworkPodCIDR      = "pod-cidr"
	NetworkServiceCIDR  = "service-cidr"
	NetworkExternalCIDR = "external-cidr"
	NetworkReserved     = "reserved" // an admin reserves the network for another use
	FabricDevice        = "liqo-fabric"
	SecretPrivateKey    = "privateKey"
	SecretPublicKey     = "publicKey"
	SecretNextPrivate   = "nextPrivateKey" // of the next key pair
	SecretNextPublic    = "nextPublicKey"
)

// Defaults of a connection; the same as liqoctl's.
const (
	DefaultPort = 51840 // UDP port of the gateway server
	DefaultMTU  = 1340  // bytes, of the tunnel's interface
)

// Bounds of a tunnel's MTU: the datagram size that every IPv4 host must accept,
// and the size of jumbo frames.
const (
	MinMTU = 576
	MaxMTU = 9000
)

// ClusterID is a cluster's name among its peers.
type ClusterID string

var clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// maxClusterID keeps "liqo-tenant-<id>" within the 63 bytes of a namespace's name.
const maxClusterID = 63 - len(tenantPrefix)

// Validate reports why id can't be a cluster ID.
func (id ClusterID) Validate() error {
	switch {
	case id == "":
		return errors.New("cluster ID is empty")
	case len(id) > maxClusterID:
		return fmt.Errorf("cluster ID %q has %d bytes, at most %d fit into the tenant namespace's name", id, len(id), maxClusterID)
	case !clusterIDPattern.MatchString(string(id)):
		return fmt.Errorf("cluster ID %q: only a-z, 0-9 and - are allowed, starting and ending with a letter or digit", id)
	}
	if _, err := strconv.Atoi(string(id)); err == nil {
		// Liqo's template engine turns such strings into integers.
		return fmt.Errorf("cluster ID %q is only digits, which Liqo's gateway templates can't carry", id)
	}
	return nil
}

// sliceUser matches the end of a slice user's name: see peering.SliceUser.
var sliceUser = regexp.MustCompile(`-[0-9a-f]{12}$`)

// Choose is the [ClusterID.Validate] of new IDs: it also refuses an ID that can be
// mistaken for another name. Clusters that already have such an ID keep it.
func (id ClusterID) Choose() error {
	if err := id.Validate(); err != nil {
		return err
	}
	why := ""
	switch {
	case sliceUser.MatchString(string(id)):
		why = "ends like the user of a consumer's resources"
	case strings.HasPrefix(string(id), "xn--"):
		why = "begins like an encoded name of DNS"
	case slices.ContainsFunc([]string{"kube-", "openshift-", "liqo-"}, func(p string) bool { return strings.HasPrefix(string(id), p) }):
		why = "begins like a namespace of Kubernetes or Liqo"
	case slices.Contains(programNames, string(id)):
		why = "is a usual name for namespaces and users of programs"
	default:
		return nil
	}
	return fmt.Errorf("cluster ID %q %s: peers could mistake one for the other", id, why)
}

// programNames are common names of users, and ends of namespaces of common programs
// (istio-system, cert-manager, external-secrets). A consumer's mapped namespaces end in
// its ID, so these words can't be IDs.
var programNames = []string{"admin", "controller", "default", "liqo", "manager", "node", "operator", "operators", "secrets", "system"}

const tenantPrefix = "liqo-tenant-"

// TenantNamespaceName is the default name of the namespace for the connection and the lending with
// remote.
func TenantNamespaceName(remote ClusterID) string { return tenantPrefix + string(remote) }

// GatewayObjectName is the name of a gateway's Deployment, Service, key Secret
// and Connection.
func GatewayObjectName(gateway string) string { return "gw-" + gateway }

// HostsConfigMapName is the name of the ConfigMap with the hosts that a gateway's peer may reach.
func HostsConfigMapName(gateway string) string { return GatewayObjectName(gateway) + "-hosts" }

// Named finds the object with want's namespace and name, as a nil pointer if there is none.
func Named[T any, O interface {
	*T
	Object
}](all []T, want Object) O {
	for i := range all {
		if o := O(&all[i]); o.GetNamespace() == want.GetNamespace() && o.GetName() == want.GetName() {
			return o
		}
	}
	return nil
}

// Lasting returns the annotations of o that this program has written before, and that an apply must
// repeat: an apply without them removes them.
func Lasting(o Object) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{AnnotationForPeering, AnnotationInvitation, AnnotationPeerUID, AnnotationRelay} {
		if value, ok := o.GetAnnotations()[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
