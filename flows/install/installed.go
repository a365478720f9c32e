package install

import (
	"fmt"
	"slices"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// waiting returns the text seen, with the reason that the program's pods don't run,
// if this reason is known.
func waiting(f *flows.InstallationFacts, seen, program string) string {
	if why := f.Waiting[program]; why != "" {
		return seen + ": " + why
	}
	return seen
}

// object returns an object of the installation; nil if it does not exist. Kind and
// name are enough to find an object, because all objects are in the same namespace,
// or in none.
func object(c flows.ClusterFacts, kind, name string) wire.Object {
	if c.Installation.Value() == nil {
		return nil
	}
	for _, o := range c.Installation.Value().Objects {
		if o.GetName() == name && flows.RefTo(o).Kind == kind {
			return o
		}
	}
	return nil
}

// installed returns an object of the installation as its Go type; nil if it does not
// exist.
func installed[T any, O interface {
	*T
	wire.Object
}](c flows.ClusterFacts, name string) *T {
	return typed[T, O](object(c, flows.RefTo(O(new(T))).Kind, name))
}

// typed converts an object of the API server to the Go type T; nil if the object has
// another type.
func typed[T any, O interface {
	*T
	wire.Object
}](o wire.Object) *T {
	if u, ok := o.(*unstructured.Unstructured); ok {
		t := new(T)
		if flows.RefTo(O(t)).Kind != u.GetKind() || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t) != nil {
			return nil
		}
		return t
	}
	t, _ := o.(O)
	return t
}

// ranges returns the Networks with the cluster's own ranges.
func ranges(c flows.ClusterFacts) (all []*ipamv1alpha1.Network) {
	if c.Installation.Value() == nil {
		return nil
	}
	for _, o := range c.Installation.Value().Objects {
		if n := typed[ipamv1alpha1.Network](o); n != nil && n.Labels[wire.LabelNetworkType] != "" {
			all = append(all, n)
		}
	}
	return all
}

// settings returns the step for the cluster's ID and ranges. A Network's range can't
// be changed, so the step first deletes each Network with another range than the
// wanted one. The operator itself replaces the Networks of pods and Services.
func (i *Installation) settings(side flows.Side, c flows.ClusterFacts) flows.Step {
	s := i.part(side, c, stepSettings)
	var gone []wire.Object
	for _, n := range ranges(c) {
		external := n.Name == wire.NetworkExternalCIDR && string(n.Spec.CIDR) != i.external()
		reserved := len(i.params.Reserve) > 0 && n.Labels[wire.LabelNetworkType] == wire.NetworkReserved && render.MadeByUs(n) &&
			!slices.ContainsFunc(i.objects, func(o wire.Object) bool { return flows.RefTo(o) == flows.RefTo(n) })
		if external || reserved {
			gone = append(gone, n)
		}
	}
	if len(gone) > 0 && s.Status != flows.Waiting {
		s.Status, s.Action, s.Objects, s.Gone, s.Reason = flows.Ready, flows.Replace, gone, gone, ""
		for _, o := range gone {
			s.Diff += "- " + flows.RefTo(o).Title() + " " + string(o.(*ipamv1alpha1.Network).Spec.CIDR) + "\n"
		}
	}
	return s
}

func (i *Installation) external() string {
	if i.params.ExternalCIDR == "" {
		return render.DefaultExternalCIDR
	}
	return i.params.ExternalCIDR
}

// replaces reports whether the operator will replace a Network of pods or Services,
// because the admin states other ranges.
func (i *Installation) replaces(n *ipamv1alpha1.Network) bool {
	kind := n.Labels[wire.LabelNetworkType]
	stated := i.stated(kind)
	if len(stated) == 0 || !render.MadeByUs(n) {
		return false
	}
	return !slices.ContainsFunc(render.ClusterNetworks(n.Namespace, kind, stated, ""), func(o wire.Object) bool {
		return o.GetName() == n.Name && o.(*ipamv1alpha1.Network).Spec.CIDR == n.Spec.CIDR
	})
}

// stated returns the ranges that the admin states for a kind of Network.
func (i *Installation) stated(kind string) []string {
	switch {
	case kind == wire.NetworkPodCIDR:
		return i.params.PodCIDRs
	case kind == wire.NetworkServiceCIDR && i.params.ServiceCIDR != "":
		return []string{i.params.ServiceCIDR}
	}
	return nil
}

