package peer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// obstacles returns a failed step for each reason why the provider can't lend to the consumer. The
// connection of the pod networks has been checked before.
func (p pair) obstacles() []flows.Step {
	var steps []flows.Step
	refuse := func(side flows.Side, code flows.Code, title, reason string, fix command.Hint) {
		steps = append(steps, flows.Refuse(side, code, title, flows.FailedPreflight, reason, fix))
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := p.Facts.Sides[side]
		if reason, hint := p.unfitSoftware(side); reason != "" {
			refuse(side, check.Lending, "Liqo", reason, hint)
		} else if missing := p.missing(side); len(missing) > 0 {
			hint := command.Text("install all CRDs of Liqo v1.0 or later")
			if p.runsOurs(side) {
				hint = command.Hintf("upgrade the installation: %s", c.Ours("install"))
			}
			refuse(side, check.Lending, "Liqo's API", fmt.Sprintf("%s does not serve %s", c.ID, strings.Join(missing, ", ")), hint)
		}
	}
	if len(steps) > 0 {
		return steps
	}
	for _, side := range []flows.Side{p.con, p.pro} {
		if reason, hint := p.unfitNamespace(side); reason != "" {
			refuse(side, flows.CodeNamespace, "tenant namespace", reason, hint)
		}
		for _, name := range p.needs(side) {
			if reason := p.down(side, name); reason != "" {
				refuse(side, check.Lending, "Liqo's programs", reason, p.readLog(side, name))
			}
		}
	}
	if reason, hint := p.unfitKey(); reason != "" {
		refuse(p.con, check.NewKey, "key of "+string(p.id(p.con)), reason, hint)
	}
	if reason, hint := p.unfitConsumer(); reason != "" {
		refuse(p.con, check.Lending, "consumer", reason, hint)
	}
	if reason, hint := p.unfitProvider(); reason != "" {
		refuse(p.pro, check.Lending, "provider", reason, hint)
	}
	return steps
}

// unread returns a failed step for each side whose Secrets for lending may not be read.
func (p pair) unread() (steps []flows.Step) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		if ns := p.tenant(side).Namespace; slices.Contains(p.lending(side).Unread, ns) {
			steps = append(steps, flows.Refuse(side, flows.CodePermission, "Secrets of the peering", flows.FailedAccess,
				"this user may not list secrets in "+ns, p.Facts.AskForRights("--peering")))
		}
	}
	return steps
}

// accepts reports whether the program of the provider accepts the objects that the program of the
// consumer sends. Liqo accepts objects of Liqo and of our operator. Our operator accepts only objects
// of our operator.
func accepts(provider, consumer flows.ClusterFacts) bool {
	return provider.Can().TakeLabels || !consumer.Can().SendLabels
}

// lends returns the command by which a cluster becomes able to lend and borrow.
func lends(c flows.ClusterFacts) command.Command {
	return command.Ours("install").Flag("--peering", string(render.PeeringBoth)).On(c.Flags())
}

// unfitSoftware returns the reason that the program on a side can't do its part of this lending; ""
// if it can.
func (p pair) unfitSoftware(side flows.Side) (reason string, hint command.Hint) {
	c, other := p.Facts.Sides[side], p.Facts.Sides[side.Other()]
	switch {
	case !c.Can().Connect:
		return fmt.Sprintf("%s has no Liqo (%s)", c.ID, c.Software),
			command.Hintf("to connect only the pods of the two clusters: %s; to lend resources, run %s and %s, or install Liqo on both", p.Facts.Ours("network", "connect"), lends(p.Facts.Sides[flows.A]), lends(p.Facts.Sides[flows.B]))
	case side == p.pro && !accepts(c, other):
		return fmt.Sprintf("%s runs Liqo, which sends labels and annotations along with its requests, and the operator on %s does not accept labels and annotations from a consumer", other.ID, c.ID),
			command.Hintf("the other direction works, with %s as the consumer; for this direction, run Liqo on both clusters, or our operator on both", c.ID)
	case side == p.con && !c.Can().Consume:
		return fmt.Sprintf("%s's operator was installed without virtual nodes", c.ID), command.Hintf("to change that: %s", lends(c))
	case side == p.pro && !c.Can().Provide:
		return fmt.Sprintf("%s's operator was installed without lending", c.ID), command.Hintf("to change that: %s", lends(c))
	}
	return "", command.Hint{}
}

