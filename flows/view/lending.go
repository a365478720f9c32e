package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Lending is one cluster's view of lending with a peer, in one direction. Its fields are texts and
// numbers, so that all commands and screens show the same.
type Lending struct {
	// Role is the role of the cluster.
	Role LendingRole `json:"role"`
	// Authentication is the state of the consumer's access.
	Authentication string `json:"authentication"`
	// Slices has the states of the ResourceSlices: granted, denied, pending.
	Slices []Standing `json:"slices"`
	// Nodes has a consumer's virtual nodes, with the reason if a node is not Ready.
	Nodes []Standing `json:"nodes,omitempty"`
	// Namespaces has the namespaces that a consumer has requested from the provider.
	Namespaces []Standing `json:"namespaces,omitempty"`
	// Pods counts the pods that use these resources, by phase.
	Pods map[corev1.PodPhase]int `json:"pods"`
	// Waiting has the consumer's pods that do not run on its virtual nodes, by reason. It includes pods
	// without a node that select a virtual node.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Quota is the sum of all grants. Used is the sum of the requests of pods that have not ended.
	Quota corev1.ResourceList `json:"quota,omitempty"`
	Used  corev1.ResourceList `json:"used,omitempty"`

	access Standing
	// hidden has the kinds of which the user may not read all objects.
	hidden map[string]bool
}

// Hides reports whether the user may not read all objects of a kind. Then a missing object proves nothing.
func (l Lending) Hides(kind string) bool { return l.hidden[kind] }

// LendingRole is the role of a cluster in lending.
type LendingRole string

// The two roles.
const (
	Consumer LendingRole = "consumer"
	Provider LendingRole = "provider"
)

// Grade says whether a part of lending is in order.
type Grade int8

// The grades, from good to bad. The zero value means that the object was not read.
const (
	Good   Grade = iota - 1
	Unseen       // the user may not read it
	Open         // another program or admin has something left to do
	Wrong        // it will not improve by itself
)

// Standing is the state of one object of lending.
type Standing struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Why is the reason that the deciding program gives; "" if there is none.
	Why   string `json:"why,omitempty"`
	Grade Grade  `json:"-"`
}

// Text returns the state and its reason.
func (s Standing) Text() string { return strings.TrimSuffix(s.State+": "+s.Why, ": ") }

// worse makes the grade g or worse. why may be "".
func (s *Standing) worse(g Grade, why string) {
	s.Grade, s.Why = max(s.Grade, g), cmp.Or(s.Why, why)
}

// Waiting are pods that do not run for the same reason.
type Waiting struct {
	Reason string `json:"reason"`
	// Message and Pod are those of one of these pods. Pod is namespace/name.
	Message string `json:"message"`
	Pod     string `json:"pod"`
	Count   int    `json:"count"`
	Grade   Grade  `json:"-"`
}

// Text returns the number of pods, the reason, and one example.
func (w Waiting) Text() string {
	return strings.TrimSuffix(fmt.Sprintf("%d %s, such as %s: %s", w.Count, w.Reason, w.Pod, w.Message), ": ")
}

// Lendings returns the cluster's views of lending with a peer: as consumer, as provider, both or none.
func Lendings(c flows.ClusterFacts, peer wire.ClusterID) []Lending {
	if c.Lending == nil {
		return nil
	}
	l := lent{c.Lending, peer}
	return slices.Concat(l.consumer(), l.provider())
}

type lent struct {
	*lending.Facts

	peer wire.ClusterID
}

func (l lent) ofPeer(o metav1.Object) bool {
	return o.GetLabels()[wire.LabelRemoteCluster] == string(l.peer)
}

