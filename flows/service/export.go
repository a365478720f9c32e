package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// ExportParams are the admin's choices for an export of cluster A.
type ExportParams struct {
	Name types.NamespacedName
	// To are the peers that get the Service; nil keeps the peers of the ServiceExport. With All, all peers get
	// it.
	To  []wire.ClusterID
	All bool
	// Prefer is the value of the annotation wire.AnnotationPrefer; nil keeps it, and "" removes it.
	Prefer *string
	// LocalOnly is set if cluster B is not named. Otherwise the plan also waits for the import in B.
	LocalOnly bool
}

func sides(localOnly bool) []flows.Side {
	if localOnly {
		return []flows.Side{flows.A}
	}
	return []flows.Side{flows.A, flows.B}
}

// IDs of the steps of the plans.
const (
	stepExport     = "service-export"
	stepExported   = "exported"
	stepImported   = "imported"
	stepUnexported = "unexported"
)

// newPlan returns a plan with its questions. If ok is false, the plan is finished: it has failed steps, or it
// has no steps until the questions are answered.
func newPlan(name types.NamespacedName, localOnly bool, f flows.Facts) (plan flows.Plan, ok bool) {
	plan = flows.Plan{A: f.Sides[flows.A].Name()}
	if !localOnly {
		plan.B = f.Sides[flows.B].Name()
	}
	if plan.Steps = flows.NoAnswer(f, sides(localOnly)...); len(plan.Steps) > 0 {
		return plan, false
	}
	a := f.Sides[flows.A]
	if s := flows.FirstObstacle(flows.A, a); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan, false
	}
	if !localOnly {
		if s := flows.OneCluster(f); s != nil {
			plan.Steps = []flows.Step{*s}
			return plan, false
		}
	}
	if why, fix := Off(a); why != "" {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeServicesOff, "Services by name", flows.FailedPreflight, why, fix...)}
		return plan, false
	}
	plan.Asks = Asks(name, sides(localOnly)...)
	if !a.Services.Asked() {
		return plan, false
	}
	if found := found(a); !found.Exports.Read {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodePermission, "ServiceExports", flows.FailedAccess,
			fmt.Sprintf("the ServiceExports of %s were not read: %s", a.Name(), found.Exports.Unread), a.Alone().AskForRights("--services"))}
	}
	return plan, len(plan.Steps) == 0
}

// Off returns the reason that a cluster exchanges no Services, with advice; "" if it exchanges Services, or if
// this was not read.
func Off(c flows.ClusterFacts) (why string, fix []command.Hint) {
	found := found(c)
	switch {
	case !c.Can().ImportServices:
		return fmt.Sprintf("Liqo connects %s, and its gateways exchange no Services", c.Name()), nil
	case !c.Can().ExchangeServices:
		why = "its operator exchanges no Services"
	case found.Exports.Undefined || found.Imports.Undefined:
		why = "its API server does not serve ServiceExport and ServiceImport"
	default:
		return "", nil
	}
	return fmt.Sprintf("%s has no Services by name: %s", c.Name(), why), []command.Hint{command.Hintf("switch them on: %s", c.Ours("install", "--services"))}
}

// Export exports a Service of cluster A. It waits until the operator has judged the export, and until B
// imports it, if B allows that.
func Export(p ExportParams, f flows.Facts) flows.Plan {
	plan, ok := newPlan(p.Name, p.LocalOnly, f)
	if !ok {
		return plan
	}
	live, want := exportOf(f, p.Name), p.export(f)
	if s := p.refused(f, want); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	made := flows.Ensure(flows.A, stepExport, live, want)
	for _, key := range []string{wire.AnnotationExportTo, wire.AnnotationPrefer} {
		if live != nil && made.Status == flows.Done && live.Annotations[key] != want.Annotations[key] {
			made.Fail(flows.FailedConflict, flows.CodeOwnership, fmt.Sprintf("the annotation %s stays: %s has written it", key, flows.Joined(flows.Managers(live))),
				command.Hintf("remove it: %s", f.Sides[flows.A].KubectlIn(p.Name.Namespace, "annotate", "serviceexport", p.Name.Name, key+"-")))
		}
	}
	if live != nil && live.Labels[wire.LabelManagedBy] != wire.ManagedBy {
		plan.Kept = append(plan.Kept, "the ServiceExport exists, and liqo-tui did not make it: what the plan does not change stays as it is")
	}
	if reaches := p.noPeers(f, want); reaches != "" {
		plan.Kept = append(plan.Kept, reaches)
	}
	plan.Steps = []flows.Step{made, p.exported(made, live, f)}
	if !p.LocalOnly {
		plan.Steps = append(plan.Steps, p.imported(plan.Steps[1], live, f))
	}
	return plan
}

