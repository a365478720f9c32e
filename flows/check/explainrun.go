package check

import "github.com/liqo-tui/liqo-tui/flows"

func runTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeLost: {
			"a cluster stopped answering", "Its API server answered at first, then no more until the timeout. What was applied stays.",
			[]string{"Run the same command again once the cluster answers: it continues."},
		},
		flows.CodeCredentials: {
			"credentials no longer accepted", "They expired or were revoked while the command ran. What was applied stays.",
			[]string{"Log in to the cluster again, then run the same command again: it continues."},
		},
		flows.CodeForbidden: {
			"forbidden", "The API server does not allow this user a change that the plan needs. What was applied before stays.",
			[]string{"liqo-tui rbac prints the Roles that are missing.", "Then run the same command again: it continues."},
		},
		flows.CodeRefused: {
			"the API server refused a change", "A policy, a webhook or a rule of the API server does not allow the object.",
			[]string{"The message is the API server's own.", "What was applied before stays; the same command continues."},
		},
		flows.CodeNodePort: {
			"the node port is taken or outside the range", "The API server did not accept the node port of the gateway server's Service.",
			[]string{"--node-port 0: Kubernetes chooses a free one.", "Choose another one."},
		},
		flows.CodeNamespace: {
			"the peering has another namespace", "All objects of a peering are in one namespace of each cluster, which is found by its label.",
			[]string{"Leave --namespace and --remote-namespace out.", "To move a peering, reset it first."},
		},
		flows.CodeOwnership: {
			"another program owns the object", "Kubernetes records which program has set each field. Another one has set a field that the plan changes: a GitOps tool, liqoctl, or somebody with kubectl.",
			[]string{"Make the change with that program.", "If it no longer manages the object, take the fields over: --force-conflicts."},
		},
		flows.CodeUndone: {
			"a change was undone", "A change was accepted and then undone: another program, or another run of liqo-tui with other flags, sets another value.",
			[]string{"kubectl get --show-managed-fields -o yaml shows who writes the object.", "End the other run, or change the settings of that program."},
		},
		flows.CodeUnnamedPeer: {
			"the peer has to be named", "With --local-only the other cluster is not asked for its ID, and this one has several peerings, or none.",
			[]string{"Name it: --remote-cluster-id. liqo-tui info lists the peerings."},
		},
		flows.CodeNotConnected: {
			"the clusters are not connected", "The command is for a connection that exists, and one of the clusters has no gateway to the other.",
			[]string{"Connect them first: liqo-tui network connect. liqo-tui info lists the peerings."},
		},
		flows.CodeInterrupts: {
			"traffic would be interrupted", "With --strict no plan is started that interrupts a working connection, however short.",
			[]string{"--dry-run shows which step it is.", "Leave --strict out when an interruption is acceptable."},
		},
		flows.CodeInvitation: {
			"the invitation or answer does not fit", "One admin invites: liqo-tui network invite. The other one answers with join, and accept completes it. Each file is for one cluster, and is valid for a day unless --valid says otherwise. An answer is to one invitation: that of the gateway server that stands, with its key, ranges and MTU.",
			[]string{"Check that the context is the right one: liqo-tui info --get clusterid.", "Compare the fingerprints of the files with the other admin, by another way than the files came.", "If the file has expired, run the command again that wrote it. It changes nothing else."},
		},
		flows.CodeKeysKept: {
			"the gateways can't replace their keys", "Our gateways replace their keys while traffic flows. Liqo's own make a key once, when they are created, and keep it. Where both run, there is nothing to replace. Nothing was changed.",
			[]string{"Make the gateways anew, with new keys: liqo-tui network disconnect, then liqo-tui network connect. Traffic stops in between."},
		},
		flows.CodeTemplate: {
			"a gateway template can't be used", "A GatewayServer or GatewayClient names a template from which its pod is made. It has to be there, in the namespace that is named or in Liqo's. Liqo's controllers can't run liqo-tui's own gateway. Nothing was changed.",
			[]string{"Leave out --server-template-name and --client-template-name to use the installation's own templates, or name one that is there."},
		},
		flows.CodeByHand: {
			"a step by hand does not fit", "By hand, each cluster gets the other's Configuration first, then its own gateway, then the other gateway's PublicKey. It has one of each for a peer, and a server or a client. Nothing was changed.",
			[]string{"The hint names the step that is missing, or the object that is there already.", "liqo-tui info peer shows how far a connection is."},
		},
		flows.CodePod: {
			"a gateway's pod does not start", "The gateway can't work before its pod runs.",
			[]string{"kubectl describe pod says why: an image that can't be pulled, no room on the nodes, the network plug-in."},
		},
		flows.CodeTunnel: {
			"the gateways do not reach each other", "Everything was applied, but at least one gateway gets no answer from the other through the tunnel.",
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
			"the operator assigns no addresses", "The operator of each cluster decides under which addresses it sees the peer's pods.",
			[]string{"Check that the operator runs, and read its log.", "If no range is free, the Configuration's condition says so."},
		},
		flows.CodeKey: {
			"a gateway does not publish its key", "The operator creates a gateway's key and publishes the public half as an annotation.",
			[]string{"Check that the operator runs, and read its log."},
		},
		flows.CodeDeletion: {
			"a deletion does not end", "A deleted object still exists, because its finalizers wait for a program to clean up.",
			[]string{"Check that the program runs that set the finalizer, such as Liqo's controllers.", "Remove the finalizer by hand only if that program is gone for good."},
		},
		flows.CodeVerification: {
			"a packet got lost", "Both gateways reach each other, but a packet from pod to pod did not arrive.",
			[]string{"liqo-tui network verify shows which direction fails, and from which packet size.", "A network policy or the firewall of a node may block the way between pod and gateway.", "Without Liqo, check that the pod network is a supported one: docs/requirements.md."},
		},
		flows.CodeServicesOff: {
			"the cluster has no Services by name", "Its operator was installed without --services, its API server does not serve ServiceExport and ServiceImport, or Liqo connects the cluster. Nothing was changed.",
			[]string{"liqo-tui install --services switches Services by name on, where the liqo-tui operator runs.", "Liqo's gateways exchange no Services."},
		},
		flows.CodeExport: {
			"a Service is not exported", "The Service can't be exported as it is, or the clusters did not do their part in time. What was applied stays.",
			[]string{"liqo-tui service resolve names the first part that is broken.", "A Service of type ExternalName, one with IPv6 alone, and those of reserved namespaces (default, kube-… and those of liqo-tui) are not exported."},
		},
		flows.CodeTimeout: {
			"the wait timed out", "The timeout ended before the expected state was reached. What was applied stays.",
			[]string{"Run the same command again to continue. --timeout sets the limit."},
		},
	}
}
