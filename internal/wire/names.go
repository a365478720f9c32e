// Package wire defines what the admin's program and the programs in clusters write into
// objects for each other: names, labels, annotations, IDs, ports, and the reports of
// gateways, nodes and operators. The package is pure: it takes values and returns values.
//
// The kinds, and the names and labels that Liqo also uses, are the same as in Liqo v1.2.0.
// So a cluster with Liqo and a cluster with our operator can read each other's objects.
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

// First returns the item whose namespace and name sort first; nil if items is empty. The order
// of a list can change from one read to the next. A decision that rests on one item must not
// change with that order.
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

// DefaultNamespace is the default namespace of an installation, both of Liqo and of our operator.
const DefaultNamespace = "liqo"

// Labels by which Liqo's programs find objects.
const (
	LabelManaged         = "liqo.io/managed" // "true": a controller made the object from another object
	LabelRemoteCluster   = "liqo.io/remote-cluster-id"
	LabelTenantNamespace = "liqo.io/tenant-namespace"
	LabelGatewayResource = "networking.liqo.io/gateway-resource"
	LabelGatewayName     = "networking.liqo.io/gateway-name"
	// LabelGatewayTemplate marks a CRD: objects of its kind are gateway templates.
	LabelGatewayTemplate  = "networking.liqo.io/gatewaytemplate"
	LabelGatewayNamespace = "networking.liqo.io/gateway-namespace"
	LabelComponent        = "networking.liqo.io/component"
	LabelActive           = "networking.liqo.io/active"
	LabelCIDRType         = "configuration.liqo.io/cidr-type"
	LabelConfigured       = "configuration.liqo.io/configured"
	LabelNetworkType      = "ipam.liqo.io/network-type"
	LabelNotRemapped      = "ipam.liqo.io/network-not-remapped"
	LabelHostUnreachable  = "networking.liqo.io/host-unreachable" // on an IP: the object only reserves its address
	LabelAppName          = "app.kubernetes.io/name"
	LabelManagedBy        = "app.kubernetes.io/managed-by"
	LabelPartOf           = "app.kubernetes.io/part-of"
)

// Labels of the copies of a peer's multi-cluster EndpointSlices, which a gateway keeps in its tenant
// namespace. A copy does not have the labels multicluster.kubernetes.io/…, by which DNS servers find
// the endpoints of imported Services.
const (
	LabelServiceNamespace = "liqo-tui.dev/service-namespace" // the namespace of the exported Service
	LabelServiceName      = "liqo-tui.dev/service-name"      // the name of the exported Service
)

