// Package install makes the plans by which our operator is installed on a cluster, upgraded, and
// removed. The type of these plans is [flows.Plan].
package install

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// notYet stands for an address range that is known only after the installation.
const notYet networkingv1beta1.CIDR = "<known after the installation>"

// Plan returns the plan that installs our operator on cluster A, or upgrades it. A setting without
// a value in p keeps its present value.
func Plan(p render.InstallParams, f flows.Facts) flows.Plan {
	c := f.Sides[flows.A]
	plan := flows.Plan{A: c.Name()}
	if plan.Steps = flows.NoAnswer(f, flows.A); len(plan.Steps) > 0 {
		return plan
	}
	plan.A, plan.Asks = cmp.Or(c.ID, p.ClusterID), []flows.Question{flows.AskInstallation{Side: flows.A}}
	if c.Software == flows.Liqo {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeUnfit, "installation", flows.FailedPreflight,
			"Liqo's controller-manager already connects this cluster, and two operators would undo each other's changes",
			command.Hintf("connect the cluster without our operator: %s works with Liqo", c.OursWith("network", "connect")))}
		return plan
	}
	if s := byHelm(c); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	settings := complete(c, p)
	plan.Kept = opens(c, settings)
	if p.Names == render.On && settings.Services != render.On {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeUsage, "settings", flows.FailedUsage, "names are of imported Services, and the cluster exchanges none", command.Text("give --services too"))}
		return plan
	}
	i, err := New(settings)
	if err != nil {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeUsage, "settings", flows.FailedUsage, err.Error())}
		return plan
	}
	if s := c.OldKernels(flows.A); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	plan.Steps = i.steps(flows.A, c)
	plan.Steps = append(i.tryImage(flows.A, c, plan.Steps), plan.Steps...)
	if failed := plan.Failure(); failed == nil {
		templates, _ := plan.Step(flows.IDOf(flows.A, stepTemplates))
		works := i.operatorWorks(flows.A, c)
		plan.Steps = append(plan.Steps, works, i.fabricRuns(flows.A, c))
		if s := i.formerImports(flows.A, c, works); s.Status != flows.Done {
			plan.Steps = append(plan.Steps, s)
		}
		plan.Steps = append(plan.Steps, i.gateways(flows.A, c, templates, f.At)...)
		plan.Steps = append(plan.Steps, i.names(flows.A, c, p.Names == render.On, plan.Done())...)
		plan.Steps = append(plan.Steps, i.withoutNames(flows.A, c)...)
	} else if failed.Kind == flows.FailedPreflight && failed.Code != flows.CodeImage {
		failed.Code = flows.CodeUnfit
	}
	return plan
}

