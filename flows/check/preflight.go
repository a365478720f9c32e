package check

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Identifiers of the checks before a connection that package flows does not name itself.
const (
	AgentNodes   flows.Code = "LT-P008"
	Overlaps     flows.Code = "LT-P010"
	Release      flows.Code = "LT-P011"
	Leftovers    flows.Code = "LT-P012"
	LiveTraffic  flows.Code = "LT-P013"
	Room         flows.Code = "LT-P015"
	Admission    flows.Code = "LT-P016"
	Reachability flows.Code = "LT-P020"
	APIReached   flows.Code = "LT-P022"
	TunnelMTU    flows.Code = "LT-P031"
)

// preflight is the input of the checks before a connection.
type preflight struct {
	facts   flows.Facts  // the expected facts after the plan has installed the operator
	present flows.Facts  // the present facts
	params  flows.Params // the admin's parameters
	adopted flows.Params // params, completed with the settings that an existing connection keeps
	plan    flows.Plan
	reviews [2]*rights.Review
}

// Preflight judges whether the two clusters can be connected with the parameters p. reviews has the answers of
// the API servers about the permissions that the plan needs; nil for a side whose API server was not asked.
func Preflight(p flows.Params, f flows.Facts, reviews [2]*rights.Review) []Result {
	in := preflight{facts: flows.Expected(p, f), present: f, params: p, plan: flows.PlanConnect(p, f), reviews: reviews}
	in.adopted, _ = flows.Adopt(p, f)
	return withNames(slices.DeleteFunc(evaluate(preflightChecks(), in), in.pointless), in.facts)
}

// pointless reports whether an admin does not need the result: the plan does not touch the subject of the
// check, the kernel or the room is unknown, or OVN-Kubernetes is not there. A tested or unknown release of
// Kubernetes needs no result, because LT-P001 prints the version.
func (in preflight) pointless(r Result) bool {
	unknown := r.State == Inconclusive || r.State == Skipped
	return r.ID == Admission && in.facts.Tried == nil || r.ID == Release && (unknown || r.State == Pass) || unknown && (r.ID == flows.CodeKernel || r.ID == Room) ||
		withoutOVN(r) || r.ID == flows.CodeImage && r.State != Fail && !in.triesImage(r.Sides[0]) || r.ID == APIReached && in.facts.Reach == nil ||
		(r.ID == Lending || r.ID == NewKey) && in.params.Lending == nil
}

func preflightChecks() []definition[preflight] {
	return []definition[preflight]{
		{flows.CodeAnswers, eachSide, nil, preflight.answers},
		{flows.CodeDifferent, pair, []flows.Code{flows.CodeAnswers}, preflight.different},
		{flows.CodeSoftware, eachSide, []flows.Code{flows.CodeAnswers}, preflight.software},
		{flows.CodeOperator, eachSide, []flows.Code{flows.CodeSoftware}, preflight.operator},
		{flows.CodeClusterID, pair, []flows.Code{flows.CodeDifferent, flows.CodeSoftware}, preflight.clusterIDs},
		{flows.CodePeer, pair, []flows.Code{flows.CodeClusterID}, preflight.samePeer},
		{flows.CodeNetworks, eachSide, []flows.Code{flows.CodeOperator}, preflight.networks},
		{flows.CodePermission, eachSide, []flows.Code{flows.CodeAnswers}, preflight.permissions},
		{Release, eachSide, []flows.Code{flows.CodeAnswers}, preflight.release},
		{flows.CodeKernel, eachSide, []flows.Code{flows.CodeSoftware}, preflight.kernels},
		{flows.CodeGatewayMode, eachSide, []flows.Code{flows.CodeSoftware}, preflight.gatewayMode},
		{Room, eachSide, []flows.Code{flows.CodeAnswers}, preflight.room},
		{Admission, eachSide, []flows.Code{flows.CodePermission}, preflight.admission},
		{AgentNodes, eachSide, []flows.Code{flows.CodeSoftware}, preflight.agentNodes},
		{flows.CodeImage, eachSide, []flows.Code{flows.CodeAnswers}, preflight.image},
		{Overlaps, pair, []flows.Code{flows.CodeNetworks, flows.CodeClusterID}, preflight.overlaps},
		{Leftovers, eachSide, []flows.Code{flows.CodeClusterID}, preflight.leftovers},
		{LiveTraffic, pair, []flows.Code{flows.CodeClusterID, flows.CodeNetworks}, preflight.traffic},
		{flows.CodeFreePort, pair, []flows.Code{flows.CodeClusterID}, preflight.nodePort},
		{Reachability, pair, []flows.Code{flows.CodeClusterID}, preflight.reachability},
		{APIReached, eachWay, []flows.Code{flows.CodeAnswers}, preflight.apiServer},
		{TunnelMTU, pair, nil, preflight.mtu},
		{Lending, pair, []flows.Code{flows.CodeSoftware, flows.CodeClusterID}, lends(Lending)},
		{NewKey, pair, []flows.Code{Lending}, lends(NewKey)},
	}
}

