// Package kinds has the table of the kinds of objects that the admin's program knows: the objects that it
// watches, the parts of objects that it keeps, and the use of the objects in plans. The requests to API
// servers, and the rights for these requests, follow from the table.
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

// Applied objects are also deleted. AppliedByName is for kinds such as Secrets, of which the user of one
// connection may change only some objects: the plan needs the right to change objects with these names.
const (
	Untouched Plans = iota
	Applied
	AppliedByName
	Evicted
)

// Watch selects objects of a kind that the program watches, to make facts of them.
type Watch struct {
	For    Use
	In     Place
	Labels string // a selector in the syntax of kubectl --selector; "" selects all objects
	// Field selects the objects whose field has the Value; "" selects all objects.
	Field, Value string
	Narrow       Narrow
	// Optional is set if the facts are useful without these objects. If the user may not list them, or
	// if the API server does not serve the kind, the facts have no such objects, and no Problem.
	Optional bool
	// Minor is set if an error of the list is no Problem of the cluster. Then the facts are made from the
	// last successful list.
	Minor bool
	// Right is the right that a plan checks and that the command rbac prints. NoRight is for an optional
	// watch, and for a watch whose right another watch already requires.
	Right Right
	// Keep returns the part of an object that facts need; nil if facts don't need the object. If Keep is nil,
	// the whole object is kept.
	Keep func(wire.Object) wire.Object
	// Unlisted adds to the facts which objects the user may not list: all (hidden), or all outside of one
	// namespace (only). It is nil if no check depends on the absence of an object.
	Unlisted func(f *flows.ClusterFacts, hidden bool, only string)
}

// Use is the kind of facts that a watch is for.
type Use uint8

// LendingShown is for the facts on screens, which need no Secrets. LendingPlanned is for further facts that
// plans need.
const (
	Connections Use = iota
	LendingShown
	LendingPlanned
	Delegation
)

// Lending reports whether the watch is for lending.Facts.
func (u Use) Lending() bool { return u == LendingShown || u == LendingPlanned }

// Place says in which namespaces a watch is.
type Place uint8

// Installation is the namespace of Liqo or of our operator, and System is kube-system. EachTenant stands for a
// watch in each tenant namespace.
const (
	Everywhere Place = iota
	Installation
	System
	EachTenant
)

// Narrow says which objects to list if the user may not list all objects.
type Narrow uint8

// If the value is NotAtAll, nothing is listed. ToInstallation, ToTenant and ToConnection list the objects in
// one namespace: that of the installation, the user's tenant namespace, or that of the connection. ToNonce
// lists one Secret.
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

// Named returns the kind with this name; false if it is not in the table.
func Named(name string) (Kind, bool) {
	k, ok := byName[name]
	return k, ok
}
