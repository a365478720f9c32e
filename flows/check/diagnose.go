package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Identifiers of the checks of a connection.
const (
	Answers    flows.Code = "LT-D001"
	Operator   flows.Code = "LT-D002"
	Configured flows.Code = "LT-D003"
	SameRanges flows.Code = "LT-D004"
	SamePeer   flows.Code = "LT-D005"
	Kinds      flows.Code = "LT-D006"
	Gateways   flows.Code = "LT-D010"
	Endpoint   flows.Code = "LT-D011"
	GatewayPod flows.Code = "LT-D012"
	Keys       flows.Code = "LT-D013"
	Fresh      flows.Code = "LT-D014"
	Warnings   flows.Code = "LT-D015"
	NodePaths  flows.Code = "LT-D016"
	Policies   flows.Code = "LT-D017"
	FreeRanges flows.Code = "LT-D018"
	PodRanges  flows.Code = "LT-D019"
	UDPPath    flows.Code = "LT-D020"
	KubeProxy  flows.Code = "LT-D021"
	PodsWay    flows.Code = "LT-D022"
	Ping       flows.Code = "LT-D030"
	PathMTU    flows.Code = "LT-D031"
	PacketLoss flows.Code = "LT-D032"
	PodTraffic flows.Code = "LT-D033"
	Closed     flows.Code = "LT-D034"
	Allowed    flows.Code = "LT-D046"
)

// NotRead is the summary of a check whose objects, such as events or CRDs, a screen does not read.
const NotRead = "not read here"

// recentRestart is the time for which a restart of a container causes a warning.
const recentRestart = 10 * time.Minute

// diagnosis is the input of the checks of a connection.
type diagnosis struct {
	facts    flows.Facts
	earlier  *flows.Facts
	peers    [2]flows.End
	readings [2]flows.Reading
	lent     [2]lent // by the side of the consumer
	shared   [2]shared
}

// Diagnose judges a connection by the facts of both clusters. earlier has facts from some seconds
// before. Checks compare both to see in which direction packets move now. If earlier is nil, these
// checks are Measuring.
func Diagnose(f flows.Facts, earlier *flows.Facts) []Result {
	in := inputs(f, earlier)
	results := slices.DeleteFunc(evaluate(diagnosisChecks(), in), withoutOVN)
	results = extend(results, lendingChecks(), in, in.uses)
	results = extend(results, leftChecks(), in, in.reportsUnowned)
	in.shared = sharedServices(f)
	results = extend(results, exchangeChecks(), in, in.exchange)
	return withNames(extend(results, serviceChecks(), in, in.firstExchanges), f)
}

// Verdict returns the verdict of [view.Together] about a connection. If this verdict is healthy and one of
// the results is a failed check of the network, Verdict returns Degraded instead.
func Verdict(f flows.Facts, results []Result) view.Verdict {
	v := view.Together(inputs(f, nil).ends(), nil, f.At)
	if v.Health() != view.Healthy {
		return v
	}
	for _, r := range results {
		if r.State == Fail && !r.OfLending() && !r.OfServices() {
			return view.Verdict{State: view.Degraded, Why: "connected, but " + r.Summary}
		}
	}
	return v
}

// ends returns both sides in the form for [view.Together].
func (in diagnosis) ends() (ends [2]view.End) {
	for side, r := range in.readings {
		c := in.cluster(flows.Side(side))
		ends[side] = view.End{ID: c.ID, Chosen: true, Reading: r}
		if c.Problem != nil {
			ends[side].Problem, ends[side].Silent = c.Problem.Message, in.facts.At
		}
	}
	return ends
}

func inputs(f flows.Facts, earlier *flows.Facts) diagnosis {
	in := diagnosis{facts: f, earlier: earlier, lent: lendings(f)}
	for _, side := range []flows.Side{flows.A, flows.B} {
		in.peers[side] = f.End(side)
		in.readings[side] = in.peers[side].Reading()
	}
	return in
}