// opens names the peers that may serve Services in all namespaces once Services are switched on. network
// connect may have allowed this, perhaps long before the installation had Services.
func opens(c flows.ClusterFacts, p render.InstallParams) []string {
	if p.Services != render.On || c.Operator.Services {
		return nil
	}
	var open []wire.ClusterID
	for id, end := range c.Peers() {
		if end.ImportsFrom().All {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return nil
	}
	slices.Sort(open)
	return []string{fmt.Sprintf("with Services, these peers may serve Services in all namespaces of %s: %s. To allow fewer, before or after: %s",
		c.Name(), flows.Some(open), c.Ours("service", "allow").Flag("--from", string(open[0])).Flag("--namespace", "NAMESPACE"))}
}

// complete returns p with the cluster's present value for each setting that the admin left out.
func complete(c flows.ClusterFacts, p render.InstallParams) render.InstallParams {
	told := render.InstallParams{}
	if d := installed[appsv1.Deployment](c, wire.OperatorName); d != nil {
		told = render.OperatorParams(d)
	}
	p.Image, p.Pods = cmp.Or(p.Image, told.Image), cmp.Or(p.Pods, told.Pods)
	p.Namespace, p.ClusterID = c.Namespace, cmp.Or(p.ClusterID, c.ID)
	p.ExternalCIDR = cmp.Or(p.ExternalCIDR, string(c.ExternalCIDR)) // without the present range, the default would replace the Network
	p.ServiceCIDR = cmp.Or(p.ServiceCIDR, told.ServiceCIDR)
	p.Peering, p.APIServer, p.Services = cmp.Or(p.Peering, told.Peering), cmp.Or(p.APIServer, told.APIServer), cmp.Or(p.Services, told.Services)
	if len(p.Pools) == 0 {
		p.Pools = told.Pools
	}
	if len(p.PodCIDRs) == 0 {
		p.PodCIDRs = told.PodCIDRs
	}
	if len(p.Lend) == 0 {
		p.Lend = told.Lend
	}
	if d := installed[appsv1.DaemonSet](c, wire.FabricName); d != nil {
		p.Announce = cmp.Or(p.Announce, render.Announced(d))
	}
	if p.Names == "" && installed[appsv1.Deployment](c, wire.DNSName) != nil {
		p.Names = render.On
	}
	if p.Services != render.On { // there are no imported Services
		p.Names = render.Off
	}
	if p.OperatorReplicas == 0 && told.OperatorReplicas > 0 { // 0 replicas are not kept: the default, 1, applies
		p.OperatorReplicas = min(told.OperatorReplicas, maxOperatorReplicas)
	}
	if p.GatewayReplicas == 0 {
		p.GatewayReplicas = render.TemplateReplicas(object(c, "WgGatewayServerTemplate", wire.ServerTemplate))
	}
	return p
}

// byHelm returns a failed step if Helm manages the installation, because Helm's next upgrade would
// undo our changes; else nil.
func byHelm(c flows.ClusterFacts) *flows.Step {
	d := installed[appsv1.Deployment](c, wire.OperatorName)
	if d == nil || d.Annotations[helmRelease] == "" {
		return nil
	}
	release, namespace := d.Annotations[helmRelease], cmp.Or(d.Annotations[helmNamespace], d.Namespace)
	return new(flows.Refuse(flows.A, flows.CodeOwnership, "Helm manages the installation", flows.FailedConflict,
		fmt.Sprintf("Helm release %s in namespace %s manages the installation, and its next upgrade would undo the changes of other programs", release, namespace),
		command.Hintf("change the installation with %s, or remove it with %s",
			command.Helm(c.Flags(), "upgrade", release, "-n", namespace, "--reuse-values"), command.Helm(c.Flags(), "uninstall", release, "-n", namespace))))
}

// Annotations that Helm writes on the objects of a release.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// Bring returns the steps that install our operator before a connection is made, the cluster as it
// will be after these steps, and whether the plan needs the answer to [flows.AskInstallation]. If
// Liqo or a working operator of ours is installed, the steps are done.
func (i *Installation) Bring(side flows.Side, c flows.ClusterFacts) (steps []flows.Step, expected flows.ClusterFacts, asks bool) {
	if c.Problem != nil || c.Software == flows.Liqo {
		return nil, c, false
	}
	expected, wanted := c, i.params
	broken := c.Software == flows.Operator && c.Operator.Problem != ""
	if broken && c.Installation.Value() != nil { // another image may repair the operator
		if mended, err := New(complete(c, i.params)); err == nil {
			i = mended
		}
	}
	steps = i.steps(side, c)
	if c.Software == flows.Operator && (!broken || c.Installation.Value() == nil && c.Installation.Unknown() == "") {
		// The operator's Deployment exists, so the installation is complete: see [parts]. An operator
		// that works is upgraded by the command install, not by a plan for a connection. If the
		// operator is broken, the steps count as done until the installation is read.
		for k := range steps {
			steps[k].Status, steps[k].Reason, steps[k].Objects, steps[k].Diff = flows.Done, "", nil, ""
		}
	}
	steps = append(i.tryImage(side, c, steps), steps...)
	if steps = append(steps, i.operatorWorks(side, c)); slices.ContainsFunc(steps, func(s flows.Step) bool { return s.Status != flows.Done }) {
		expected = promised(c, wanted)
	}
	return steps, expected, !c.Can().Connect || broken
}

// installNamespace returns a failed step if the namespace refuses our programs' pods (Pod Security
// Standards); nil if the namespace can be used, or does not exist yet.
func installNamespace(side flows.Side, c flows.ClusterFacts, name string) *flows.Step {
	ns := c.FindNamespace(name)
	if ns == nil || render.CreatedByUs(ns) || render.RefusesPods(ns) == "" {
		return nil
	}
	return new(flows.Refuse(side, flows.CodeNamespace, "the operator can be installed", flows.FailedPreflight, render.RefusesPods(ns),
		command.Hintf("choose another namespace with --liqo-namespace, or allow the pods: %s", c.Privilege(name))))
}

// promised returns the facts of the cluster as they will be after the installation.
func promised(c flows.ClusterFacts, p render.InstallParams) flows.ClusterFacts {
	c.ID, c.Software, c.Operator = cmp.Or(c.ID, p.ClusterID), flows.Operator, flows.OperatorFacts{}
	c.HasCRDs, c.MissingKinds = true, nil
	c.Namespace = cmp.Or(p.Namespace, c.Namespace)
	if len(c.Networks.Pod) == 0 {
		c.Networks.Pod = []networkingv1beta1.CIDR{notYet}
	}
	if len(c.Networks.External) == 0 {
		c.Networks.External = []networkingv1beta1.CIDR{networkingv1beta1.CIDR(cmp.Or(p.ExternalCIDR, render.DefaultExternalCIDR))}
	}
	return c
}

// Installation has all objects of one cluster's installation, with the settings in them.
type Installation struct {
	params  render.InstallParams
	objects []wire.Object
	diffs   map[string]string // by object name: the diff for an object that does not exist yet
}

// New renders all objects of an installation. A run makes many plans, and all of them use these
// objects.
func New(p render.InstallParams) (*Installation, error) {
	p.Namespace = cmp.Or(p.Namespace, wire.DefaultNamespace)
	objects, err := render.Install(p)
	if err = errors.Join(setting.Check(Settings(), p), err); err != nil {
		return nil, fmt.Errorf("install on %s: %w", p.ClusterID, err)
	}
	i := &Installation{params: p, objects: objects, diffs: map[string]string{}}
	for _, o := range objects {
		if pod := podTemplate(o); pod != nil {
			render.NoteImages(o, *pod)
		}
		i.diffs[apply.Name(o)] = apply.Diff(nil, o)
		if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok { // one line instead of the whole text, because all CRDs together have 8,000 lines
			i.diffs[apply.Name(o)] = fmt.Sprintf("+ %s  %s\n", d.Spec.Names.Kind, d.Name)
		}
	}
	return i, nil
}

// ClusterID returns the name by which the peers will know the cluster.
func (i *Installation) ClusterID() wire.ClusterID { return i.params.ClusterID }

// PlacesAgents reports whether an admin has chosen the nodes on which agents run.
func (i *Installation) PlacesAgents() bool { return i.params.Pods.PlacesFabric() }

// IDs of the steps of an installation.
const (
	stepDefinitions = "definitions"
	stepHome        = "liqo-namespace"
	stepRights      = "rights"
	stepSettings    = "ranges"
	stepTemplates   = "templates"
	stepNames       = "dns-server"
	stepFabric      = "fabric"
	stepNodes       = "nodes" // of a removal
	stepOperator    = "operator"
	stepObsolete    = "former-rights"
	stepImports     = "imports" // the operator makes them, so no installation applies them
)

// parts lists the parts of an installation, with their titles. A new installation applies them in
// this order. So the operator's Deployment exists only if all other parts exist. An upgrade applies
// the templates after the operator, for the reason in [Installation.replaced].
var parts = []struct{ id, title string }{
	{stepDefinitions, "definitions of Liqo's API"},
	{stepHome, "namespace of the installation"},
	{stepRights, "rights of operator and fabric"},
	{stepSettings, "cluster ID and address ranges"},
	{stepTemplates, "gateway templates"},
	{stepNames, "DNS server for names of imported Services"},
	{stepFabric, "node agent (fabric)"},
	{stepOperator, "liqo-tui operator"},
}

// partOf returns the ID of the part to which an object belongs.
func partOf(o wire.Object) string {
	if o.GetName() == wire.DNSName {
		return stepNames
	}
	switch flows.RefTo(o).Kind {
	case "CustomResourceDefinition":
		return stepDefinitions
	case "Namespace":
		return stepHome
	case "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PriorityClass", "ResourceQuota", "Service":
		return stepRights
	case "DaemonSet":
		return stepFabric
	case "Deployment":
		return stepOperator
	case mcsv1beta1.ServiceImportKindName:
		return stepImports
	case "WgGatewayServerTemplate", "WgGatewayClientTemplate":
		return stepTemplates
	}
	return stepSettings
}

// steps returns the steps that apply the installation. If it can't be applied, steps returns one
// failed step with the reason.
func (i *Installation) steps(side flows.Side, c flows.ClusterFacts) []flows.Step {
	if failed := i.obstacle(side, c); failed != nil {
		return []flows.Step{*failed}
	}
	var steps []flows.Step
	done := map[string]bool{}
	for _, part := range parts {
		if part.id == stepNames && i.params.Names != render.On {
			continue
		}
		var s flows.Step
		switch part.id {
		case stepDefinitions:
			s = i.definitions(side, c)
		case stepHome:
			s = i.home(side, c)
		case stepSettings:
			s = i.settings(side, c)
		default:
			s = i.part(side, c, part.id)
		}
		s.Title = part.title
		switch {
		case s.Status != flows.Ready && s.Status != flows.Done || part.id == stepDefinitions || part.id == stepHome:
		case !done[stepHome]:
			s.Status, s.Reason, s.Objects = flows.Blocked, i.blocked(c, part.id, "needs the namespace"), nil
		case part.id != stepRights && (!done[stepDefinitions] || !i.served(c)):
			s.Status, s.Reason, s.Objects = flows.Blocked, i.blocked(c, part.id, "needs the definitions"), nil
		case part.id == stepTemplates && s.Status == flows.Ready && !i.replaced(side, c):
			s.Status, s.Reason, s.Objects = flows.Blocked, "needs the operator of this version, which replaces the gateways", nil
		case part.id == stepOperator && !done[stepFabric]:
			s.Status, s.Reason, s.Objects = flows.Blocked, i.blocked(c, part.id, "needs the rest to be applied"), nil
		}
		done[part.id] = s.Status == flows.Done
		steps = append(steps, s)
	}
	if s := i.obsoleteRights(side, c); s.Status != flows.Done {
		steps = append(steps, s)
	}
	return steps
}

// obsoleteRights returns the step that removes objects of the part stepRights that we made before and no longer
// need, for example after a change of --peering or --services. Consumers lose the rights of these roles.
func (i *Installation) obsoleteRights(side flows.Side, c flows.ClusterFacts) flows.Step {
	return i.obsolete(side, c, stepObsolete, stepRights, "rights that nothing needs any more")
}

// formerImports returns the step that removes imported Services after Services were switched off. The former
// operator would make them again, so this waits for works, the step in which the next operator starts. The step
// is done if there are none.
func (i *Installation) formerImports(side flows.Side, c flows.ClusterFacts, works flows.Step) flows.Step {
	if i.params.Services == render.On {
		return flows.Step{Status: flows.Done}
	}
	s := i.obsolete(side, c, stepImports, stepImports, titleOf(stepImports)) // the objects of an import are deleted with the import
	if s.Status != flows.Done && works.Status != flows.Done {
		s.Status, s.Reason, s.Objects = flows.Blocked, "needs the operator to work with the new settings", nil
	}
	return s
}

// obsolete returns the step that removes our objects of a part that the installation does not have any more.
func (i *Installation) obsolete(side flows.Side, c flows.ClusterFacts, id, part, title string) flows.Step {
	var all []flows.Step
	if c.Installation.Value() != nil {
		for _, o := range c.Installation.Value().Objects {
			wanted := slices.ContainsFunc(i.objects, func(w wire.Object) bool { return flows.RefTo(w) == flows.RefTo(o) })
			if !wanted && partOf(o) == part && render.MadeByUs(o) {
				all = append(all, flows.Remove(side, id, flows.RefTo(o), o, ""))
			}
		}
	}
	s := together(side, id, all)
	s.Action, s.Title = flows.Delete, title
	return s
}

// seeInstallation is the advice for users who may not read the objects of the installation.
func seeInstallation() command.Hint {
	return command.Text("ask the cluster's administrator for the right to read the objects of the installation")
}

// obstacle returns a failed step with the reason that the installation can't be applied; nil if it
// can be applied.
func (i *Installation) obstacle(side flows.Side, c flows.ClusterFacts) *flows.Step {
	if why := c.Unseen(); why != "" { // two operators would undo each other's changes
		return new(flows.Refuse(side, flows.CodeForbidden, "the operator can be installed", flows.FailedAccess,
			fmt.Sprintf("liqo-tui can't see whether Liqo or the liqo-tui operator is installed on %s: %s", c.Context, why), c.Alone().SeeManagers()))
	}
	if why := c.Installation.Unknown(); why != "" {
		return new(flows.Refuse(side, flows.CodeForbidden, "the operator can be installed", flows.FailedAccess, "liqo-tui can't see what is installed: "+why, seeInstallation()))
	}
	if !c.Can().Connect || c.Installation.Value() != nil {
		for _, s := range []*flows.Step{flows.InstalledElsewhere(side, c), installNamespace(side, c, i.params.Namespace), i.newer(side, c), UnusableDefinition(side, c, i.others(c))} {
			if s != nil {
				return s
			}
		}
	}
	if s := withoutIPv4(side, c); s != nil {
		return s
	}
	if i.params.Image == "" {
		return new(flows.Refuse(side, flows.CodeImage, "image", flows.FailedUsage, noImage, command.Text("push an image to a registry from which the nodes can pull it, and name it: --image REGISTRY/liqo-gateway:TAG")))
	}
	if c.ID != "" && c.ID != i.params.ClusterID {
		return new(flows.Refuse(side, flows.CodeUsage, "cluster ID", flows.FailedUsage,
			fmt.Sprintf("the peers know this cluster as %s, not as %s", c.ID, i.params.ClusterID), command.Text("give the present ID with "+[...]string{"--cluster-id", "--remote-cluster-id"}[side])))
	}
	if err := i.params.ClusterID.Choose(); c.ID == "" && err != nil {
		return new(flows.Refuse(side, flows.CodeUsage, "cluster ID", flows.FailedUsage, err.Error(),
			command.Text("choose another ID: "+[...]string{"--cluster-id", "--remote-cluster-id"}[side])))
	}
	if s := i.foreign(side, c); s != nil {
		return s
	}
	if why := endsAccess(c, i.params.Peering); why != "" {
		return new(flows.Refuse(side, flows.CodeOwnership, "part in lending", flows.FailedConflict, why, command.Hintf("first run %s for each of these clusters, then install again. To list the clusters, you need the right to read Tenants and Identities", c.OursWith("unpeer"))))
	}
	if s := i.toldRange(side, c); s != nil {
		return s
	}
	return i.contradiction(side, c)
}

// withoutIPv4 returns a failed step if the cluster's nodes have only IPv6 addresses.
func withoutIPv4(side flows.Side, c flows.ClusterFacts) *flows.Step {
	var found netip.Addr
	for _, n := range c.Nodes {
		for _, a := range n.Internal {
			if a.Is4() {
				return nil
			}
			found = a
		}
	}
	if !found.IsValid() {
		return nil // no address is known
	}
	return new(flows.Refuse(side, flows.CodeUnfit, "addresses of IPv4", flows.FailedPreflight,
		fmt.Sprintf("no node of %s has an IPv4 address, only IPv6, as %s: liqo-tui connects pods by IPv4", c.Context, found),
		command.Text("give nodes, pods and Services addresses of both families (dual-stack)")))
}

// foreign returns a failed step if another program made an object with the name of one of ours; else
// nil. The installation uses existing CRDs, an existing namespace, and existing objects with the
// cluster's ID and ranges, because Liqo leaves them behind when it is uninstalled.
func (i *Installation) foreign(side flows.Side, c flows.ClusterFacts) *flows.Step {
	for _, o := range i.objects {
		switch o.(type) {
		case *corev1.Namespace, *corev1.ConfigMap, *ipamv1alpha1.Network:
			continue
		}
		if live := object(c, flows.RefTo(o).Kind, o.GetName()); live != nil && render.TakesOver(live, o) {
			err := &flows.ForeignError{Object: flows.RefTo(o)}
			return new(flows.Refuse(side, flows.CodeOwnership, flows.RefTo(o).Title(), flows.FailedConflict, err.Error(), command.Text("delete the object if nobody needs it")))
		}
	}
	return nil
}

// endsAccess returns a text if the change to role would end existing access: the number of clusters,
// or the reason that this number is unknown. It returns "" if no access would end.
func endsAccess(c flows.ClusterFacts, role render.PeeringRole) string {
	d := installed[appsv1.Deployment](c, wire.OperatorName)
	if d == nil {
		return ""
	}
	was := render.OperatorParams(d).Peering
	switch {
	case c.Installation.Value().Tenants > 0 && was.Provides() && !role.Provides():
		return fmt.Sprintf("clusters that would lose their access to this cluster: %d", c.Installation.Value().Tenants)
	case c.Installation.Value().Identities > 0 && was.Consumes() && !role.Consumes():
		return fmt.Sprintf("clusters that this cluster would lose access to: %d", c.Installation.Value().Identities)
	case c.Installation.Value().Unknown != "" && (was.Provides() && !role.Provides() || was.Consumes() && !role.Consumes()):
		return "liqo-tui can't see which clusters would lose access: " + c.Installation.Value().Unknown
	}
	return ""
}

// replaced reports whether the templates can be applied now. This is true if the operator works with
// this version, if an older one does not work, or if none is installed. An operator replaces the
// gateways when their templates change. An older operator would use the new image, which may not run,
// and would not create the other objects that the new gateways need.
func (i *Installation) replaced(side flows.Side, c flows.ClusterFacts) bool {
	switch {
	case installed[appsv1.Deployment](c, wire.OperatorName) == nil:
		return true
	case i.part(side, c, stepOperator).Status != flows.Done:
		return c.Operator.Problem != ""
	}
	return i.operatorWorks(side, c).Status == flows.Done
}

func (i *Installation) part(side flows.Side, c flows.ClusterFacts, id string) flows.Step {
	var all []flows.Step
	for _, o := range i.objects {
		if partOf(o) != id || c.Installation.Value() != nil && slices.Contains(c.Installation.Value().Unserved, flows.RefTo(o).Kind) {
			continue
		}
		live := object(c, flows.RefTo(o).Kind, o.GetName())
		if live != nil {
			s := flows.Ensure(side, id, live, o.DeepCopyObject().(wire.Object))
			if why := admitted(live, o); s.Status == flows.Ready && why != "" {
				s.Status, s.Action, s.Objects, s.Diff = flows.Done, flows.Update, nil, ""
			}
			all = append(all, s)
			continue
		}
		all = append(all, flows.Step{Action: flows.Create, Status: flows.Ready, Want: []wire.Object{o}, Objects: []wire.Object{o}, Diff: i.diffs[apply.Name(o)]})
	}
	s := together(side, id, all)
	if o := s.Want; len(o) == 1 {
		s.Object = flows.RefTo(o[0])
	}
	switch {
	case id != stepOperator && id != stepFabric:
	case s.Status == flows.Ready:
		s.Reason = images(installedContainers(c, id), i.params.Image)
	case s.Status == flows.Done:
		for _, o := range s.Want {
			if live := object(c, flows.RefTo(o).Kind, o.GetName()); live != nil {
				s.Reason = cmp.Or(s.Reason, admitted(live, o))
			}
		}
	}
	return s
}

// admitted compares live, our object in the cluster, with want. If they differ only because admission
// has changed the containers, admitted describes these changes, and the object counts as applied:
// another apply would be changed in the same way. admitted returns "" if admission has changed
// nothing, or if there are other differences.
func admitted(live, want wire.Object) string {
	var copied wire.Object
	switch want.(type) {
	case *appsv1.Deployment:
		copied = typed[appsv1.Deployment](live.DeepCopyObject().(wire.Object))
	case *appsv1.DaemonSet:
		copied = typed[appsv1.DaemonSet](live.DeepCopyObject().(wire.Object))
	default:
		return ""
	}
	has, wanted := podTemplate(copied), podTemplate(want)
	if has == nil || want.GetAnnotations()[wire.AnnotationImages] != copied.GetAnnotations()[wire.AnnotationImages] || othersSetImages(copied) {
		return ""
	}
	why := render.Rewritten(copied, *has)
	var containers []corev1.Container
	for _, w := range wanted.Spec.Containers {
		for _, c := range has.Spec.Containers {
			if c.Name == w.Name {
				c.Image = w.Image
				containers = append(containers, c)
			}
		}
	}
	if more := len(has.Spec.Containers) - len(containers); more > 0 && why == "" {
		why = fmt.Sprintf("a webhook or an admission policy of the cluster has added containers: %d", more)
	}
	if has.Spec.Containers = containers; !apply.Contains(wire.FieldManager, copied, want) {
		return ""
	}
	return why
}

// othersSetImages reports whether another program has written an image in a request of its own.
// Changes of our request by admission don't count: the API server records them under our name.
func othersSetImages(o wire.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager != wire.FieldManager && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:image"`))
	})
}