// missing lists the kinds that a side needs, but that its API server does not serve.
func (p pair) missing(side flows.Side) []string {
	return slices.DeleteFunc(slices.Clone(p.lending(side).Missing), func(kind string) bool {
		node := side == p.con && p.wants(p.params.Slice, true) && p.wantsNode() && strings.HasPrefix(kind, "virtualnodes.")
		return p.runsOurs(side) && !node && !strings.Contains(kind, "."+authv1beta1.GroupVersion.Group+"/")
	})
}

func (p pair) runsOurs(side flows.Side) bool { return p.Facts.Sides[side].Software == flows.Operator }

func (p pair) can(side flows.Side) flows.Abilities { return p.Facts.Sides[side].Can() }

// needs lists the programs of Liqo that a side needs for its part of lending.
func (p pair) needs(side flows.Side) []string {
	names := []string{manager, webhook}
	if side == p.con {
		names = append(names, replicator)
	} else if p.params.InBand == yes && p.params.ProxyURL == "" {
		names = append(names, proxy)
	}
	return names
}

// down returns a sentence if a program of Liqo does not run; "" if it runs. It also returns "" if it
// can't find the program: the program may have another name, or the user may not read it.
func (p pair) down(side flows.Side, name string) string {
	for _, d := range p.lending(side).Components {
		if d.Name == name && d.Status.AvailableReplicas == 0 {
			return fmt.Sprintf("Deployment %s/%s on %s is not available, so Liqo does not work on peerings, or refuses their objects", d.Namespace, d.Name, p.id(side))
		}
	}
	return ""
}

// unfitNamespace returns the reason that Liqo can't use the tenant namespace of a side; "" if it can.
// Liqo finds tenant namespaces only by their labels.
func (p pair) unfitNamespace(side flows.Side) (reason string, hint command.Hint) {
	t, c := p.tenant(side), p.Facts.Sides[side]
	var labelled []string
	for _, ns := range c.Namespaces {
		if ns.Labels[wire.LabelRemoteCluster] == string(t.Remote) && ns.Labels[wire.LabelTenantNamespace] != "" {
			labelled = append(labelled, ns.Name)
		}
	}
	ns := c.FindNamespace(t.Namespace)
	switch {
	case len(labelled) > 1:
		return fmt.Sprintf("%s has %d tenant namespaces for %s, and Liqo uses none of them: %s", c.ID, len(labelled), t.Remote, strings.Join(labelled, ", ")),
			command.Hintf("keep one of them, and remove label %s from the others", wire.LabelTenantNamespace)
	case side == p.con && !p.can(side).LendAnywhere && p.wants(p.params.Slice, true) && !strings.HasPrefix(t.Namespace, peering.NamespacePrefix):
		return fmt.Sprintf("the name of namespace %s does not begin with %s, so Liqo would give the virtual node no certificate, and logs and exec would not work", t.Namespace, peering.NamespacePrefix),
			command.Text("omit --namespace; if the clusters are connected already, first remove the connection with network reset")
	case ns == nil || ns.DeletionTimestamp != nil:
		return "", command.Hint{}
	case ns.Labels[wire.LabelTenantNamespace] != "true" || ns.Labels[wire.LabelRemoteCluster] != string(t.Remote):
		return fmt.Sprintf("namespace %s does not have the labels by which Liqo finds tenant namespaces", ns.Name),
			command.Hintf("add the labels: %s", c.Kubectl("label", "namespace", ns.Name, wire.LabelTenantNamespace+"=true", wire.LabelRemoteCluster+"="+string(t.Remote)))
	}
	return "", command.Hint{}
}

