package check_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A hiding is a reason that facts lack something: a missing right of the user, a question that nobody has
// asked, or a program that does not report it. hide removes it from the facts, without a change of memory that
// other facts share.
type hiding struct {
	name string
	hide func(f *flows.Facts, side flows.Side)
}

// places reports whether the objects of a namespace may be listed.
type places func(namespace string) bool

// made has, by kind, a function for each watch in [kinds.All] for which a user may lack the right, in the
// order of the table. The function removes the facts from objects that may not be listed.
var made = map[string][]func(*flows.ClusterFacts, places){
	"Namespace": {func(f *flows.ClusterFacts, in places) {
		f.Namespaces = kept(f.Namespaces, func(o *corev1.Namespace) bool { return in(o.Name) })
	}},
	"Deployment": {func(f *flows.ClusterFacts, in places) {
		if !in(f.Namespace) {
			f.Software, f.Operator, f.Pools = flows.NoSoftware, flows.OperatorFacts{}, nil
		}
		if !in(f.Elsewhere.Namespace) {
			f.Elsewhere = flows.ElsewhereFacts{}
		}
	}},
	"ClusterRoleBinding": {func(f *flows.ClusterFacts, _ places) { f.Elsewhere = flows.ElsewhereFacts{} }},
	"Pod": {
		func(f *flows.ClusterFacts, in places) {
			if !in(f.Namespace) {
				f.Unattended = nil
			}
		},
		func(f *flows.ClusterFacts, in places) {
			f.Pods = kept(f.Pods, func(p *flows.PodFacts) bool { return in(p.Namespace) })
		},
		func(f *flows.ClusterFacts, _ places) { f.NodePorts = flows.PortRange{} },
		lentPods(func(p *corev1.Pod) bool { return p.Labels[peering.LabelPodOrigin] == "" && p.Spec.NodeName != "" }),
		lentPods(func(p *corev1.Pod) bool { return p.Labels[peering.LabelPodOrigin] != "" }),
		lentPods(func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }),
		func(f *flows.ClusterFacts, in places) {
			f.Lending.Waiting = maps.Clone(f.Lending.Waiting)
			maps.DeleteFunc(f.Lending.Waiting, func(of, _ string) bool {
				namespace, _, _ := strings.Cut(of, "/")
				return !in(namespace)
			})
		},
	},
	"Node": {
		func(f *flows.ClusterFacts, _ places) { f.Nodes = nil },
		func(f *flows.ClusterFacts, _ places) { f.Lending.Members = nil },
	},
	"InternalNode": {func(f *flows.ClusterFacts, _ places) {
		f.Agents, f.AgentStatus, f.Unreached, f.Unattended = nil, nil, nil, nil
	}},
	"Service": {
		func(f *flows.ClusterFacts, _ places) {
			f.LoadBalancers, f.UsedPorts = flows.LoadBalancerFacts{}, nil // Services of type NodePort may still be listed
		},
		func(f *flows.ClusterFacts, _ places) { f.UsedPorts = nil },
	},
	"Network": {func(f *flows.ClusterFacts, _ places) {
		f.Taken = nil // the installation's Networks may still be listed
	}},
	"WgGatewayServerTemplate": {func(f *flows.ClusterFacts, _ places) { f.Templates = nil }},
	"WgGatewayClientTemplate": {func(f *flows.ClusterFacts, _ places) { f.Templates = nil }},
	"Configuration":           {in(func(f *flows.ClusterFacts) *[]networkingv1beta1.Configuration { return &f.Configurations })},
	"GatewayServer":           {in(func(f *flows.ClusterFacts) *[]networkingv1beta1.GatewayServer { return &f.Servers })},
	"GatewayClient":           {in(func(f *flows.ClusterFacts) *[]networkingv1beta1.GatewayClient { return &f.Clients })},
	"PublicKey":               {in(func(f *flows.ClusterFacts) *[]networkingv1beta1.PublicKey { return &f.PublicKeys })},
	"Connection":              {in(func(f *flows.ClusterFacts) *[]networkingv1beta1.Connection { return &f.Connections })},
	"Tenant":                  {in(func(f *flows.ClusterFacts) *[]authv1beta1.Tenant { return &f.Lending.Tenants })},
	"Identity":                {in(func(f *flows.ClusterFacts) *[]authv1beta1.Identity { return &f.Lending.Identities })},
	"ResourceSlice":           {in(func(f *flows.ClusterFacts) *[]authv1beta1.ResourceSlice { return &f.Lending.Slices })},
	"VirtualNode":             {in(func(f *flows.ClusterFacts) *[]offloadingv1beta1.VirtualNode { return &f.Lending.Nodes })},
	"NamespaceMap":            {in(func(f *flows.ClusterFacts) *[]offloadingv1beta1.NamespaceMap { return &f.Lending.Maps })},
	"ForeignCluster":          {func(f *flows.ClusterFacts, _ places) { f.Lending.Clusters = nil }},
}

