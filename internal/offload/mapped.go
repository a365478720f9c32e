package offload

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// MostMapped is the largest number of mapped namespaces of a consumer on a provider.
const MostMapped = 100

// reserved are the prefixes of namespaces that consumers don't get.
var reserved = []string{"kube-", "openshift-", "liqo"}

// ForPrograms returns the reason that a consumer gets no new namespace of this name; nil if it may have one.
// Programs that the provider's admins install later would use an existing namespace with their usual name,
// and put their Secrets there. A name that begins with xn-- is the code of an international domain name, and
// Services in such a namespace would answer for that domain.
func ForPrograms(name string) error {
	switch {
	case strings.HasSuffix(name, "-system") || strings.HasSuffix(name, "-operator") || slices.Contains(programs, name):
		return fmt.Errorf("namespaces named %s are for programs of the provider", name)
	case strings.HasPrefix(name, "xn--"):
		return fmt.Errorf("namespace %s would answer for the domain .%s", name, name)
	}
	return nil
}

// programs are the usual namespaces of common programs, according to their documentation, in addition to
// those that end in -system or -operator.
var programs = []string{
	"argo", "argo-rollouts", "argocd", "cert-manager", "crossplane", "elastic", "external-dns", "external-secrets", "flux", "gatekeeper", "grafana",
	"ingress-nginx", "istio-ingress", "jenkins", "keycloak", "knative-serving", "kyverno", "linkerd", "logging", "monitoring", "observability",
	"prometheus", "rook-ceph", "sealed-secrets", "tekton-pipelines", "traefik", "trivy", "vault", "velero",
}

// MappedName returns the reason that a consumer can't have a mapped namespace of this name; nil if the name
// is allowed. home is the operator's namespace. A name has to end in the consumer's ID, unless an admin
// allows any name. The reason is that the cluster's pods search namespaces first when they resolve a name, so
// a Service github in a namespace com would answer for github.com.
func MappedName(name, home string, consumer wire.ClusterID, any bool) error {
	if why := validation.IsDNS1123Label(name); len(why) > 0 {
		return fmt.Errorf("%q is no name of a namespace", name)
	}
	if name == "default" || name == "openshift" || name == home {
		return fmt.Errorf("namespace %s is the provider's own", name)
	}
	if suffix := "-" + string(consumer); !any && (!strings.HasSuffix(name, suffix) || name == suffix) {
		return fmt.Errorf("namespaces of %s end in %s, unless an admin sets annotation %s=true of its Tenant", consumer, suffix, peering.AnnotationAnyName)
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("namespaces named %s... are the provider's own", prefix)
		}
	}
	return nil
}
