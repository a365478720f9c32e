package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Checks of lending from the consumer to the provider. They are made if there is lending in
// this direction.
const (
	LentAccess     flows.Code = "LT-D040"
	LentResources  flows.Code = "LT-D041"
	LentNode       flows.Code = "LT-D042"
	LentNamespaces flows.Code = "LT-D043"
	LentPods       flows.Code = "LT-D044"
	LentLeftovers  flows.Code = "LT-D045"
)

func lendingChecks() []definition[diagnosis] {
	return []definition[diagnosis]{
		{LentAccess, eachWay, []flows.Code{Answers, Operator}, diagnosis.access},
		{LentResources, eachWay, []flows.Code{LentAccess}, diagnosis.granted},
		{LentNode, eachWay, []flows.Code{LentResources, GatewayPod, UDPPath, Ping}, diagnosis.node},
		{LentNamespaces, eachWay, []flows.Code{LentAccess}, diagnosis.offloaded},
		{LentPods, eachWay, []flows.Code{LentNode, LentNamespaces}, diagnosis.pods},
	}
}

func leftChecks() []definition[diagnosis] {
	return []definition[diagnosis]{{LentLeftovers, eachWay, []flows.Code{LentAccess}, diagnosis.left}}
}

// OfLending reports whether a check is about lending. All others are about the network.
func (r Result) OfLending() bool {
	return slices.ContainsFunc(append(lendingChecks(), leftChecks()...), func(d definition[diagnosis]) bool { return d.id == r.ID })
}

// lent has both ends' views of lending in one direction; nil for an end without objects of
// lending.
type lent struct{ consumer, provider *view.Lending }

// lendings returns the lending to each side, by the consumer.
func lendings(f flows.Facts) (all [2]lent) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		for _, l := range view.Lendings(f.Sides[side], f.Sides[side.Other()].ID) {
			if l.Role == view.Consumer {
				all[side].consumer = &l
			} else {
				all[side.Other()].provider = &l
			}
		}
	}
	return all
}

// uses reports whether the first of sides is a consumer of the other one.
func (in diagnosis) uses(sides []flows.Side) bool {
	l := in.lent[sides[0]]
	return l.consumer != nil || l.provider != nil
}

// reportsUnowned reports whether the first of sides is a consumer that reports unowned objects
// on the provider.
func (in diagnosis) reportsUnowned(sides []flows.Side) bool {
	return in.uses(sides) && in.cluster(sides[0]).Can().ReportUnowned
}

func (in diagnosis) access(con flows.Side) Result {
	l, pro := in.lent[con], con.Other()
	me, other := in.cluster(con), in.cluster(pro)
	again := command.Hintf("run the same %s again: it continues where it was", in.peer(con))
	hides := func(c flows.ClusterFacts, kind string) bool { return c.Lending == nil || c.Lending.Hidden[kind] }
	switch {
	case l.consumer == nil && (hides(me, "Identity") || hides(me, "ResourceSlice")):
		return result(Inconclusive, fmt.Sprintf("%s lets %s in; %s's objects of it can't be read", other.ID, me.ID, me.ID))
	case l.consumer == nil:
		return result(Warn, fmt.Sprintf("%s lets %s in, and %s has nothing of it", other.ID, me.ID, me.ID), again,
			command.Hintf("to end it on %s: %s", other.ID, other.Ours("unpeer").Add("--local-only", "--consumer", "Remote", "--remote-cluster-id", string(me.ID))))
	case l.provider == nil && hides(other, "Tenant"):
		return result(Inconclusive, fmt.Sprintf("%s: %s; %s's objects of it can't be read", me.ID, l.consumer.Authentication, other.ID))
	case l.provider == nil:
		return result(Fail, fmt.Sprintf("%s has no Tenant of %s: its certificate allows nothing", other.ID, me.ID), again)
	}
	r := standings([]view.Standing{named(other.ID, l.provider.Access()), named(me.ID, l.consumer.Access())}, "")
	if r.State == Warn || r.State == Fail {
		r.Fix = []command.Hint{
			command.Hintf("see: %s", in.kubectl(pro, "describe", "tenant", string(me.ID))), again,
			command.Hintf("where consumers reach the API server of %s is said by: %s, or Liqo's Helm value apiServer.address", other.ID, command.Ours("install").Flag("--api-server", "URL").On(other.Flags())),
		}
	}
	return r
}

func named(id wire.ClusterID, s view.Standing) view.Standing {
	s.Name = string(id)
	return s
}

func (in diagnosis) peer(con flows.Side) command.Command {
	c := in.facts.Ours("peer")
	if con == flows.B {
		c = c.Flag("--consumer", "Remote")
	}
	return c
}

