package check

import "github.com/liqo-tui/liqo-tui/flows"

// runTexts explain why a run of a plan has ended.
func runTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeLost: {
			"a cluster stopped to answer", "Its API server answered before, and then did not until time was up. What was applied stays.",
			[]string{"Run the same command again once the cluster answers: it continues."},
		},
		flows.CodeCredentials: {
			"a cluster stopped to accept the credentials", "They expired or were revoked while the command ran. What was applied stays.",
			[]string{"Log in to the cluster again, then run the same command again: it continues."},
		},
		flows.CodeForbidden: {
			"forbidden", "The API server does not allow this user a change that the plan needs. What was applied before stays.",
			[]string{"liqo-tui rbac prints the Roles that are missing.", "Then run the same command again: it continues."},
		},
		flows.CodeRefused: {
			"the API server refused a change", "The object was not accepted as it is: a policy, a webhook, or a value that this API server does not take.",
			[]string{"The message is the API server's own.", "What was applied before stays; the same command continues."},
		},
		flows.CodeNodePort: {
			"the node port is taken or outside the range", "The API server did not accept the node port of the gateway server's Service.",
			[]string{"Leave --node-port out: Kubernetes then chooses a free one.", "Choose another one."},
		},
		flows.CodeNamespace: {
			"the peering has another namespace", "All objects of a peering are in one namespace of each cluster, which is found by its label.",
			[]string{"Leave --namespace and --remote-namespace out.", "To move a peering, reset it first."},
		},
		flows.CodeOwnership: {
			"another program owns what is to be changed", "Kubernetes notes which program has set each field. One that is to be changed was set by another: a GitOps tool, liqoctl, or somebody with kubectl.",
			[]string{"Change it there.", "Take the fields over with --force-conflicts, if that program no longer cares for them."},
		},
		flows.CodeUndone: {
			"what was applied does not stay", "A change was accepted, and later it was gone again: another program, or another run of this one with other flags, sets something else.",
			[]string{"kubectl get --show-managed-fields -o yaml shows who writes the object.", "End the other run, or change what that program wants."},
		},
		flows.CodeUnnamedPeer: {
			"it is not clear which cluster to forget", "With --local-only the other cluster is not asked who it is, and this one has several peerings, or none.",
			[]string{"Name it: --remote-cluster-id. liqo-tui info lists the peerings."},
		},
		flows.CodeNotConnected: {
			"the clusters are not connected", "The command is for a connection that exists, and one of the clusters has no gateway to the other.",
			[]string{"Connect them first: liqo-tui network connect. liqo-tui info lists the peerings."},
		},
		flows.CodeInterrupts: {
			"it would interrupt traffic", "With --strict nothing is begun that takes a working connection down, also if only until the gateways reach each other again.",
			[]string{"--dry-run shows which step it is.", "Leave --strict out when an interruption is acceptable."},
		},
		flows.CodeInvitation: {
			"an invitation or an answer does not fit", "Of two clusters one invites: liqo-tui network invite. The other's admin answers with join, and accept completes it. Each letter is for one cluster, and holds for a day unless --valid says otherwise.",
			[]string{"Check whose context is chosen: liqo-tui info --get clusterid.", "Write an expired letter again: the command that wrote it changes nothing else."},
		},
		flows.CodePod: {
			"a gateway's pod does not start", "The gateway can't work before its pod runs.",
			[]string{"kubectl describe pod says why: an image that can't be pulled, no room on the nodes, the network plug-in."},
		},
		flows.CodeTunnel: {
			"the gateways do not reach each other", "Everything was applied, and at least one gateway gets no answer from the other through the tunnel.",
			[]string{
				"liqo-tui check finds the first thing that is broken.", "Most often a firewall drops the UDP port; the finding names the rule to ask for.",
				"Or let the other cluster dial: --server-location.",
			},
		},
		flows.CodeEndpoint: {
			"the gateway server gets no address", "The client can't dial before the server's Service has an address: a load balancer's, or a node's.",
			[]string{"kubectl describe service says what the provider answers.", "Choose --server-service-type NodePort.", "Give the address yourself: --client-address."},
		},
		flows.CodeRemapping: {
			"the operator assigns no addresses", "Each cluster's operator gives the peer's ranges those under which it sees them.",
			[]string{"See whether the operator runs, and its log.", "There may be no room left: the Configuration's condition says so."},
		},
		flows.CodeKey: {
			"a gateway does not publish its key", "The operator makes a gateway's key, and writes the public half where this program reads it.",
			[]string{"See whether the operator runs, and its log."},
		},
		flows.CodeDeletion: {
			"a deletion does not end", "An object was deleted, and still exists because of finalizers: a program has to clean up first.",
			[]string{"See that the program which put the finalizer there runs: Liqo's controllers, or our operator.", "Only if it is gone for good, take the finalizer off by hand."},
		},
		flows.CodeVerification: {
			"a packet did not come through", "Both gateways say that they reach each other, and a packet from pod to pod did not arrive.",
			[]string{"liqo-tui network verify says which way, and how large.", "A network policy, or the nodes' firewall, may stand between the pods and the gateway."},
		},
		flows.CodeTimeout: {
			"what was waited for did not come", "Time was up before it was there. What was applied stays.",
			[]string{"Run the same command again to go on waiting; --timeout gives it longer."},
		},
	}
}
