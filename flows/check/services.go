package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Checks of Services by name. They are made for clusters whose gateways say that they exchange Services.
const (
	BothExchange   flows.Code = "LT-S001"
	ExportsArrive  flows.Code = "LT-S002"
	ExportsWork    flows.Code = "LT-S003"
	ImportsAllowed flows.Code = "LT-S004"
	ImportsWork    flows.Code = "LT-S005"
	OneProgram     flows.Code = "LT-S006"
	NamesServed    flows.Code = "LT-S007"
	ExportersMeet  flows.Code = "LT-S008"
)

// exchangeChecks are made if one of the clusters exchanges Services.
func exchangeChecks() []definition[diagnosis] {
	return []definition[diagnosis]{{BothExchange, pair, []flows.Code{Answers, Fresh}, diagnosis.bothExchange}}
}

// serviceChecks are made for each cluster that exchanges Services. In checks of one way, the first cluster
// imports.
func serviceChecks() []definition[diagnosis] {
	return []definition[diagnosis]{
		{ExportsArrive, eachWay, []flows.Code{Fresh, Ping}, diagnosis.exportsArrive},
		{ExportsWork, eachSide, []flows.Code{Operator}, diagnosis.exportsWork},
		{ImportsAllowed, eachWay, []flows.Code{Answers}, diagnosis.importsAllowed},
		{ImportsWork, eachSide, []flows.Code{Operator}, diagnosis.importsWork},
		{OneProgram, eachSide, []flows.Code{Answers}, diagnosis.oneProgram},
		{NamesServed, eachSide, []flows.Code{Answers}, diagnosis.namesServed},
		{ExportersMeet, eachWay, []flows.Code{Answers}, diagnosis.exportersMeet},
	}
}

// OfServices reports whether a check is about Services by name.
func (r Result) OfServices() bool {
	return slices.ContainsFunc(append(exchangeChecks(), serviceChecks()...), func(d definition[diagnosis]) bool { return d.id == r.ID })
}

// AsksNames returns the questions about names of imported Services; none if no gateway exchanges Services. The
// answers may lead to further questions.
func AsksNames(f flows.Facts) (asks []flows.Question) {
	in := inputs(f, nil)
	for _, side := range []flows.Side{flows.A, flows.B} {
		if in.exchanges(side) {
			asks = append(asks, service.AsksNames(f, side)...)
		}
	}
	return asks
}

// AsksServices returns the questions about all Services by name; none if no gateway exchanges Services.
func AsksServices(f flows.Facts) []flows.Question {
	if !inputs(f, nil).exchange([]flows.Side{flows.A, flows.B}) {
		return nil
	}
	return service.Asks(types.NamespacedName{}, flows.A, flows.B)
}

// shared has one cluster's view of Services by name. It is empty if the questions were not asked.
type shared struct {
	view services.View
	rows []services.Row
}

func sharedServices(f flows.Facts) (of [2]shared) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		if f.Sides[side].Services.Asked() {
			of[side].view = service.ViewOf(f, side)
			of[side].rows, _, _ = services.Rows(of[side].view)
		}
	}
	return of
}

func (in diagnosis) exchanges(side flows.Side) bool { return in.peers[side].ServicesReport() != nil }

func (in diagnosis) exchange(sides []flows.Side) bool {
	return slices.ContainsFunc(sides, in.exchanges)
}

func (in diagnosis) firstExchanges(sides []flows.Side) bool { return in.exchanges(sides[0]) }

func (in diagnosis) bothExchange(flows.Side) Result {
	off := flows.A
	switch {
	case in.exchanges(flows.A) && in.exchanges(flows.B):
		return pass("the gateways of both do")
	case in.exchanges(flows.A):
		off = flows.B
	}
	c, on := in.cluster(off), in.cluster(off.Other())
	switch {
	case c.Can().Connect && !c.Can().ImportServices:
		return result(Warn, fmt.Sprintf("%s exchanges Services, and Liqo connects %s: its gateways exchange none", on.ID, c.ID))
	case !in.readings[off].Reported:
		return result(Inconclusive, fmt.Sprintf("%s exchanges Services, and the gateway of %s has not said whether it does", on.ID, c.ID))
	}
	return result(Warn, fmt.Sprintf("%s exchanges Services, and the gateway of %s does not: they are switched off there, or it is of an earlier release", on.ID, c.ID),
		command.Hintf("if they are to share Services: %s", c.Ours("install", "--services")))
}