func diagnosisChecks() []definition[diagnosis] {
	return []definition[diagnosis]{
		{Answers, eachSide, nil, diagnosis.answers},
		{Operator, eachSide, []flows.Code{Answers}, diagnosis.operator},
		{Kinds, eachSide, []flows.Code{Answers}, diagnosis.definitions},
		{SamePeer, pair, []flows.Code{Answers}, diagnosis.samePeer},
		{Configured, eachSide, []flows.Code{Answers, Kinds}, diagnosis.configured},
		{SameRanges, eachWay, []flows.Code{Configured, SamePeer}, diagnosis.sameRanges},
		{FreeRanges, eachSide, []flows.Code{Configured}, diagnosis.free},
		{PodRanges, eachSide, []flows.Code{Configured}, diagnosis.podAddresses},
		{Gateways, pair, []flows.Code{Answers, SamePeer, Kinds}, diagnosis.gateways},
		{Endpoint, pair, []flows.Code{Gateways}, diagnosis.endpoint},
		{GatewayPod, eachSide, []flows.Code{Answers}, diagnosis.pod},
		{Keys, eachSide, []flows.Code{Gateways}, diagnosis.keys},
		{Fresh, eachSide, []flows.Code{GatewayPod, Kinds}, diagnosis.fresh},
		{NodePaths, eachSide, []flows.Code{GatewayPod, Fresh}, diagnosis.nodePaths}, // a gateway without a pod or without rules does not answer nodes
		{Policies, eachSide, []flows.Code{Configured}, diagnosis.policies},
		{Closed, eachSide, []flows.Code{GatewayPod}, diagnosis.nodesClosed},
		{Allowed, eachSide, []flows.Code{GatewayPod}, diagnosis.allowed},
		{Warnings, eachSide, []flows.Code{Answers}, diagnosis.warnings},
		{KubeProxy, eachSide, []flows.Code{Answers}, diagnosis.kubeProxy},
		{PodsWay, eachSide, []flows.Code{Answers}, diagnosis.gatewayMode},
		{UDPPath, eachWay, []flows.Code{Endpoint, GatewayPod, Keys, Fresh, KubeProxy}, diagnosis.path},
		{Ping, eachSide, []flows.Code{UDPPath}, diagnosis.ping},
		{PathMTU, pair, []flows.Code{Ping}, diagnosis.mtu},
		{PacketLoss, eachSide, []flows.Code{Ping}, diagnosis.loss},
		{PodTraffic, pair, []flows.Code{Ping}, diagnosis.podTraffic},
	}
}

func (in diagnosis) cluster(side flows.Side) flows.ClusterFacts { return in.facts.Sides[side] }

func (in diagnosis) answers(side flows.Side) Result {
	return preflight{facts: in.facts}.answers(side)
}

func (in diagnosis) operator(side flows.Side) Result {
	c := in.cluster(side)
	if r, hidden := unseen(in.facts, side); hidden {
		return r
	}
	switch elsewhere := flows.InstalledElsewhere(side, c); {
	case !c.Can().Connect && elsewhere != nil:
		return result(Fail, elsewhere.Reason, elsewhere.Fix...)
	case !c.Can().Connect:
		return result(Fail, "neither Liqo nor the liqo-tui operator is there", command.Hintf("run: %s", c.Ours("install")))
	case c.Operator.Problem != "":
		return result(Fail, c.Operator.Problem, c.OperatorFix(command.Hintf("see: %s", c.SeeOperator("pods,events"))))
	}
	return pass(c.Software.String() + " works")
}