// exportOf returns the ServiceExport of cluster A; nil if there is none.
func exportOf(f flows.Facts, name types.NamespacedName) *mcsv1beta1.ServiceExport {
	all := found(f.Sides[flows.A]).Exports.Items
	i := slices.IndexFunc(all, func(e mcsv1beta1.ServiceExport) bool { return e.Namespace == name.Namespace && e.Name == name.Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func serviceOf(f flows.Facts, name types.NamespacedName) *corev1.Service {
	all := found(f.Sides[flows.A]).Services.Items
	i := slices.IndexFunc(all, func(s corev1.Service) bool { return s.Namespace == name.Namespace && s.Name == name.Name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func export(name types.NamespacedName) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceExportKindName},
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}},
	}
}

// export returns the wanted ServiceExport.
func (p ExportParams) export(f flows.Facts) *mcsv1beta1.ServiceExport {
	want := export(p.Name)
	set := func(key, value string) { metav1.SetMetaDataAnnotation(&want.ObjectMeta, key, value) }
	if live := exportOf(f, p.Name); live != nil {
		for _, key := range []string{wire.AnnotationExportTo, wire.AnnotationPrefer} {
			if value, ok := live.Annotations[key]; ok {
				set(key, value)
			}
		}
	}
	switch {
	case p.All:
		delete(want.Annotations, wire.AnnotationExportTo)
	case len(p.To) > 0:
		set(wire.AnnotationExportTo, flows.Joined(p.To))
	}
	switch {
	case p.Prefer == nil:
	case *p.Prefer == "":
		delete(want.Annotations, wire.AnnotationPrefer)
	default:
		set(wire.AnnotationPrefer, *p.Prefer)
	}
	return want
}

// refused returns a failed step with the reason that the Service can't be exported; nil if it can.
func (p ExportParams) refused(f flows.Facts, want *mcsv1beta1.ServiceExport) *flows.Step {
	a := f.Sides[flows.A]
	refuse := func(kind flows.FailureKind, reason string, fix ...command.Hint) *flows.Step {
		return new(flows.Refuse(flows.A, flows.CodeExport, "Service "+p.Name.String(), kind, reason, fix...))
	}
	if peers := a.KnownPeers(); !a.PeersHidden {
		for _, id := range p.To {
			if !slices.Contains(peers, id) {
				return refuse(flows.FailedUsage, fmt.Sprintf("%s has no peer %s", a.Name(), id), command.Hintf("its peers: %s", a.Ours("info")))
			}
		}
	}
	found := found(a)
	if !found.Services.Read {
		return refuse(flows.FailedAccess, "the Service was not read: "+found.Services.Unread, a.Alone().AskForRights("--services"))
	}
	if why := unfit(a, serviceOf(f, p.Name), want, f.At); why != "" {
		return refuse(flows.FailedPreflight, why)
	}
	return nil
}

// unfit returns the reason that a Service can't be exported; "" if it can.
func unfit(c flows.ClusterFacts, s *corev1.Service, export *mcsv1beta1.ServiceExport, now time.Time) string {
	// The pod ranges matter only for endpoints. The API server will set the creation time.
	asMade := export.DeepCopy()
	asMade.CreationTimestamp = metav1.NewTime(now)
	judged := services.Exported(s, asMade, nil, c.ID, []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}, own(c))
	for _, kind := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady} {
		if c := meta.FindStatusCondition(judged.Conditions, string(kind)); c != nil && c.Status == metav1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// noPeers returns a text if no peer gets the Service; "" if a peer gets it, or if this is unknown.
func (p ExportParams) noPeers(f flows.Facts, want *mcsv1beta1.ServiceExport) string {
	a := f.Sides[flows.A]
	if a.PeersHidden || slices.ContainsFunc(a.KnownPeers(), func(id wire.ClusterID) bool { return services.SentTo(want, id) }) {
		return ""
	}
	return fmt.Sprintf("no peer of %s gets it now", a.Name())
}

// exported returns the step that waits until the operator has accepted the export, and has made its slices.
func (p ExportParams) exported(made flows.Step, live *mcsv1beta1.ServiceExport, f flows.Facts) flows.Step {
	a := f.Sides[flows.A]
	s := flows.Step{ID: flows.IDOf(flows.A, stepExported), Side: flows.A, Action: flows.Wait, Title: "operator exports it", Status: flows.Waiting, Code: flows.CodeExport}
	if made.Status != flows.Done || live == nil {
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the ServiceExport", ""
		return s
	}
	text, advice := services.ExportState(live)
	own := found(a).Of(a.ID, p.Name)
	switch {
	case final(live):
		s.Fail(flows.FailedPreflight, flows.CodeExport, text, command.Text(advice))
	case advice != "":
		s.Reason, s.Fix = text, []command.Hint{seeOperator(a)}
	case len(own) == 0 || own[0].Annotations[wire.AnnotationExportTo] != live.Annotations[wire.AnnotationExportTo]:
		s.Reason, s.Fix = "the operator has not taken the last change over", []command.Hint{seeOperator(a)}
	default:
		c := services.CountOf(own)
		s.Status, s.Code, s.Reason = flows.Done, "", fmt.Sprintf("%d of %d endpoints are ready", c.Ready, c.All)
	}
	return s
}

// final reports whether the operator has refused the export for good.
func final(e *mcsv1beta1.ServiceExport) bool {
	return slices.ContainsFunc(e.Status.Conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionFalse && (c.Type == string(mcsv1beta1.ServiceExportConditionValid) ||
			c.Type == string(mcsv1beta1.ServiceExportConditionReady) && c.Reason != string(mcsv1beta1.ServiceExportReasonPending))
	})
}