// consumer returns the view of a cluster that uses the peer's resources.
func (l lent) consumer() []Lending {
	out := Lending{Role: Consumer, Pods: map[corev1.PodPhase]int{}, hidden: l.Hidden}
	there := false
	for i := range l.Identities {
		if o := &l.Identities[i]; string(o.Spec.ClusterID) == string(l.peer) && o.Spec.Type == authv1beta1.ControlPlaneIdentityType {
			there, out.access = true, l.identity(o)
		}
	}
	there = l.addSlices(&out, func(s *authv1beta1.ResourceSlice) bool { return l.asked(s) }) || there
	nodes := map[string]bool{}
	for i := range l.Members {
		if n := &l.Members[i]; l.ofPeer(n) {
			there, nodes[n.Name] = true, true
			out.Nodes = append(out.Nodes, nodeStanding(n))
		}
	}
	for i := range l.Nodes {
		if v := &l.Nodes[i]; string(v.Spec.ClusterID) == string(l.peer) && !nodes[v.Name] && (v.Spec.CreateNode == nil || *v.Spec.CreateNode) {
			there = true
			s := Standing{Name: v.Name, State: "not there yet", Grade: Open, Why: l.Waiting[v.Namespace+"/"+v.Name]}
			switch why := v.Annotations[wire.AnnotationProblem]; {
			case why != "":
				s.Grade, s.Why = Wrong, why
			case l.Hidden["Node"]:
				s.State, s.Grade = "Nodes may not be read", Unseen
			}
			out.Nodes = append(out.Nodes, s)
		}
	}
	if !there {
		return nil
	}
	l.addNamespaces(&out)
	l.addPods(&out, func(p *corev1.Pod) bool { return nodes[p.Spec.NodeName] })
	for i := range l.Pods {
		if p := &l.Pods[i]; p.Spec.NodeName == "" && len(nodes) > 0 && (p.Spec.NodeSelector[peering.LabelNodeType] == peering.NodeType || nodes[p.Spec.NodeSelector[corev1.LabelHostname]]) {
			out.wait(p)
		}
	}
	return out.whole()
}

// whole adds the state of the access to l.
func (l Lending) whole() []Lending {
	switch {
	case l.access.State != "":
	case l.hidden["Identity"] && l.Role == Consumer || l.hidden["Tenant"] && l.Role == Provider:
		l.access = Standing{State: "it may not be read", Grade: Unseen}
	default:
		l.access = Standing{State: "none", Grade: Wrong}
	}
	l.Authentication = l.access.Text()
	return []Lending{l}
}

// asked reports whether an object is a request that the cluster itself made to the peer.
func (l lent) asked(o metav1.Object) bool {
	return o.GetLabels()[peering.LabelDestination] == string(l.peer) && o.GetLabels()[peering.LabelReplicated] == ""
}

// identity returns the state of the access that an Identity gives.
func (l lent) identity(i *authv1beta1.Identity) Standing {
	if i.Status.KubeconfigSecretRef == nil {
		return ofProblem(i, Standing{State: "waiting for the kubeconfig", Grade: Open})
	}
	way := i.Spec.AuthParams.APIServer
	if proxy := i.Spec.AuthParams.ProxyURL; proxy != nil && *proxy != "" {
		way += " through " + *proxy
	}
	for n := range l.Clusters {
		c := &l.Clusters[n]
		if string(c.Spec.ClusterID) != string(l.peer) {
			continue
		}
		switch state, message := lending.Reached(c); {
		case state == corev1beta1.ConditionStatusEstablished:
			return ofProblem(i, Standing{State: "accepted, reaches " + way, Grade: Good})
		case state != "":
			return Standing{State: "accepted, does not reach " + way, Why: message, Grade: Wrong}
		}
	}
	s := Standing{State: "accepted, at " + way, Grade: Good}
	if l.Hidden["ForeignCluster"] {
		s.Why, s.Grade = "ForeignClusters may not be read, which say whether it is reached", Unseen
	}
	return ofProblem(i, s)
}

// ofProblem returns s. If our operator reports a problem with the object, the grade is worse.
func ofProblem(o metav1.Object, s Standing) Standing {
	if why := lending.Refused(o); why != "" {
		s.Grade, s.Why = Wrong, why
	}
	return s
}

