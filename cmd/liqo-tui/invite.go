package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/invite"
	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// oneCluster refuses flags for the remote cluster, because these commands don't
// reach it.
func oneCluster(pair *pairFlags) error {
	if pair.remote.context != "" || len(pair.remote.files) > 0 {
		return exit.UsageError{Err: errors.New("--remote-context, --remote-kubeconfig: this command works only on the local cluster; with access to both clusters, use network connect")}
	}
	return nil
}

// addOneSided adds the flags of commands for admins with access to only one
// cluster.
func (c *connectFlags) addOneSided(cmd *cobra.Command, r *runFlags, takes func(flows.ConnectionSetting) bool) {
	r.add(cmd)
	c.add(cmd.Flags(), func(s flows.ConnectionSetting) bool { return s.Name == "namespace" || takes(s) })
	if allow := cmd.Flags().Lookup("allow"); allow != nil { // see package invite
		allow.DefValue = ""
		allow.Usage += " (default: unchanged, at first exported if the cluster exchanges Services, else all)"
	}
	hideInherited(cmd, "remote-")
}

// undoneHere returns the command that removes this end of a connection.
func undoneHere(pair *pairFlags, peer, what string) report.NextStep {
	return report.NextStep{Command: pair.local.command("network", "reset", "--local-only", "--remote-cluster-id", peer), Why: what}
}

func oneArgument(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.UsageError{Err: fmt.Errorf("%s takes one FILE", cmd.CommandPath())}
	}
	return nil
}

const inviteLong = `If nobody has access to both clusters, their admins connect them with two files.
The files hold no secrets:

  rome's admin    network invite --for milan   creates the gateway server and
                                               an invitation, to send to milan
  milan's admin   network join INVITATION      creates the gateway client and an
                                               answer, to send back
  rome's admin    network accept ANSWER        completes the connection
`

func inviteCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var out files.PeerFileOut
	var peer string
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "invite --for CLUSTER_ID",
		Short: "Invite another admin's cluster: write an invitation",
		Long: inviteLong + `
The local cluster hosts the gateway server. Run it again to write the invitation
again; that changes nothing else.`,
		Example: `  liqo-tui network invite --context rome --for milan \
    --server-service-type NodePort`,
		Args: noArguments,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op := operation{name: "invite", localOnly: true, undo: "network reset --local-only"}
		op.goal = func() (flows.Goal, error) {
			p, open, err := c.parse()
			switch id := wire.ClusterID(peer); {
			case peer == "":
				err = exit.UsageError{Err: errors.New("whom to invite? give --for, the other cluster's ID")}
			case id.Validate() != nil:
				err = exit.UsageError{Err: fmt.Errorf("--for: %w", id.Validate())}
			}
			if err := errors.Join(err, oneCluster(pair), out.Validate()); err != nil {
				return nil, err
			}
			p.Server = flows.A
			return invite.Invitation{Params: p, Open: open, Peer: wire.ClusterID(peer), Nonce: rand.Text()}, nil
		}
		op.finish = func(e engine.Event) error {
			invitation, err := invite.NewInvitation(e.Plan.Params, wire.ClusterID(peer), e.Facts, out.Valid)
			if err != nil {
				return err
			}
			out.File = cmp.Or(out.File, fmt.Sprintf("invitation-%s-to-%s.yaml", e.Facts.Sides[flows.A].ID, peer))
			return out.Write(invitation)
		}
		op.done = func(e engine.Event) report.Achieved {
			return report.Achieved{
				Text: fmt.Sprintf("%s can be dialled by %s now. %s", e.Facts.Sides[flows.A].ID, peer, out.HandOver("invitation", "join", peer)),
				Next: []report.NextStep{
					{Command: pair.local.command("network", "accept", fmt.Sprintf("answer-%s-to-%s.yaml", peer, e.Facts.Sides[flows.A].ID)), Why: "once they have sent the answer"},
					undoneHere(pair, peer, "undoes this"),
				},
			}
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	cmd.Flags().StringVar(&peer, "for", "", "ID of the other cluster; liqo-tui info --get clusterid prints it there")
	out.Add(cmd, "invitation-ID-to-ID.yaml")
	c.addOneSided(cmd, &r, func(s flows.ConnectionSetting) bool { return s.Inviter || s.Sets == flows.FieldAllow })
	acceptLiqoctl(cmd)
	return cmd
}

func joinCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var out files.PeerFileOut
	var fingerprint string
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "join INVITATION",
		Short: "Accept an invitation: create the client, write an answer",
		Long: inviteLong + `
The local cluster dials the inviting one. Compare the file's fingerprint with
the other admin, not by the way that the file came. --fingerprint compares it.`,
		Example: `  liqo-tui network join invitation-rome-to-milan.yaml --context milan`,
		Args:    oneArgument,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var invitation peerfile.File
		op := operation{name: "join", localOnly: true, undo: "network reset --local-only"}
		op.goal = func() (flows.Goal, error) {
			p, _, err := c.parse()
			if err := errors.Join(err, oneCluster(pair), out.Validate()); err != nil {
				return nil, err
			}
			invitation, err = files.ReadPeerFile(args[0], peerfile.Invitation, fingerprint)
			return flows.Planner(func(f flows.Facts) flows.Plan { return invite.PlanJoin(p, invitation, f) }), err
		}
		op.finish = func(e engine.Event) error {
			answer, err := invite.NewAnswer(invitation, e.Facts, out.Valid)
			if err != nil {
				return err
			}
			out.File = cmp.Or(out.File, fmt.Sprintf("answer-%s-to-%s.yaml", e.Facts.Sides[flows.A].ID, invitation.From.ClusterID))
			return out.Write(answer)
		}
		op.done = func(e engine.Event) report.Achieved {
			inviter := string(invitation.From.ClusterID)
			return report.Achieved{
				Text: fmt.Sprintf("%s dials %s now. %s", e.Facts.Sides[flows.A].ID, inviter, out.HandOver("answer", "accept", inviter)),
				Next: []report.NextStep{
					{Command: pair.local.command("info", "peer", inviter), Why: "says whether it is connected, once they have accepted"},
					undoneHere(pair, inviter, "undoes this"),
				},
			}
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	out.Add(cmd, "answer-ID-to-ID.yaml")
	files.AddFingerprint(cmd, &fingerprint)
	c.addOneSided(cmd, &r, func(s flows.ConnectionSetting) bool {
		return s.Sets == flows.FieldClientTemplate || s.Sets == flows.FieldAllow
	})
	c.addReplace(cmd.Flags())
	return cmd
}

func acceptCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var fingerprint string
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "accept ANSWER",
		Short: "Complete the connection with the answer to your invitation",
		Long: inviteLong + `
It has to be the answer to the invitation that stands: the one of this gateway
server. Compare its fingerprint with the other admin, as milan's has done.`,
		Example: `  liqo-tui network accept answer-milan-to-rome.yaml --context rome`,
		Args:    oneArgument,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var answer peerfile.File
		op := operation{name: "accept", localOnly: true, undo: "network reset --local-only"}
		op.goal = func() (flows.Goal, error) {
			p, _, err := c.parse()
			if err == nil && p.Wait == flows.WaitVerified {
				err = exit.UsageError{Err: errors.New("--wait=verified: it takes a pod in each cluster, and access to both")}
			}
			if err := errors.Join(err, oneCluster(pair)); err != nil {
				return nil, err
			}
			answer, err = files.ReadPeerFile(args[0], peerfile.Answer, fingerprint)
			return flows.Planner(func(f flows.Facts) flows.Plan { return invite.PlanAccept(p, answer, f) }), err
		}
		op.done = func(e engine.Event) report.Achieved {
			peer := string(answer.From.ClusterID)
			text := fmt.Sprintf("%s and %s are connected: %s's gateway answers pings.", e.Facts.Sides[flows.A].ID, peer, peer)
			if c.params.Wait == flows.WaitNone {
				text = fmt.Sprintf("All changes are applied on %s. With --wait none, the connection was not checked.", e.Facts.Sides[flows.A].ID)
			}
			return report.Achieved{Text: text, Next: []report.NextStep{
				{Command: pair.local.command("info", "peer", peer), Why: "shows its state, and the addresses of its pods"},
				undoneHere(pair, peer, "undoes this, on this side"),
			}}
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	files.AddFingerprint(cmd, &fingerprint)
	c.addOneSided(cmd, &r, func(s flows.ConnectionSetting) bool { return s.Name == "wait" })
	c.addReplace(cmd.Flags())
	return cmd
}