// toldRange returns a failed step if the installation would change a range that peers
// know, or a range from which IPs have addresses; else nil.
func (i *Installation) toldRange(side flows.Side, c flows.ClusterFacts) *flows.Step {
	peers, hosts, unknown := len(c.Configurations), 0, ""
	if c.Installation.Value() != nil {
		hosts, unknown = c.Installation.Value().Hosts, c.Installation.Value().Unknown
	}
	for _, n := range ranges(c) {
		external := n.Name == wire.NetworkExternalCIDR && string(n.Spec.CIDR) != i.external()
		if peers == 0 && (!external || hosts == 0 && unknown == "") || !external && !i.replaces(n) {
			continue
		}
		from := string(n.Spec.CIDR)
		if source := n.Annotations[wire.AnnotationSource]; source != "" {
			from += " (" + source + ")"
		}
		to, why := "the stated range", fmt.Sprintf("peers that know the present range: %d", peers)
		hint := command.Hintf("first run %s for each peer (%s lists the peers), then install again", c.OursWith("network", "reset"), c.Ours("info"))
		if external {
			to = i.external()
		}
		if peers == 0 {
			why = fmt.Sprintf("IPs with an address of the present range: %d", hosts)
			hint = command.Hintf("first delete these IPs (%s lists them), then install again", c.Kubectl("get", "ips.ipam.liqo.io", "-A"))
			if hosts == 0 {
				why, hint = "liqo-tui can't see which IPs have an address of the present range: "+unknown, seeInstallation()
			}
		}
		return new(flows.Refuse(side, flows.CodeOwnership, "address ranges", flows.FailedConflict,
			fmt.Sprintf("Network %s/%s can't be changed from %s to %s: %s", n.Namespace, n.Name, from, to, why), hint))
	}
	return nil
}

// gateways returns a step for each gateway that is made from our templates. The step
// waits until the gateway fits the present templates. The operator replaces one
// gateway after the other.
func (i *Installation) gateways(side flows.Side, c flows.ClusterFacts, templates flows.Step, at time.Time) (steps []flows.Step) {
	if c.Installation.Value() == nil {
		return nil
	}
	for k := range c.Installation.Value().Gateways {
		d := &c.Installation.Value().Gateways[k]
		if !fromOurTemplate(c, d) {
			continue
		}
		var connection *networkingv1beta1.Connection
		if n := slices.IndexFunc(c.Connections, func(o networkingv1beta1.Connection) bool { return o.Namespace == d.Namespace && o.Name == d.Name }); n >= 0 {
			connection = &c.Connections[n]
		}
		peer := d.Labels[wire.LabelRemoteCluster]
		s := flows.Step{
			ID: flows.IDOf(side, "gateway-"+peer), Side: side, Action: flows.Wait, Title: "gateway for " + peer + " is up to date", Status: flows.Waiting, Code: flows.CodePod,
			Object: flows.ObjectRef{Kind: "Deployment", Namespace: d.Namespace, Name: d.Name},
		}
		older := !slices.Contains(render.AskedImages(d, d.Spec.Template), i.params.Image)
		switch why := render.Replacing(d, connection, at.Add(c.ClockAhead)); {
		case templates.Status != flows.Done:
			s.Status, s.Reason, s.Code = flows.Blocked, "needs the gateway templates", ""
		case why != "":
			s.Reason = why
		case older:
			s.Reason = "the operator replaces it when the gateways before it are connected again"
		default:
			s.Status, s.Code, s.Reason = flows.Done, "", render.Rewritten(d, d.Spec.Template)
		}
		if older {
			s.Reason = images(d.Spec.Template.Spec.Containers, i.params.Image) + ": " + s.Reason
		}
		if (older || s.Status == flows.Blocked) && connection != nil && connection.Status.Value == networkingv1beta1.Connected {
			s.Interrupts = fmt.Sprintf("traffic between %s and %s is interrupted for about a second, while the gateway is replaced; one gateway is replaced after the other", c.Name(), peer)
		}
		steps = append(steps, s)
	}
	return steps
}

// fromOurTemplate reports whether a gateway is made from a template of the
// installation. An admin can have chosen another template.
func fromOurTemplate(c flows.ClusterFacts, d *appsv1.Deployment) bool {
	name := d.Labels[wire.LabelGatewayName]
	ours := func(o wire.Object, template, wanted render.TemplateRef) bool {
		return o.GetNamespace() == d.Namespace && o.GetName() == name && template == wanted
	}
	return slices.ContainsFunc(c.Servers, func(o networkingv1beta1.GatewayServer) bool {
		ref := o.Spec.ServerTemplateRef
		return ours(&o, render.TemplateRef{Name: ref.Name, Namespace: ref.Namespace}, render.TemplateRef{Name: wire.ServerTemplate, Namespace: c.Namespace})
	}) || slices.ContainsFunc(c.Clients, func(o networkingv1beta1.GatewayClient) bool {
		ref := o.Spec.ClientTemplateRef
		return ours(&o, render.TemplateRef{Name: ref.Name, Namespace: ref.Namespace}, render.TemplateRef{Name: wire.ClientTemplate, Namespace: c.Namespace})
	})
}