// refused returns a failed result if one of the reasons has the code id. The caller passes all reasons for
// which flows makes no plan. The failed steps of a plan are not enough, because a plan has only the reasons
// to fix first.
func refused(id flows.Code, reasons ...flows.Step) (Result, bool) {
	for _, s := range reasons {
		if s.Code == id {
			return result(Fail, s.Reason, s.Fix...), true
		}
	}
	return Result{}, false
}

// obstacles returns the reasons for which flows makes no plan for the side.
func (in preflight) obstacles(side flows.Side) []flows.Step {
	return flows.ObstaclesOf(side, in.cluster(side))
}

func (in preflight) cluster(side flows.Side) flows.ClusterFacts { return in.facts.Sides[side] }

func (in preflight) answers(side flows.Side) Result {
	c := in.cluster(side)
	if p := c.Problem; p != nil && p.Kind == flows.Forbidden {
		return result(Fail, "it answers, but refuses a request that is needed: "+p.Message, p.Fix)
	} else if p != nil {
		return result(Fail, p.Message, p.Fix)
	}
	text := fmt.Sprintf("%s, Kubernetes %s", c.Server, c.Version)
	if c.ClockAhead.Abs() > clocksDiffer {
		return in.wrongClock(side, text)
	}
	return pass(text)
}

// clocksDiffer is the largest difference of clocks without a warning. Larger differences matter for certificates
// and tokens, and for admins who compare times in logs.
const clocksDiffer = 10 * time.Second

// wrongClock returns a warning that the cluster's clock differs. The advice names the machine that may be
// wrong.
func (in preflight) wrongClock(side flows.Side, text string) Result {
	c, other := in.cluster(side), in.cluster(side.Other())
	direction := "ahead of"
	if c.ClockAhead < 0 {
		direction = "behind"
	}
	fix := fmt.Sprintf("set the clocks by NTP, here and on %s's nodes", c.Context)
	switch {
	case other.Problem != nil || other.Described:
	case (c.ClockAhead - other.ClockAhead).Abs() <= clocksDiffer:
		fix = "set this machine's clock: both clusters agree on another time"
	case other.ClockAhead.Abs() <= clocksDiffer:
		fix = fmt.Sprintf("set the clock of %s's nodes: this machine and the other cluster agree", c.Context)
	}
	r := result(Warn, fmt.Sprintf("%s; its clock is %s %s this machine's", text, c.ClockAhead.Abs(), direction), command.Text(fix))
	r.Evidence = []string{
		"cluster: " + in.facts.At.Add(c.ClockAhead).UTC().Format(time.RFC3339),
		"this machine: " + in.facts.At.UTC().Format(time.RFC3339),
	}
	return r
}

func (in preflight) different(flows.Side) Result {
	if s := flows.OneCluster(in.present); s != nil {
		return result(Fail, s.Reason, s.Fix...)
	}
	a, b := in.present.Sides[flows.A], in.present.Sides[flows.B]
	switch _, known := flows.SameCluster(a, b); {
	case !known:
		return result(Inconclusive, "not known: you may not read Namespace kube-system on both", in.facts.AskForRights("--all"))
	case a.Identity() == "" || b.Identity() == "":
		return pass(fmt.Sprintf("they call themselves %s and %s", a.ID, b.ID))
	}
	return pass(fmt.Sprintf("kube-system has UID %s and %s", short(a.UID), short(b.UID)))
}

// short returns the beginning of a UID. It is long enough to distinguish two UIDs.
func short(uid string) string {
	if len(uid) > 8 {
		return uid[:8] + "…"
	}
	return uid
}

// installs reports whether the plan installs our operator on the side.
func (in preflight) installs(side flows.Side) bool {
	return in.params.Install[side] != nil && in.present.Sides[side].Installable()
}

