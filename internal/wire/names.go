// Package wire has what the program of the admin and the programs in clusters say to
// each other: names, labels and annotations of objects, IDs, ports, and what gateways,
// nodes and operators report. It is pure: it talks to no cluster.
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

// First is the first of several by namespace and name, nil if there is none. Lists are in
// any order, and what is judged by one of them must not change with it.
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

// DefaultNamespace is where Liqo, and our operator, are installed.
const DefaultNamespace = "liqo"

// Labels and annotations that Liqo's programs look objects up by.
const (
	LabelManaged         = "liqo.io/managed" // "true": made by a controller, of another object
	LabelRemoteCluster   = "liqo.io/remote-cluster-id"
	LabelTenantNamespace = "liqo.io/tenant-namespace"
	LabelGatewayResource = "networking.liqo.io/gateway-resource"
	LabelGatewayName     = "networking.liqo.io/gateway-name"
	// LabelGatewayTemplate says of the definition of a kind that its objects are
	// templates of gateways.
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

// Annotations of our own, for what Liqo's types have no field for.
const (
	// AnnotationStatus on a Connection holds a [Report], on an InternalNode a [NodeStatus].
	AnnotationStatus = "liqo-tui.dev/status"
	// AnnotationPublicKey on a GatewayServer or GatewayClient is the base64 form
	// of the gateway's WireGuard public key. With it the admin's program need
	// not read the Secret, which also holds the private key.
	AnnotationPublicKey = "liqo-tui.dev/public-key"
	// AnnotationRotateKey on a GatewayServer or GatewayClient asks the operator
	// for a next key pair. Its value is the public key to be replaced, so that
	// asking twice, or after it was done, changes nothing.
	AnnotationRotateKey = "liqo-tui.dev/rotate-key"
	// AnnotationUseKey on a GatewayServer or GatewayClient tells the operator to
	// replace the key pair by the next one, whose public key is its value: the
	// peer is ready for it.
	AnnotationUseKey = "liqo-tui.dev/use-key"
	// AnnotationNextPublicKey on a GatewayServer or GatewayClient is the base64
	// form of the key that its next pair has; on a PublicKey, of the key that
	// the peer is about to use.
	AnnotationNextPublicKey = "liqo-tui.dev/next-public-key"
	// AnnotationAccount on the template of a program's pods is the UID of their ServiceAccount. An API
	// server refuses the tokens of one that was deleted, also if there is another one of its name, and
	// a kubelet asks for another token as late as 48 minutes after the first: the pods are replaced.
	AnnotationAccount = "liqo-tui.dev/account"
	// AnnotationRelay on a GatewayServer is the address of a relay, host:port, that its
	// gateway dials, because nobody can dial the gateway.
	AnnotationRelay = "liqo-tui.dev/relay"
	// AnnotationEndpoint on a GatewayServer is one sentence: why its endpoint is
	// what it is, or what it waits for.
	AnnotationEndpoint = "liqo-tui.dev/endpoint"
	// AnnotationProblem on a GatewayServer or GatewayClient is one sentence: why
	// the operator can't make what it consists of. It starts with
	// [ProblemRefused] if trying again does not help.
	AnnotationProblem = "liqo-tui.dev/problem"
	// AnnotationProblemOf on a Tenant or Identity is the generation that its
	// [AnnotationProblem] is of.
	AnnotationProblemOf = "liqo-tui.dev/problem-of"
	// AnnotationInvitation on a GatewayServer is the nonce of the invitations to it,
	// which answers repeat.
	AnnotationInvitation = "liqo-tui.dev/invitation"
	// AnnotationCreated on a Namespace says that our program has created it: its
	// value is the namespace's name. Only the request that creates it writes
	// that, no apply and no manifest, so no namespace that was there before has
	// it. See [CreatedByUs].
	AnnotationCreated = "liqo-tui.dev/created"
	// AnnotationForPeering on a Configuration or a gateway says that it was made for a
	// whole peering, and goes with it: what was there before has no such annotation.
	AnnotationForPeering = "liqo-tui.dev/for-peering"
	// AnnotationPeerUID on a Configuration is the UID of the peer's namespace kube-system:
	// which cluster it is, whatever others have its ID.
	AnnotationPeerUID = "liqo-tui.dev/peer-uid"
	// AnnotationSource on a Network says who or what stated its range.
	AnnotationSource = "liqo-tui.dev/source"
	// AnnotationNetworks on an InternalNode are the networks that the node knows a
	// way to, with commas between them.
	AnnotationNetworks = "liqo-tui.dev/networks"
	// AnnotationPods on an InternalNode are the addresses of the node's pods, ranges
	// and single ones, with commas between them.
	AnnotationPods = "liqo-tui.dev/pods"
	// AnnotationAddresses on an InternalNode are the node's own addresses, with
	// commas between them.
	AnnotationAddresses = "liqo-tui.dev/addresses"
	// AnnotationNameservers on an InternalNode are the DNS servers that the node asks,
	// with commas between them. Without any there is none.
	AnnotationNameservers = "liqo-tui.dev/nameservers"
	// AnnotationMTU on an InternalNode is that of the narrowest of the node's ways to
	// gateways' pods, in bytes.
	AnnotationMTU = "liqo-tui.dev/mtu"
	// AnnotationUnreached on an InternalNode are the gateways that do not answer the
	// node over the fabric, with commas between them. Without any there is none.
	AnnotationUnreached = "liqo-tui.dev/unreached"
	// AnnotationNodeIPs on an InternalFabric are the addresses of the nodes that the
	// gateway's pods are on, with commas between them.
	AnnotationNodeIPs = "liqo-tui.dev/node-ips"
	// AnnotationHosts on an InternalFabric are what is no pod, and the peer may reach by an
	// external address, separated by commas: nodes let it in.
	AnnotationHosts = "liqo-tui.dev/hosts"
	// AnnotationHost on an InternalFabric is a gateway IP, and behind "@" the address
	// of the node that the pod with it is on. It says nothing of another gateway IP.
	AnnotationHost = "liqo-tui.dev/host"
	// AnnotationGone on an InternalFabric is a gateway IP that no pod of the gateway
	// has any more. It says nothing of another one.
	AnnotationGone = "liqo-tui.dev/gone"
	// AnnotationLeftOut on an InternalFabric says which addresses in the peer's
	// ranges nodes don't send to the gateway, one a line, and why.
	AnnotationLeftOut = "liqo-tui.dev/left-out"
	// AnnotationOperatorStatus on the operator's Deployment holds an [OperatorStatus].
	AnnotationOperatorStatus = "liqo-tui.dev/operator-status"
)

// ProblemRefused is how an [AnnotationProblem] starts when the API server has
// answered that it will not have a child as the gateway asks for it.
const ProblemRefused = "refused: "

// Names of programs and objects.
const (
	ManagedBy           = "liqo-tui"
	OperatorName        = "liqo-tui-operator"
	FabricName          = "liqo-tui-fabric"
	GatewayAccessName   = "liqo-tui-gateway"
	TenantAccessName    = "liqo-tui-tenant" // of the ClusterRole that the operator has in tenants' namespaces
	InvitedAccessName   = "liqo-tui-operator-invited"
	PeeringAccessName   = "liqo-tui-peering"       // of what the operator may do in a peer's namespace, for whole peerings
	ConsumerAccessName  = "liqo-tui-consumer"      // of what a consumer may do in its namespace
	MappedAccessName    = "liqo-tui-twin"          // of what a consumer may do in namespaces that stand for its own
	MappedOperatorName  = "liqo-tui-twin-operator" // of what the operator may do there
	ProxyName           = "liqo-tui-api-server"    // the Service of the operator's proxy to the API server
	ProxyPort           = "8118"                   // where it listens, as Liqo's does
	NodeAccessName      = "liqo-tui-node"          // of what the programs of virtual nodes may do; with a dash and the node's name, of each
	OffloadedAccessName = "liqo-tui-offloaded"     // of what these programs may do in an offloaded namespace
	ClusterIDConfigMap  = "liqo-clusterid-configmap"
	ClusterIDAppName    = "clusterid-configmap"
	ClusterIDKey        = "CLUSTER_ID"
	ServerTemplate      = "wireguard-server"
	ClientTemplate      = "wireguard-client"
	NetworkPodCIDR      = "pod-cidr"
	NetworkServiceCIDR  = "service-cidr"
	NetworkExternalCIDR = "external-cidr"
	NetworkReserved     = "reserved" // an admin keeps it for something else
	FabricDevice        = "liqo-fabric"
	SecretPrivateKey    = "privateKey"
	SecretPublicKey     = "publicKey"
	SecretNextPrivate   = "nextPrivateKey" // of the pair that is about to be used
	SecretNextPublic    = "nextPublicKey"
)

// Defaults of a connection; the same as liqoctl's.
const (
	DefaultPort = 51840 // UDP port of the gateway server
	DefaultMTU  = 1340  // bytes, of the tunnel's interface
)

// Bounds of a tunnel's MTU: the smallest datagram that every IPv4 host must
// accept, and jumbo frames.
const (
	MinMTU = 576
	MaxMTU = 9000
)

// ClusterID is the name by which a cluster is known to its peers.
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

// MoreRoom is what to do where no range is left under which a peer could be seen.
const MoreRoom = "reset peerings that are no longer needed, or give the operator more ranges: liqo-tui install --pools"

// sliceUser is how the users of consumers' slices end: see peering.SliceUser.
var sliceUser = regexp.MustCompile(`-[0-9a-f]{12}$`)

// Choose is [ClusterID.Validate] of an ID that is new: it also reports why id can be taken
// for something else. Clusters that have such an ID keep it.
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
		why = "is how namespaces and users of programs are called"
	default:
		return nil
	}
	return fmt.Errorf("cluster ID %q %s: peers could take the one for the other", id, why)
}

// programNames are what users are called, and what namespaces of common programs end in,
// as those of a consumer end in its ID: istio-system, cert-manager, external-secrets.
var programNames = []string{"admin", "controller", "default", "liqo", "manager", "node", "operator", "operators", "secrets", "system"}

const tenantPrefix = "liqo-tenant-"

// TenantNamespaceName is the default name of the namespace that holds the
// objects of the peering with remote.
func TenantNamespaceName(remote ClusterID) string { return tenantPrefix + string(remote) }

// GatewayObjectName is the name of a gateway's Deployment, Service, key Secret
// and Connection.
func GatewayObjectName(gateway string) string { return "gw-" + gateway }

// HostsConfigMapName is the name of the ConfigMap that tells a gateway's pod
// which hosts its peer may reach.
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

// Lasting are the annotations of an object that this program wrote to stay with it. An apply
// that leaves them out takes them away.
func Lasting(o Object) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{AnnotationForPeering, AnnotationInvitation, AnnotationPeerUID, AnnotationRelay} {
		if value, ok := o.GetAnnotations()[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