// provider returns the view of a cluster that lends to the peer.
func (l lent) provider() []Lending {
	out := Lending{Role: Provider, Pods: map[corev1.PodPhase]int{}, hidden: l.Hidden}
	there := false
	for i := range l.Tenants {
		t := &l.Tenants[i]
		if string(t.Spec.ClusterID) != string(l.peer) {
			continue
		}
		there, out.access = true, Standing{State: "accepted", Grade: Good}
		switch state := t.Spec.TenantCondition; {
		case t.Status.AuthParams == nil:
			out.access = Standing{State: "not accepted yet", Grade: Open}
		case state != "" && state != authv1beta1.TenantConditionActive:
			out.access.State += ", " + strings.ToLower(string(state)) + " by an admin"
			out.access.Grade = Open // for now, the consumer keeps its grants
			if state == authv1beta1.TenantConditionDrained {
				out.access.Grade = Wrong
			}
		}
		out.access = ofProblem(t, out.access)
	}
	there = l.addSlices(&out, func(s *authv1beta1.ResourceSlice) bool {
		return s.Labels[peering.LabelReplicated] == "true" && s.Labels[peering.LabelOrigin] == string(l.peer)
	}) || there
	if !there {
		return nil
	}
	l.addPods(&out, func(p *corev1.Pod) bool { return p.Labels[peering.LabelPodOrigin] == string(l.peer) })
	return out.whole()
}

func (l lent) addSlices(out *Lending, is func(*authv1beta1.ResourceSlice) bool) (there bool) {
	out.Slices = []Standing{}
	for i := range l.Slices {
		s := &l.Slices[i]
		if !is(s) {
			continue
		}
		there = true
		standing := Standing{Name: s.Name, State: "pending", Grade: Open}
		for _, what := range []authv1beta1.ResourceSliceConditionType{authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources} {
			if c := peering.Condition(s, what); c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied {
				standing.State = "denied"
				standing.worse(Wrong, c.Message)
			}
		}
		if standing.Grade == Open && lending.Granted(s) {
			standing = Standing{Name: s.Name, State: "granted", Grade: Good}
			add(&out.Quota, s.Status.Resources)
		}
		out.Slices = append(out.Slices, ofProblem(s, standing))
	}
	return there
}

// addNamespaces adds the namespaces that are requested from the provider.
func (l lent) addNamespaces(out *Lending) {
	for i := range l.Maps {
		m := &l.Maps[i]
		if !l.asked(m) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m.Spec.DesiredMapping)) {
			s := Standing{Name: name, State: "not there yet", Grade: Open}
			switch at := m.Status.CurrentMapping[name]; at.Phase {
			case offloadingv1beta1.MappingAccepted:
				s = Standing{Name: name, State: "is " + at.RemoteNamespace + " there", Grade: Good}
			case offloadingv1beta1.MappingCreationLoopBackOff:
				s = Standing{Name: name, State: "is not made there", Grade: Wrong, Why: m.Annotations[wire.AnnotationProblem]}
			case offloadingv1beta1.MappingTerminating:
				s.State, s.Why = "is removed there", peering.ProblemOf(m, name)
			default:
				if why := m.Annotations[wire.AnnotationProblem]; why != "" {
					s.worse(Wrong, why)
				}
			}
			out.Namespaces = append(out.Namespaces, s)
		}
	}
}

// addPods counts pods, and adds up their requests, as Liqo's Quota does.
func (l lent) addPods(out *Lending, is func(*corev1.Pod) bool) {
	for i := range l.Pods {
		p := &l.Pods[i]
		if !is(p) {
			continue
		}
		out.Pods[cmp.Or(p.Status.Phase, corev1.PodPending)]++
		if out.Role == Consumer {
			out.wait(p)
		}
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		add(&out.Used, corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)})
		for _, container := range p.Spec.Containers {
			add(&out.Used, container.Resources.Requests)
		}
	}
}

func add(sum *corev1.ResourceList, more corev1.ResourceList) {
	if *sum == nil {
		*sum = corev1.ResourceList{}
	}
	for name, q := range more {
		total := (*sum)[name]
		total.Add(q)
		(*sum)[name] = total
	}
}

