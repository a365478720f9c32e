// Package kinds has the table of the kinds of objects that the admin's program knows: which of
// their objects it watches, which part of these it keeps, and what plans do with them. The requests
// to API servers, and the rights that they need, follow from the table.
package kinds

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Kind is a kind of objects.
type Kind struct {
	schema.GroupVersionKind
	Root    bool // the objects are in no namespace
	Untyped bool // the Go type can't decode the objects
	Plans   Plans
	Watches []Watch
}

// Resource is the plural name, as API servers write it.
func (k Kind) Resource() string {
	plural, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	return plural.Resource
}

// Scope says whether the objects are in namespaces.
func (k Kind) Scope() meta.RESTScope {
	if k.Root {
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

// Plans says what plans do with the objects of a kind.
type Plans uint8

// Applied objects are also deleted. A user of one connection may have the right to change some
// Secrets only: AppliedByName asks for the right to change the object of that name.
const (
	Untouched Plans = iota
	Applied
	AppliedByName
	Evicted
)

// Watch is a watch of some of a kind's objects, for facts.
type Watch struct {
	For    Use
	In     Place
	Labels string // a selector, as kubectl --selector has it; "" for all objects
	// Field of an object that has to have the Value; "" for all objects.
	Field, Value string
	Narrow       Narrow
	// Optional says that the facts do without the objects if the user may not list them.
	Optional bool
	// Minor says that the last answer counts if listing fails.
	Minor bool
	// Right is the right that is asked for, and printed by rbac. NoRight is for a watch that is
	// optional, or that another watch's right covers.
	Right Right
	// Keep returns the part of an object that facts are made from; nil if that is nothing. If Keep
	// is nil, objects are kept whole.
	Keep func(wire.Object) wire.Object
	// Unlisted adds to the facts that the user may list no objects, or only those in one namespace.
	// It is nil if no check takes a missing object for one that does not exist.
	Unlisted func(f *flows.ClusterFacts, hidden bool, only string)
}

// Use is the kind of facts that a watch is for.
type Use uint8

// LendingShown are the facts that are shown: no Secrets. Plans need LendingPlanned, too.
const (
	Connections Use = iota
	LendingShown
	LendingPlanned
	Delegation
)

// Lending reports whether the watch is for lending.Facts.
func (u Use) Lending() bool { return u == LendingShown || u == LendingPlanned }

// Place is a set of namespaces.
type Place uint8

// Installation is the namespace of Liqo or of our operator. EachTenant needs a watch for each
// tenant namespace.
const (
	Everywhere Place = iota
	Installation
	System
	EachTenant
)

// Narrow says which objects are listed if the user may not list all.
type Narrow uint8

// ToConnection is the namespace of the connection, and ToNonce one Secret.
const (
	NotAtAll Narrow = iota
	ToInstallation
	ToTenant
	ToConnection
	ToNonce
)

// Right is the right to list and watch some of a kind's objects.
type Right uint8

// InInstallation and InTenant are rights in one namespace. ByName is the right for the one object
// in the namespace of the installation whose name is the watch's Value.
const (
	NoRight Right = iota
	InAll
	InInstallation
	InTenant
	ByName
)

var byName = func() map[string]Kind {
	all := map[string]Kind{}
	for _, k := range table {
		all[k.Kind] = k
	}
	return all
}()

// All returns the table. Facts and messages name kinds in its order.
func All() []Kind { return table }

// Named returns the kind of this name; false if it is not in the table.
func Named(name string) (Kind, bool) {
	k, ok := byName[name]
	return k, ok
}