// exportsArrive judges by the reports of both gateways whether side reads the other cluster's exports.
func (in diagnosis) exportsArrive(side flows.Side) Result {
	me, other := in.cluster(side), in.cluster(side.Other())
	mine, theirs := in.peers[side].ServicesReport(), in.peers[side.Other()].ServicesReport()
	silent := (&services.PeerView{ID: other.ID, Report: mine}).Silent()
	switch {
	case theirs == nil:
		r := result(Skipped, "needs "+string(BothExchange)+": "+titleOf(BothExchange))
		r.Needs = BothExchange
		return r
	case theirs.ServeProblem != "":
		return result(Fail, fmt.Sprintf("%s serves nothing: %s", other.ID, services.Printable(theirs.ServeProblem)), in.seeLogs(side.Other()))
	case mine.Problem != "":
		return result(Fail, silent, in.seeLogs(side))
	case silent != "":
		return result(Inconclusive, silent)
	case len(mine.Refused) > 0:
		first := mine.Refused[0]
		r := result(Warn, fmt.Sprintf("%s refuses %s of %s, such as %s: %s", me.ID, count(first.Slices, "EndpointSlice", "EndpointSlices"), other.ID, services.Printable(first.Example), services.Printable(first.Reason)),
			command.Text("if the message is about a bound or a policy of "+string(me.ID)+", change it there; else ask the admin of "+string(other.ID)))
		for _, more := range mine.Refused[1:] {
			r.Evidence = append(r.Evidence, fmt.Sprintf("%d, such as %s: %s", more.Slices, services.Printable(more.Example), services.Printable(more.Reason)))
		}
		return r
	}
	text := count(mine.Received, "EndpointSlice", "EndpointSlices") + " of " + string(other.ID)
	if mine.Heard != nil {
		text += fmt.Sprintf(", as of %s ago", in.facts.At.Sub(*mine.Heard).Round(time.Second))
	}
	return pass(text)
}

// unlisted returns the result for a list that was not read.
func (in diagnosis) unlisted(side flows.Side, what, why string) Result {
	if !in.cluster(side).Services.Asked() {
		return in.notRead()
	}
	r := result(Inconclusive, fmt.Sprintf("the %s of %s can't be read: %s", what, in.cluster(side).ID, why))
	r.Fix = []command.Hint{in.cluster(side).Alone().AskForRights("--services")}
	return r
}

// problems returns a line for each problem of the kinds, in names for which concerns is true, and the advice.
func (in diagnosis) problems(side flows.Side, concerns func(services.Row) bool, kinds ...services.ProblemKind) (lines []string, fix []command.Hint) {
	for _, r := range in.shared[side].rows {
		for _, p := range r.Problems {
			if !slices.Contains(kinds, p.Kind) || !concerns(r) {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: %s", r.Name, p.Text))
			if !p.Fix.IsZero() && len(fix) < maxWarnings && !slices.ContainsFunc(fix, p.Fix.Equal) {
				fix = append(fix, p.Fix)
			}
		}
	}
	return lines, fix
}

// lined returns a result with the first line as its summary, and further lines as evidence.
func lined(state Outcome, lines []string, fix ...command.Hint) Result {
	r := result(state, lines[0], fix...)
	if r.Evidence = lines[1:]; len(r.Evidence) > maxGroups {
		r.Evidence = append(slices.Clone(r.Evidence[:maxGroups]), fmt.Sprintf("and %d more", len(r.Evidence)-maxGroups))
	}
	return r
}

// exportsWork judges the cluster's own ServiceExports. Users of namespaces make them, so a bad one is no
// failure of the connection.
func (in diagnosis) exportsWork(side flows.Side) Result {
	found := in.shared[side].view.Found
	if !found.Exports.Read {
		return in.unlisted(side, "ServiceExports", found.Exports.Unread)
	}
	if lines, fix := in.problems(side, func(services.Row) bool { return true }, services.NotExported, services.Conflicting); len(lines) > 0 {
		return lined(Warn, lines, fix...)
	}
	return pass(count(len(found.Exports.Items), "ServiceExport", "ServiceExports"))
}

func (in diagnosis) importsAllowed(side flows.Side) Result {
	me, other, found := in.cluster(side), in.cluster(side.Other()), in.shared[side].view.Found
	if !found.Copies.Read {
		return in.unlisted(side, "exports that it has received", found.Copies.Unread)
	}
	theirs := func(r services.Row) bool { return slices.Contains(r.Exporters, other.ID) }
	var names, namespaces []string
	for _, r := range in.shared[side].rows {
		if slices.ContainsFunc(r.Problems, func(p services.Problem) bool { return p.Kind == services.NotAllowed && p.Peer == other.ID }) {
			names, namespaces = append(names, r.Name.String()), append(namespaces, r.Name.Namespace)
		}
	}
	lines, fix := in.problems(side, theirs, services.NoNamespace)
	if len(names) > 0 {
		lines = slices.Insert(lines, 0, fmt.Sprintf("%s exports %s, and %s does not import it into these namespaces", other.ID, flows.Some(names), me.ID))
		allow := me.Ours("service", "allow", "--from", string(other.ID)).Flag("--namespace", in.peers[side].ImportsFrom().With(namespaces...))
		fix = append(fix, command.Hintf("if pods of %s may answer under these names: %s", other.ID, allow))
	}
	if len(lines) > 0 {
		return lined(Warn, lines, fix...)
	}
	if !slices.ContainsFunc(in.shared[side].rows, theirs) {
		return pass(fmt.Sprintf("%s has received no export of %s", me.ID, other.ID))
	}
	return pass(fmt.Sprintf("%s imports what %s exports", me.ID, other.ID))
}

// importsWork judges the imports that concern this cluster and the other one.
func (in diagnosis) importsWork(side flows.Side) Result {
	me, other, found := in.cluster(side), in.cluster(side.Other()), in.shared[side].view.Found
	concerns := func(r services.Row) bool {
		return slices.ContainsFunc(slices.Concat(r.Exporters, r.From), func(id wire.ClusterID) bool { return id == me.ID || id == other.ID })
	}
	if lines, fix := in.problems(side, concerns, services.NotImported); len(lines) > 0 {
		return lined(Fail, lines, append(fix, command.Hintf("see the operator: %s", me.SeeOperator("pods,events")))...)
	}
	if lines, fix := in.problems(side, concerns, services.NoEndpoint); len(lines) > 0 { // of the applications, not of the connection
		return lined(Warn, lines, fix...)
	}
	switch {
	case !found.Imports.Read:
		return in.unlisted(side, "ServiceImports", found.Imports.Unread)
	case !found.Slices.Read:
		return in.unlisted(side, "EndpointSlices", found.Slices.Unread)
	}
	return pass(count(len(found.Imports.Items), "ServiceImport", "ServiceImports"))
}

// oneProgram finds ServiceImports of another implementation of the API. Our operator leaves them alone.
func (in diagnosis) oneProgram(side flows.Side) Result {
	found := in.shared[side].view.Found
	if !found.Imports.Read {
		return in.unlisted(side, "ServiceImports", found.Imports.Unread)
	}
	var lines []string
	for i := range found.Imports.Items {
		if o := &found.Imports.Items[i]; o.Labels[wire.LabelManagedBy] != wire.ManagedBy {
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("another program has made ServiceImport %s/%s: %s", o.Namespace, o.Name, flows.Joined(flows.Managers(o))), ": "))
		}
	}
	if len(lines) > 0 {
		return lined(Warn, lines, command.Text("use one implementation of the Multi-Cluster Services API: liqo-tui exports and imports nothing of these names"))
	}
	return pass("no other program makes ServiceImports")
}

