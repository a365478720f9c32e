// Package rights has the rights that a user needs and has on a cluster.
package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// OfBoth are the rights that the plan still needs on each side.
func OfBoth(p flows.Plan) [2][]Permission {
	return [2][]Permission{Needed(p, flows.A), Needed(p, flows.B)}
}

// Needed returns the rights to change things that the plan still needs on one side,
// in order and without repetitions.
func Needed(p flows.Plan, side flows.Side) []Permission {
	var out []Permission
	add := func(o flows.ObjectRef, verbs ...string) {
		kind, _ := kinds.Named(o.Kind)
		permission := toObjects(kind)
		switch kind.Plans {
		case kinds.Untouched:
			return // TestPermissionsCoverAllKinds
		case kinds.Applied:
		case kinds.AppliedByName:
			permission.Name = o.Name
		case kinds.Evicted:
			permission.Resource, verbs = permission.Resource+"/eviction", []string{"create"} // see kube's Delete
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

// verbsOf returns the verbs that an action needs. A server-side apply that creates
// an object also needs the right to create it.
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

// ToObserve are the rights to observe a cluster whose Liqo, or operator,
// lives in namespace.
func ToObserve(namespace string) []Permission {
	all := toWatch(namespace, "", kinds.Connections)
	for _, name := range []string{"NetworkPolicy", "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", "CiliumCIDRGroup"} { // for check
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

// ToPeer are the rights to observe lending, in addition to [ToObserve]. Rights over
// Secrets are for the cluster's own key in namespace, and for the Secrets in the
// tenant namespace; "" if that is unknown.
func ToPeer(namespace, tenant string) []Permission {
	return toWatch(namespace, tenant, kinds.LendingShown, kinds.LendingPlanned)
}

// toWatch are the rights for the watches of some uses, each once.
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

// toObjects is the right to do something to all objects of a kind.
func toObjects(k kinds.Kind) Permission {
	return Permission{Group: k.Group, Resource: k.Resource()}
}

// Unpermitted returns failed steps for the rights that the reviews of both sides
// miss.
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

// Fix names the command that prints the missing rights.
func (r Review) Fix(f flows.Facts) command.Hint {
	if slices.ContainsFunc(r.Missing, func(p Permission) bool {
		return p.Resource == "secrets" || p.Group == authv1beta1.GroupVersion.Group || p.Group == offloadingv1beta1.SchemeGroupVersion.Group
	}) {
		return f.AskForRights("--peering")
	}
	return f.AskForRights()
}

// Sentence names the missing rights.
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

// Review is the API server's answer about its user.
type Review struct {
	User    string // "" if the API server doesn't say
	Missing []Permission
}

// Permission is the right to do one thing to one kind of object.
type Permission struct {
	Verb      string
	Group     string // "" for Kubernetes' own
	Resource  string // plural
	Namespace string // "" for all of them, and for objects without a namespace
	Name      string // of the one object; "" for all
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
