package wire

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allow determines where a peer's pods may open connections in this cluster. Answers to connections of this
// cluster's pods always pass.
type Allow uint8

// The values. AllowExported opens the ports of the pods of Services that the cluster exports to the peer.
const (
	AllowAll Allow = iota
	AllowExported
	AllowNone
)

var allowed = []string{AllowAll: "all", AllowExported: "exported", AllowNone: "none"}

func (a Allow) String() string { return allowed[a] }

// ParseAllow is the reverse of String.
func ParseAllow(text string) (Allow, error) {
	i := slices.Index(allowed, text)
	if i < 0 {
		return AllowNone, fmt.Errorf("%q is not all, exported or none", text)
	}
	return Allow(i), nil
}

// AllowOf returns the value in a gateway's annotation. If it can't be read, AllowOf returns AllowNone and the
// error.
func AllowOf(gateway metav1.Object) (Allow, error) {
	text, ok := gateway.GetAnnotations()[AnnotationAllow]
	if !ok {
		return AllowAll, nil
	}
	a, err := ParseAllow(text)
	if err != nil {
		return a, fmt.Errorf("annotation %s: %w", AnnotationAllow, err)
	}
	return a, nil
}