// podTemplate returns the pod template of a Deployment or DaemonSet; nil for other objects.
func podTemplate(o wire.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		if o != nil {
			return &o.Spec.Template
		}
	case *appsv1.DaemonSet:
		if o != nil {
			return &o.Spec.Template
		}
	}
	return nil
}

// together returns one step that does the work of several steps.
func together(side flows.Side, id string, all []flows.Step) flows.Step {
	s := flows.Step{ID: flows.IDOf(side, id), Side: side, Action: flows.Update, Status: flows.Done}
	for _, p := range all {
		s.Want, s.Gone = append(s.Want, p.Want...), append(s.Gone, p.Gone...)
		switch {
		case p.Status == flows.Done || s.Status == flows.Waiting:
			continue
		case p.Status == flows.Waiting:
			s.Status, s.Reason, s.Code, s.Objects, s.Diff = flows.Waiting, p.Reason, p.Code, nil, ""
			continue
		case s.Status == flows.Done || p.Action == flows.Create:
			s.Action = p.Action
		}
		s.Status, s.Diff = flows.Ready, s.Diff+p.Diff
		s.Objects = append(s.Objects, p.Objects...)
	}
	if n := len(s.Objects); n > 1 {
		s.Reason = fmt.Sprintf("%d objects", n)
	}
	return s
}

