package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/render"
)

func rbacCommand(io streams) *cobra.Command {
	var all, peers bool
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that you are missing, for an administrator",
		Long: `Print the smallest roles that the users of both kubeconfigs lack to connect the
two clusters and to watch them, as YAML for each side. The tenant namespace is
included if it does not exist. If nothing is missing on a side, a comment says
so. --all prints all roles that are needed, also those that the user has.
--peering prints what peer needs, where Liqo runs on both.`,
		Example: `  liqo-tui rbac --context rome --remote-context milan > roles.yaml
  liqo-tui rbac --context rome --remote-context milan --peering > roles.yaml`,
		Args: noArguments,
	}
	pair := newPairFlags(cmd, false)
	cmd.Flags().BoolVar(&all, "all", false, "print everything that is needed, not only what is missing")
	cmd.Flags().BoolVar(&peers, "peering", false, "print what peer needs, virtual nodes included: Liqo has to run on both")
	c.add(cmd.Flags(), nil)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, _, err := c.parse()
		if err != nil {
			return err
		}
		plan, observe, clusters := flows.Connecting(p), rights.ToObserve, pair
		if peers {
			network := plan
			plan = func(f flows.Facts) flows.Plan { return peer.Plan(peer.Params{}, network, p.Namespaces, f) }
			observe = func(namespace string) []rights.Permission {
				return append(rights.ToObserve(namespace), rights.ToPeer()...)
			}
			clusters = pair.withLending()
		}
		a, b, closeBoth, err := clusters.openFor(false)
		if err != nil {
			return err
		}
		defer closeBoth()
		return printRoles(cmd.Context(), io, [2]engine.Cluster{a, b}, plan, observe, all)
	}
	return cmd
}

func printRoles(ctx context.Context, io streams, clusters [2]engine.Cluster, planned func(flows.Facts) flows.Plan, observe func(namespace string) []rights.Permission, all bool) error {
	f, err := engine.Observe(ctx, clusters[flows.A], clusters[flows.B], time.Now)
	if err != nil {
		return err
	}
	plan := planned(f)
	for _, side := range []flows.Side{flows.A, flows.B} {
		facts := f.Side(side)
		if facts.Problem != nil && facts.Problem.Kind != flows.Forbidden {
			return fmt.Errorf("%s: %w", side, facts.Problem)
		}
		namespaces := tenantNamespaces(plan, side)
		needs := append(observe(facts.Namespace), rights.Needed(plan, side)...)
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
	text, err := render.YAML(append(namespaces, rights.Roles(user, missing)...)...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s---\n", text)
	return err
}