// unfitKey returns the reason that the consumer's key can't be used; "" if it can. Some providers
// refuse a consumer that had another key before.
func (p pair) unfitKey() (reason string, hint command.Hint) {
	l := p.lending(p.con)
	if l.Request == nil {
		if p.runsOurs(p.con) {
			return l.RequestProblem, command.Hintf("the operator makes the key; to read it, you need the right to get secrets in namespace %s", p.Facts.Sides[p.con].Namespace)
		}
		return l.RequestProblem, command.Hintf("Liqo makes the key if its authentication module is on; to read it, you need the right to get secrets in namespace %s", p.Facts.Sides[p.con].Namespace)
	}
	var other []string
	if p.can(p.pro).TakeNewKeys {
		return "", command.Hint{}
	}
	for _, s := range p.certificates() {
		if csr := s.Data[peering.KeyCSR]; len(csr) > 0 && !l.Request.Has(csr) {
			other = append(other, "secret/"+s.Name)
		}
	}
	if len(other) == 0 {
		return "", command.Hint{}
	}
	if live := p.accepted(); live != nil { // Liqo would sign the old key again, because the Tenant contains it
		other = append([]string{"tenant/" + live.Name}, other...)
	}
	return fmt.Sprintf("%s knows %s by another key, and refuses the present one", p.id(p.pro), p.id(p.con)),
		command.Hintf("if %s was installed again: %s; then run the same command again", p.id(p.con), p.Kubectl(p.pro, "delete").Add(other...))
}

// unfitConsumer returns the reason that objects on the consumer prevent lending; "" if none do.
func (p pair) unfitConsumer() (reason string, hint command.Hint) {
	name := p.nodeName()
	if all := p.identities(); len(all) > 1 {
		return fmt.Sprintf("there are %d Identities for %s, and Liqo uses none of them", len(all), p.id(p.pro)), command.Hintf("keep one of them, and delete the others; to list them: %s", p.Kubectl(p.con, "get", "identities"))
	}
	if c := p.cluster(p.con); c != nil && c.Annotations[peering.AnnotationUnreachable] == "true" {
		return fmt.Sprintf("a mark on ForeignCluster says to Liqo on %s that %s is gone for good", p.id(p.con), p.id(p.pro)),
			command.Hintf("to remove the mark: %s", p.Facts.Sides[p.con].Kubectl("annotate", "foreigncluster", c.Name, peering.AnnotationUnreachable+"-"))
	}
	if !p.wants(p.params.Slice, true) {
		return "", command.Hint{}
	}
	for _, s := range p.lending(p.con).Slices {
		if s.Name == name && s.Namespace != p.tenant(p.con).Namespace && s.Labels[peering.LabelReplicated] == "" {
			return fmt.Sprintf("another ResourceSlice %s is in namespace %s, but the name of a ResourceSlice has to be unique", name, s.Namespace), command.Text("delete the other ResourceSlice, if nobody needs it")
		}
	}
	if p.wantsNode() && p.slice() == nil && slices.ContainsFunc(p.Facts.Sides[p.con].Nodes, func(n flows.NodeFacts) bool { return n.Name == name }) {
		return fmt.Sprintf("there is a node %s already, and the virtual node gets the name of the provider", name), command.Hintf("use --create-virtual-node=false, and create a virtual node with another name: %s", command.Of("liqoctl", "create", "virtualnode"))
	}
	return "", command.Hint{}
}