// definitions returns the step for the CRDs. The step does not change a CRD that another program
// made, if our programs can use the CRD.
func (i *Installation) definitions(side flows.Side, c flows.ClusterFacts) flows.Step {
	s := i.part(side, c, stepDefinitions)
	s.Force = i.unfit(c)
	others := i.others(c)
	if len(others) == 0 {
		return s
	}
	s.Objects = slices.DeleteFunc(slices.Clone(s.Objects), func(o wire.Object) bool {
		return slices.ContainsFunc(others, func(d flows.DefinitionFacts) bool { return d.Name == o.GetName() })
	})
	s.Reason = keptDefinitions(others)
	if len(s.Objects) == 0 && s.Status == flows.Ready {
		s.Status, s.Diff = flows.Done, ""
	}
	return s
}

// home returns the step that creates the namespace of the installation. The step changes nothing in
// a namespace that liqo-tui did not create.
func (i *Installation) home(side flows.Side, c flows.ClusterFacts) flows.Step {
	s := i.part(side, c, stepHome)
	ns := c.FindNamespace(i.params.Namespace)
	switch {
	case ns == nil:
	case ns.DeletionTimestamp != nil || render.CreatedByUs(ns):
		s = flows.Ensure(side, stepHome, ns, s.Want[0].DeepCopyObject().(wire.Object))
	default:
		s.Status, s.Action, s.Objects, s.Diff, s.Reason = flows.Done, flows.Update, nil, "", "used as it is: liqo-tui did not create it"
		if ns.Labels[wire.LabelManagedBy] != wire.ManagedBy {
			s.Want = nil // so the namespace is not in printed manifests
		}
	}
	return s
}