// Our own annotations. Liqo's types have no fields for their values.
const (
	// AnnotationStatus on a Connection holds a [Report], on an InternalNode a [NodeStatus].
	AnnotationStatus = "liqo-tui.dev/status"
	// AnnotationPublicKey on a GatewayServer or GatewayClient is the base64 form
	// of the gateway's WireGuard public key. The admin's program reads the annotation
	// instead of the Secret, because the Secret also holds the private key.
	AnnotationPublicKey = "liqo-tui.dev/public-key"
	// AnnotationRotateKey on a GatewayServer or GatewayClient asks the operator
	// for a next key pair. The value is the public key to be replaced. So the same
	// request changes nothing when it is repeated, or when it comes after the
	// replacement.
	AnnotationRotateKey = "liqo-tui.dev/rotate-key"
	// AnnotationUseKey on a GatewayServer or GatewayClient tells the operator to
	// replace the key pair by the next one, because the peer knows the next public
	// key. The value is that key.
	AnnotationUseKey = "liqo-tui.dev/use-key"
	// AnnotationNextPublicKey is the public key of a next key pair, in base64. On a
	// GatewayServer or GatewayClient, the pair is the gateway's. On a PublicKey, the
	// pair is the peer's.
	AnnotationNextPublicKey = "liqo-tui.dev/next-public-key"
	// AnnotationAccount on the template of a program's pods is the UID of their ServiceAccount. If the
	// ServiceAccount is deleted and created again, the API server refuses the tokens of the pods. A
	// kubelet might not ask for a new token for up to 48 minutes. But the new UID changes the template,
	// so the pods are replaced at once.
	AnnotationAccount = "liqo-tui.dev/account"
	// AnnotationRelay on a GatewayServer is the address of a relay, host:port. The
	// gateway dials the relay, because nobody can dial the gateway.
	AnnotationRelay = "liqo-tui.dev/relay"
	// AnnotationAllow on a GatewayServer or GatewayClient is an [Allow]. If it is absent, the peer's pods
	// may open connections to all pods.
	AnnotationAllow = "liqo-tui.dev/allow"
	// AnnotationEndpoint on a GatewayServer is one sentence. It says why the operator
	// has chosen the endpoint, or why there is no endpoint yet.
	AnnotationEndpoint = "liqo-tui.dev/endpoint"
	// AnnotationProblem is the reason that the operator can't do what the object requests. It can be on
	// gateways, on Networks, and on objects of lending, such as Tenants and ShadowPods. It begins with
	// [ProblemRefused] if another attempt with the same objects would fail, too.
	AnnotationProblem = "liqo-tui.dev/problem"
	// AnnotationProblemOf on a Network, or on an object of lending, is the object's generation at
	// the time when the operator wrote the [AnnotationProblem].
	AnnotationProblemOf = "liqo-tui.dev/problem-of"
	// AnnotationImages on a Deployment or DaemonSet of ours lists the images that were applied, with
	// spaces between them.
	AnnotationImages = "liqo-tui.dev/images"
	// AnnotationInvitation on a GatewayServer is a random text. It is in each file by which the
	// server's admin invites the peer's admin, and the peer's reply file repeats it.
	AnnotationInvitation = "liqo-tui.dev/invitation"
	// AnnotationOtherWay on a GatewayServer means that the gateways did not reach each other while the other
	// cluster hosted the server. So our programs don't advise to swap the roles again.
	AnnotationOtherWay = "liqo-tui.dev/other-way-failed"
	// AnnotationCreated on a Namespace means that our program has created the namespace. The value is the
	// namespace's name. Our program writes the annotation only in the request that creates the namespace,
	// never in an apply or a manifest. So a namespace that existed before does not get the annotation. See
	// render.CreatedByUs.
	AnnotationCreated = "liqo-tui.dev/created"
	// AnnotationForPeering on a Configuration or a gateway means that the object was made for lending, and is
	// deleted when the lending ends. An object that existed before the lending does not have the annotation.
	AnnotationForPeering = "liqo-tui.dev/for-peering"
	// AnnotationPeerUID on a Configuration is the UID of the namespace kube-system in the peer's
	// cluster. By this UID, programs notice if another cluster with the same ID takes the peer's place.
	AnnotationPeerUID = "liqo-tui.dev/peer-uid"
	// AnnotationSource on a Network says by which command an admin stated its range, or from which
	// source the operator learned it.
	AnnotationSource = "liqo-tui.dev/source"
	// AnnotationNetworks on an InternalNode lists the networks that the node has
	// routes to, with commas between them.
	AnnotationNetworks = "liqo-tui.dev/networks"
	// AnnotationPods on an InternalNode lists the addresses of the node's pods, as
	// ranges and single addresses, with commas between them.
	AnnotationPods = "liqo-tui.dev/pods"
	// AnnotationAddresses on an InternalNode lists the node's own addresses, with
	// commas between them.
	AnnotationAddresses = "liqo-tui.dev/addresses"
	// AnnotationNameservers on an InternalNode lists the DNS servers that the node asks,
	// with commas between them. If the node asks none, the annotation is absent.
	AnnotationNameservers = "liqo-tui.dev/nameservers"
	// AnnotationMTU on an InternalNode is the smallest MTU of the node's routes to
	// gateways' pods, in bytes.
	AnnotationMTU = "liqo-tui.dev/mtu"
	// AnnotationNodeIPs on an InternalFabric lists the addresses of the nodes on which the
	// gateway's pods run, with commas between them.
	AnnotationNodeIPs = "liqo-tui.dev/node-ips"
	// AnnotationHosts on an InternalFabric lists the addresses of the hosts that the peer may reach
	// by an address of the external range, with commas between them. Nodes forward the peer's packets
	// to pods and to these hosts.
	AnnotationHosts = "liqo-tui.dev/hosts"
	// AnnotationHost on an InternalFabric is GATEWAY-IP@NODE-IP: the gateway IP of a pod, and the
	// address of the pod's node. Readers ignore it if the InternalFabric has another gateway IP.
	AnnotationHost = "liqo-tui.dev/host"
	// AnnotationGone on an InternalFabric is a gateway IP that no pod of the gateway has any more.
	// Readers ignore it if the InternalFabric has another gateway IP.
	AnnotationGone = "liqo-tui.dev/gone"
	// AnnotationLeftOut on an InternalFabric lists the addresses in the peer's ranges for which nodes
	// send no packets to the gateway. Each line has one address and the reason.
	AnnotationLeftOut = "liqo-tui.dev/left-out"
	// AnnotationServiceHead on a multi-cluster EndpointSlice of this cluster, and on a copy of a peer's,
	// describes the exported Service: a services.Head in JSON, at most 15 KiB.
	AnnotationServiceHead = "liqo-tui.dev/service"
	// AnnotationContent on a copy of a peer's EndpointSlice is a sum of what the gateway has written. So a
	// gateway that starts again writes only the copies that differ.
	AnnotationContent = "liqo-tui.dev/content"
	// AnnotationExportTo on a ServiceExport lists the cluster IDs of the peers that get the Service, with
	// commas between them. If it is absent, all peers get the Service. The multi-cluster EndpointSlices
	// of the Service have it, too. Peers don't get the annotation.
	AnnotationExportTo = "liqo-tui.dev/export-to"
	// AnnotationImport on a peer's Configuration lists the namespaces into which the peer's Services are
	// imported, with commas between them; [ImportAll] means each namespace. If it is absent, none is.
	AnnotationImport = "liqo-tui.dev/import"
	// AnnotationPrefer on a ServiceExport is [PreferLocal]: while this cluster has ready endpoints of the
	// Service, no connection from this cluster to the clusterset IP goes to endpoints of peers. It does
	// not concern headless Services.
	AnnotationPrefer = "liqo-tui.dev/prefer"
	// AnnotationOperatorStatus on the operator's Deployment holds an [OperatorStatus].
	AnnotationOperatorStatus = "liqo-tui.dev/operator-status"
)