// definitions finds CRDs that lack a field which our programs set. This is only a warning if the gateways
// answer each other, or if none of our programs runs: the connection may not need the field.
func (in diagnosis) definitions(side flows.Side) Result {
	c := in.cluster(side)
	older := c.Older.Value()
	switch {
	case !c.HasCRDs:
		return result(Inconclusive, "not all are there")
	case c.Older.Unknown() != "":
		return result(Inconclusive, "they can't be read: "+c.Older.Unknown())
	case older == nil:
		return result(Inconclusive, NotRead)
	case len(*older) == 0:
		return pass("have all fields that are needed")
	}
	state, d := Fail, (*older)[0]
	if in.answered(flows.A) && in.answered(flows.B) || !c.Can().HaveImage {
		state = Warn
	}
	r := result(state, d.Text()+"; the API server drops fields that the definition lacks", c.DefinitionFix(d)...)
	for _, more := range (*older)[1:min(len(*older), maxWarnings)] {
		r.Evidence = append(r.Evidence, more.Text())
	}
	return r
}

// samePeer judges whether each side is connected with the other cluster, and not with a third cluster that
// has the same ID. This is unknown if the connection does not store the peer's UID.
func (in diagnosis) samePeer(flows.Side) Result {
	if strangers := flows.Strangers(in.facts); len(strangers) > 0 {
		return result(Fail, strangers[0].Reason, strangers[0].Fix...)
	}
	r := samePeers(in.facts)
	if r.State == Inconclusive && in.facts.Sides[flows.A].Identity() != "" && in.facts.Sides[flows.B].Identity() != "" {
		r.Fix = []command.Hint{command.Hintf("store it: %s", in.connect())}
	}
	return r
}