func seeOperator(c flows.ClusterFacts) command.Hint {
	return command.Hintf("see whether the operator runs and serves Services by name: %s; to switch that on: %s", c.Ours("info"), c.Ours("install", "--services"))
}

// imported returns the step that waits until B imports the Service. If B will not import it, the step is done.
func (p ExportParams) imported(exported flows.Step, live *mcsv1beta1.ServiceExport, f flows.Facts) flows.Step {
	s := flows.Step{ID: flows.IDOf(flows.B, stepImported), Side: flows.B, Action: flows.Wait, Title: "import from " + string(f.Sides[flows.A].ID), Status: flows.Waiting, Code: flows.CodeExport}
	if exported.Status != flows.Done {
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the export", ""
		return s
	}
	if why, _ := notImported(live, p.Name, f); why != "" {
		s.Status, s.Reason, s.Code = flows.Done, "not imported: "+why, ""
		return s
	}
	e := services.Explain(ViewOf(f, flows.B), p.Name)
	if imports(f, p.Name) && (e.IP != "" || e.Headless) {
		s.Status, s.Reason, s.Code = flows.Done, strings.Join(e.Calls(), "; "), ""
		return s
	}
	s.Reason = "the operator has not imported it yet"
	if b := e.Broken(); b != nil {
		s.Reason = b.What + ": " + b.Found
		s.Fix = []command.Hint{b.Fix}
	}
	return s
}

// imports reports whether B's ServiceImport includes A's export.
func imports(f flows.Facts, name types.NamespacedName) bool {
	return slices.ContainsFunc(found(f.Sides[flows.B]).Imports.Items, func(i mcsv1beta1.ServiceImport) bool {
		return i.Namespace == name.Namespace && i.Name == name.Name &&
			slices.ContainsFunc(i.Status.Clusters, func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == string(f.Sides[flows.A].ID) })
	})
}