// unseen returns true if this user can't see whether an operator is installed. The result is for checks that
// depend on the operator.
func unseen(f flows.Facts, side flows.Side) (Result, bool) {
	why := f.Sides[side].Unseen()
	return result(Inconclusive, "not known: "+why, f.SeeManagers()), why != ""
}

func (in preflight) software(side flows.Side) Result {
	if in.installs(side) {
		return result(Planned, "nothing yet: the plan installs the liqo-tui operator")
	}
	if r, hidden := unseen(in.facts, side); hidden {
		return r
	}
	if r, bad := refused(flows.CodeSoftware, in.obstacles(side)...); bad {
		return r
	}
	c, other := in.cluster(side), in.cluster(side.Other())
	text := c.Software.String()
	if v := c.Operator.Version; v != "" {
		text += " " + v
	}
	if a, b := minor(c.Operator.Version), minor(other.Operator.Version); c.Software == other.Software && a != "" && b != "" && a != b {
		r := result(Warn, fmt.Sprintf("%s, and the other cluster has %s", text, other.Operator.Version), command.Text("upgrade the older one"))
		r.Evidence = []string{fmt.Sprintf("%s: %s", c.ID, c.Operator.Version), fmt.Sprintf("%s: %s", other.ID, other.Operator.Version)}
		return r
	}
	return pass(text)
}

func (in preflight) triesImage(side flows.Side) bool {
	_, ok := in.plan.Step(install.ImageStep(side))
	return ok
}

func (in preflight) image(side flows.Side) Result {
	for _, s := range in.plan.Steps {
		if s.Side == side && s.Status == flows.Failed && s.Code == flows.CodeImage {
			return result(Fail, s.Reason, s.Fix...)
		}
	}
	s, tries := in.plan.Step(install.ImageStep(side))
	tried := in.cluster(side).ImageTrial
	switch {
	case !tries:
		return pass("nothing is installed") // pointless removes this result
	case s.Status == flows.Waiting:
		return result(Inconclusive, "a node pulls it before anything is applied")
	case tried.Unknown() != "" || tried.Value().Refused != "":
		return result(Inconclusive, s.Reason)
	default:
		return pass(s.Reason)
	}
}

// agentNodes warns about nodes that can't run the node agent. Pods on these nodes will reach no peer.
func (in preflight) agentNodes(side flows.Side) Result {
	c := in.cluster(side)
	unable := c.UnableNodes()
	switch {
	case !c.Can().UseOurAgents:
		return pass("Liqo has agents of its own")
	case len(c.Nodes) == 0:
		return result(Inconclusive, "nodes may not be read")
	case len(unable) == 0:
		if len(c.Nodes) == 1 {
			return pass("the only node")
		}
		return pass(fmt.Sprintf("all %d nodes", len(c.Nodes)))
	}
	r := result(Warn, fmt.Sprintf("%d of %s can't: pods there can't reach %s", len(unable), count(len(c.Nodes), "node", "nodes"), in.cluster(side.Other()).Name()),
		command.Text("run pods that need the other cluster on other nodes"), command.Text("a node that is not ready gets its routes to the gateways as soon as it is ready"))
	r.Evidence = unable[:min(len(unable), maxGroups)]
	return r
}

// minor returns the beginning of a version, such as "v1.2" of "v1.2.3"; "" for a text in another form.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

func (in preflight) operator(side flows.Side) Result {
	if r, hidden := unseen(in.facts, side); hidden {
		return r
	}
	if r, bad := refused(flows.CodeOperator, in.obstacles(side)...); bad {
		return r
	}
	c := in.cluster(side)
	if in.installs(side) {
		return result(Planned, "not yet: the plan installs it")
	}
	if c.Operator.Problem != "" {
		return result(Warn, c.Operator.Problem, c.OperatorFix(command.Hintf("wait for it, or see: %s", c.SeeOperator("pods,events"))))
	}
	if !c.Can().Connect {
		return result(Fail, "Liqo's API is there, but neither Liqo nor the liqo-tui operator", command.Hintf("run: %s", c.Ours("install").Flag("--cluster-id", string(cmp.Or(c.ID, "NAME")))))
	}
	return pass(c.Software.String() + " works")
}