// wait counts a pod that does not run, if its status has a reason. It ignores pods of DaemonSets that
// tolerate every taint, because such a pod exists for each virtual node, and waits for ever.
func (l *Lending) wait(p *corev1.Pod) {
	ofNodes := slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
	if p.Status.Phase != corev1.PodPending || p.Status.Reason == "" || ofNodes && p.Status.Reason == peering.ReasonNotOffloaded {
		return
	}
	i := slices.IndexFunc(l.Waiting, func(w Waiting) bool { return w.Reason == p.Status.Reason })
	if i < 0 {
		i = len(l.Waiting)
		w := Waiting{Reason: p.Status.Reason, Message: p.Status.Message, Pod: p.Namespace + "/" + p.Name, Grade: Wrong}
		if w.Reason == peering.ReasonAsked {
			w.Grade = Good // the status of every new pod has this reason
		}
		l.Waiting = append(l.Waiting, w)
	}
	l.Waiting[i].Count++
}

func nodeStanding(n *corev1.Node) Standing {
	s := Standing{Name: n.Name, State: "Ready", Grade: Good}
	switch {
	case lending.NodeCondition(n, corev1.NodeNetworkUnavailable) == corev1.ConditionTrue:
		s.State, s.Why, s.Grade = "network unavailable", lending.NodeMessage(n, corev1.NodeNetworkUnavailable), Wrong
	case lending.NodeCondition(n, corev1.NodeReady) != corev1.ConditionTrue:
		s.State, s.Why, s.Grade = "not ready", lending.NodeMessage(n, corev1.NodeReady), Wrong
	}
	if n.Spec.Unschedulable {
		s.State += ", cordoned"
		s.Grade = max(s.Grade, Open)
	}
	return s
}

// Title names both clusters, and says which one uses resources of the other.
func (l Lending) Title(cluster, peer wire.ClusterID) string {
	if l.Role == Consumer {
		return fmt.Sprintf("%s uses resources of %s", cluster, peer)
	}
	return fmt.Sprintf("%s lends resources to %s", cluster, peer)
}

// Access returns the state of the consumer's access.
func (l Lending) Access() Standing { return l.access }

// Healthy reports whether all parts are good.
func (l Lending) Healthy() bool {
	return Worst(l.access) == Good && Worst(l.Slices...) == Good && Worst(l.Nodes...) == Good && Worst(l.Namespaces...) == Good &&
		!slices.ContainsFunc(l.Waiting, func(w Waiting) bool { return w.Grade != Good })
}

// Worst returns the worst grade; Good if there are no states.
func Worst(all ...Standing) Grade {
	worst := Good
	for _, s := range all {
		worst = max(worst, s.Grade)
	}
	return worst
}

// Row is one line of the view: a name and its text.
type Row struct{ Name, Text string }

// QuotaRow is the name of the row with all [Lending.Quotas].
const QuotaRow = "Quota used"

// Rows returns all lines of the view.
func (l Lending) Rows() []Row {
	rows := []Row{{"Access", l.Authentication}}
	add := func(name string, all []Standing) {
		for _, s := range all {
			rows = append(rows, Row{name, s.Name + ": " + s.Text()})
		}
	}
	add("Slice", l.Slices)
	add("Node", l.Nodes)
	add("Namespace", l.Namespaces)
	if len(l.Quota) > 0 {
		rows = append(rows, Row{QuotaRow, l.quotaText()})
	}
	rows = append(rows, Row{"Pods", l.PodText()})
	for _, w := range l.Waiting {
		rows = append(rows, Row{"Waiting", w.Text()})
	}
	return rows
}

// PodText returns the number of pods in each phase.
func (l Lending) PodText() string {
	if l.hidden["Pod"] {
		return "they may not be read, or not all"
	}
	var parts []string
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
		if n := l.Pods[phase]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(phase))))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// Quota is the part of one granted resource that pods have requested.
type Quota struct {
	Name, Text string
	Share      float64
}

// Quotas returns the granted resources, by name.
func (l Lending) Quotas() (all []Quota) {
	for _, name := range slices.Sorted(maps.Keys(l.Quota)) {
		used, granted := l.Used[name], l.Quota[name]
		q := Quota{Name: string(name), Text: used.String() + " of " + granted.String()}
		if most := granted.AsApproximateFloat64(); most > 0 {
			q.Share = used.AsApproximateFloat64() / most
		}
		all = append(all, q)
	}
	return all
}

func (l Lending) quotaText() string {
	var parts []string
	for _, q := range l.Quotas() {
		parts = append(parts, q.Name+" "+q.Text)
	}
	return strings.Join(parts, ", ")
}