// notImported returns the reason that B does not import A's export; "" if B imports it, or should do so soon.
func notImported(live *mcsv1beta1.ServiceExport, name types.NamespacedName, f flows.Facts) (why string, fix command.Hint) {
	a, b := f.Sides[flows.A], f.Sides[flows.B]
	end := b.End(a.ID)
	policy := services.Policy{Own: own(b), Allowed: map[wire.ClusterID]services.Namespaces{a.ID: end.ImportsFrom()}}
	there := found(b)
	exists, known := b.HasNamespace(name.Namespace)
	if why, fix := Off(b); why != "" {
		return why, command.Join(fix, "; ")
	}
	switch {
	case !there.Imports.Read:
		return fmt.Sprintf("%s was not read: %s", b.Name(), there.Imports.Unread), command.Hint{}
	case end.Configuration == nil:
		return fmt.Sprintf("%s is not connected with %s", b.Name(), a.Name()), command.Hintf("connect them: %s", f.Ours("network", "connect"))
	case !services.SentTo(live, b.ID):
		return "it is exported to others only", command.Hintf("give it to %s, too: %s", b.ID, f.Ours("service", "export", name.Name).Flag("--namespace", name.Namespace).Flag("--to", services.WithPeer(live, b.ID)))
	case known && !exists:
		return fmt.Sprintf("%s has no namespace %s", b.Name(), name.Namespace), command.Hintf("create it: %s", b.Kubectl("create", "namespace", name.Namespace))
	case !policy.Imports(name.Namespace, a.ID):
		more := services.Namespaces{Names: append(slices.Clone(end.ImportsFrom().Names), name.Namespace)}
		return fmt.Sprintf("%s does not allow %s to serve the namespace %s", b.Name(), a.ID, name.Namespace),
			command.Hintf("allow it: %s", b.Ours("service", "allow", "--from", string(a.ID)).Flag("--namespace", more.String()))
	}
	return "", command.Hint{}
}

// Exported describes the result of [Export].
func Exported(p ExportParams, f flows.Facts) (text string, next []command.Hint) {
	a := f.Sides[flows.A]
	live := exportOf(f, p.Name)
	if live == nil {
		return fmt.Sprintf("%s is exported.", p.Name), nil
	}
	c := services.CountOf(found(a).Of(a.ID, p.Name))
	lines := []string{fmt.Sprintf("%s exports %s: %d of %d endpoints are ready.", a.Name(), p.Name, c.Ready, c.All)}
	if to, limited := live.Annotations[wire.AnnotationExportTo]; limited {
		lines = append(lines, fmt.Sprintf("It goes to %s.", services.Printable(to)))
	} else if peers := a.KnownPeers(); len(peers) > 0 {
		lines = append(lines, fmt.Sprintf("It goes to all peers (%s).", flows.Some(peers)))
	}
	if conflict := meta.FindStatusCondition(live.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); conflict != nil && conflict.Status == metav1.ConditionTrue {
		lines = append(lines, fmt.Sprintf("The exporters disagree (%s): %s.", services.Printable(conflict.Reason), conflict.Message))
	}
	if p.LocalOnly {
		return strings.Join(lines, "\n"), nil
	}
	if why, fix := notImported(live, p.Name, f); why != "" {
		if !fix.IsZero() {
			next = append(next, fix)
		}
		return strings.Join(append(lines, "It is not imported there: "+why+"."), "\n"), next
	}
	e := services.Explain(ViewOf(f, flows.B), p.Name)
	for _, call := range e.Calls() {
		lines = append(lines, fmt.Sprintf("In %s: %s.", f.Sides[flows.B].Name(), call))
	}
	return strings.Join(lines, "\n"), next
}

// Unexport returns the plan that ends an export of cluster A. The Service stays.
func Unexport(name types.NamespacedName, f flows.Facts) flows.Plan {
	plan, ok := newPlan(name, true, f)
	if !ok {
		return plan
	}
	live := exportOf(f, name)
	ref := flows.ObjectRef{Kind: mcsv1beta1.ServiceExportKindName, Namespace: name.Namespace, Name: name.Name}
	interrupts := fmt.Sprintf("pods in other clusters no longer reach the endpoints of %s under the name %s", f.Sides[flows.A].Name(), name)
	var object wire.Object
	if live != nil {
		object = live
		if live.Labels[wire.LabelManagedBy] != wire.ManagedBy {
			plan.Kept = append(plan.Kept, "liqo-tui did not make this ServiceExport: if another program keeps it, it comes back")
		}
	}
	gone := flows.Remove(flows.A, stepExport, ref, object, interrupts)
	wait := flows.Step{ID: flows.IDOf(flows.A, stepUnexported), Side: flows.A, Action: flows.Wait, Title: "end of the export", Status: flows.Waiting, Code: flows.CodeExport}
	a := f.Sides[flows.A]
	switch {
	case gone.Status != flows.Done:
		wait.Status, wait.Reason, wait.Code = flows.Blocked, "needs the deletion", ""
	case len(found(a).Of(a.ID, name)) > 0:
		wait.Reason, wait.Fix = "its EndpointSlices are still there", []command.Hint{seeOperator(a)}
	default:
		wait.Status, wait.Code = flows.Done, ""
	}
	plan.Steps = []flows.Step{gone, wait}
	return plan
}