// ProblemRefused begins an [AnnotationProblem] if another attempt would fail, too. Either an API
// server has refused an object that the operator wanted to write, or the operator itself refuses
// the request.
const ProblemRefused = "refused: "

// PreferLocal is the value of [AnnotationPrefer].
const PreferLocal = "local"

// ImportAll is the value of [AnnotationImport] for each namespace.
const ImportAll = "*"

// Names of programs and objects.
const (
	ManagedBy           = "liqo-tui"
	OperatorName        = "liqo-tui-operator"
	FabricName          = "liqo-tui-fabric"
	DNSName             = "liqo-tui-dns" // the DNS server for the names of imported Services
	GatewayAccessName   = "liqo-tui-gateway"
	TenantAccessName    = "liqo-tui-tenant" // the operator's ClusterRole in tenant namespaces
	InvitedAccessName   = "liqo-tui-operator-invited"
	PeeringAccessName   = "liqo-tui-peering"       // the operator's rights for lending in a tenant namespace
	ConsumerAccessName  = "liqo-tui-consumer"      // a consumer's rights in its tenant namespace
	MappedAccessName    = "liqo-tui-twin"          // a consumer's rights in its mapped namespaces
	MappedOperatorName  = "liqo-tui-twin-operator" // the operator's rights in mapped namespaces
	ProxyName           = "liqo-tui-api-server"    // the Service of the operator's proxy to the API server
	ProxyPort           = "8118"                   // the proxy's port; Liqo's proxy has the same port
	NodeAccessName      = "liqo-tui-node"          // rights of all virtual kubelets; with "-" and a node's name at the end: rights of that node's virtual kubelet
	OffloadedAccessName = "liqo-tui-offloaded"     // rights of virtual kubelets in an offloaded namespace
	ClusterIDConfigMap  = "liqo-clusterid-configmap"
	ClusterIDAppName    = "clusterid-configmap"
	ClusterIDKey        = "CLUSTER_ID"
	ServerTemplate      = "wireguard-server"
	ClientTemplate      = "wireguard-client"
	NetworkPodCIDR      = "pod-cidr"
	NetworkServiceCIDR  = "service-cidr"
	NetworkExternalCIDR = "external-cidr"
	NetworkReserved     = "reserved" // an admin uses the range for something else, so no peer gets it
	FabricDevice        = "liqo-fabric"
	SecretPrivateKey    = "privateKey"
	SecretPublicKey     = "publicKey"
	SecretNextPrivate   = "nextPrivateKey" // the private key of the next key pair
	SecretNextPublic    = "nextPublicKey"  // the public key of the next key pair
)