func (in diagnosis) granted(con flows.Side) Result {
	return in.listed(con, []string{"ResourceSlice"}, func(l view.Lending) []view.Standing { return l.Slices }, "none were asked for",
		command.Hintf("ask for less: %s with other --cpu, --memory and --pods", in.peer(con)),
		command.Hintf("who may lend more on %s: %s, or annotation %s of the Tenant", in.cluster(con.Other()).ID, in.cluster(con.Other()).Ours("install").Flag("--lend", "cpu=AMOUNT"), peering.AnnotationLend),
		command.Hintf("see: %s", in.kubectl(con, "describe", "resourceslices")))
}

func (in diagnosis) node(con flows.Side) Result {
	return in.listed(con, []string{"Node", "VirtualNode"}, func(l view.Lending) []view.Standing { return l.Nodes }, "there is none, and none is wanted",
		command.Hintf("see why: %s", in.kubectl(con, "logs", "-l", peering.LabelVirtualNode)),
		command.Hintf("cordoned on purpose? if not: %s", in.cluster(con).Kubectl("uncordon", "NODE")))
}

func (in diagnosis) offloaded(con flows.Side) Result {
	r := in.listed(con, []string{"NamespaceMap"}, func(l view.Lending) []view.Standing { return l.Namespaces }, "none is")
	pro := in.cluster(con.Other())
	switch r.State {
	case Fail:
		r.Fix = []command.Hint{in.taken(con)}
	case Warn: // the object does not exist yet, or is being deleted
		r.Fix = []command.Hint{command.Hintf("see: %s", pro.Kubectl("get", "namespaces", "-o", "yaml", "-l", wire.LabelRemoteCluster+"="+string(in.cluster(con).ID)))}
	case Inconclusive, Pass, Skipped, Measuring, Planned:
	}
	return r
}

func (in diagnosis) taken(con flows.Side) command.Hint {
	return command.Hintf("most often the name is taken on the provider: %s, then offload it with another --namespace-mapping-strategy", in.cluster(con).Ours("unoffload", "namespace", "NAME"))
}

// listed judges a part of the consumer's view. none is the text if the part is empty although
// this user may read all of the kinds.
func (in diagnosis) listed(con flows.Side, kinds []string, of func(view.Lending) []view.Standing, none string, fix ...command.Hint) Result {
	l := in.lent[con].consumer
	if l == nil {
		return result(Inconclusive, unsaid)
	}
	r := standings(of(*l), none, fix...)
	switch {
	case r.State != Pass || !slices.ContainsFunc(kinds, l.Hides):
		return r
	case len(of(*l)) == 0:
		return result(Inconclusive, unsaid)
	}
	return result(Inconclusive, "not all may be read; those that may: "+r.Summary)
}

func (in diagnosis) pods(con flows.Side) Result {
	l := in.lent[con].consumer
	if l == nil || (l.Hides("Pod") || l.Hides("Node")) && len(l.Waiting) == 0 { // the Nodes say which pods are offloaded
		return result(Inconclusive, unsaid)
	}
	var wait []string
	for _, w := range l.Waiting {
		if w.Grade != view.Good {
			wait = append(wait, w.Text())
		}
	}
	if len(wait) == 0 {
		return pass(l.PodText())
	}
	see := in.cluster(con).Kubectl("get", "pods", "-A", "--field-selector", "status.phase=Pending")
	if !slices.ContainsFunc(l.Waiting, func(w view.Waiting) bool { return w.Reason == corev1.PodReasonUnschedulable }) {
		see = see.Flag("-l", peering.LabelOffloadedPod)
	}
	r := result(Warn, wait[0], command.Hintf("see: %s", see))
	r.Evidence = wait[1:]
	return r
}

const unsaid = "the consumer reports nothing about it, or may not be read"

// standings judges several objects together. none is the text if there are no objects.
func standings(all []view.Standing, none string, fix ...command.Hint) Result {
	worst := view.Worst(all...)
	var of, others []string
	for _, s := range all {
		line := s.Name + ": " + s.Text()
		switch {
		case s.Grade == worst:
			of = append(of, line)
		case s.Grade != view.Good:
			others = append(others, line)
		}
	}
	switch {
	case len(all) == 0:
		return pass(none)
	case worst == view.Good:
		return pass(strings.Join(of, "; "))
	}
	r := result(Warn, of[0], fix...)
	switch worst {
	case view.Wrong:
		r.State = Fail
	case view.Unseen:
		r.State, r.Fix = Inconclusive, nil
	case view.Open, view.Good:
	}
	r.Evidence = append(of[1:], others...)
	return r
}
