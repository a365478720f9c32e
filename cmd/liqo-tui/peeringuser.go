package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
)

const peeringUserLong = `If nobody has access to both clusters, the provider's admin lets the consumer's
admin do what a peering takes, and nothing else:

  milan's admin  generate peering-user --consumer-cluster-id rome
                                     creates an account on milan and writes a
                                     kubeconfig for rome's admin: a secret
  rome's admin   peer --remote-kubeconfig FILE    connects and peers both
  milan's admin  delete peering-user --consumer-cluster-id rome
                                     ends what the file is good for
`

const (
	userValid      = 24 * time.Hour
	userValidLeast = 10 * time.Minute // Kubernetes makes no token with a shorter life
)

func consumerFlag(cmd *cobra.Command, u *peer.User) {
	cmd.Flags().StringVar((*string)(&u.Consumer), "consumer-cluster-id", "", "ID of the consumer; liqo-tui info --get clusterid prints it there")
}

// planUser returns the goal for an account, if the flags name its consumer.
func planUser(u *peer.User, plan func(peer.User, flows.Facts) flows.Plan, wrong ...error) (flows.Goal, error) {
	if u.Consumer == "" {
		wrong = append(wrong, errors.New("whose account? give --consumer-cluster-id"))
	} else if err := u.Consumer.Validate(); err != nil {
		wrong = append(wrong, fmt.Errorf("--consumer-cluster-id: %w", err))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return flows.Planner(func(f flows.Facts) flows.Plan { return plan(*u, f) }), nil
}

// observed returns pair, with flags to observe all objects that these plans need.
func observed(pair *pairFlags) *pairFlags {
	p := pair.withLending(kube.LendingShown)
	p.local.delegation = true
	return p
}

func generatePeeringUser(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var u peer.User
	var file string
	valid := userValid
	cmd := &cobra.Command{
		Use: "peering-user", Short: "Create an account for a consumer's admin", Args: noArguments,
		Long: peeringUserLong + `
The account works in the tenant namespace of this one consumer. It may connect
the clusters, have the consumer let in, and take both back. Hand the file over
as a secret. Run it again for a new one.`,
		Example: `  liqo-tui generate peering-user --consumer-cluster-id rome --context milan`,
	}
	r.add(cmd)
	consumerFlag(cmd, &u)
	f := cmd.Flags()
	f.StringVar(&u.APIServer, "api-server", "", "URL by which the consumer's admin reaches this cluster's API server (default: that of install --api-server, or the kubeconfig's)")
	f.StringVar(&file, "file", "", "file to write (default: peering-user-ID-at-ID.kubeconfig)")
	f.DurationVar(&valid, "valid", valid, "how long the file is good for, if the cluster allows as much")
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var cluster *kube.Cluster
		var expires time.Time
		var untried string
		op := operation{name: "generate peering-user", localOnly: true, undo: "delete peering-user"}
		op.goal = func() (flows.Goal, error) {
			var wrong []error
			if valid < userValidLeast {
				wrong = append(wrong, fmt.Errorf("--valid %s: want %s or more", valid, userValidLeast))
			}
			if err := install.ValidServer(u.APIServer); u.APIServer != "" && err != nil {
				wrong = append(wrong, fmt.Errorf("--api-server: %w", err))
			}
			return planUser(&u, peer.User.Invite, wrong...)
		}
		op.prepare = func(_ context.Context, goal flows.Goal, a, _ engine.Cluster) (flows.Goal, error) {
			cluster, _ = a.(*kube.Cluster)
			return goal, nil
		}
		op.finish = func(e engine.Event) (err error) {
			file = cmp.Or(file, fmt.Sprintf("peering-user-%s-at-%s.kubeconfig", u.Consumer, e.Facts.Sides[flows.A].ID))
			expires, untried, err = writeUser(cmd.Context(), cluster, u, e.Facts, valid, file)
			return err
		}
		op.done = func(engine.Event) report.Achieved {
			return report.Achieved{
				Text: fmt.Sprintf("%s may be used until %s. It is a secret: hand it to the admin of %s.%s\nfor the admin of %s: %s",
					file, expires.UTC().Format(time.RFC3339), u.Consumer, untried, u.Consumer, command.Ours("peer").For(string(u.Consumer)).Flag("--remote-kubeconfig", file)),
				Next: []report.NextStep{
					{Command: pair.local.command("info", "peer", string(u.Consumer)), Why: "says how far they are"},
					{Command: pair.local.command("delete", "peering-user", "--consumer-cluster-id", string(u.Consumer)), Why: "ends what the file is good for"},
				},
			}
		}
		return op.run(cmd.Context(), io, observed(pair), r)
	}
	return cmd
}

// writeUser writes the account's kubeconfig, with a token that expires. It first tries the token. If the URL
// does not answer from here, the text untried says so, because it may answer where the consumer's admin is.
func writeUser(ctx context.Context, c *kube.Cluster, u peer.User, f flows.Facts, valid time.Duration, file string) (expires time.Time, untried string, err error) {
	namespace, name := u.Account(f)
	token, expires, err := c.Token(ctx, namespace, name, valid)
	if err != nil {
		return expires, "", err
	}
	of := f.Sides[flows.A]
	server, ca := u.Server(of), of.Delegation.CA
	if server != of.Server { // the kubeconfig's certificates are only for the kubeconfig's server
		own, err := c.RootCA(ctx, namespace)
		if err != nil {
			return expires, "", err
		}
		if len(own) > 0 {
			ca = own
		}
	}
	if err := kube.TryToken(ctx, server, ca, token); err != nil {
		problem, ok := errors.AsType[*flows.Problem](err)
		if !ok || problem.Kind != flows.Unreachable {
			return expires, "", &flows.StepError{
				Step:    flows.Refuse(flows.A, flows.CodeCredentials, "kubeconfig of "+string(u.Consumer), flows.FailedApply, err.Error(), flows.HintOf(err)),
				Cluster: of.ID, Changed: true, Cause: err,
			}
		}
		untried = "\nIt was not tried: " + problem.Message + "."
	}
	text, err := render.Kubeconfig(string(of.ID), server, ca, []byte(token), namespace)
	if err == nil {
		err = files.Replace(file, text)
	}
	if err != nil {
		return expires, "", fmt.Errorf("write the kubeconfig of %s: %w; the same command tries again", u.Consumer, err)
	}
	return expires, untried, nil
}

func deleteCommand(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete", Short: "Remove a consumer admin's account", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pair := &pairFlags{}
	pair.local.add(cmd.PersistentFlags(), "", "the cluster")
	cmd.AddCommand(deletePeeringUser(io, pair))
	return cmd
}

func deletePeeringUser(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var u peer.User
	cmd := &cobra.Command{
		Use: "peering-user", Short: "Remove a consumer admin's account", Args: noArguments,
		Long: peeringUserLong + `
All kubeconfigs of the account are refused from then on. A connection and a
peering stay; unpeer removes those.`,
		Example: `  liqo-tui delete peering-user --consumer-cluster-id rome --context milan`,
	}
	r.add(cmd)
	consumerFlag(cmd, &u)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op := operation{name: "delete peering-user", localOnly: true}
		op.goal = func() (flows.Goal, error) { return planUser(&u, peer.User.Revoke) }
		op.done = func(engine.Event) report.Achieved {
			return report.Achieved{Text: fmt.Sprintf("The admin of %s has no account here any more.", u.Consumer)}
		}
		return op.run(cmd.Context(), io, observed(pair), r)
	}
	return cmd
}
