package services

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// AnnotationDerivedService on a ServiceImport is the name of its derived Service. The KEP does not have
// it, but implementations of the Gateway API look for it.
const AnnotationDerivedService = "multicluster.kubernetes.io/derived-service"

// derivedPrefix begins the names of derived Services.
const derivedPrefix = "derived-"

// DerivedName returns the name of the Service that has the clusterset IP of an imported one. Other
// implementations of the API choose the same name, and scripts of admins know it.
func DerivedName(name types.NamespacedName) string { return derivedPrefix + digest(name.String(), 10) }

// sliceDigest is the length of the part of a slice's name that is made from its source, in digits of 5 bits. A
// peer chooses the sources. With 80 bits, it can't find a source whose slice gets the name of another slice.
const sliceDigest = 16

// sliceName returns the name of the multi-cluster EndpointSlice that is made from a cluster's slice called
// source. The digest covers all parts, because "a" of the cluster "b-c" and "a-b" of the cluster "c" look
// alike.
func sliceName(name types.NamespacedName, cluster wire.ClusterID, source string) string {
	return name.Name + "-" + string(cluster) + "-" + digest(strings.Join([]string{name.Namespace, name.Name, string(cluster), source}, "/"), sliceDigest)
}

func digest(text string, length int) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:length]
}

// A Policy says which Services of peers this cluster imports. A peer that exports a Service joins the Service
// of that name in each importing cluster, so an admin has to allow it.
type Policy struct {
	Own     []string // namespaces of our programs, besides those that [Reserved] knows
	Allowed map[wire.ClusterID]Namespaces
}

// Namespaces are the namespaces into which a peer's Services are imported. The zero value has none.
type Namespaces struct {
	All   bool
	Names []string
}

// With returns the names together with more, as `service allow --namespace` takes them.
func (n Namespaces) With(more ...string) string {
	names := append(slices.Clone(n.Names), more...)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// ParseNamespaces reads the annotation wire.AnnotationImport of a peer's Configuration. A name that no
// namespace can have imports nothing.
func ParseNamespaces(configuration metav1.Object) Namespaces {
	var n Namespaces
	for name := range strings.SplitSeq(configuration.GetAnnotations()[wire.AnnotationImport], ",") {
		switch name = strings.TrimSpace(name); {
		case name == wire.ImportAll:
			n.All = true
		case name != "" && !slices.Contains(n.Names, name):
			n.Names = append(n.Names, name)
		}
	}
	slices.Sort(n.Names)
	return n
}

// String returns the value of the annotation wire.AnnotationImport.
func (n Namespaces) String() string {
	if n.All {
		return wire.ImportAll
	}
	return strings.Join(n.Names, ",")
}

// Imports reports whether Services of a namespace are imported from a peer.
func (p Policy) Imports(namespace string, from wire.ClusterID) bool {
	n := p.Allowed[from]
	return !Reserved(namespace, p.Own) && (n.All || slices.Contains(n.Names, namespace))
}

// Reserved reports whether a namespace neither exports nor imports Services: a namespace of Kubernetes, or of
// our programs. The namespaces own are of our programs, too. Such a namespace has another meaning in each
// cluster.
func Reserved(namespace string, own []string) bool {
	return slices.Contains(ReservedNames, namespace) || slices.Contains(own, namespace) ||
		slices.ContainsFunc(ReservedPrefixes, func(p string) bool { return strings.HasPrefix(namespace, p) })
}

// ReservedNames are namespaces that are reserved in all clusters, and ReservedPrefixes begin the names of
// others. The admission policy of Services ($RESERVED in package render) has the same lists.
var (
	ReservedNames    = []string{"default", wire.DefaultNamespace}
	ReservedPrefixes = []string{"kube-", wire.TenantNamespaceName("")}
)