// unfitProvider returns the reason that objects or settings of the provider prevent lending; "" if
// none do.
func (p pair) unfitProvider() (reason string, hint command.Hint) {
	if reason, hint := p.unfitProxy(); reason != "" {
		return reason, hint
	}
	l, t := p.lending(p.pro), p.tenant(p.pro)
	if binding := l.Known[string(p.id(p.con))]; binding != "" && p.accepted() == nil {
		return fmt.Sprintf("%s knows %s already, as a user or a group with rights: %s. Liqo would give the consumer a certificate with that name, and so also these rights", p.id(p.pro), p.id(p.con), binding),
			command.Hintf("remove the subject from %s, or install Liqo on the consumer with another cluster ID", binding)
	}
	if v := p.Facts.Sides[p.pro].Operator.Version; tooOld(v) {
		return fmt.Sprintf("%s runs Liqo %s, which takes keys in another form", p.id(p.pro), v), command.Text("upgrade Liqo there to v1.0.2 or later")
	}
	for _, o := range l.Tenants {
		if (o.Namespace == t.Namespace) != (string(o.Spec.ClusterID) == string(t.Remote)) {
			return fmt.Sprintf("Tenant %s/%s is for cluster %s, but Liqo wants one Tenant per namespace, and one namespace per Tenant", o.Namespace, o.Name, o.Spec.ClusterID),
				command.Text("delete the Tenant that nobody needs any more")
		}
	}
	if live := p.accepted(); live != nil && live.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return fmt.Sprintf("an admin of %s has drained %s", p.id(p.pro), p.id(p.con)), command.Hintf("to let it in again, run on %s: %s", p.id(p.pro), command.Of("liqoctl", "activate", "tenant", string(p.id(p.con))))
	}
	foreign := in(t.Namespace, l.Slices, func(s *authv1beta1.ResourceSlice) bool {
		return s.Name == p.nodeName() && !p.copied(s) && s.Labels[peering.LabelReplication] == ""
	})
	if len(foreign) > 0 {
		return fmt.Sprintf("ResourceSlice %s/%s on %s is not a copy of a ResourceSlice of %s, but has the name that the copy needs", t.Namespace, foreign[0].Name, p.id(p.pro), p.id(p.con)),
			command.Hintf("delete it, if nobody needs it: %s", p.Kubectl(p.pro, "delete", "resourceslice", foreign[0].Name))
	}
	return "", command.Hint{}
}

// tooOld reports whether a release of Liqo takes keys in an older form: v1.0.0, v1.0.1 (see
// https://github.com/liqotech/liqo/releases/tag/v1.0.2), and all releases before v1.
func tooOld(version string) bool {
	return version == "v1.0.0" || version == "v1.0.1" || strings.HasPrefix(version, "v0.")
}

// before reports whether a release is older than v1.minor; false if version is not of v1.
func before(version string, minor int) bool {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || parts[0] != "1" {
		return false
	}
	n, err := strconv.Atoi(parts[1])
	return err == nil && n < minor
}

// notes lists facts about this lending that an admin should know, one sentence each.
func (p pair) notes() []string {
	var out []string
	pro, con := p.Facts.Sides[p.pro], p.Facts.Sides[p.con]
	if live := p.accepted(); live != nil {
		if live.Spec.TenantCondition == authv1beta1.TenantConditionCordoned {
			out = append(out, fmt.Sprintf("an admin of %s has cordoned %s, so the provider grants nothing new; to undo that: %s", pro.ID, con.ID, command.Of("liqoctl", "uncordon", "tenant", string(con.ID))))
		}
		if live.Spec.ProxyURL != nil && p.params.InBand == "" && p.params.ProxyURL == "" {
			out = append(out, "the consumer's access still leads through "+*live.Spec.ProxyURL)
		}
	}
	if live := p.slice(); live != nil && p.wants(p.params.Slice, true) && p.params.CPU+p.params.Memory+p.params.Pods == "" && len(live.Spec.Resources) > 0 {
		out = append(out, "the requested resources stay unchanged: "+lending.Amounts(p.params.resources(live.Spec.Resources)))
	}
	if apart := (pro.ClockAhead - con.ClockAhead).Abs(); apart > clocksApart {
		out = append(out, fmt.Sprintf("the clocks of %s and %s are %s apart, so a certificate can be valid for one cluster and not yet valid, or expired, for the other; set both clocks by NTP", pro.ID, con.ID, apart.Round(time.Second)))
	}
	if p.accepted() == nil && p.can(p.pro).LimitConsumers {
		out = append(out, fmt.Sprintf("%s will let %s ask it for resources, and nothing else", pro.ID, con.ID))
	} else if p.accepted() == nil {
		out = append(out, fmt.Sprintf("%s will let %s ask it for resources, and run pods with their Services, ConfigMaps, Secrets and volumes in namespaces that %s makes for it, but nothing outside of them", pro.ID, con.ID, pro.ID))
	}
	if p.wants(p.params.Slice, true) && !p.can(p.pro).LimitConsumers {
		out = append(out, p.quota())
		out = append(out, p.tooMuch()...)
	}
	if p.accessMoves() {
		out = append(out, fmt.Sprintf("the virtual kubelet of %s uses the new way to the API server of %s only after a restart: %s",
			p.nodeName(), pro.ID, p.Kubectl(p.con, "rollout", "restart", "deployment", "-l", peering.LabelVirtualNode+"="+p.nodeName())))
	}
	for _, c := range []flows.ClusterFacts{pro, con} {
		if before(c.Operator.Version, 2) {
			out = append(out, fmt.Sprintf("Liqo %s on %s does not renew certificates, so access ends when they expire, usually after a year", c.Operator.Version, c.ID))
		}
	}
	if p.wants(p.params.Slice, true) && p.slice() == nil && isDefaultClass(p.params.Class) && !p.can(p.pro).LimitConsumers {
		out = append(out, fmt.Sprintf("%s grants all requested resources, even if it lacks them: Liqo reserves nothing. Pods on the virtual node may request granted resources only", pro.ID))
	}
	if p.wants(p.params.Slice, true) && p.wantsNode() && len(p.lending(p.con).Offloadings) == 0 && p.slice() == nil {
		out = append(out, fmt.Sprintf("only pods of offloaded namespaces can run on the virtual node: %s", command.Ours("offload", "namespace", "NAME").On(con.Flags())))
	}
	return out
}