func kept[T any](all []T, keep func(*T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool { return !keep(&o) })
}

func in[T any, O interface {
	*T
	metav1.Object
}](list func(*flows.ClusterFacts) *[]T) func(*flows.ClusterFacts, places) {
	return func(f *flows.ClusterFacts, in places) {
		l := list(f)
		*l = kept(*l, func(o *T) bool { return in(O(o).GetNamespace()) })
	}
}

func lentPods(of func(*corev1.Pod) bool) func(*flows.ClusterFacts, places) {
	return func(f *flows.ClusterFacts, in places) {
		f.Lending.Pods = kept(f.Lending.Pods, func(p *corev1.Pod) bool { return !of(p) || in(p.Namespace) })
	}
}

// hidings returns all reasons that a fact may be missing.
func hidings(t *testing.T) (all []hiding) {
	t.Helper()
	add := func(name string, hide func(f *flows.Facts, side flows.Side)) { all = append(all, hiding{name, hide}) }
	watched := 0
	for _, k := range kinds.All() {
		i := 0
		for _, w := range k.Watches {
			if w.For != kinds.Connections && w.For != kinds.LendingShown || w.For == kinds.Connections && !w.Optional && w.Narrow != kinds.ToTenant && k.Kind != "Network" {
				continue // without this right, the cluster has a Problem
			}
			if i >= len(made[k.Kind]) {
				t.Fatalf("%s, watch %d: what facts are made from it?", k.Kind, i)
			}
			remove := made[k.Kind][i]
			i++
			watched++
			lacks := func(hidden bool) func(*flows.Facts, flows.Side) {
				return func(f *flows.Facts, side flows.Side) {
					c := &f.Sides[side]
					if w.For.Lending() {
						if c.Lending == nil {
							return
						}
						c.Lending = new(*c.Lending)
					}
					tenant := wire.TenantNamespaceName(f.Sides[side.Other()].ID)
					only := tenant
					may := func(namespace string) bool { return namespace == only }
					switch {
					case hidden:
						only, may = "", func(string) bool { return false }
					case w.Narrow == kinds.ToInstallation:
						only = c.Namespace
					}
					remove(c, may)
					switch {
					case w.For.Lending() && (hidden || k.Kind == "Pod"): // as in package kube
						c.Lending.Hidden = maps.Clone(c.Lending.Hidden)
						if c.Lending.Hidden == nil {
							c.Lending.Hidden = map[string]bool{}
						}
						c.Lending.Hidden[k.Kind] = true
					case w.Unlisted != nil && hidden:
						w.Unlisted(c, true, "")
					case w.Unlisted != nil:
						w.Unlisted(c, false, only)
						if k.Kind == "Namespace" && c.Lending != nil {
							c.Lending = new(*c.Lending)
							c.Lending.Hidden = map[string]bool{k.Kind: true}
						}
					}
				}
			}
			if w.Optional || w.For.Lending() {
				add(fmt.Sprintf("%s %d may not be listed", k.Kind, i), lacks(true))
			}
			if w.Narrow != kinds.NotAtAll && (!k.Root || k.Kind == "Namespace") {
				add(fmt.Sprintf("%s %d may be listed in one namespace", k.Kind, i), lacks(false))
			}
		}
	}
	for _, of := range made {
		watched -= len(of)
	}
	if watched != 0 {
		t.Fatal("made has watches that kinds does not have")
	}
	for name, ask := range map[string]func(side flows.Side) flows.Question{
		"Installation": func(side flows.Side) flows.Question { return flows.AskInstallation{Side: side} },
		"DNS":          func(side flows.Side) flows.Question { return flows.AskDNS{Side: side} },
		"ImageTrial":   func(side flows.Side) flows.Question { return flows.AskImage{Side: side} },
		"APITrial":     func(side flows.Side) flows.Question { return flows.AskAPI{Side: side} },
		"Older":        func(side flows.Side) flows.Question { return flows.AskDefinitions{Side: side} },
		"Policies":     func(side flows.Side) flows.Question { return flows.AskPolicies{Side: side} },
		"Services":     func(side flows.Side) flows.Question { return flows.AskServices{Side: side} },
		"History":      func(side flows.Side) flows.Question { return flows.AskHistory{Side: side} },
		"Offers":       func(side flows.Side) flows.Question { return flows.AskOffers{Side: side} },
	} {
		add(name+" was refused", func(f *flows.Facts, side flows.Side) { flows.Unknown(ask(side), "you may not").Store(f, f.At) })
	}
	of := reflect.TypeFor[flows.ClusterFacts]()
	for i := range of.NumField() {
		field := of.Field(i)
		zero := func(f *flows.Facts, side flows.Side) { reflect.ValueOf(&f.Sides[side]).Elem().Field(i).SetZero() }
		switch {
		case strings.HasPrefix(field.Type.Name(), "Answer["):
			if !slices.ContainsFunc(all, func(h hiding) bool { return h.name == field.Name+" was refused" }) {
				t.Fatalf("which question fills %s?", field.Name)
			}
			add(field.Name+" was not asked", zero)
		case field.Type == reflect.TypeFor[*lending.Facts]():
			add(field.Name+" was not read", zero)
		}
	}
	add("events were not read", func(f *flows.Facts, side flows.Side) { f.Sides[side].Events, f.Sides[side].EventsRead = nil, nil })
	add("events may not be read", func(f *flows.Facts, side flows.Side) {
		c := &f.Sides[side]
		c.Events, c.EventsRead = nil, maps.Clone(c.EventsRead)
		for namespace := range c.EventsRead {
			c.EventsRead[namespace] = "events is forbidden"
		}
	})
	add("no test pods", func(f *flows.Facts, _ flows.Side) { f.Reach = nil })
	add("no packet from there", func(f *flows.Facts, side flows.Side) {
		if f.Reach != nil {
			f.Reach = new(*f.Reach)
			f.Reach.Ways[side] = trial.Way{Unknown: "no pods", API: trial.API{Unknown: "no pods"}}
		}
	})
	add("no dry run", func(f *flows.Facts, _ flows.Side) { f.Tried = nil })
	add("kube-system may not be read", func(f *flows.Facts, side flows.Side) {
		f.Sides[side].UID, f.Sides[side].UIDStandsIn = "of a ConfigMap", true
	})
	add("neither is the ConfigMap", func(f *flows.Facts, side flows.Side) { f.Sides[side].UID = "" })
	report := reflect.TypeFor[wire.Report]()
	for i := range report.NumField() {
		if field := report.Field(i); strings.Contains(field.Tag.Get("json"), "omit") && !slices.Contains(unsaidIsGood, field.Name) {
			add("a gateway that does not report "+field.Name, func(f *flows.Facts, side flows.Side) {
				reported(&f.Sides[side], func(r *wire.Report) { reflect.ValueOf(r).Elem().Field(i).SetZero() })
			})
		}
	}
	status := reflect.TypeFor[wire.NodeStatus]()
	for i := range status.NumField() {
		if field := status.Field(i); !slices.Contains(unsaidIsGood, field.Name) {
			add("agents that don't report "+field.Name, func(f *flows.Facts, side flows.Side) {
				f.Sides[side].AgentStatus = maps.Clone(f.Sides[side].AgentStatus)
				for node, s := range f.Sides[side].AgentStatus {
					reflect.ValueOf(&s).Elem().Field(i).SetZero()
					f.Sides[side].AgentStatus[node] = s
				}
			})
		}
	}
	return all
}