// served reports whether the API server serves the kinds of all our CRDs.
func (i *Installation) served(c flows.ClusterFacts) bool {
	if c.Installation.Value() == nil {
		return c.HasCRDs
	}
	return c.HasCRDs && !slices.ContainsFunc(i.objects, func(o wire.Object) bool {
		if partOf(o) != stepDefinitions {
			return false
		}
		crd := installed[apiextensionsv1.CustomResourceDefinition](c, o.GetName())
		return crd == nil || !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	})
}

// operatorWorks returns the step that waits until the operator works with the settings of this
// installation.
func (i *Installation) operatorWorks(side flows.Side, c flows.ClusterFacts) flows.Step {
	s := flows.Step{ID: flows.IDOf(side, "operator-works"), Side: side, Action: flows.Wait, Title: "operator works", Status: flows.Waiting, Code: flows.CodeNotReady}
	problem := flows.FirstObstacle(side, c)
	switch {
	case c.Software != flows.Operator:
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the operator", ""
	case c.Operator.Refuses:
		s = *problem
	case c.Operator.Problem != "":
		s.Reason = c.Operator.Problem
		if fix := c.OperatorFix(command.Hint{}); !fix.IsZero() {
			s.Fix = []command.Hint{fix}
		}
	case i.rollout(c) != "":
		s.Reason = i.rollout(c)
	case problem != nil:
		s.Reason = problem.Reason
	default:
		s.Status, s.Code = flows.Done, ""
	}
	return s
}