// clocksApart is the smallest difference between two clocks about which the admin gets a note. A
// certificate that Kubernetes signs is valid from 5 minutes before the signature.
const clocksApart = time.Minute

// accessMoves reports whether the consumer will reach the provider's API server in another way than
// its virtual kubelets do now.
func (p pair) accessMoves() bool {
	i, t := first(p.identities()), p.accepted()
	if i == nil || t == nil || t.Status.AuthParams == nil || len(p.kubelets()) == 0 {
		return false
	}
	was := ""
	if url := i.Spec.AuthParams.ProxyURL; url != nil {
		was = *url
	}
	proxy, missing := p.proxy()
	return missing == "" && proxy != was || t.Status.AuthParams.APIServer != i.Spec.AuthParams.APIServer
}

// quota describes how much the consumer's pods may request on the provider.
func (p pair) quota() string {
	var were corev1.ResourceList
	if live := p.slice(); live != nil {
		were = live.Spec.Resources
	}
	asked := p.params.resources(were)
	if len(asked) == 0 {
		return fmt.Sprintf("pods of %s may request on %s what Liqo there grants by default: 4 CPUs, 8 GiB and 110 pods, unless an admin has changed the defaults", p.id(p.con), p.id(p.pro))
	}
	return fmt.Sprintf("pods of %s may request on %s, in all: %s; of all other resources, what Liqo there grants by default", p.id(p.con), p.id(p.pro), lending.Amounts(asked))
}

// tooMuch returns a sentence for each resource of which more is requested than the provider's nodes
// have. This does not stop the plan, because Liqo grants the resources, and the provider may get more
// nodes.
func (p pair) tooMuch() (out []string) {
	var were corev1.ResourceList
	if live := p.slice(); live != nil {
		were = live.Spec.Resources
	}
	asked := p.params.resources(were)
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		want, has := asked[name], p.lending(p.pro).Capacity
		if have := has[name]; has != nil && want.Cmp(have) > 0 {
			out = append(out, fmt.Sprintf("the request is for %s %s, but the nodes of %s have %s in all: pods that need more wait there", name, want.String(), p.id(p.pro), have.String()))
		}
	}
	return out
}

// isDefaultClass reports whether Liqo itself grants ResourceSlices of this class.
func isDefaultClass(class string) bool {
	return class == "" || class == string(authv1beta1.ResourceSliceClassDefault)
}