// unsaidIsGood are the fields of reports that contain a problem, its details or a limit. If they are missing,
// there is no problem and no limit.
var unsaidIsGood = []string{"Problem", "Unfit", "More", "Allow"}

// reported changes the reports of a side's gateways.
func reported(c *flows.ClusterFacts, edit func(*wire.Report)) {
	c.Connections = slices.Clone(c.Connections)
	for i := range c.Connections {
		r, ok, err := wire.ParseReport(c.Connections[i].Annotations)
		if err != nil || !ok {
			continue
		}
		edit(&r)
		text, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		c.Connections[i].Annotations = maps.Clone(c.Connections[i].Annotations)
		c.Connections[i].Annotations[wire.AnnotationStatus] = string(text)
	}
}

// world is a situation that checks judge.
type world struct {
	facts  flows.Facts
	params *flows.Params // nil: only the checks of a connection
}

func (w world) judge() map[string]check.Result {
	all := map[string]check.Result{}
	results := check.Diagnose(w.facts, nil)
	if w.params != nil {
		results = append(results, check.Preflight(*w.params, w.facts, [2]*rights.Review{{}, {}})...)
	}
	for _, r := range results {
		all[string(r.ID)+" "+sideOf(r)] = r
	}
	return all
}

// passesNoMore applies one hiding at a time. With it, no check may pass that does not pass with all facts.
func passesNoMore(t *testing.T, what string, w world, of []hiding, sides ...flows.Side) {
	t.Helper()
	if len(of) == 0 {
		return
	}
	sees := w.judge()
	for _, h := range of {
		for _, side := range sides {
			hidden := w
			h.hide(&hidden.facts, side)
			for id, r := range hidden.judge() {
				seen, ok := sees[id]
				if r.State == check.Pass && ok && seen.State != check.Pass && seen.State != check.Skipped && !strings.HasPrefix(seen.Summary, "there is no plan") {
					t.Errorf("%s, %s on %s: %s passes: %s\nwith all facts: %s: %s", what, h.name, side, id, r.Summary, seen.State, seen.Summary)
				}
			}
		}
	}
}

