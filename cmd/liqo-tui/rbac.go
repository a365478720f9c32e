package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/render"
)

func rbacCommand(io streams) *cobra.Command {
	var all bool
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that you are missing, for an administrator",
		Long: `Print the smallest roles that the users of both kubeconfigs lack to connect the
two clusters and to watch them, as YAML for each side. The tenant namespace is
included if it does not exist. If nothing is missing on a side, a comment says
so. --all prints all roles that are needed, also those that the user has.`,
		Example: `  liqo-tui rbac --context rome --remote-context milan > roles.yaml`,
		Args:    noArguments,
	}
	pair := newPairFlags(cmd, false)
	cmd.Flags().BoolVar(&all, "all", false, "print everything that is needed, not only what is missing")
	c.add(cmd.Flags(), nil)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, _, err := c.parse()
		if err != nil {
			return err
		}
		a, b, closeBoth, err := pair.openFor(false)
		if err != nil {
			return err
		}
		defer closeBoth()
		return printRoles(cmd.Context(), io, [2]engine.Cluster{a, b}, p, all)
	}
	return cmd
}

func printRoles(ctx context.Context, io streams, clusters [2]engine.Cluster, p flows.Params, all bool) error {
	f, err := engine.Observe(ctx, clusters[flows.A], clusters[flows.B], time.Now)
	if err != nil {
		return err
	}
	plan := flows.PlanConnect(p, f)
	for _, side := range []flows.Side{flows.A, flows.B} {
		facts := f.Side(side)
		if facts.Problem != nil && facts.Problem.Kind != flows.Forbidden {
			return fmt.Errorf("%s: %w", side, facts.Problem)
		}
		namespaces := tenantNamespaces(plan, side)
		needs := append(rights.ToObserve(facts.Namespace), rights.Needed(plan, side)...)
		if len(namespaces) > 0 {
			// Whoever applies the roles makes the namespaces that they are in.
			needs = slices.DeleteFunc(needs, func(p rights.Permission) bool {
				return p.Resource == "namespaces" && (p.Verb == "create" || p.Verb == "patch")
			})
		}
		user, missing := "", needs
		if reviewer, ok := clusters[side].(engine.Reviewer); ok {
			answer, err := reviewer.Review(ctx, needs)
			if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			user, missing = answer.User, answer.Missing
		}
		if all {
			missing = needs
		}
		if err := printSide(io.out, side, facts, user, missing, namespaces); err != nil {
			return err
		}
	}
	return nil
}

// tenantNamespaces are those that the plan still has to make on a side.
func tenantNamespaces(p flows.Plan, side flows.Side) []render.Object {
	for _, s := range p.Steps {
		if s.Side == side && s.Object.Kind == "Namespace" && s.Status == flows.Ready {
			return s.Objects
		}
	}
	return nil
}

func printSide(out io.Writer, side flows.Side, c flows.ClusterFacts, user string, missing []rights.Permission, namespaces []render.Object) error {
	name := cmp.Or(string(c.ID), c.Context.String())
	if len(missing) == 0 {
		_, err := fmt.Fprintf(out, "# %s %s: user %q lacks nothing\n", side, name, user)
		return err
	}
	fmt.Fprintf(out, "# %s %s: for user %q, to be applied on this cluster\n", side, name, user)
	if user == "" {
		fmt.Fprintln(out, "# The API server does not name the user: fill in the name.")
		user = "USER"
	}
	text, err := render.YAML(append(namespaces, roles(user, missing)...)...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s---\n", text)
	return err
}

// roleName is the name of the roles and bindings for a user.
func roleName(user string) string {
	return "liqo-tui-" + strings.Trim(notInID.ReplaceAllString(strings.ToLower(user), "-"), "-")
}

// roles grant the permissions to the user: one Role for each namespace, and one
// ClusterRole for what is in none or in all.
func roles(user string, permissions []rights.Permission) []render.Object {
	byNamespace := map[string][]rights.Permission{}
	var namespaces []string
	for _, p := range permissions {
		if _, ok := byNamespace[p.Namespace]; !ok {
			namespaces = append(namespaces, p.Namespace)
		}
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p)
	}
	slices.Sort(namespaces)
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var out []render.Object
	for _, ns := range namespaces {
		meta := metav1.ObjectMeta{Name: roleName(user), Namespace: ns, Labels: map[string]string{render.LabelManagedBy: render.ManagedBy}}
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

// rulesOf joins resources of a group that need the same verbs.
func rulesOf(permissions []rights.Permission) []rbacv1.PolicyRule {
	type resource struct{ group, name string }
	verbs := map[resource][]string{}
	for _, p := range permissions {
		r := resource{p.Group, p.Resource}
		if !slices.Contains(verbs[r], p.Verb) {
			verbs[r] = append(verbs[r], p.Verb)
		}
	}
	byVerbs := map[[2]string][]string{} // group and verbs → resources
	for r, v := range verbs {
		slices.Sort(v)
		key := [2]string{r.group, strings.Join(v, ",")}
		byVerbs[key] = append(byVerbs[key], r.name)
	}
	var out []rbacv1.PolicyRule
	for key, resources := range byVerbs {
		slices.Sort(resources)
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{key[0]}, Resources: resources, Verbs: strings.Split(key[1], ",")})
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources))
	})
	return out
}