func (in preflight) clusterIDs(flows.Side) Result {
	if r, bad := refused(flows.CodeClusterID, slices.Concat(in.obstacles(flows.A), in.obstacles(flows.B))...); bad {
		return r
	}
	if s := flows.SameID(in.facts); s != nil {
		return result(Fail, s.Reason, s.Fix...)
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if err := in.cluster(side).ID.Choose(); err != nil {
			return result(Warn, err.Error()+"; new clusters can't have it", command.Text("existing connections keep working; on a cluster without peers, install again with another --cluster-id"))
		}
	}
	known := len(in.facts.Sides[flows.A].KnownPeers()) + len(in.facts.Sides[flows.B].KnownPeers())
	return pass(fmt.Sprintf("%s and %s, %s known already", in.facts.Sides[flows.A].ID, in.facts.Sides[flows.B].ID, count(known, "peering", "peerings")))
}

// samePeer judges the peer that each cluster knows by the other cluster's ID: is it really the other cluster,
// and not a third one with the same ID?
func (in preflight) samePeer(flows.Side) Result {
	strangers := flows.Strangers(in.facts)
	switch {
	case len(strangers) > 0 && in.params.ReplacePeer:
		return result(Warn, strangers[0].Reason, command.Text("apply the plan if the old "+string(in.cluster(strangers[0].Side.Other()).ID)+" may be cut off"))
	case len(strangers) > 0:
		return result(Fail, strangers[0].Reason, strangers[0].Fix...)
	}
	r := samePeers(in.facts)
	if r.State == Inconclusive && in.facts.Sides[flows.A].Identity() != "" && in.facts.Sides[flows.B].Identity() != "" {
		return result(Planned, r.Summary+": the plan stores it")
	}
	return r
}

// samePeers describes the stored UIDs of the peers. The caller has checked that no stored UID belongs to a third
// cluster.
func samePeers(f flows.Facts) Result {
	var known []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		me, other := f.Sides[side], f.Sides[side.Other()]
		switch end := me.End(other.ID); {
		case end.UID() != "" && other.Identity() == "":
			return result(Inconclusive, fmt.Sprintf("%s has stored UID %s of %s, and Namespace kube-system may not be read there", me.ID, short(end.UID()), other.ID))
		case end.UID() != "":
			known = append(known, fmt.Sprintf("%s has stored %s's UID %s", me.ID, other.ID, short(end.UID())))
		case end.Configuration != nil:
			return result(Inconclusive, fmt.Sprintf("%s has stored no UID of %s", me.ID, other.ID))
		}
	}
	return pass(cmp.Or(strings.Join(known, ", "), "not connected yet"))
}

func (in preflight) networks(side flows.Side) Result {
	if r, bad := refused(flows.CodeNetworks, in.obstacles(side)...); bad {
		return r
	}
	n := in.cluster(side).Networks
	if len(prefixes(n.Pod)) == 0 && !in.installs(side) {
		return result(Inconclusive, "not known")
	} else if len(prefixes(n.Pod)) == 0 {
		return result(Planned, "known once the plan has installed the operator")
	}
	text := fmt.Sprintf("pods %s, external %s", joined(n.Pod), joined(n.External))
	switch r := podAddresses(in.cluster(side)); {
	case r.State == Fail || r.State == Warn:
		return r
	case r.State == Inconclusive && in.cluster(side).Can().ReportNodes && !in.cluster(side).Described && !in.installs(side):
		return result(Inconclusive, text+"; not known whether pods have addresses in them: "+strings.TrimPrefix(r.Summary, "not known: "))
	}
	return pass(text)
}

// noPlan is the result of checks that need a plan, if there is none.
const noPlan = "there is no plan until the failed checks are fixed"

func (in preflight) permissions(side flows.Side) Result {
	review := in.reviews[side]
	switch needs := rights.Needed(in.plan, side); {
	case len(needs) == 0 && in.plan.Failure() != nil:
		return result(Inconclusive, noPlan)
	case len(needs) == 0:
		return pass("the plan changes nothing here")
	case review == nil:
		return result(Inconclusive, "the API server was not asked what this user may do")
	case len(review.Missing) > 0:
		r := result(Fail, review.Sentence(), review.Fix(in.facts))
		for _, m := range review.Missing {
			r.Evidence = append(r.Evidence, "missing: "+m.String())
		}
		return r
	}
	who := cmp.Or(review.User, "this user")
	return pass(who + " may do all that the plan does")
}