// Default values of a connection. liqoctl has the same.
const (
	DefaultPort = 51840 // UDP port of the gateway server
	DefaultMTU  = 1340  // bytes, of the tunnel's interface
)

// Bounds of a tunnel's MTU, in bytes. The lower bound is the size of datagrams that every IPv4
// host must accept. The upper bound is the usual size of jumbo frames.
const (
	MinMTU = 576
	MaxMTU = 9000
)

// ClusterID is a cluster's name among its peers.
type ClusterID string

var clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// maxClusterID is the largest length of a cluster ID, in bytes. With it, "liqo-tenant-<id>" has
// the 63 bytes that a namespace's name may have.
const maxClusterID = 63 - len(tenantPrefix)

// Validate returns the reason that id can't be a cluster ID; nil if id can be one.
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
		// Liqo's template engine turns a string of digits into an integer.
		return fmt.Errorf("cluster ID %q is only digits, which Liqo's gateway templates can't carry", id)
	}
	return nil
}

// sliceUser matches the end of the user names that peering.SliceUser returns.
var sliceUser = regexp.MustCompile(`-[0-9a-f]{12}$`)

// Choose returns the reason that a new cluster must not get this ID; nil if it may. Choose is
// stricter than [ClusterID.Validate]: it also refuses an ID that can be mistaken for another
// name. A cluster that already has such an ID keeps it.
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

// programNames lists common names of users, and words at the end of common namespaces, such as
// istio-system, cert-manager and external-secrets. A consumer's ID is the end of the names of its
// mapped namespaces, so these words can't be IDs.
var programNames = []string{"admin", "controller", "default", "liqo", "manager", "node", "operator", "operators", "secrets", "system"}

const tenantPrefix = "liqo-tenant-"

// TenantNamespaceName returns the default name of the tenant namespace. It is the namespace for
// the connection with the cluster remote, and for lending with that cluster.
func TenantNamespaceName(remote ClusterID) string { return tenantPrefix + string(remote) }

// GatewayObjectName returns the name of a gateway's Deployment, Service and Connection, and of
// the Secret with its keys.
func GatewayObjectName(gateway string) string { return "gw-" + gateway }

// HostsConfigMapName returns the name of a gateway's ConfigMap, which lists the hosts that the
// peer may reach.
func HostsConfigMapName(gateway string) string { return GatewayObjectName(gateway) + "-hosts" }

// HistoryConfigMapName returns the name of a gateway's ConfigMap, which holds the text of a history.Record under
// [HistoryKey].
func HistoryConfigMapName(gateway string) string { return GatewayObjectName(gateway) + "-history" }

// HistoryKey is the key of the text in a gateway's ConfigMap.
const HistoryKey = "history.json"

// Named returns the object that has the namespace and name of want; a nil pointer if there is
// none.
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

// Lasting returns the annotations of o that each further apply by our program must repeat. An
// apply that lacks an annotation removes it, if our program applied the annotation before.
func Lasting(o Object) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{AnnotationAllow, AnnotationForPeering, AnnotationImport, AnnotationInvitation, AnnotationOtherWay, AnnotationPeerUID, AnnotationRelay} {
		if value, ok := o.GetAnnotations()[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