// rollout returns the reason that the operator does not work with the new settings yet; "" if it
// does.
func (i *Installation) rollout(c flows.ClusterFacts) string {
	if c.Installation.Value() == nil {
		return ""
	}
	d := installed[appsv1.Deployment](c, wire.OperatorName)
	switch {
	case d == nil:
		return "the operator's Deployment does not exist"
	case starting(d):
		return waiting(c.Installation.Value(), "the operator starts", wire.OperatorName)
	}
	missing, made := map[string]bool{wire.NetworkPodCIDR: true, wire.NetworkServiceCIDR: true}, map[string]bool{}
	for _, n := range ranges(c) {
		switch {
		case n.Status.CIDR == "":
			return "the operator has not decided on the range of Network " + n.Name
		case i.replaces(n):
			return "the operator has not replaced Network " + n.Name
		}
		kind := n.Labels[wire.LabelNetworkType]
		delete(missing, kind)
		made[kind+" "+string(n.Spec.CIDR)] = true
	}
	if len(missing) > 0 {
		return "the operator has not found the cluster's address ranges yet"
	}
	for _, kind := range []string{wire.NetworkPodCIDR, wire.NetworkServiceCIDR} {
		for _, cidr := range i.stated(kind) {
			if !made[kind+" "+cidr] {
				return "the operator has not made a Network with range " + cidr
			}
		}
	}
	return ""
}

