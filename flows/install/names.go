package install

import (
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/names"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// names returns the step that waits until the DNS server runs; none if the server is not wanted. If asked is
// set, the admin requests it in this run: then another step makes the cluster's DNS forward to it. That step
// is the last one of the plan. done is set if all other steps are done.
func (i *Installation) names(side flows.Side, c flows.ClusterFacts, asked, done bool) []flows.Step {
	if i.params.Names != render.On {
		return nil
	}
	s := flows.Step{ID: flows.IDOf(side, "dns-server-runs"), Side: side, Action: flows.Wait, Title: "DNS server runs", Status: flows.Waiting, Code: flows.CodeNotReady}
	d := installed[appsv1.Deployment](c, wire.DNSName)
	switch {
	case d == nil:
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the DNS server", ""
	case starting(d):
		s.Reason = waiting(c.Installation.Value(), "the DNS server starts", wire.DNSName)
	default:
		s.Status, s.Code = flows.Done, ""
	}
	if !asked {
		return []flows.Step{s}
	}
	return []flows.Step{s, forwards(side, c, done && s.Status == flows.Done)}
}

// IDs of the steps that change the cluster's DNS.
const (
	stepDNS    = "cluster-dns"
	stepDNSMap = "cluster-dns-map"
)

// forwards returns the step that makes the cluster's DNS forward the zone of imported Services. runs is set if
// the DNS server runs, and all other steps are done.
func forwards(side flows.Side, c flows.ClusterFacts, runs bool) flows.Step {
	s := flows.Step{ID: flows.IDOf(side, stepDNS), Side: side, Action: flows.Update, Title: "forward of " + names.Zone + " in the cluster's DNS", Asks: flows.AskDNS{Side: side}}
	server := dnsAddress(c)
	switch {
	case !runs || !server.IsValid():
		s.Status, s.Reason = flows.Blocked, "comes last; you are asked again before the cluster's DNS is changed"
		s.Diff = foreseen(c, server)
		return s
	case c.DNS.Unknown() != "":
		return unseenDNS(s, c)
	case !c.DNS.Asked():
		s.Status, s.Reason = flows.Blocked, "needs to be looked for"
		return s
	}
	v := names.Forward(*c.DNS.Value(), server)
	if v.Refusal != "" {
		s.Fail(flows.FailedConflict, flows.CodeOwnership, v.Refusal, command.Text(v.Advice))
		return s
	}
	s.Status, s.Reason = flows.Done, v.DNS
	edit(&s, v.Changes, "the cluster's DNS ("+v.DNS+")")
	if s.Status == flows.Ready {
		s.Reason = strings.Join(v.Notes, " ")
	}
	return s
}

// foreseen returns the diff of the coming change of the cluster's DNS. If the DNS server has no address yet,
// 0.0.0.0 stands for it.
func foreseen(c flows.ClusterFacts, server netip.Addr) string {
	if c.DNS.Value() == nil {
		return ""
	}
	if !server.IsValid() {
		server = netip.IPv4Unspecified()
	}
	var s flows.Step
	edit(&s, names.Forward(*c.DNS.Value(), server).Changes, "")
	if s.Diff != "" && server.IsUnspecified() {
		s.Diff += "0.0.0.0 stands for the address that the DNS server will get.\n"
	}
	return s.Diff
}

// edit adds the changes to the step.
func edit(s *flows.Step, changes []names.Change, what string) {
	for _, change := range changes {
		want := change.Want()
		s.Status, s.Force, s.Edits = flows.Ready, true, what
		s.Want, s.Objects = append(s.Want, want), append(s.Objects, want)
		if change.Live == nil {
			s.Diff += apply.Diff(nil, want)
			continue
		}
		s.Diff += apply.Diff(change.Live, want)
	}
	if len(s.Objects) == 1 {
		s.Object = flows.RefTo(s.Objects[0])
	}
}

// unseenDNS fails a step, because the user may not see the cluster's DNS.
func unseenDNS(s flows.Step, c flows.ClusterFacts) flows.Step {
	s.Asks = nil
	s.Fail(flows.FailedAccess, flows.CodeForbidden, "liqo-tui can't see which DNS the cluster has: "+c.DNS.Unknown(),
		command.Text("ask the cluster's administrator for the right to read ConfigMaps, Deployments and DaemonSets in kube-system"))
	return s
}

// NamesOf judges by the answers to its questions whether names are served. Missing answers make the result
// unknown.
func NamesOf(side flows.Side, c flows.ClusterFacts) (n services.Served, asks []flows.Question) {
	asks = []flows.Question{flows.AskInstallation{Side: side}}
	if !c.Installation.Asked() || c.InstallationUnknown() != "" {
		n.Unknown = c.InstallationUnknown()
		return n, asks
	}
	server, d := dnsAddress(c), installed[appsv1.Deployment](c, wire.DNSName)
	if object(c, "Service", wire.DNSName) == nil && d == nil {
		return n, asks
	}
	n.Wanted, asks = true, append(asks, flows.AskDNS{Side: side})
	again := command.Hintf("put it back: %s", c.Ours("install", "--names"))
	switch {
	case d == nil || !server.IsValid():
		n.Problem, n.Fix = "a part of the DNS server is gone", again
		return n, asks
	case d.Status.AvailableReplicas == 0:
		n.Problem, n.Fix = waiting(c.Installation.Value(), "the DNS server does not run", wire.DNSName), command.Hintf("see: %s", c.KubectlIn(c.Namespace, "describe", "deployment/"+wire.DNSName))
		return n, asks
	case c.DNS.Value() == nil:
		n.Unknown = c.DNS.Unknown()
		return n, asks
	}
	switch v := names.Forward(*c.DNS.Value(), server); {
	case v.Refusal != "":
		n.Unknown, n.Fix = v.Refusal, command.Text(v.Advice)
	case len(v.Changes) > 0:
		n.Problem, n.Fix = "the cluster's DNS ("+v.DNS+") does not forward "+names.Zone+" to the DNS server", again
	}
	return n, asks
}

// withdraws returns the steps that undo our changes of the cluster's DNS. There are none without our DNS
// server, because the changes are undone before it is removed.
func withdraws(side flows.Side, c flows.ClusterFacts) []flows.Step {
	if object(c, "Service", wire.DNSName) == nil {
		return nil
	}
	s := flows.Step{ID: flows.IDOf(side, stepDNS), Side: side, Action: flows.Update, Title: "the cluster's DNS without our forward of " + names.Zone, Asks: flows.AskDNS{Side: side}}
	switch {
	case c.DNS.Unknown() != "":
		return []flows.Step{unseenDNS(s, c)}
	case !c.DNS.Asked():
		s.Status, s.Reason = flows.Blocked, "needs to be looked for"
		return []flows.Step{s}
	}
	v := names.Withdraw(*c.DNS.Value(), dnsAddress(c))
	s.Status, s.Reason = flows.Done, strings.Join(v.Notes, " ")
	gone := flows.Step{ID: flows.IDOf(side, stepDNSMap), Side: side, Action: flows.Delete, Title: "our own ConfigMap for the cluster's DNS", Status: flows.Done, Reason: "there is none"}
	var changes []names.Change
	for _, change := range v.Changes {
		if !change.Gone {
			changes = append(changes, change)
			continue
		}
		gone = flows.Remove(side, stepDNSMap, flows.RefTo(change.Live), change.Live, "")
		gone.Edits = "the cluster's DNS"
	}
	edit(&s, changes, "the cluster's DNS")
	return []flows.Step{s, gone}
}

// withoutNames returns the steps that remove the DNS server after names were switched off. First, the
// cluster's DNS gets its former text. There are no steps if no object of the server exists.
func (i *Installation) withoutNames(side flows.Side, c flows.ClusterFacts) []flows.Step {
	if i.params.Names == render.On || c.Installation.Value() == nil {
		return nil
	}
	gone := removePart(c, stepNames)
	if len(gone.Gone) == 0 {
		return nil
	}
	steps := withdraws(side, c)
	if slices.ContainsFunc(steps, func(s flows.Step) bool { return s.Status != flows.Done }) {
		gone.Status, gone.Reason, gone.Objects = flows.Blocked, "needs the cluster's DNS without our forward", nil
	}
	return append(steps, gone)
}

// dnsAddress returns the address of our DNS server; the zero value if it has none yet.
func dnsAddress(c flows.ClusterFacts) netip.Addr {
	s := installed[corev1.Service](c, wire.DNSName)
	if s == nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(wire.ServiceIPv4(s)) // "" is no address
	return address
}