func (in diagnosis) configured(side flows.Side) Result {
	conf, other := in.peers[side].Configuration, in.cluster(side.Other()).ID
	switch {
	case other == "":
		r := result(Skipped, "needs "+string(Answers)+": only the other cluster can tell its cluster ID")
		r.Needs = Answers
		return r
	case conf == nil:
		return result(Fail, "there is no Configuration for "+string(other), command.Hintf("run: %s", in.connect())).planned("make what is missing")
	case !flows.CIDRsConfigured(conf):
		r := result(Fail, "the operator has assigned no addresses to "+string(other)+flows.ConditionOf(conf), command.Text("see the operator's log and the Configuration's conditions"))
		if flows.NoFreeRange(conf) {
			r.Fix = []command.Hint{in.cluster(side).MoreRoom()}
		}
		for _, c := range conf.Status.Conditions {
			r.Evidence = append(r.Evidence, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return r
	}
	views, _ := Views(in.facts, side) // the operator has decided the views, so Views allocates nothing
	text := make([]string, len(views))
	for i, v := range views {
		text[i] = v.String()
	}
	seen := "sees " + strings.Join(text, ", ")
	if c := meta.FindStatusCondition(conf.Status.Conditions, wire.ConditionRenumbering); c != nil {
		seen += "; " + c.Message
	}
	return pass(seen)
}

// sameRanges compares the other cluster's ranges with the ranges that side knows for it.
func (in diagnosis) sameRanges(side flows.Side) Result {
	conf, other := in.peers[side].Configuration, in.cluster(side.Other())
	known, are := conf.Spec.Remote.CIDR, other.Networks
	if sameCIDRs(known.Pod, are.Pod) && sameCIDRs(known.External, are.External) {
		return pass("as the other cluster has them")
	}
	r := in.updating(conf, result(Fail, fmt.Sprintf("%s has other ranges than %s was told", other.ID, in.cluster(side).ID)), "them", "update the ranges")
	r.Evidence = []string{
		fmt.Sprintf("told: pods %s, external %s", joined(known.Pod), joined(known.External)),
		fmt.Sprintf("are: pods %s, external %s", joined(are.Pod), joined(are.External)),
	}
	return r
}

func sameCIDRs(a, b []networkingv1beta1.CIDR) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (in diagnosis) gateways(flows.Side) Result {
	a, b := in.peers[flows.A], in.peers[flows.B]
	describe := func(side flows.Side, p flows.End) string {
		var has []string
		if p.Server != nil {
			has = append(has, "a GatewayServer")
		}
		if p.Client != nil {
			has = append(has, "a GatewayClient")
		}
		return fmt.Sprintf("%s has %s", in.cluster(side).Name(), cmp.Or(strings.Join(has, " and "), "none"))
	}
	if (a.Server != nil) != (a.Client != nil) && (b.Server != nil) != (b.Client != nil) && (a.Server != nil) == (b.Client != nil) {
		return pass(describe(flows.A, a) + ", " + describe(flows.B, b))
	}
	return result(Fail, describe(flows.A, a)+", "+describe(flows.B, b), command.Hintf("run: %s; it makes what is missing and replaces what is in the way", in.connect())).planned("make what is missing")
}

// server returns the side whose gateway is dialled. It must be called only if there is such a side: by checks
// that need [Gateways], or after [flows.ServerSide] has found the side.
func (in diagnosis) server() flows.Side {
	side, _ := flows.ServerSide(in.readings)
	return side
}

func (in diagnosis) dialled() (address string, port int32) {
	return first(in.peers[in.server().Other()].Client.Spec.Endpoint)
}

// relay returns the relay that both gateways dial; ok is false if the client dials the server.
func (in diagnosis) relay() (_ wire.Relay, ok bool) {
	r, err := wire.ParseRelay(wire.RelayOf(in.peers[in.server()].Server))
	return r, err == nil
}

func first(e networkingv1beta1.EndpointStatus) (address string, port int32) {
	if len(e.Addresses) > 0 {
		address = e.Addresses[0]
	}
	return address, e.Port
}

func (in diagnosis) endpoint(flows.Side) Result {
	server, client := in.server(), in.server().Other()
	e, at := in.peers[server].Server.Status.Endpoint, "server"
	if relay, ok := in.relay(); ok {
		end, _ := relay.Ends()
		e, at = &end, "relay"
	}
	address, port := in.dialled()
	if e == nil || len(e.Addresses) == 0 || e.Addresses[0] == "" {
		gateway := in.peers[server].Server
		r := result(Fail, fmt.Sprintf("%s's gateway server has no address", in.cluster(server).ID),
			command.Hintf("see: %s", in.kubectl(server, "describe", "service", wire.GatewayObjectName(gateway.Name))),
			command.Hintf("or expose it another way: %s", in.connect().Flag("--server-service-type", "NodePort"))).
			plannedWith("server-service-type", "NodePort", "expose it through a NodePort")
		r.Evidence = in.eventsAbout(server, "Service")
		if text := gateway.Annotations[wire.AnnotationEndpoint]; text != "" {
			r.Evidence = append([]string{text}, r.Evidence...)
		}
		return r
	}
	dials := fmt.Sprintf("UDP %s:%d", address, port)
	if in.cause(client) == wire.ReasonUnresolvable {
		return result(Fail, fmt.Sprintf("%s can't resolve the name that it dials: %s", in.cluster(client).ID, in.readings[client].Message),
			command.Text("check the name, and the DNS of "+string(in.cluster(client).ID)), command.Hintf("or dial an address: %s", in.connect().Flag("--client-address", "ADDRESS")))
	}
	if slices.Contains(e.Addresses, address) && e.Port == port {
		return pass(fmt.Sprintf("%s dials %s", in.cluster(client).ID, dials))
	}
	is := fmt.Sprintf("UDP %s:%d", e.Addresses[0], e.Port)
	if in.answered(client) {
		return pass(fmt.Sprintf("%s dials %s, not the %s's own %s, and it works", in.cluster(client).ID, dials, at, is))
	}
	r := in.updating(in.peers[client].Client, result(Fail, fmt.Sprintf("%s dials %s; the %s is at %s", in.cluster(client).ID, dials, at, is)), "the client's endpoint", "dial the server's address")
	r.Fix = append(r.Fix, command.Text(fmt.Sprintf("if %s was chosen on purpose, check where it leads", dials)))
	return r
}

// updating adds the advice to update an object by network connect. If another program has written the object,
// network connect has to take over its fields. A screen does that only on request, so then the result has the
// command, but no plan.
func (in diagnosis) updating(o wire.Object, r Result, what, means string) Result {
	if flows.Edited(o) {
		r.Fix = []command.Hint{command.Hintf("run: %s; it updates %s, which another program has written", in.connect().Add("--force-conflicts"), what)}
		return r
	}
	r.Fix = []command.Hint{command.Hintf("run: %s; it updates %s", in.connect(), what)}
	return r.planned(means)
}

func (in diagnosis) answered(side flows.Side) bool { return in.readings[side].Answered(in.facts.At) }

func (in diagnosis) cause(side flows.Side) wire.Reason { return in.readings[side].Cause(in.facts.At) }

func (in diagnosis) pod(side flows.Side) Result {
	pod := in.peers[side].Pod
	switch {
	case in.readings[side].Role == "":
		return in.noGateway(side)
	case pod == nil && in.cluster(side).PodsHidden && in.cluster(side).PodsSeen != in.peers[side].Tenant.Namespace:
		return result(Inconclusive, "pods in "+in.peers[side].Tenant.Namespace+" may not be read",
			in.facts.SeePods())
	case pod == nil:
		r := result(Fail, strings.TrimSuffix("there is no pod: "+in.peers[side].NotMade, ": "), command.Hintf("see: %s", in.kubectl(side, "get", "deployments,events")))
		r.Evidence = in.eventsAbout(side, "Deployment", "ReplicaSet")
		return r
	case pod.Waiting != "":
		r := result(Fail, fmt.Sprintf("%s waits: %s", pod.Name, pod.Waiting), command.Hintf("see: %s", in.kubectl(side, "describe", "pod", pod.Name)))
		r.Evidence = in.eventsAbout(side, "Pod")
		return r
	}
	if text, fix := in.isolated(side, pod.Name); text != "" {
		return result(Fail, text, fix...)
	}
	switch {
	case !pod.Ready:
		return result(Warn, pod.Name+" runs, but is not ready", command.Hintf("see: %s", in.kubectl(side, "logs", pod.Name)))
	case in.facts.At.Sub(pod.Restarted) < recentRestart:
		return result(Warn, fmt.Sprintf("%s restarted %s ago, for the %s time", pod.Name, in.facts.At.Sub(pod.Restarted).Round(time.Second), ordinal(pod.Restarts)),
			command.Hintf("see why: %s", in.kubectl(side, "logs", "--previous", pod.Name)))
	}
	text := pod.Name
	if pod.Node != "" {
		text += " on node " + pod.Node
	}
	return pass(text)
}

// noGateway is the result for a side without a gateway for the other side. If the other cluster's ID is unknown,
// nobody can know whether there is a gateway for it.
func (in diagnosis) noGateway(side flows.Side) Result {
	if other := in.cluster(side.Other()); other.ID == "" {
		return result(Inconclusive, fmt.Sprintf("not known: the cluster ID of %s is unknown", other.Name()))
	}
	return result(Inconclusive, "there is no gateway here")
}

func ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

func (in diagnosis) keys(side flows.Side) Result {
	end, theirs := in.peers[side], in.peers[side.Other()].Key
	other := in.cluster(side.Other()).ID
	switch {
	case in.cause(side) == wire.ReasonKeyMismatch:
		return result(Fail, in.readings[side].Message, command.Hintf("run: %s; it updates the keys on both sides", in.connect()),
			command.Text("if that does not help, something else sends WireGuard packets to this port")).planned("update the keys")
	case theirs == nil:
		return result(Inconclusive, fmt.Sprintf("%s's gateway has not published its key", other))
	case end.PublicKey == nil:
		return result(Fail, fmt.Sprintf("%s was not told %s's key", in.cluster(side).ID, other), command.Hintf("run: %s", in.connect())).planned("update the keys")
	case !slices.Equal(end.PublicKey.Spec.PublicKey, theirs[:]):
		r := in.updating(end.PublicKey, result(Fail, fmt.Sprintf("%s was told another key than %s's gateway has", in.cluster(side).ID, other)), "the key", "update the keys")
		r.Evidence = []string{fmt.Sprintf("told %s, has %s", keyText(end.PublicKey.Spec.PublicKey), keyText(theirs[:]))}
		return r
	}
	return pass("key " + keyText(theirs[:]))
}

// keyText returns the beginning of a public key. It is long enough to distinguish two keys.
func keyText(key []byte) string {
	if len(key) < 4 {
		return fmt.Sprintf("of %d bytes", len(key))
	}
	return fmt.Sprintf("%x…", key[:4])
}

// maxWarnings is the largest number of warnings or nodes that a result shows for one side.
const maxWarnings = 5

func (in diagnosis) warnings(side flows.Side) Result {
	events := in.eventsAbout(side)
	if len(events) > 0 {
		r := result(Warn, events[0])
		r.Evidence = events[1:min(len(events), maxWarnings)]
		return r
	}
	switch unknown, asked := in.cluster(side).EventsRead[in.peers[side].Tenant.Namespace]; {
	case in.readings[side].Role == "":
		return in.noGateway(side)
	case !asked:
		return in.notRead()
	case unknown != "":
		return result(Inconclusive, "they can't be read: "+unknown)
	}
	return pass("none")
}

// eventsAbout returns a line for each warning about an object in the connection's tenant namespace. If kinds are
// given, it returns only the warnings about objects of these kinds.
func (in diagnosis) eventsAbout(side flows.Side, kinds ...string) []string {
	var out []string
	for _, e := range in.cluster(side).Events {
		kind, name, _ := strings.Cut(e.Object, " ")
		if !strings.HasPrefix(name, in.peers[side].Tenant.Namespace+"/") || len(kinds) > 0 && !slices.Contains(kinds, kind) {
			continue
		}
		out = append(out, e.Text(in.facts.At))
	}
	return out
}

func (in diagnosis) fresh(side flows.Side) Result {
	r := in.readings[side]
	switch state, why := r.State(in.facts.At); {
	case r.Role == "":
		return in.noGateway(side)
	case !r.Exists:
		return result(Fail, "the gateway has reported nothing", in.seeLogs(side))
	case state == flows.StateStale:
		return result(Fail, why, in.seeLogs(side))
	case !r.Reported:
		return result(Inconclusive, "this gateway says only whether it is connected: it is Liqo's own")
	case in.cause(side) == wire.ReasonMisconfigured:
		return result(Fail, r.Message, command.Hintf("change what the message names, then run: %s", in.connect()))
	}
	return pass(in.facts.At.Sub(r.At).Round(time.Second).String() + " ago")
}

func (in diagnosis) notRead() Result {
	return result(Inconclusive, NotRead, command.Hintf("read them: %s", in.facts.Ours("check")))
}

// connect returns the command that creates missing objects of the connection and updates changed ones.
func (in diagnosis) connect() command.Command { return in.facts.Ours("network", "connect") }

func (in diagnosis) kubectl(side flows.Side, words ...string) command.Command {
	return in.cluster(side).KubectlIn(in.peers[side].Tenant.Namespace, words...)
}

func (in diagnosis) seeLogs(side flows.Side) command.Hint {
	return command.Hintf("see: %s", in.kubectl(side, "logs", "deployment/"+wire.GatewayObjectName(in.peers[side].GatewayName())))
}

func (in diagnosis) ping(side flows.Side) Result {
	r := in.readings[side]
	state, why := r.State(in.facts.At)
	switch {
	case in.answered(side) && r.Latency > 0:
		return pass(fmt.Sprintf("answered in %s", r.Latency.Round(10*time.Microsecond)))
	case in.answered(side):
		return pass("answered")
	case state.Works():
		return result(Inconclusive, "Liqo's gateway reports no pings", command.Hintf("send packets from pod to pod: %s", in.facts.Ours("network", "verify")))
	}
	logs := in.seeLogs(side)
	if in.cause(side) == wire.ReasonNoPing {
		return result(Fail, why, command.Text("WireGuard works, but pings through the tunnel get lost: look for rules on the gateways' nodes that drop UDP 12345"), logs)
	}
	switch Worst([]Result{in.path(flows.A), in.path(flows.B)}) {
	case Pass: // packets reach the other side, so the path is not the cause
	case Measuring:
		return result(Fail, why) // there the measurement decides which advice helps
	case Warn, Fail, Inconclusive, Skipped, Planned:
		return in.closed(why, logs)
	}
	return result(Fail, why, logs)
}

// narrowMTU is the smallest MTU that a path should have, in bytes: IPv6 requires it of every link.
const narrowMTU = 1280

func (in diagnosis) mtu(flows.Side) Result {
	a, b := in.readings[flows.A].MTU, in.readings[flows.B].MTU
	path := pathMTU(in.readings)
	switch {
	case path > 0 && path < narrowMTU && (in.leftToGateways() || path >= max(a, b)):
		return result(Warn, fmt.Sprintf("no packet longer than %d bytes comes through; programs that rely on %d bytes get slow, or stall", path, narrowMTU),
			command.Text("look for a tunnel or a VPN between the clusters, and for the MTU of its links"))
	case path > 0 && in.leftToGateways():
		return pass(fmt.Sprintf("packets of %d bytes come through, and the gateways send none that are longer", path))
	case path > 0 && path < max(a, b):
		return result(Warn, fmt.Sprintf("the path carries packets of %d bytes, and the tunnel's MTU is %d", path, max(a, b)),
			command.Hintf("run: %s, so that no packet is too large", in.connect().Flag("--mtu", fmt.Sprint(path)))).
			plannedWith("mtu", fmt.Sprint(path), fmt.Sprintf("limit packets to %d bytes", path))
	case a == 0 || b == 0:
		return result(Inconclusive, "not reported by "+in.silent(func(r flows.Reading) bool { return r.MTU > 0 }))
	case a != b:
		return result(Warn, fmt.Sprintf("%d on %s, %d on %s: larger packets get lost one way", a, in.facts.Sides[flows.A].ID, b, in.facts.Sides[flows.B].ID),
			command.Hintf("run: %s", in.connect().Flag("--mtu", fmt.Sprint(min(a, b))))).
			plannedWith("mtu", fmt.Sprint(min(a, b)), fmt.Sprintf("limit packets to %d bytes", min(a, b)))
	}
	text := fmt.Sprintf("%d bytes on both sides", a)
	if path > 0 {
		text += fmt.Sprintf(", and packets of %d come through", path)
	}
	return pass(text)
}

// leftToGateways reports whether the tunnel's MTU is only an upper bound: it has the largest value, and both
// gateways have measured the length of packets that pass.
func (in diagnosis) leftToGateways() bool {
	for _, p := range in.peers {
		if p.Server != nil && p.Server.Spec.MTU != wire.MaxMTU || p.Client != nil && p.Client.Spec.MTU != wire.MaxMTU {
			return false
		}
	}
	return in.readings[flows.A].PathMTU > 0 && in.readings[flows.B].PathMTU > 0
}

// pathMTU returns the length of the longest packet that both gateways saw pass, in bytes. If only one gateway has
// measured it, that length counts. 0 means unknown.
func pathMTU(r [2]flows.Reading) int {
	a, b := r[flows.A].PathMTU, r[flows.B].PathMTU
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (in diagnosis) loss(side flows.Side) Result {
	r := in.readings[side]
	share, known := r.Lost()
	state, _ := r.State(in.facts.At)
	switch {
	case !r.Reported:
		return result(Inconclusive, "lost pings are not reported by Liqo's gateway")
	case !known:
		return result(Inconclusive, "no ping was answered yet")
	case state == flows.StateRecovering:
		return result(Warn, fmt.Sprintf("%.3g%% of the last minute's pings were lost, before they were answered again", share*100), command.Text("wait: after a minute of answers the lost ones no longer count"))
	case r.Lossy():
		return result(Fail, fmt.Sprintf("%.3g%% of the last minute's pings are lost", share*100), command.Text("look at the links between the clusters, and at the load of the gateways' nodes"))
	}
	return pass(fmt.Sprintf("%.3g%% of the last minute's pings", share*100))
}
