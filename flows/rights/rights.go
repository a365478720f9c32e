// Package rights is what a user may and must be allowed to do on a cluster.
package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// resources are the plural names of the kinds that plans apply or delete.
var resources = map[string]Permission{
	"Namespace":     {Resource: "namespaces"},
	"Configuration": {Group: networkingv1beta1.GroupVersion.Group, Resource: "configurations"},
	"GatewayServer": {Group: networkingv1beta1.GroupVersion.Group, Resource: "gatewayservers"},
	"GatewayClient": {Group: networkingv1beta1.GroupVersion.Group, Resource: "gatewayclients"},
	"PublicKey":     {Group: networkingv1beta1.GroupVersion.Group, Resource: "publickeies"},
	// Of a peering.
	"Tenant":              {Group: authv1beta1.GroupVersion.Group, Resource: "tenants"},
	"Identity":            {Group: authv1beta1.GroupVersion.Group, Resource: "identities"},
	"ResourceSlice":       {Group: authv1beta1.GroupVersion.Group, Resource: "resourceslices"},
	"Renew":               {Group: authv1beta1.GroupVersion.Group, Resource: "renews"},
	"VirtualNode":         {Group: offloadingv1beta1.SchemeGroupVersion.Group, Resource: "virtualnodes"},
	"NamespaceMap":        {Group: offloadingv1beta1.SchemeGroupVersion.Group, Resource: "namespacemaps"},
	"NamespaceOffloading": {Group: offloadingv1beta1.SchemeGroupVersion.Group, Resource: "namespaceoffloadings"},
	"ForeignCluster":      {Group: corev1beta1.GroupVersion.Group, Resource: "foreignclusters"},
	"Node":                {Resource: "nodes"},
	"Pod":                 {Resource: "pods"},
	"IP":                  {Group: ipamv1alpha1.SchemeGroupVersion.Group, Resource: "ips"},
	// Of a delegation.
	"ServiceAccount": {Resource: "serviceaccounts"},
	"Secret":         {Resource: "secrets"},
	"Role":           {Group: rbacv1.GroupName, Resource: "roles"},
	"RoleBinding":    {Group: rbacv1.GroupName, Resource: "rolebindings"},
	// Of an installation.
	"CustomResourceDefinition":         {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	"ClusterRole":                      {Group: rbacv1.GroupName, Resource: "clusterroles"},
	"ClusterRoleBinding":               {Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
	"ConfigMap":                        {Resource: "configmaps"},
	"Deployment":                       {Group: appsv1.GroupName, Resource: "deployments"},
	"DaemonSet":                        {Group: appsv1.GroupName, Resource: "daemonsets"},
	"ResourceQuota":                    {Resource: "resourcequotas"},
	"PriorityClass":                    {Group: schedulingv1.GroupName, Resource: "priorityclasses"},
	"ValidatingAdmissionPolicy":        {Group: admissionregistrationv1.GroupName, Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: admissionregistrationv1.GroupName, Resource: "validatingadmissionpolicybindings"},
	"MutatingAdmissionPolicy":          {Group: admissionregistrationv1.GroupName, Resource: "mutatingadmissionpolicies"},
	"MutatingAdmissionPolicyBinding":   {Group: admissionregistrationv1.GroupName, Resource: "mutatingadmissionpolicybindings"},
	"InternalNode":                     {Group: networkingv1beta1.GroupVersion.Group, Resource: "internalnodes"},
	"Network":                          {Group: ipamv1alpha1.SchemeGroupVersion.Group, Resource: "networks"},
	"WgGatewayServerTemplate":          {Group: networkingv1beta1.GroupVersion.Group, Resource: "wggatewayservertemplates"},
	"WgGatewayClientTemplate":          {Group: networkingv1beta1.GroupVersion.Group, Resource: "wggatewayclienttemplates"},
}

// OfBoth are the rights that the plan still needs on each side.
func OfBoth(p flows.Plan) [2][]Permission {
	return [2][]Permission{Needed(p, flows.A), Needed(p, flows.B)}
}

// Needed are the rights to change things that the plan still needs on one side, in
// order and each once.
func Needed(p flows.Plan, side flows.Side) []Permission {
	var out []Permission
	add := func(o flows.ObjectRef, verbs ...string) {
		permission, known := resources[o.Kind]
		if !known {
			return // TestPermissionsCoverAllKinds
		}
		if o.Kind == "Pod" {
			permission.Resource, verbs = "pods/eviction", []string{"create"} // see kube's Delete
		}
		if o.Kind == "Secret" {
			permission.Name = o.Name // a peering user may see the nonce, and no other one
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

// verbsOf are what an action asks of the API server. A server-side apply that
// makes an object needs the right to create it besides.
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
	var out []Permission
	add := func(group, namespace string, names ...string) {
		for _, name := range names {
			for _, verb := range []string{"list", "watch"} {
				out = append(out, Permission{Verb: verb, Group: group, Resource: name, Namespace: namespace})
			}
		}
	}
	add("", "", "namespaces", "pods")
	add("", namespace, "configmaps")
	add("apps", namespace, "deployments")
	out = append(out, Permission{Verb: "list", Group: "networking.k8s.io", Resource: "networkpolicies"}) // for check
	add("ipam.liqo.io", namespace, "networks")
	add(networkingv1beta1.GroupVersion.Group, "", "configurations", "connections", "gatewayclients", "gatewayservers", "internalnodes", "publickeies")
	return out
}

// ToPeer are the rights to observe lending, in addition to [ToObserve]. Rights over
// Secrets are for the cluster's own key in namespace, and for the Secrets in the
// tenant namespace; "" if that is unknown.
func ToPeer(namespace, tenant string) []Permission {
	var out []Permission
	add := func(p Permission) {
		for _, p.Verb = range []string{"list", "watch"} {
			out = append(out, p)
		}
	}
	for _, kind := range []string{
		"Tenant", "Identity", "ResourceSlice", "Renew", "VirtualNode", "NamespaceMap", "NamespaceOffloading", "ForeignCluster",
		"Node", "Pod", "Deployment", "ClusterRoleBinding", "RoleBinding", "IP",
	} {
		add(resources[kind])
	}
	secrets := resources["Secret"]
	secrets.Namespace, secrets.Name = namespace, peering.KeysName
	add(secrets)
	if tenant != "" {
		secrets.Namespace, secrets.Name = tenant, ""
		add(secrets)
	}
	return out
}

// Unpermitted are steps that have failed, for what the reviews of both sides miss.
func Unpermitted(reviews [2]*Review) []flows.Step {
	var steps []flows.Step
	for _, side := range []flows.Side{flows.A, flows.B} {
		if r := reviews[side]; r != nil && len(r.Missing) > 0 {
			s := flows.Step{ID: flows.StepID("permissions-" + strings.ToLower(side.String())), Side: side, Action: flows.Wait, Title: "permissions for this plan"}
			s.Fail(flows.FailedAccess, flows.CodePermission, r.Sentence(), r.hint())
			steps = append(steps, s)
		}
	}
	return steps
}

// hint says which command prints what is missing.
func (r Review) hint() string {
	command := "liqo-tui rbac"
	if slices.ContainsFunc(r.Missing, func(p Permission) bool {
		return p.Resource == "secrets" || p.Group == authv1beta1.GroupVersion.Group || p.Group == offloadingv1beta1.SchemeGroupVersion.Group
	}) {
		command += " --peering"
	}
	return fmt.Sprintf("ask the cluster's administrator for the Role that %s prints", command)
}

// Sentence says what is missing.
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
	Namespace string // "" for all of them, and for what is in none
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
