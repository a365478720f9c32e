// Package rights has the rights that a user needs on a cluster, and compares them
// with those that the user has.
package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// OfBoth returns the rights that the plan still needs on each side.
func OfBoth(p flows.Plan) [2][]Permission {
	return [2][]Permission{Needed(p, flows.A), Needed(p, flows.B)}
}

// Needed returns the rights that the plan still needs on one side for its changes,
// in order and without duplicates.
func Needed(p flows.Plan, side flows.Side) []Permission {
	var out []Permission
	add := func(o flows.ObjectRef, verbs ...string) {
		kind, _ := kinds.Named(o.Kind)
		permission := toObjects(kind)
		switch kind.Plans {
		case kinds.Untouched:
			return // TestPermissionsCoverAllKinds finds a missing kind
		case kinds.Applied:
		case kinds.AppliedByName:
			permission.Name = o.Name
		case kinds.Evicted:
			permission.Resource, verbs = permission.Resource+"/eviction", []string{"create"} // kube's Delete evicts pods
		}
		for _, verb := range verbs {
			permission.Verb, permission.Namespace = verb, o.Namespace
			out = append(out, permission)
		}
	}
	for _, s := range p.Steps {
		if s.Side != side || s.Status == flows.Done {
			continue
		}
		objects := []flows.ObjectRef{s.Object}
		if s.Object.Kind == "" {
			objects = nil
			for _, o := range slices.Concat(s.Want, s.Gone) {
				objects = append(objects, flows.RefTo(o))
			}
		}
		for _, o := range objects {
			add(o, verbsOf(s.Action)...)
		}
		if s.Action == flows.Replace {
			for _, o := range s.Gone {
				add(flows.RefTo(o), "delete")
			}
		}
	}
	slices.SortFunc(out, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(out)
}

// verbsOf returns the verbs that an action needs. A server-side apply needs the
// right to create if the object does not exist.
func verbsOf(a flows.Action) []string {
	switch a {
	case flows.Create, flows.Replace:
		return []string{"create", "get", "patch"}
	case flows.Update:
		return []string{"get", "patch"}
	case flows.Delete:
		return []string{"delete", "get"}
	case flows.Wait, flows.Verify:
	}
	return nil
}

// ToObserve returns the rights to observe a cluster with an installation in
// namespace.
func ToObserve(namespace string) []Permission {
	all := toWatch(namespace, "", kinds.Connections)
	for _, name := range []string{"NetworkPolicy", "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", "CiliumCIDRGroup"} { // the checks read these kinds
		kind, _ := kinds.Named(name)
		list := toObjects(kind)
		list.Verb = "list"
		all = append(all, list)
	}
	definitions, _ := kinds.Named("CustomResourceDefinition")
	get := toObjects(definitions)
	get.Verb = "get"
	return append(all, get)
}

// ToPeer returns the rights to observe lending, in addition to [ToObserve]. They
// include Secrets: the cluster's own key in namespace, and the Secrets in the
// tenant namespace; "" if that is unknown.
func ToPeer(namespace, tenant string) []Permission {
	return toWatch(namespace, tenant, kinds.LendingShown, kinds.LendingPlanned)
}

// ToServices are the rights to read and to export Services by name, in addition to [ToObserve].
func ToServices() (out []Permission) {
	for name, verbs := range map[string][]string{
		mcsv1beta1.ServiceExportKindName: {"create", "delete", "get", "list", "patch"}, mcsv1beta1.ServiceImportKindName: {"list"}, "EndpointSlice": {"list"}, "Service": {"get"},
	} {
		kind, _ := kinds.Named(name)
		for _, verb := range verbs {
			p := toObjects(kind)
			p.Verb = verb
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return out
}

// toWatch returns the rights for the watches of some uses, without duplicates.
func toWatch(namespace, tenant string, uses ...kinds.Use) (out []Permission) {
	for _, k := range kinds.All() {
		for _, w := range k.Watches {
			p := toObjects(k)
			switch w.Right {
			case kinds.NoRight:
				continue
			case kinds.InAll:
			case kinds.InInstallation:
				p.Namespace = namespace
			case kinds.InTenant:
				p.Namespace = tenant
			case kinds.ByName:
				p.Namespace, p.Name = namespace, w.Value
			}
			if !slices.Contains(uses, w.For) || w.Right == kinds.InTenant && tenant == "" {
				continue
			}
			for _, p.Verb = range []string{"list", "watch"} {
				if !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// toObjects returns the permission for all objects of a kind, without verbs.
func toObjects(k kinds.Kind) Permission {
	return Permission{Group: k.Group, Resource: k.Resource()}
}

// Unpermitted returns failed steps for the rights that are missing according to the
// reviews of both sides.
func Unpermitted(reviews [2]*Review, f flows.Facts) []flows.Step {
	var steps []flows.Step
	for _, side := range []flows.Side{flows.A, flows.B} {
		if r := reviews[side]; r != nil && len(r.Missing) > 0 {
			s := flows.Step{ID: flows.StepID("permissions-" + strings.ToLower(side.String())), Side: side, Action: flows.Wait, Title: "permissions for this plan"}
			s.Fail(flows.FailedAccess, flows.CodePermission, r.Sentence(), r.Fix(f))
			steps = append(steps, s)
		}
	}
	return steps
}

// Fix returns the advice with the command that prints the missing rights.
func (r Review) Fix(f flows.Facts) command.Hint {
	if slices.ContainsFunc(r.Missing, func(p Permission) bool {
		return p.Resource == "secrets" || p.Group == authv1beta1.GroupVersion.Group || p.Group == offloadingv1beta1.SchemeGroupVersion.Group
	}) {
		return f.AskForRights("--peering")
	}
	if slices.ContainsFunc(r.Missing, func(p Permission) bool { return p.Group == mcsv1beta1.GroupName }) {
		return f.AskForRights("--services")
	}
	return f.AskForRights()
}

// Sentence returns a sentence that names the missing rights.
func (r Review) Sentence() string {
	missing := make([]string, len(r.Missing))
	for i, m := range r.Missing {
		missing[i] = m.String()
	}
	who := "this user"
	if r.User != "" {
		who = fmt.Sprintf("user %q", r.User)
	}
	return who + " may not " + strings.Join(missing, ", ")
}

// Review is the API server's answer about the rights of its user.
type Review struct {
	User    string // "" if the API server doesn't say
	Missing []Permission
}

// Permission is the right to use some verbs on objects of one kind.
type Permission struct {
	Verb      string
	Group     string // "" for Kubernetes' core group
	Resource  string // plural
	Namespace string // "" for all namespaces, and for objects without a namespace
	Name      string // "" for all objects
}

func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Name != "" {
		text += " named " + p.Name
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}