func (in diagnosis) namesServed(side flows.Side) Result {
	c := in.cluster(side)
	if !c.Installation.Asked() {
		return in.notRead()
	}
	switch n, _ := install.NamesOf(side, c); {
	case n.Problem != "":
		return result(Fail, n.Problem, n.Fix)
	case n.Unknown != "" && n.Fix.IsZero():
		return result(Inconclusive, "not known: "+n.Unknown)
	case n.Unknown != "":
		return result(Inconclusive, "not known whether the cluster's DNS asks the DNS server: "+n.Unknown, n.Fix)
	case !n.Wanted:
		return pass("names are not wanted: pods call derived Services")
	case c.DNS.Value() == nil:
		return in.notRead()
	}
	return pass("the DNS server runs, and the cluster's DNS forwards to it")
}

// exportersMeet finds names that the other cluster and a third one export although these two are not
// connected. Pods of each don't reach the endpoints of the other, although this cluster reaches both.
func (in diagnosis) exportersMeet(side flows.Side) Result {
	other, found := in.cluster(side.Other()), in.shared[side].view.Found
	if !found.Copies.Read {
		return in.unlisted(side, "exports that it has received", found.Copies.Unread)
	}
	known := other.KnownPeers()
	var lines []string
	for _, r := range in.shared[side].rows {
		if !slices.Contains(r.Exporters, other.ID) {
			continue
		}
		for _, third := range r.Exporters {
			if third != other.ID && third != in.cluster(side).ID && !slices.Contains(known, third) {
				lines = append(lines, fmt.Sprintf("%s and %s both export %s, and are not connected: neither reaches the other's endpoints", other.ID, third, r.Name))
			}
		}
	}
	switch {
	case len(lines) == 0:
		return pass("no third cluster exports a name of " + string(other.ID) + " without being its peer")
	case other.PeersHidden:
		return result(Inconclusive, "not known whether all clusters that export a name are connected: this user may not see all peers of "+string(other.ID))
	}
	return lined(Warn, lines, command.Hintf("connect them: %s", other.OursWith("network", "connect")))
}