// rich returns a connection about which everything is known.
func rich(t *testing.T) world {
	t.Helper()
	pair := flowtest.NewPair()
	p := nodePort()
	p.NodePort = 31000
	for side, c := range []*flowtest.Cluster{pair.A, pair.B} {
		c.Be(func(f *flows.ClusterFacts) {
			f.Nodes = []flows.NodeFacts{{
				Name: "n1", Ready: true, Internal: []netip.Addr{netip.AddrFrom4([4]byte{172, 18, byte(side), 1})}, External: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(side + 1)})},
				Kernel: "6.1.0", Arch: "amd64", CPUs: 4000, Memory: 8e9,
			}}
			f.NodePorts = flows.PortRange{From: 30000, To: 32767}
			f.ServiceCIDRs, f.Taken = cidrs("10.96.0.0/16"), cidrs("10.244.0.0/16", "10.70.0.0/16")
			f.LoadBalancers = flows.LoadBalancerFacts{Answered: 1}
			f.UsedPorts = []flows.UsedPort{{Port: 32000, Namespace: "shop", Name: "web"}}
		})
	}
	connectPair(t, pair)
	f := factsOf(pair)
	for side := range f.Sides {
		c := &f.Sides[side]
		c.Agents = []string{"n1"}
		gateway := c.Pods[0].Namespace + "/" + c.Pods[0].Gateway
		c.AgentStatus = map[string]wire.NodeStatus{"n1": {Level: wire.NodeLevel, Refused: map[string]uint64{gateway: 0}, Pods: &wire.PodRanges{Inside: true}, KubeProxy: wire.KubeProxyAnswers}}
		c.Templates = []flows.TemplateFacts{{Ours: true}}
		flows.Read(flows.AskPolicies{Side: flows.Side(side)}, policy.Facts{}).Store(&f, f.At)
		flows.Read(flows.AskDefinitions{Side: flows.Side(side)}, []flows.DefinitionFacts{}).Store(&f, f.At)
		says(c, f.At, func(r *wire.Report) {
			r.Reason, r.Message, r.LatencyMicros, r.MTU, r.PathMTU, r.Refused = wire.ReasonPinged, "answers", 900, 1340, 1400, new(uint64(0))
			r.Since, r.Handshake, r.PodTraffic = new(f.At.Add(-time.Hour)), new(f.At.Add(-time.Minute)), new(f.At.Add(-time.Second))
			r.Generation, r.Endpoint, r.Implementation, r.Allow = 1, "198.51.100.9:40000", "kernel", "all"
		})
	}
	f.Reach = &trial.Reach{At: f.At, Ways: [2]trial.Way{}}
	for side := range f.Reach.Ways {
		f.Reach.Ways[side] = trial.Way{Arrived: 3, Dials: []trial.Dial{{Address: "198.51.100.9:31000", Sent: 3, Answered: 3, Largest: 1500}}, API: trial.API{URL: "https://x"}}
	}
	f.Tried = new(flows.PlanConnect(p, f))
	return world{f, &p}
}

