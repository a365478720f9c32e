package offload

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// MostTwins is how many namespaces a consumer may have here.
const MostTwins = 100

// reserved are how namespaces begin that are not for consumers.
var reserved = []string{"kube-", "openshift-", "liqo"}

// TwinName is why a consumer can't have a namespace of this name; nil if it can, as far
// as the name goes. home is that of the operator. Names end in the consumer's, unless an
// admin has allowed any: pods of the whole cluster look for names of other domains in
// namespaces first, so a Service github in a namespace com would answer for github.com.
func TwinName(name, home string, consumer render.ClusterID, any bool) error {
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