// starting reports whether a Deployment has no available pod yet, or pods of its former settings.
func starting(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration < d.Generation || s.UpdatedReplicas < 1 || s.AvailableReplicas < 1 || s.Replicas > s.UpdatedReplicas
}

// fabricRuns returns the step that waits until a node agent is ready on each node that can run one.
// The step names the other nodes.
func (i *Installation) fabricRuns(side flows.Side, c flows.ClusterFacts) flows.Step {
	s := flows.Step{ID: flows.IDOf(side, "fabric-runs"), Side: side, Action: flows.Wait, Title: "node agent runs on all nodes", Status: flows.Waiting, Code: flows.CodeNotReady}
	f := installed[appsv1.DaemonSet](c, wire.FabricName)
	able := int32(0) // DesiredNumberScheduled without the nodes that are not ready or have an old kernel
	if f != nil {
		able = f.Status.DesiredNumberScheduled
		for _, n := range c.Nodes {
			if n.Excluded == "" && n.Unable() != "" {
				able--
			}
		}
	}
	switch {
	case f == nil:
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the fabric", ""
	case f.Status.ObservedGeneration < f.Generation || f.Status.DesiredNumberScheduled == 0 || f.Status.NumberReady == 0 || f.Status.UpdatedNumberScheduled < able || f.Status.NumberReady < able:
		s.Reason = waiting(c.Installation.Value(), fmt.Sprintf("the node agent runs on %d of %d nodes", f.Status.NumberReady, able), wire.FabricName)
		if others := c.NoAgentOn(); others != "" {
			s.Reason += "; " + others
		}
	default:
		s.Status, s.Code, s.Reason = flows.Done, "", c.NoAgentOn()
	}
	return s
}
