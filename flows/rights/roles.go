package rights

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// roleName returns the name of the roles and bindings for a user. Characters that a name can't
// contain are replaced, and a hash makes the names of such users different.
func roleName(user string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(user), "-"), "-")
	if name != user {
		sum := sha256.Sum256([]byte(user))
		name = strings.Trim(name+"-"+hex.EncodeToString(sum[:4]), "-")
	}
	return "liqo-tui-" + name
}

// Roles returns the objects that grant the permissions to the user: one Role for each namespace,
// and one ClusterRole for objects in all namespaces or in none.
func Roles(user string, permissions []Permission) []wire.Object {
	byNamespace := map[string][]Permission{}
	var namespaces []string
	for _, p := range permissions {
		if _, ok := byNamespace[p.Namespace]; !ok {
			namespaces = append(namespaces, p.Namespace)
		}
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p)
	}
	slices.Sort(namespaces)
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var out []wire.Object
	for _, ns := range namespaces {
		meta := metav1.ObjectMeta{Name: roleName(user), Namespace: ns, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}}
		rules := rulesOf(byNamespace[ns])
		if ns == "" {
			out = append(out,
				&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta, Rules: rules},
				&rbacv1.ClusterRoleBinding{
					TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects,
					RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
				})
			continue
		}
		out = append(out,
			&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{
				TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			})
	}
	return out
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// rulesOf merges the resources of a group that need the same verbs into one rule.
func rulesOf(permissions []Permission) []rbacv1.PolicyRule {
	type resource struct{ group, name, object string }
	verbs := map[resource][]string{}
	for _, p := range permissions {
		r := resource{p.Group, p.Resource, p.Name}
		if !slices.Contains(verbs[r], p.Verb) {
			verbs[r] = append(verbs[r], p.Verb)
		}
	}
	byVerbs := map[[3]string][]string{} // group, object and verbs → resources
	for r, v := range verbs {
		slices.Sort(v)
		key := [3]string{r.group, r.object, strings.Join(v, ",")}
		byVerbs[key] = append(byVerbs[key], r.name)
	}
	var out []rbacv1.PolicyRule
	for key, resources := range byVerbs {
		slices.Sort(resources)
		rule := rbacv1.PolicyRule{APIGroups: []string{key[0]}, Resources: resources, Verbs: strings.Split(key[2], ",")}
		if key[1] != "" {
			rule.ResourceNames = []string{key[1]}
		}
		out = append(out, rule)
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return out
}