func (in preflight) traffic(flows.Side) Result {
	if in.plan.Failure() != nil {
		return result(Inconclusive, noPlan)
	}
	if stops := in.plan.Interrupts(); len(stops) > 0 {
		r := result(Warn, strings.Join(stops, "; "), command.Text("apply the plan when an interruption is acceptable"))
		for _, s := range in.plan.Steps {
			if s.Status != flows.Done && s.Interrupts != "" {
				r.Evidence = append(r.Evidence, fmt.Sprintf("%s: %s %s", in.plan.ID(s.Side), s.Action, s.Title))
			}
		}
		return r
	}
	return pass("none")
}

func (in preflight) nodePort(flows.Side) Result {
	p := in.adopted
	if p.ServiceType != corev1.ServiceTypeNodePort || p.NodePort == 0 {
		return pass("Kubernetes chooses, if one is needed")
	}
	if s := flows.RefusedNodePort(p, in.facts); s != nil {
		return result(Fail, s.Reason, s.Fix...)
	}
	server := in.cluster(p.Server)
	has := server.End(in.cluster(p.Server.Other()).ID).Server
	mine := has != nil && has.Spec.Endpoint.NodePort != nil && *has.Spec.Endpoint.NodePort == int32(p.NodePort)
	unknown := ""
	switch {
	case mine:
	case server.PeersHidden:
		unknown = fmt.Sprintf("gateways in other namespaces of %s can't be read: one of them may have node port %d", server.Name(), p.NodePort)
	case server.ServicesHidden:
		unknown = fmt.Sprintf("Services of %s can't be read: one of them may have node port %d", server.Name(), p.NodePort)
	case server.NodePorts == flows.PortRange{}:
		unknown = fmt.Sprintf("not known whether %s assigns node port %d: the arguments of its API server can't be read", server.Name(), p.NodePort)
	}
	if unknown != "" {
		return result(Inconclusive, unknown, command.Text("--node-port 0: Kubernetes chooses a free one"))
	}
	return pass(fmt.Sprintf("%d", p.NodePort))
}

// wireguardOverhead is the number of bytes that a tunnel over IPv4 adds to a packet: 20 for IP, 8 for
// UDP and 32 for WireGuard.
const wireguardOverhead = 60

// commonMTU is the usual MTU of Internet paths. A path through another tunnel carries less.
const commonMTU = 1500

func (in preflight) mtu(flows.Side) Result {
	mtu := in.adopted.MTU
	if mtu == wire.MaxMTU && in.facts.Sides[flows.A].FindsMTU() && in.facts.Sides[flows.B].FindsMTU() {
		return pass("the gateways measure which length passes")
	}
	text := fmt.Sprintf("%d bytes, plus %d for WireGuard, are %d", mtu, wireguardOverhead, mtu+wireguardOverhead)
	if largest := in.largest(); largest > 0 {
		text += fmt.Sprintf("; the longest test packet that passed had %d", largest)
		if mtu+wireguardOverhead > largest {
			return result(Warn, text, command.Hintf("--mtu %d or less, or auto", largest-wireguardOverhead))
		}
		return pass(text)
	}
	if mtu+wireguardOverhead > commonMTU {
		return result(Warn, fmt.Sprintf("%s; most paths carry only %d", text, commonMTU),
			command.Hintf("unless every link between the clusters carries more: --mtu %d or less", commonMTU-wireguardOverhead))
	}
	return pass(fmt.Sprintf("%s; most paths carry %d", text, commonMTU))
}

// largest returns the length of the longest UDP packet that passed between test pods. If both directions were
// tried, it returns the smaller length. 0 means unknown.
func (in preflight) largest() (size int) {
	if in.facts.Reach == nil {
		return 0
	}
	for _, way := range in.facts.Reach.Ways {
		if n := way.Largest(); n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	return size
}

func joined[S ~string](parts []S) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = string(p)
	}
	return strings.Join(text, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

const mostAddresses = 10

// addresses returns the first mostAddresses addresses as text, and the number of the remaining ones.
func addresses(all []netip.Addr) string {
	if more := len(all) - mostAddresses; more > 0 {
		return fmt.Sprintf("%s and %d more", allAddresses(all[:mostAddresses]), more)
	}
	return allAddresses(all)
}

func allAddresses(all []netip.Addr) string {
	text := make([]string, len(all))
	for i, a := range all {
		text[i] = a.String()
	}
	return strings.Join(text, ", ")
}
