package manifest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// WriteRoles writes the roles that the users of two clusters need for a plan: the missing
// ones, or all. observe returns the rights to observe a cluster.
func WriteRoles(ctx context.Context, out io.Writer, clusters [2]engine.Cluster, planned func(flows.Facts) flows.Plan, observe func(flows.Facts, flows.Side) []rights.Permission, all bool) error {
	f, err := engine.Observe(ctx, clusters[flows.A], clusters[flows.B], time.Now)
	if err != nil {
		return err
	}
	plan := planned(readable(f))
	var needs [2][]rights.Permission
	for _, side := range []flows.Side{flows.A, flows.B} {
		if problem := f.Sides[side].Problem; problem != nil && problem.Kind != flows.Forbidden {
			return fmt.Errorf("%s: %w", f.Sides[side].Name(), problem)
		}
		needs[side] = append(observe(f, side), rights.Needed(plan, side)...)
		if len(tenantNamespaces(plan, side)) > 0 {
			// The admin who applies the roles also creates their namespaces.
			needs[side] = slices.DeleteFunc(needs[side], func(p rights.Permission) bool {
				return p.Resource == "namespaces" && (p.Verb == "create" || p.Verb == "patch")
			})
		}
	}
	reviews, errs := engine.Review(ctx, clusters, needs)
	for _, side := range []flows.Side{flows.A, flows.B} {
		if errs[side] != nil {
			return fmt.Errorf("%s: %w", f.Sides[side].Name(), errs[side])
		}
		user, missing := "", needs[side]
		if review := reviews[side]; review != nil {
			user, missing = review.User, review.Missing
		}
		if all {
			missing = needs[side]
		}
		if err := writeRolesOf(out, f.Sides[side], user, missing, tenantNamespaces(plan, side)); err != nil {
			return err
		}
	}
	if s := plan.Failure(); s != nil {
		fmt.Fprintf(out, "# More may be needed, which can't be known yet (%s): apply these roles, and run the same command again.\n", s.Reason)
	}
	return nil
}

// readable treats unreadable objects as missing, but assumes that Liqo is installed. So
// the plan creates the objects, and its rights are complete.
func readable(f flows.Facts) flows.Facts {
	for side := range f.Sides {
		c := &f.Sides[side]
		if c.Problem != nil && c.Problem.Kind == flows.Forbidden {
			c.Problem = nil
			if !c.Can().Connect {
				c.Software = flows.Liqo
			}
		}
	}
	return f
}

// tenantNamespaces returns the tenant namespaces that the plan will create on a side.
func tenantNamespaces(p flows.Plan, side flows.Side) []wire.Object {
	for _, s := range p.Steps {
		if s.Side == side && s.Object.Kind == "Namespace" && s.Status == flows.Ready {
			return s.Objects
		}
	}
	return nil
}

func writeRolesOf(out io.Writer, c flows.ClusterFacts, user string, missing []rights.Permission, namespaces []wire.Object) error {
	name := cmp.Or(string(c.ID), c.Context.String())
	if len(missing) == 0 {
		_, err := fmt.Fprintf(out, "# %s: user %q lacks nothing\n", name, user)
		return err
	}
	fmt.Fprintf(out, "# %s: for user %q, to be applied on this cluster\n", name, user)
	if user == "" {
		fmt.Fprintln(out, "# The API server does not name the user: fill in the name.")
		user = "USER"
	}
	text, err := apply.YAML(append(namespaces, rights.Roles(user, missing)...)...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s---\n", text)
	return err
}
