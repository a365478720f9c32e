package exports_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var rules = exports.Rules{Cluster: "milan", Peer: "rome", Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}

func TestAPeerSeesExportsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		served bool
	}{
		"an export":                    {func(*discoveryv1.EndpointSlice) {}, true},
		"an import of another cluster": {func(s *discoveryv1.EndpointSlice) { s.Labels[mcsv1beta1.LabelSourceCluster] = "turin" }, false},
		"a slice of Kubernetes": {func(s *discoveryv1.EndpointSlice) {
			s.Labels = map[string]string{discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
		}, false},
		"somebody else's, with our cluster": {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "me" }, false},
		"of no Service":                     {func(s *discoveryv1.EndpointSlice) { delete(s.Labels, mcsv1beta1.LabelServiceName) }, false},
		"without a head":                    {func(s *discoveryv1.EndpointSlice) { s.Annotations = nil }, false},
		"IPv6":                              {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, false},
		"to this peer":                      {func(s *discoveryv1.EndpointSlice) { s.Annotations[wire.AnnotationExportTo] = "turin, rome" }, true},
		"to others":                         {func(s *discoveryv1.EndpointSlice) { s.Annotations[wire.AnnotationExportTo] = "turin,romeo" }, false},
		"to nobody":                         {func(s *discoveryv1.EndpointSlice) { s.Annotations[wire.AnnotationExportTo] = "" }, false},
	} {
		s := milanSlice("db", "10.244.0.5")
		c.change(s)
		if got, _ := rules.Served(s); (got != nil) != c.served {
			t.Errorf("%s: served is %v", name, got != nil)
		}
	}
}

func TestAPeerSeesNoMoreThanItNeeds(t *testing.T) {
	s := milanSlice("db", "10.244.0.5", "192.168.1.1", "10.244.0.6", "169.254.18.1", "no address")
	s.Labels["team"], s.Annotations["secret"], s.Annotations[wire.AnnotationExportTo] = "hidden-label", "hidden-annotation", "rome"
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "hidden-manager"}}
	s.OwnerReferences = []metav1.OwnerReference{{Name: "hidden-owner"}}
	s.UID, s.ResourceVersion, s.GenerateName = "hidden-uid", "hidden-version", "hidden-generate"
	e := &s.Endpoints[0]
	e.NodeName, e.Zone, e.Hostname = new("hidden-node"), new("a"), new("db-0")
	e.TargetRef = &corev1.ObjectReference{Name: "hidden-pod"}
	e.DeprecatedTopology = map[string]string{"hidden": "topology"}
	e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "hidden-zone"}}}
	s.Endpoints[2].Addresses = append(s.Endpoints[2].Addresses, "10.1.1.1")
	got, outside := rules.Served(s)
	text, err := json.Marshal(got)
	must(t, err)
	if strings.Contains(string(text), "hidden") || outside != 4 || len(got.Endpoints) != 1 ||
		*got.Endpoints[0].Zone != "a" || *got.Endpoints[0].Hostname != "db-0" || got.Annotations[wire.AnnotationServiceHead] != head {
		t.Errorf("got %s, %d outside", text, outside)
	}
}