// lends returns a consumer and its provider, about which everything is known.
func lends(t *testing.T) world {
	t.Helper()
	f := lentPair(t)
	f.Sides[flows.A].Software = flows.Operator
	f.Sides[flows.A].Operator.Peering = "Consumer"
	l := f.Sides[flows.A].Lending
	l.Nodes[0].Annotations = map[string]string{peering.AnnotationNamespaces: "shop"}
	l.Members[0].Status.Conditions = append(l.Members[0].Status.Conditions, corev1.NodeCondition{Type: peering.ConditionLeftovers, Status: corev1.ConditionFalse})
	l.Pods = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "milan"}, Status: corev1.PodStatus{Phase: corev1.PodPending, Reason: "x"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.PodSpec{NodeSelector: map[string]string{peering.LabelNodeType: peering.NodeType}}, Status: corev1.PodStatus{Phase: corev1.PodPending, Reason: "x"}},
	}
	f.Sides[flows.B].Namespaces = append(f.Sides[flows.B].Namespaces, *peering.MappedNamespace(peering.MapCopy(&l.Maps[0], "rome", "liqo-tenant-rome"), "rome", "shop", "shop-rome"))
	return world{f, nil}
}

// others are further values of types, in addition to the zero value and the values from each.
var others = map[reflect.Type][]any{
	reflect.TypeFor[wire.KubeProxy]():                           {wire.KubeProxySilent},
	reflect.TypeFor[flows.GatewayMode]():                        {flows.SharedGateway, flows.LocalGateway},
	reflect.TypeFor[wire.Reason]():                              {wire.ReasonNoPing, wire.ReasonKeyMismatch, wire.ReasonUnresolvable, wire.ReasonMisconfigured},
	reflect.TypeFor[networkingv1beta1.ConnectionStatusValue]():  {networkingv1beta1.Connecting, networkingv1beta1.ConnectionError},
	reflect.TypeFor[networkingv1beta1.CIDR]():                   {networkingv1beta1.CIDR("10.200.0.0/16")},
	reflect.TypeFor[corev1.ConditionStatus]():                   {corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown},
	reflect.TypeFor[authv1beta1.ResourceSliceConditionStatus](): {authv1beta1.ResourceSliceConditionDenied},
	reflect.TypeFor[offloadingv1beta1.RemoteNamespaceStatus]():  {offloadingv1beta1.RemoteNamespaceStatus{Phase: offloadingv1beta1.MappingCreationLoopBackOff}},
	reflect.TypeFor[authv1beta1.TenantCondition]():              {authv1beta1.TenantConditionDrained},
	reflect.TypeFor[netip.Addr]():                               {netip.MustParseAddr("10.244.0.9")},
	reflect.TypeFor[netip.Prefix]():                             {netip.MustParsePrefix("10.9.0.0/16")},
	reflect.TypeFor[flows.ElsewhereFacts]():                     {flows.ElsewhereFacts{Software: flows.Operator, Namespace: "elsewhere"}},
	reflect.TypeFor[flows.LoadBalancerFacts]():                  {flows.LoadBalancerFacts{Pending: 1}},
	reflect.TypeFor[flows.PortRange]():                          {flows.PortRange{From: 1, To: 2}},
	reflect.TypeFor[[]flows.UnreachedFacts]():                   {[]flows.UnreachedFacts{{Node: "n1", Gateways: []string{"liqo-tenant-rome/rome", "liqo-tenant-milan/milan"}}}},
	reflect.TypeFor[[]flows.EventFacts]():                       {[]flows.EventFacts{{Object: "Pod liqo-tenant-milan/x", Reason: "Failed"}, {Object: "Pod liqo-tenant-rome/x", Reason: "Failed"}}},
	reflect.TypeFor[[]flows.DefinitionFacts]():                  {[]flows.DefinitionFacts{{Name: "x", Kind: "Configuration"}}},
	reflect.TypeFor[wire.PodRanges]():                           {wire.PodRanges{Outside: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}, wire.PodRanges{Inside: true, Outside: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}},
}

// pointless are the fields that no check reads, and fields whose change would make an impossible situation.
var pointless = []string{"TypeMeta", "ManagedFields", "GenerateName", "SelfLink", "DeletionGracePeriodSeconds", "Generation", "CreationTimestamp", "ResourceVersion", "Namespace", "Software"}

