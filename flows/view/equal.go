package view

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Equal reports whether two observations of a cluster are equal. Objects with the same UID and version
// count as equal, so thousands of objects can be compared often.
func Equal(c, o flows.ClusterFacts) bool {
	if !equalObjects(c.Namespaces, o.Namespaces) || !equalObjects(c.Configurations, o.Configurations) ||
		!equalObjects(c.Servers, o.Servers) || !equalObjects(c.Clients, o.Clients) ||
		!equalObjects(c.PublicKeys, o.PublicKeys) || !equalObjects(c.Connections, o.Connections) {
		return false
	}
	if !slices.Equal(c.Pods, o.Pods) || !slices.Equal(c.Events, o.Events) {
		return false
	}
	return reflect.DeepEqual(withoutObjects(c), withoutObjects(o))
}

func withoutObjects(c flows.ClusterFacts) flows.ClusterFacts {
	c.Namespaces, c.Configurations, c.Servers, c.Clients, c.PublicKeys, c.Connections = nil, nil, nil, nil, nil, nil
	c.Pods, c.Events = nil, nil
	return c
}

// equalObjects compares without copies. To copy the objects of a thousand connections every two seconds
// would be most of the work of a program that only watches.
func equalObjects[T any, O interface {
	*T
	metav1.Object
}](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := O(&a[i]), O(&b[i])
		if v := x.GetResourceVersion(); v != "" && v == y.GetResourceVersion() && x.GetUID() == y.GetUID() {
			continue
		}
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
