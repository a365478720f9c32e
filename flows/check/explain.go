package check

import (
	"maps"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Text explains a check or an error to somebody who sees it for the first time.
type Text struct {
	Title   string
	Meaning string   // the subject of the check or the error, and why it matters
	Fix     []string // advice, the most likely first
}

// Explain returns the text about a code. It needs no cluster.
func Explain(id flows.Code) (Text, bool) {
	t, ok := texts[id]
	return t, ok
}

// All returns the codes that have an explanation, in order.
func All() []flows.Code { return slices.Sorted(maps.Keys(texts)) }

// texts are made once, because each check takes its title from them.
var texts = func() map[flows.Code]Text {
	all := preflightTexts()
	maps.Copy(all, diagnosisTexts())
	maps.Copy(all, commandTexts())
	maps.Copy(all, runTexts())
	maps.Copy(all, lendingTexts())
	maps.Copy(all, serviceTexts())
	return all
}()

func preflightTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeAnswers: {
			"the API server answers",
			"liqo-tui works through the API servers of both clusters. This machine has to reach both, with credentials that they accept. The time in their answers shows how old a gateway's report is, even if clocks differ.",
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
			"Liqo or liqo-tui is installed",
			"A peering consists of objects of networking.liqo.io/v1beta1. Liqo v1.2 or the liqo-tui operator has to act on them.",
			[]string{"Install the operator: liqo-tui install, or liqo-tui network connect --install.", "Upgrade Liqo to v1.2 if it is older."},
		},
		flows.CodeImage: {
			"the image can be pulled",
			"Operator, gateways and node agent are one image. Before an installation changes anything, a short-lived pod of that image is started on a node that the operator could run on, with the pull secrets, node selector and tolerations of --pod-settings, in the installation's namespace or, as long as there is none, in namespace default. If nodes have several architectures, there is one more pod for each. The finding is what the nodes said, and which did not try. If you may not run pods there, nothing is tried, and the installation goes on.",
			[]string{
				"Push the image to where the nodes of the cluster can pull it, and name it: --image REGISTRY/liqo-gateway:TAG.",
				"Give the registry's password as a Secret in the installation's namespace, named by imagePullSecrets in --pod-settings.",
				"exec format error: the image was built for another architecture than that of the node.",
			},
		},
		Release: {
			"release of Kubernetes",
			"The last three minor releases of Kubernetes are tested with each change of liqo-tui. Older and newer ones are not refused: most of what is used has not changed for years. Nobody has tried them.",
			[]string{"Upgrade an old cluster.", "For a new one, look for a newer liqo-tui.", "liqo-tui network verify sends packets from pod to pod."},
		},
		flows.CodeKernel: {
			"kernel of the nodes",
			"Gateways and node agents need Linux 5.10, for features of nftables. On an older kernel they say so and end. A node with an older kernel is left out: its pods don't reach the other cluster. A cluster on which no node can host a gateway is refused.",
			[]string{"Upgrade the kernel of a node, or add a node with a newer one.", "Keep gateways off old nodes: liqo-tui install --pod-settings FILE, with a nodeSelector."},
		},
		flows.CodeGatewayMode: {
			podsWayTitle, podsWayMeaning + " A cluster with a shared gateway is refused before anything changes. It is not known if a node says no mode, or an unknown one; if nodes may not be read, LT-P008 says so. Clusters without OVN-Kubernetes, and those with Liqo's own agents, have no such finding.",
			podsWayFix(),
		},
		Room: {
			"CPUs and memory",
			"Liqo's documents advise 2 CPUs and 2 GB of memory for a cluster, for Kubernetes' own programs too. What counts is the sum of the nodes. liqo-tui's programs request about 0.1 CPUs and 130 MB for a cluster of one node with one peer.",
			[]string{"It may work with less. Watch the nodes' load.", "Add a node."},
		},
		Admission: {
			"policies of the cluster",
			"Whatever rights a user has, quotas, admission policies and webhooks of the cluster may refuse objects. liqo-tui check --pre has the API servers try what the plan applies first, and changes nothing. Objects whose namespace does not exist yet, and the pods of gateways, can't be tried.",
			[]string{"Ask the admin of the policy that the finding names for an exception: for namespace liqo, and for those with the label liqo.io/tenant-namespace=true."},
		},
		AgentNodes: {
			"nodes can run the agent",
			"An agent on each node leads packets of its pods to the gateways. It needs Linux and a kernel of its own: Windows, virtual nodes of Liqo or virtual-kubelet, and AWS Fargate have none. A node that is not ready gets it later.",
			[]string{"Run pods that need the other cluster on the nodes that are not named."},
		},
		flows.CodeClusterID: {
			"valid, unique cluster IDs",
			"Peers know a cluster by its ID. Namespaces and objects are named after it. The ID has to exist, to be a valid name, to have a character that is no digit (Liqo's templates turn digits into a number), and to differ from the IDs of all peers. IDs that can be taken for something else (system, default, kube-..., xn--..., or what ends like the user of a consumer's resources) are refused for new clusters; those that have one keep it.",
			[]string{"The ID is in ConfigMap liqo-clusterid-configmap in Liqo's namespace.", "Give one of the clusters another ID before it has any peering."},
		},
		flows.CodePeer: {
			"the peer is the same cluster",
			"A cluster ID is a name, and another cluster may have it too. When clusters are connected, each stores the UID of the other's namespace kube-system, in annotation liqo-tui.dev/peer-uid of its Configuration. A cluster with the same ID and another UID would take over the connection, and the former peer would lose it: that is refused. Connections of earlier versions store the UID the next time that network connect sees both clusters. If the tunnel works then, and the other cluster has no end of it, that is refused too.",
			[]string{
				"Choose the context of the cluster that is the peer.",
				"Install the new cluster with another --cluster-id.",
				"A cluster that was built anew takes the place of the former one: liqo-tui network connect --replace-peer. The plan shows it, and asks for it.",
				"To remove what a cluster still has for the former one: liqo-tui network reset --local-only --remote-cluster-id ID.",
			},
		},
		flows.CodeNetworks: {
			"address ranges are known",
			"Each cluster tells the other which addresses its pods have. Liqo or the operator keeps them in Network objects in its namespace.",
			[]string{"Check that the operator runs: kubectl -n liqo get pods,networks.", "If the operator could not find them, run liqo-tui install again with --pod-cidr and --service-cidr."},
		},
		flows.CodePermission: {
			"permissions for this plan",
			"Before the first change, the API servers are asked whether this user may do everything in the plan. So no plan stops half-way for want of rights.",
			[]string{"Ask an administrator of the cluster to apply the Roles that liqo-tui rbac prints."},
		},
		flows.CodeOperator: {
			"the operator runs",
			"Liqo's controller-manager or the liqo-tui operator creates gateways and assigns addresses. The liqo-tui operator does not work beside Liqo's: each would undo the other's work.",
			[]string{"Check its pod: kubectl -n liqo get pods,events.", "If the image can't be pulled: liqo-tui install --image IMAGE.", "If both are installed, remove one of them."},
		},
		Overlaps: {
			"address overlaps",
			"Two clusters may use the same addresses. Then each sees the other's pods under different addresses, and its gateway translates them. Applications have to use the addresses that their own cluster sees.",
			[]string{"There is nothing to do. liqo-tui info peer shows the addresses.", "If there is no room for another range, reset peerings that are no longer needed, or give the operator more: liqo-tui install --pools."},
		},
		Leftovers: {
			"no leftovers of an old peering",
			"Objects of an earlier peering may be in the way: namespaces that are still being deleted, objects whose finalizers nobody removes, or those of a gateway that is gone.",
			[]string{"Wait for deletions to end.", "Run liqo-tui network reset. The finding names what it can't remove."},
		},
		LiveTraffic: {
			"traffic interruptions",
			"Changing a connection that carries traffic may interrupt it: a gateway that moves to the other cluster, another port, another template.",
			[]string{"Apply it when an interruption is acceptable. The plan names the steps that interrupt."},
		},
		flows.CodeFreePort: {
			"the node port is free",
			"A node port has to be in the range that the API server is configured for (30000-32767, unless it was changed), and to be used by no other Service of the cluster.",
			[]string{"--node-port 0: Kubernetes chooses a free one.", "Choose another one."},
		},
		Reachability: {
			"UDP to the gateway server",
			"The client's gateway dials the server's over UDP. A private address is reached only inside its own network, and firewalls have to let the port through. Addresses alone allow a guess. liqo-tui check --pre --probe tries it: a short-lived pod in each cluster answers behind a Service like the gateway server's, and dials the other one. The finding says whether packets arrived, and whether the answers came back.",
			[]string{"Try it: liqo-tui check --pre --probe.", "Host the server on the cluster that the other one can reach: --server-location.", "Ask for the firewall rule that the finding names.", "Give an address that leads there: --client-address.", "Where neither cluster can be dialled, have both dial a relay: --relay."},
		},
		APIReached: {
			"API server, reached by pods",
			"liqo-tui check --pre --probe has a pod of each cluster ask the other's API server, at the address of your kubeconfig, without credentials. The operators need that way if they are to pass on changes to each other (liqo-tui network delegate), and so does a peering of Liqo. A connection of pod networks does without.",
			[]string{"Open TCP from the nodes of the one cluster to the API server of the other.", "Use an address of the API server in the kubeconfig that other clusters reach, not localhost."},
		},
		TunnelMTU: {
			"MTU of the tunnel",
			"The tunnel adds 60 bytes to each packet on IPv4. If the path between the clusters is too small for that, small packets pass and large ones get lost: connections open, then hang.",
			[]string{"Choose a smaller --mtu; 1340 fits nearly every path.", "liqo-tui network verify measures the largest packet that comes through."},
		},
	}
}

func diagnosisTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		Answers: {"the API server answers", "liqo-tui reads the state of each end of the tunnel through that cluster's API server.", []string{"See LT-P001."}},
		Operator: {
			"the operator runs", "Without Liqo or the liqo-tui operator, nothing acts on the objects of the peering.",
			[]string{"Check its pod: kubectl -n liqo get pods,events.", "If its log says Unauthorized, its ServiceAccount was deleted since the pod began: run liqo-tui install, then kubectl -n liqo rollout restart deployment/liqo-tui-operator.", "See LT-P007."},
		},
		Kinds: {
			"definitions of Liqo's API", "API servers keep only the fields that a definition (CRD) has, and drop all others without an error. If somebody applies an older definition over that of liqo-tui, connections work until something has to be written anew, such as the key of a gateway that is replaced. liqo-tui install takes such a definition over, whoever has written it last. It is a warning while the gateways answer each other.",
			[]string{"Run liqo-tui install: it brings the definitions up to date.", "If Helm has installed liqo-tui: helm show crds CHART | kubectl apply --server-side --force-conflicts -f -.", "Where Liqo runs, upgrade Liqo's own definitions with its chart."},
		},
		SamePeer: {
			"the peer is the same cluster", "Each cluster stores which cluster it is connected with. Another one may have the same ID: what it says is not about this connection.",
			[]string{"See LT-P023."},
		},
		Configured: {
			"peer addresses are mapped", "The operator decides under which addresses this cluster sees the peer's pods.",
			[]string{"Look at the conditions of the Configuration, and at the operator's log."},
		},
		SameRanges: {
			"address ranges are up to date", "A cluster that was installed again may have other address ranges than its peers were told.",
			[]string{"Run liqo-tui network connect again: it updates what each side was told."},
		},
		Gateways: {
			"one server, one client", "A tunnel has two ends: one cluster's gateway is dialled, the other's dials.",
			[]string{"Run liqo-tui network connect: it makes what is missing, and replaces what is in the way."},
		},
		Endpoint: {
			"the client dials the server", "The server's address may change: a node is replaced, a load balancer gets another address. The client keeps the address of connect time, unless the operators may pass on changes (liqo-tui network delegate).",
			[]string{"Run liqo-tui network connect again: it updates the client.", "Let the operators pass on such changes: liqo-tui network delegate."},
		},
		GatewayPod: {
			"the gateway's pod runs", "Each end of the tunnel is one pod.",
			[]string{"kubectl describe pod says why it does not start: an image, no room on the nodes, the network plug-in.", "If it restarted, kubectl logs --previous says why."},
		},
		Keys: {
			"the keys match", "Each gateway has its own WireGuard key, and the other cluster has to know the public half. With a wrong key there is no handshake.",
			[]string{"Run liqo-tui network connect again: it updates the key."},
		},
		Fresh: {
			"the gateway reports", "A gateway renews its report several times a minute, even if nothing changes. An old one says nothing about the tunnel.",
			[]string{"Look at the gateway's log.", "Check that its pod may write its Connection: its Role is in the same namespace."},
		},
		Warnings: {"no warnings about the gateway", "Kubernetes' own warnings about objects of the peering.", []string{"kubectl -n NAMESPACE get events shows all."}},
		KubeProxy: {
			"kube-proxy works on the nodes", "kube-proxy leads packets to a Service to its pods. If it ends, a node's Services lead to the pods that they had, and new Services nowhere: once a gateway's pod is replaced, the node port that the other cluster dials leads to nothing. Each node's agent asks kube-proxy at its health port 10256 every few seconds. It fails where the client dials and gets no answer, and is a warning elsewhere. Where nothing has answered since the agent began, it is not known: another program may have kube-proxy's task, such as Cilium, or kube-proxy may be told to answer elsewhere.",
			[]string{"Find out why it does not run on the nodes that are named: kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide, or the log of the service that runs it, such as k3s.", "If another program has its task now: kubectl -n liqo rollout restart daemonset/liqo-tui-fabric."},
		},
		PodsWay: {
			podsWayTitle, podsWayMeaning + " The mode may have changed since the clusters were connected.",
			podsWayFix(),
		},
		UDPPath: {
			"UDP between the gateways", "Gateways that answer each other's pings reach each other. For gateways that don't, two looks a few seconds apart show what each has sent and received in between. If the client sends and the server receives nothing, the way to the server is blocked. If the server receives and the client does not, the way back is blocked. Before the second look, this is being measured.",
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
		Policies: {
			"policies let the peer in", "A NetworkPolicy that isolates pods drops what it does not name. Selectors of pods and namespaces match local pods only: a peer's pods have to be let in by an ipBlock with the range by which the cluster sees them.",
			[]string{"Add the printed rule to one of the policies, if the peer is to reach these pods, or they the peer.", "Policies of Cilium are read, too. Of Calico, Antrea and others it is only known whether there are any: let the same range in there."},
		},
		FreeRanges: {
			"ranges overlap nothing new", "A peer is seen under ranges that were free when it was connected. A route of a node, a load balancer, an endpoint or a reserved range that came later may lie in one of them. Nodes send what goes there to the peer. The operator leaves single addresses out at once, such as those of API servers, DNS and nodes, and names the rest.",
			[]string{"Run liqo-tui network renumber PEER: the cluster sees the peer under another range, and the former one works for a while.", "Where Liqo chooses the ranges, run network reset and network connect."},
		},
		PodRanges: {
			"pods are in published ranges", "Peers learn the ranges of Network objects: those that install was given, or that the pod network's settings say. Settings of a pod network that is not in use, and pools that came later, make them wrong. Each node's agent compares them with the addresses of its pods. Peers don't reach a pod that is outside, and see its node in its place.",
			[]string{"Run liqo-tui install --pod-cidr with all ranges that pods have, those of today too: connections stay, and peers learn the new ones.", "To replace a range by another one, run network reset for each peer before."},
		},
		NodePaths: {
			"nodes reach the gateway", "Packets of pods go from their node to the gateway's pod over VXLAN, UDP port 6092. Each node's agent asks each gateway every 6 to 9 s whether it is there, by the same way. It also says what keeps it from leading to a gateway: pods' packets to that peer are then dropped, or go as before. A node whose address has changed is named: its agent ends within 20 s, and is started again with the new one. A node whose agent does not run keeps its rules and routes, and does not follow changes.",
			[]string{"Allow UDP port 6092 between all nodes, both ways: in security groups, host firewalls and policies for hosts.", "If one node alone fails, compare its firewall with the others'.", "If no agent is ready on a node, see its pod: kubectl -n liqo describe pods -l app.kubernetes.io/name=liqo-tui-fabric. An API server refuses its token if the ServiceAccount was deleted since the pod began: kubectl -n liqo rollout restart daemonset/liqo-tui-fabric."},
		},
		Closed: {
			"nodes closed to the peer", "A peer reaches pods. Nodes have addresses in the pods' range as well, behind which are kubelets, API servers and node ports. Each node's agent, and the gateway, drop and count what a peer sends there.",
			[]string{"A node without an agent drops nothing: see why the DaemonSet liqo-tui-fabric has no pod on it. An agent of an earlier version may drop nothing, either: install this one.", "Packets that were refused: ask the peer's admin what sends them. A NetworkPolicy there stops it."},
		},
		Allowed: {
			"what the peer may open", "--allow and --remote-allow of network connect say where the peer's pods may open connections: to all pods, to the pods of Services that the cluster exports to the peer, or nowhere. The gateway drops and counts all others, and remembers the latest destinations for 10 minutes. Answers to connections from here always pass.",
			[]string{"Packets that were dropped: if they should come in, connect again with --allow all.", "A gateway that does not report what it allows is of an earlier release, or of Liqo, and lets everything in: install this version.", "Lending needs --allow all on both sides."},
		},
		PacketLoss: {
			"packet loss", "The share of a minute's pings that were not answered: the connection is degraded from one in twenty. TCP becomes slow from one in a hundred.",
			[]string{"Look at the links between the clusters, and at the load of the gateways' nodes."},
		},
		PodTraffic: {
			"packets from pod to pod", "Gateways that reach each other prove the tunnel, not the way between gateways and pods. Our gateways count packets of pods that were answered, both ways.",
			[]string{"liqo-tui network verify sends packets from pod to pod, both ways."},
		},
	}
}

func commandTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		flows.CodeUnexpected: {
			"unexpected error", "An error that liqo-tui does not know. Changes made before it stay.",
			[]string{"Run the same command again: it continues.", "Report it, with the output of the command with -v."},
		},
		flows.CodeUsage: {
			"wrong command line or settings", "A flag, an environment variable or the configuration file has a value that does not work, or --yes is missing. Nothing was changed.",
			[]string{"The message says what to change. --help lists all flags."},
		},
		flows.CodeInterrupted: {
			"interrupted", "A signal ended the command. Requests that were under way were finished; what was applied stays.",
			[]string{"Run the same command again to continue.", "liqo-tui network reset removes what was applied."},
		},
		flows.CodeDeclined:    {"declined", "The plan was shown and not approved. Nothing was changed.", []string{"Run the same command again, or with --yes."}},
		flows.CodeUnreachable: {"a cluster does not answer", "No answer came from the API server of a cluster that the command needs.", []string{"See LT-P001."}},
		flows.CodeAccess: {
			"a cluster denies access", "The API server does not accept the credentials, or forbids reading what is needed.",
			[]string{"Log in to the cluster again.", "Ask its administrator for the Roles that liqo-tui rbac prints."},
		},
		flows.CodeUnfit: {
			"the installation does not fit the cluster", "Something on the cluster prevents the installation or the removal, such as Liqo itself, or peerings that still exist.",
			[]string{"The message names it and says what to do."},
		},
		flows.CodeNotReady: {
			"the installation did not become ready", "The operator was applied, but does not run.",
			[]string{"Check its pods: kubectl -n liqo get pods,events.", "If the image can't be pulled, run it again with --image IMAGE.", "Run the same command again to wait longer."},
		},
	}
}

