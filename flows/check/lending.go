package check

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Checks and errors of lending. Package peer makes the plans.
const (
	Lending     flows.Code = "LT-P040" // lending is possible on these clusters
	NewKey      flows.Code = "LT-P041" // the provider knows the consumer by its present key
	Handshake   flows.Code = "LT-E050" // Liqo's controllers don't answer the handshake of lending
	Tenant      flows.Code = "LT-E051" // the provider does not accept the consumer
	Identity    flows.Code = "LT-E052" // the consumer can't use its access to the provider
	Slice       flows.Code = "LT-E053" // the provider does not grant the resources
	VirtualNode flows.Code = "LT-E054" // the virtual node does not become ready
	Drain       flows.Code = "LT-E055" // pods don't leave a virtual node
	Offloading  flows.Code = "LT-E056" // a namespace is not offloaded
)

func lendingTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		Lending: {
			"Liqo can lend resources",
			"A virtual node takes Liqo on both clusters, with its authentication and offloading modules, or our operator on both, with install --peering. Liqo's webhook, controller-manager and, on the consumer, crd-replicator have to run, and nothing may stand where their objects are to be.",
			[]string{"The finding names what is in the way, and the command that helps.", "To connect pod networks alone, without virtual nodes: liqo-tui network connect."},
		},
		NewKey: {
			"the provider knows the consumer's key",
			"A provider keeps what it has signed for a consumer, and refuses another key of it. A consumer that was installed again has another key.",
			[]string{"If that is what happened: delete what the finding names on the provider: its Tenant, and the Secrets with what it has signed.", "If not, find out who else calls itself by the consumer's cluster ID."},
		},
		Handshake: {
			"no answer in a peering's handshake", "The provider's Liqo makes a nonce, and the consumer's Liqo signs it. One of them did not.",
			[]string{"Check that Liqo's authentication module is on: Helm value authentication.enabled.", "Read the log of Liqo's controller-manager.", "Under our operator: run liqo-tui install --peering on both clusters, and read the operator's log."},
		},
		Tenant: {
			"the provider does not accept the consumer", "The provider's Liqo checks the consumer's signature and has its certificate signed by the cluster.",
			[]string{"The events of the Tenant on the provider say why.", "API servers that sign no client certificates, such as EKS's, need Liqo's own settings for that.", "Under our operator, annotation liqo-tui.dev/problem of the Tenant says why."},
		},
		Identity: {
			"the consumer does not reach the provider's API server", "Liqo on the consumer works through the API server of the provider, at the address that the provider's Liqo names.",
			[]string{"Open the firewall from the consumer's nodes to that address.", "Set Helm value apiServer.address of Liqo on the provider.", "Under our operator: liqo-tui install --api-server URL on the provider.", "With Liqo, use --in-band: it goes through the tunnel."},
		},
		Slice: {
			"the provider does not grant the resources", "The consumer's ResourceSlice is copied to the provider, whose Liqo or operator accepts or denies it. Liqo does not say why in the object, only in events on the provider.",
			[]string{"The message names who has not answered, or the event.", "Under our operator, condition Resources of the ResourceSlice says why.", "An admin of the provider may have cordoned or drained the consumer: liqoctl uncordon tenant, liqoctl activate tenant."},
		},
		VirtualNode: {
			"the virtual node is not ready", "A virtual node is a Deployment in the tenant namespace, and the Node that it keeps. What the VirtualNode says is only that the Deployment was written.",
			[]string{"kubectl describe pod says why the Deployment's pod does not start.", "If the network is unavailable, liqo-tui check finds what is broken."},
		},
		Drain: {
			"pods do not leave the virtual node", "Before a virtual node goes its pods are evicted, as PodDisruptionBudgets allow. They end on the provider first.",
			[]string{"Change the budget that holds them, or delete the pods.", "If the provider is gone for good: liqo-tui unpeer --local-only."},
		},
		flows.CodeLent: {
			"a virtual node uses the network", "One of the clusters uses resources of the other. Without what the clusters know of each other's addresses, pods on its virtual node are reached by nobody.",
			[]string{"liqo-tui unpeer removes both, in the order in which pods can leave.", "To interrupt the network alone: liqo-tui network disconnect."},
		},
		LentAccess: {
			"the provider lets it in",
			"One of the clusters uses resources of the other one. The provider's Tenant lets it in, and its Identity says where the provider's API server is and whether it is reached. Both clusters say what they have of that.",
			[]string{"The finding has the operator's or Liqo's own words.", "Run the same liqo-tui peer again: it continues where it was, and waits with a reason.", "An admin of the provider may have cordoned or drained the Tenant. Certificates of a drained one allow nothing."},
		},
		LentResources: {
			"resources are granted",
			"What a ResourceSlice asks for is granted whole, or denied with a reason. A slice that is pending was not answered yet.",
			[]string{"Ask for less, or have the provider's admin lend more: liqo-tui install --lend, or annotation liqo-tui.dev/lend of the Tenant.", "Pending for long: read the log of the operator, or of Liqo's crd-replicator, on the consumer, then on the provider."},
		},
		LentNode: {
			"the virtual node is ready",
			"The program of a virtual node asks the provider's API server all the time, with the certificate of its slice. Not ready means that there was no good answer; network unavailable, that the tunnel's gateway says that no packets pass. Pods that run on the provider go on meanwhile; new ones wait.",
			[]string{"The finding has the node's own words.", "Network unavailable: what is broken stands further above.", "Not there yet: kubectl describe pod says why the virtual node's pod does not start."},
		},
		LentNamespaces: {
			"offloaded namespaces are there",
			"Each namespace that is offloaded is made on the provider under the name that was agreed. Until it is there, its pods wait.",
			[]string{"A name that is taken on the provider can't be used: unoffload the namespace, and offload it with --namespace-mapping-strategy SelectedName.", "Under our operator the name ends in the consumer's cluster ID, unless an admin of the provider allows others."},
		},
		LentPods: {
			"offloaded pods can run",
			"Pods that are on a virtual node and do not run say why in their status. They stay pending, and are tried again. Pods that select a virtual node and have no node are named with the scheduler's reason.",
			[]string{"OffloadingRefused: the provider does not run such pods; the message names the field.", "OffloadingImpossible: the pod needs something of its node, such as hostNetwork or a hostPath.", "UnschedulableAbroad: the provider has no node for it.", "NamespaceNotOffloaded: liqo-tui offload namespace, or have it scheduled elsewhere.", "Unschedulable: kubectl describe node shows the labels, taints and resources of the virtual node. Which labels of the provider's nodes it has, docs/peering.md says."},
		},
		LentLeftovers: {
			"no leftovers on the provider",
			"What a consumer has on a provider is deleted when the consumer's operator, or the program of a virtual node, sees that its object at home is deleted. What was deleted while neither ran, or is absent because one of the clusters was restored from a backup, stays there.",
			[]string{"The finding names each such object, with the command that removes it on the provider.", "If a backup is still to be restored, wait: what comes back goes on to run.", "Not known: the program of a virtual node did not see all of the namespaces, here or on the provider."},
		},
		Offloading: {
			"the namespace is not offloaded", "Each provider makes a namespace for it. A name that is taken there can't be used.",
			[]string{"Choose another name: --namespace-mapping-strategy SelectedName --remote-namespace-name NAME.", "The conditions of the NamespaceOffloading name the provider."},
		},
	}
}

// lends fails if the plan for lending is refused with the code.
func lends(code flows.Code) func(preflight, flows.Side) Result {
	return func(in preflight, _ flows.Side) Result {
		if s := in.plan.Failure(); s != nil && s.Code == code {
			return result(Fail, fmt.Sprintf("%s: %s", s.Title, s.Reason), s.Fix...)
		}
		return pass("nothing stands against it")
	}
}