// each changes v, and then each value inside of v, to other values, and calls do after each change.
func each(v reflect.Value, at string, do func(at string)) {
	try := func(value reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		if !reflect.DeepEqual(old.Interface(), value.Interface()) {
			v.Set(value)
			do(fmt.Sprintf("%s = %.60v", at, value.Interface()))
			v.Set(old)
		}
	}
	for _, value := range others[v.Type()] {
		try(reflect.ValueOf(value))
	}
	if v.Type() != reflect.TypeFor[metav1.ObjectMeta]() {
		try(reflect.Zero(v.Type()))
	}
	switch v.Kind() { //nolint:exhaustive // facts have no values of other kinds
	case reflect.Bool:
		try(reflect.ValueOf(!v.Bool()).Convert(v.Type()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		try(reflect.ValueOf(v.Int() + 1).Convert(v.Type()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		try(reflect.ValueOf(v.Uint() + 1).Convert(v.Type()))
	case reflect.Float64:
		try(reflect.ValueOf(0.5).Convert(v.Type()))
	case reflect.String:
		try(reflect.ValueOf(v.String() + "x").Convert(v.Type()))
	case reflect.Pointer:
		if v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			try(reflect.New(v.Type().Elem()))
		} else if !v.IsNil() {
			copied := reflect.New(v.Type().Elem())
			copied.Elem().Set(v.Elem())
			old := v.Interface()
			v.Set(copied)
			each(copied.Elem(), at, do)
			v.Set(reflect.ValueOf(old))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			try(reflect.ValueOf(v.Interface().(time.Time).Add(-time.Hour)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() && !slices.Contains(pointless, v.Type().Field(i).Name) {
				each(v.Field(i), at+"."+v.Type().Field(i).Name, do)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || v.Len() == 0 {
			return
		}
		old := v.Interface()
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		v.Set(copied)
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", at, i), do)
		}
		v.Set(reflect.ValueOf(old))
	case reflect.Array:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct {
				each(v.Index(i), fmt.Sprintf("%s[%d]", at, i), do)
			}
		}
	case reflect.Map:
		old := v.Interface()
		for _, key := range v.MapKeys() {
			copied := reflect.MakeMap(v.Type())
			for _, k := range v.MapKeys() {
				if !k.Equal(key) {
					copied.SetMapIndex(k, v.MapIndex(k))
				}
			}
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			v.Set(copied)
			do(fmt.Sprintf("%s without %v", at, key))
			change := func(what string) {
				copied.SetMapIndex(key, value)
				do(what)
			}
			if report, ok, err := wire.ParseReport(map[string]string{wire.AnnotationStatus: fmt.Sprint(value.Interface())}); key.Interface() == wire.AnnotationStatus && ok && err == nil {
				each(reflect.ValueOf(&report).Elem(), at+".report", func(what string) {
					text, err := json.Marshal(report)
					if err != nil {
						panic(err)
					}
					copied.SetMapIndex(key, reflect.ValueOf(string(text)))
					do(what)
				})
			} else {
				each(value, fmt.Sprintf("%s[%v]", at, key), change)
			}
			v.Set(reflect.ValueOf(old))
		}
	}
}

// A check never passes because it could not look. Each fact of two pairs of clusters takes other values, so
// that checks warn and fail. None of them may pass when the fact is hidden.
func TestNoCheckPassesForWhatItDoesNotSee(t *testing.T) {
	all := hidings(t)
	part, turn := sample.Of(8, 1), int(sample.Seed(t))
	for name, w := range map[string]world{"connected": rich(t), "lending": lends(t)} {
		passesNoMore(t, name, w, all, flows.A, flows.B)
		for _, side := range []flows.Side{flows.A, flows.B} {
			vary := func(facts func(*flows.ClusterFacts) reflect.Value) {
				of := facts(&w.facts.Sides[side])
				for i := range of.NumField() {
					if name := of.Type().Field(i).Name; name == "Lending" || slices.Contains(pointless, name) {
						continue
					}
					each(of.Field(i), of.Type().Field(i).Name, func(at string) {
						if turn++; turn%part != 0 {
							return
						}
						touching := slices.DeleteFunc(slices.Clone(all), func(h hiding) bool {
							f := w.facts
							h.hide(&f, side)
							return reflect.DeepEqual(of.Field(i).Interface(), facts(&f.Sides[side]).Field(i).Interface())
						})
						passesNoMore(t, fmt.Sprintf("%s: %s of %s", name, at, side), w, touching, side)
					})
				}
			}
			vary(func(c *flows.ClusterFacts) reflect.Value { return reflect.ValueOf(c).Elem() })
			if w.facts.Sides[side].Lending != nil {
				vary(func(c *flows.ClusterFacts) reflect.Value {
					return reflect.ValueOf(cmp.Or(c.Lending, &lending.Facts{})).Elem()
				})
			}
		}
	}
}
