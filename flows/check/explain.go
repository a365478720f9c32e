package check

import (
	"maps"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Text explains a check or an error to somebody who sees it for the first time.
type Text struct {
	Title   string
	Meaning string   // what was checked or went wrong, and why it matters
	Fix     []string // what helps, the likeliest first
}

// Explain is the text about a code; it needs no cluster.
func Explain(id flows.Code) (Text, bool) {
	t, ok := texts()[id]
	return t, ok
}

// All are the codes that can be explained, in order.
func All() []flows.Code { return slices.Sorted(maps.Keys(texts())) }

func texts() map[flows.Code]Text {
	all := preflightTexts()
	maps.Copy(all, diagnosisTexts())
	maps.Copy(all, commandTexts())
	maps.Copy(all, runTexts())
	return all
}

func preflightTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeAnswers: {
			"the API server answers",
			"Everything is done through both clusters' API servers, so this machine has to reach both, with credentials that they accept. Each answer carries the time, which tells how old gateways' reports are where clocks differ.",
			[]string{
				"Check the server's address in the kubeconfig, and VPN or firewall on the way.",
				"Log in again if the credentials have expired.",
				"Set clocks that differ by NTP.",
				"If the cluster is gone for good, disconnect and reset take --local-only.",
			},
		},
		flows.CodeDifferent: {
			"the clusters are different",
			"Two contexts, or two users, may lead to the same cluster. They are told apart by the UID of the kube-system namespace, which is the same whichever way a cluster is reached.",
			[]string{"Choose another --context or --remote-context; liqo-tui wizard shows which contexts are the same cluster."},
		},
		flows.CodeSoftware: {
			"Liqo or our operator, with the kinds of peerings",
			"A peering consists of objects of networking.liqo.io/v1beta1, and something on the cluster has to act on them: Liqo v1.2, or this program's own operator.",
			[]string{"Install our operator: liqo-tui install, or connect with --install.", "Upgrade Liqo to v1.2 if it is older."},
		},
		flows.CodeClusterID: {
			"cluster IDs are valid and unique",
			"A cluster is known to its peers by its ID, which names namespaces and objects. It has to be there, to be usable as a name, not to consist of digits only (Liqo's templates turn those into numbers), and to differ from the IDs of all peers.",
			[]string{"The ID is in ConfigMap liqo-clusterid-configmap in Liqo's namespace.", "Give one of the clusters another ID before it has any peering."},
		},
		flows.CodeNetworks: {
			"the cluster knows its address ranges",
			"Each cluster tells the other which addresses its pods have. They are decided when Liqo or our operator is installed, and kept in Network objects in its namespace.",
			[]string{"See whether the operator runs: kubectl -n liqo get pods,networks.", "Reinstall with --pod-cidr and --service-cidr if the operator could not find them."},
		},
		flows.CodePermission: {
			"permissions for this plan",
			"Before anything is changed, the API servers are asked whether this user may do all of it. A plan that would stop half-way is not begun.",
			[]string{"liqo-tui rbac prints the Roles that are missing, to be applied by an administrator of the cluster."},
		},
		flows.CodeOperator: {
			"what manages connections works",
			"Liqo's controller-manager or our operator makes gateways and addresses out of the objects that are applied. Ours refuses to work beside Liqo's: two of them would undo each other's work.",
			[]string{"Remove one of the two.", "See its pod: kubectl -n liqo get pods,events."},
		},
		Overlaps: {
			"address ranges",
			"Two clusters may use the same addresses. Each then sees the other's under different ones, which are translated at its gateway. Applications have to use the addresses that their own cluster sees.",
			[]string{"Nothing has to be done; liqo-tui info peer shows the addresses.", "If there is no room for another range, reset peerings that are no longer needed."},
		},
		Leftovers: {
			"no leftovers of an old peering",
			"Objects of an earlier peering may be in the way: namespaces that are still being deleted, objects whose finalizers nobody removes, or those of a gateway that is gone.",
			[]string{"Wait for deletions to end.", "liqo-tui network reset removes what is left; what it does not, the finding names."},
		},
		LiveTraffic: {
			"traffic that is interrupted",
			"Changing a connection that carries traffic may interrupt it: a gateway that moves to the other cluster, another port, another template.",
			[]string{"Do it when that is convenient; the plan says which step interrupts what."},
		},
		NodePort: {
			"the node port is free",
			"A node port has to be in the range that the API server is configured for (30000-32767, unless it was changed), and to be used by no other Service of the cluster.",
			[]string{"Leave --node-port out: Kubernetes then chooses a free one.", "Choose another one."},
		},
		Reachability: {
			"UDP to the gateway server",
			"The client's gateway dials the server's over UDP. A private address is reached only inside its own network, and firewalls have to let the port through.",
			[]string{"Let the cluster host the server that the other one can reach: --server-location.", "Ask for the firewall rule that the finding names.", "Give an address that leads there: --client-address."},
		},
		TunnelMTU: {
			"MTU of the tunnel",
			"The tunnel adds 60 bytes to each packet on IPv4. If the path between the clusters does not carry the sum, small packets pass and large ones disappear: connections are made, and hang.",
			[]string{"Choose a smaller --mtu; 1340 fits nearly every path.", "liqo-tui network verify measures the largest packet that comes through."},
		},
	}
}

func diagnosisTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		Answers: {"the API server answers", "What a cluster says of its end of the tunnel is read through its API server.", []string{"See LT-P001."}},
		Operator: {
			"what manages connections works", "Without Liqo or our operator, nothing acts on the objects of the peering.",
			[]string{"See its pod: kubectl -n liqo get pods,events.", "See LT-P007."},
		},
		Configured: {
			"the peer's addresses have their own here", "The operator gives each range of the peer one under which this cluster sees it.",
			[]string{"Look at the conditions of the Configuration, and at the operator's log."},
		},
		SameRanges: {
			"both know the other's present ranges", "A cluster that was installed again may have other address ranges than its peers were told.",
			[]string{"Run liqo-tui network connect again: it updates what each side was told."},
		},
		Gateways: {
			"one gateway is the server, one the client", "A tunnel has two ends: one cluster's gateway is dialled, the other's dials.",
			[]string{"Run liqo-tui network connect: it makes what is missing, and replaces what is in the way."},
		},
		Endpoint: {
			"the client dials where the server is", "The server's address may change: a node is replaced, a load balancer gets another address. The client's object holds what it was at connect time, unless the clusters were allowed to tell each other (liqo-tui network delegate).",
			[]string{"Run liqo-tui network connect again: it tells the client.", "Allow the clusters to do that themselves: liqo-tui network delegate."},
		},
		GatewayPod: {
			"the gateway's pod runs", "Each end of the tunnel is one pod.",
			[]string{"kubectl describe pod says why it does not start: an image, no room on the nodes, the network plug-in.", "If it restarted, kubectl logs --previous says why."},
		},
		Keys: {
			"the peer's key is the one it has", "Each gateway makes its own WireGuard key, and the other cluster is told the public half. With another key there is never a handshake.",
			[]string{"Run liqo-tui network connect again: it tells the present key."},
		},
		Fresh: {
			"the gateway reports", "A gateway renews its report several times a minute, even if nothing changes. An old one says nothing about the tunnel.",
			[]string{"Look at the gateway's log.", "See whether its pod may still write its Connection: its Role is beside it."},
		},
		Warnings: {"no warnings about the gateway", "Kubernetes' own warnings about objects of the peering.", []string{"kubectl -n NAMESPACE get events shows all."}},
		UDPPath: {
			"UDP between the gateways", "Both gateways count what they send and what they receive. If the client sends and the server receives nothing, the way there is closed; if the server receives and the client doesn't, the way back is.",
			[]string{"Ask for the firewall rule that the finding names.", "Let the other cluster dial: --server-location.", "Dial another address: --client-address."},
		},
		Ping: {
			"ping through the tunnel", "Each gateway pings the other one through the tunnel every two seconds.",
			[]string{"If there is a handshake and no answer, something on the gateways' nodes drops UDP 12345.", "Look at the gateways' logs."},
		},
		PathMTU: {
			"MTU of the tunnel", "Both ends should have the same MTU, or packets that one sends are too large for the other.",
			[]string{"Run liqo-tui network connect with the smaller --mtu."},
		},
		PacketLoss: {
			"packet loss", "The share of a minute's pings that were not answered. TCP becomes slow from one in a hundred.",
			[]string{"Look at the links between the clusters, and at the load of the gateways' nodes."},
		},
	}
}

func commandTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeUnexpected: {
			"unexpected error", "Something went wrong that this program did not foresee. What was applied before stays.",
			[]string{"Run the same command again: it continues.", "Report it, with the output of the command with -v."},
		},
		flows.CodeUsage: {
			"the command can't be run as it is", "Flags, environment or configuration file say something that can't be meant. Nothing was changed.",
			[]string{"The message names what to change; --help lists all flags."},
		},
		flows.CodeInterrupted: {
			"interrupted", "A signal ended the command. Requests that were under way were finished; what was applied stays.",
			[]string{"Run the same command again to continue.", "liqo-tui network reset removes what was applied."},
		},
		flows.CodeDeclined:    {"declined", "The plan was shown and not approved. Nothing was changed.", []string{"Run the same command again, or with --yes."}},
		flows.CodeUnreachable: {"a cluster does not answer", "No answer came from the API server of a cluster that the command needs.", []string{"See LT-P001."}},
		flows.CodeAccess: {
			"a cluster does not let the user in", "The API server does not accept the credentials, or does not allow to read what is needed.",
			[]string{"Log in to the cluster again.", "Ask its administrator for the Roles that liqo-tui rbac prints."},
		},
		flows.CodeUnfit: {
			"the installation does not fit the cluster", "Something on the cluster stands against installing or removing the operator, such as Liqo itself, or peerings that still exist.",
			[]string{"The message names it, and what to do."},
		},
		flows.CodeNotReady: {
			"the installation did not become ready", "The operator was applied, and does not run yet.",
			[]string{"See its pods: kubectl -n liqo get pods,events.", "Run the same command again to go on waiting."},
		},
	}
}