// serviceTexts are about the checks of Services by name.
func serviceTexts() map[flows.Code]Text {
	return map[flows.Code]Text{
		BothExchange: {
			"both exchange Services", "Two clusters share Services if both export and import them, by liqo-tui install --services. Their gateways pass the exports on to each other. Gateways of Liqo, and of earlier releases, exchange none. Connected pods reach each other without it. The checks LT-S… are made where a gateway exchanges Services.",
			[]string{"Run liqo-tui install --services on the cluster that is named.", "If the clusters are to share no Services, there is nothing to do."},
		},
		ExportsArrive: {
			"exports of the peer arrive", "A gateway reads the peer's exports through the tunnel, and keeps a copy of each EndpointSlice in the tenant namespace. It refuses what it can't trust, and more than a peer may export. What was received before stays until the peer can be read again.",
			[]string{"Look at the logs of both gateways.", "Refused EndpointSlices: the reason names what the peer's admin has to change, or the bound that was reached."},
		},
		ExportsWork: {
			"ServiceExports work", "The operator judges each ServiceExport in its conditions: whether the Service can be exported, whether peers can read it, and whether the exporters of a name disagree, such as about ports. Where they disagree, the oldest ServiceExport decides.",
			[]string{"kubectl describe serviceexport shows the conditions.", "liqo-tui service resolve NAMESPACE/NAME follows one name to its endpoints."},
		},
		ImportsAllowed: {
			"exports of the peer are allowed", "The admin of the importing cluster decides into which namespaces Services of a peer are imported: a peer that exports payments/db answers for that name. Services are never imported into a namespace that does not exist.",
			[]string{"Allow a namespace: liqo-tui service allow --from PEER --namespace NAMES. It replaces what was allowed before.", "Create the namespace that is missing.", "If the Services are not wanted here, there is nothing to do. The peer can name those who get an export: liqo-tui service export --to."},
		},
		ImportsWork: {
			"imports work", "For each imported name, the operator makes a ServiceImport, a Service with an address, and EndpointSlices. An import without ready endpoints answers nobody.",
			[]string{"liqo-tui service resolve NAMESPACE/NAME names the first broken part.", "Look at the operator's log.", "See why the pods behind the Service are not ready."},
		},
		OneProgram: {
			"one program makes imports", "Cilium, Submariner and others implement the Multi-Cluster Services API, too. Two programs would undo each other's changes, so the liqo-tui operator leaves alone the names of another program's ServiceImports.",
			[]string{"Decide for one implementation in each cluster.", "If nothing makes these ServiceImports any more, delete them."},
		},
		NamesServed: {
			"names of imports are served", "With liqo-tui install --names, a DNS server answers for clusterset.local, and the cluster's own DNS forwards this zone to it. An update of the cluster or of a Helm release may drop the forward.",
			[]string{"Run liqo-tui install --names again: it shows the change, and asks.", "See the pods of the DNS server: kubectl -n liqo get pods -l app.kubernetes.io/name=liqo-tui-dns.", "liqo-tui can't see some kinds of DNS. Pods can: nslookup NAME.NAMESPACE.svc.clusterset.local."},
		},
		ExportersMeet: {
			"exporters are connected", "Connections are pairs. If two clusters export one name and are not connected with each other, a third cluster uses the endpoints of both, and each of them only its own.",
			[]string{"Connect them with each other: liqo-tui network connect.", "If that is meant, there is nothing to do."},
		},
	}
}

const (
	podsWayTitle   = "pods' packets use node routes"
	podsWayMeaning = "An agent on each node adds routes to the gateways. With a shared gateway, which is OVN-Kubernetes' default and OpenShift's, packets of pods do not use the node's routes: those to peers leave the cluster unencrypted, under the node's address. With a local gateway, packets use these routes: all traffic that leaves the cluster goes through the nodes' kernels. That was traced with an imitation of OVN-Kubernetes, which itself was not run, so it is a warning. Each node's mode is in its annotation k8s.ovn.org/l3-gateway-config."
)

func podsWayFix() []string {
	return []string{
		"OpenShift: set routingViaHost: true in spec.defaultNetwork.ovnKubernetesConfig.gatewayConfig of networks.operator.openshift.io cluster.",
		"Elsewhere: start OVN-Kubernetes with the gateway mode local (global.gatewayMode of its Helm chart, or OVN_GATEWAY_MODE).",
		"With a local gateway, send packets before you rely on it: liqo-tui network verify.",
	}
}
