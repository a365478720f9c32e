package kube

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func watchFrom(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
}

// watchedKinds returns a store for each kind of object that facts are made from. A user
// with access to one tenant's namespace only, such as a peering user of Liqo, sees the
// objects of that namespace. Facts about the whole cluster are then unknown.
func (c *Cluster) watchedKinds() []*store {
	s := func(kind string, newList func() client.ObjectList, options ...client.ListOption) *store {
		return newStore(kind, newList, c.notify, options...)
	}
	tenant := func(kind string, newList func() client.ObjectList, options ...client.ListOption) *store {
		st := s(kind, newList, options...)
		st.narrow = c.tenantNamespace
		return st
	}
	optional := func(st *store, keep func(client.Object) client.Object) *store {
		st.optional, st.minor, st.keep = true, true, keep
		return st
	}
	here := client.InNamespace(c.namespace)
	otherPods := selecting(wire.LabelComponent, selection.NotEquals, "gateway") // gateways' pods have a mirror of their own
	managers := optional(s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, selecting(wire.LabelAppName, selection.In, wire.OperatorName, collect.LiqoManager)), keepManager)
	managers.minor = false // if they were missing, a plan would install what already runs
	managers.narrow = func() (client.ListOption, bool) { return here, true }
	template := func(kind string) *store {
		// Liqo's Go type can't decode a template: it wants a kind in the embedded object, and templates have none there.
		return optional(s(kind, func() client.ObjectList {
			l := &unstructured.UnstructuredList{}
			l.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(kind + "List"))
			return l
		}), keepTemplate)
	}
	besides := optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, here, otherPods), keepPod)
	besides.agents = true
	networks := s("Network", func() client.ObjectList { return &ipamv1alpha1.NetworkList{} })
	networks.narrow = func() (client.ListOption, bool) { return here, true }
	return []*store{
		tenant("Namespace", func() client.ObjectList { return &corev1.NamespaceList{} }),
		s("ConfigMap", func() client.ObjectList { return &corev1.ConfigMapList{} }, here, client.MatchingLabels{wire.LabelAppName: wire.ClusterIDAppName}),
		managers,
		optional(s("ClusterRoleBinding", func() client.ObjectList { return &rbacv1.ClusterRoleBindingList{} }, client.MatchingLabels{wire.LabelManagedBy: wire.ManagedBy}), nil),
		besides,
		optional(tenant("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.MatchingLabels{wire.LabelComponent: "gateway"}), keepPod),
		optional(s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.InNamespace(metav1.NamespaceSystem),
			client.MatchingLabels{"component": collect.APIServer}), keepAPIServer),
		optional(s("Node", func() client.ObjectList { return &corev1.NodeList{} }), keepNode),
		optional(s(networkingv1beta1.InternalNodeKind, func() client.ObjectList { return &networkingv1beta1.InternalNodeList{} }), keepInternalNode),
		optional(s("Service", func() client.ObjectList { return &corev1.ServiceList{} }, client.MatchingFields{"spec.type": string(corev1.ServiceTypeLoadBalancer)}), keepService),
		networks,
		template(networkingv1beta1.WgGatewayServerTemplateKind),
		template(networkingv1beta1.WgGatewayClientTemplateKind),
		tenant("Configuration", func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} }),
		tenant("GatewayServer", func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} }),
		tenant("GatewayClient", func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} }),
		tenant("PublicKey", func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} }),
		tenant("Connection", func() client.ObjectList { return &networkingv1beta1.ConnectionList{} }),
	}
}

func selecting(label string, operator selection.Operator, values ...string) client.MatchingLabelsSelector {
	r, err := labels.NewRequirement(label, operator, values)
	if err != nil {
		panic(err) // of constants
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*r)}
}

// tenant is the only namespace to list if listing all namespaces is forbidden; "" if there
// is no such namespace.
func (c *Cluster) tenant() string {
	known, _ := c.userTenant.Load().(string)
	return cmp.Or(c.options.Tenant, known)
}

func (c *Cluster) tenantNamespace() (client.ListOption, bool) {
	return client.InNamespace(c.tenant()), c.tenant() != ""
}

// Observe waits for the first answer of every watch, then returns the cluster's facts.
func (c *Cluster) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	facts := flows.ClusterFacts{Context: c.options.Context, ContextNamespace: c.standard, Server: c.server, Namespace: c.namespace}
	facts.Instead.Cluster, facts.Instead.User = c.options.Cluster, c.options.User
	if c.options.Delegation {
		facts.Delegation = &flows.DelegationFacts{CA: c.ca}
	}
	// A login may take a person minutes: the bounds of requests begin after it.
	if err := c.transport.Ready(ctx); err != nil {
		facts.Problem = c.problem("get credentials", err)
		return facts, ctx.Err()
	}
	if facts.Problem = c.identify(ctx, &facts); facts.Problem != nil {
		return facts, ctx.Err()
	}
	c.start.Do(func() {
		for _, s := range c.watched(false) {
			go s.run(c.ctx, c.client)
		}
		go c.pulse.run(c.ctx)
	})
	if c.options.Lending == LendingPlanned {
		c.startLending()
	}
	kinds := c.watched(false)
	if err := tried(ctx, kinds); err != nil {
		return facts, err
	}
	var all collect.Collection
	for _, s := range kinds {
		objects, err := s.snapshot()
		switch {
		case s.optional && apierrors.IsNotFound(err):
		case apierrors.IsNotFound(err):
			facts.MissingKinds = append(facts.MissingKinds, c.resourceOf(s))
		case err != nil && !s.minor:
			facts.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
		}
		hide(&facts, s, c.tenant())
		if s.isPolled() {
			facts.Polled = append(facts.Polled, s.kind)
		}
		collect.Grow(&facts, objects)
		for _, o := range objects {
			all.Add(&facts, o)
			if facts.Delegation != nil {
				collectDelegation(facts.Delegation, o)
			}
		}
	}
	if err := c.pulse.failing(); err != nil {
		facts.Problem = c.problem("ask for the version", err)
	}
	facts.HasCRDs = len(facts.MissingKinds) == 0
	all.Finish(&facts)
	if err := c.observeLending(ctx, &facts); err != nil {
		return facts, err
	}
	c.warnings.add(&facts, troubled(&facts)) //nolint:contextcheck // they are read on in the background, until Close
	facts.ClockAhead = c.clock.Difference()
	onOurClock(&facts)
	c.addDefinitions(ctx, &facts)
	return facts, c.addKeys(ctx, &facts)
}

// hide records which kinds this user can't list completely, so that a check does not take
// "not seen" for "absent".
func hide(f *flows.ClusterFacts, s *store, tenant string) {
	switch {
	case s.kind == "Deployment":
		f.ManagersHidden = s.isHidden()
	case s.kind == "Namespace":
		f.PeersHidden = s.isNarrowed()
	case s.kind == networkingv1beta1.InternalNodeKind:
		f.AgentsUnknown = s.isHidden()
	case s.agents:
		f.AttendanceUnknown = s.isHidden()
	case s.kind != "Pod" || s.narrow == nil || s.lending: // not the store of gateways' pods
	case s.isHidden():
		f.PodsHidden = true
	case s.isNarrowed():
		f.PodsHidden, f.PodsSeen = true, tenant
	}
}

// watched returns the stores of lending kinds, or the stores of all other kinds.
func (c *Cluster) watched(lending bool) []*store {
	return slices.DeleteFunc(slices.Clone(c.kinds), func(s *store) bool { return s.lending != lending })
}

// tried waits for the first answer of every watch.
func tried(ctx context.Context, all []*store) error {
	for _, s := range all {
		select {
		case <-s.tried:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// onOurClock converts the times of our own facts from the cluster's clock to this
// machine's. Kubernetes' objects in the facts keep the cluster's times.
func onOurClock(f *flows.ClusterFacts) {
	for i := range f.Pods {
		if p := &f.Pods[i]; !p.Restarted.IsZero() {
			p.Restarted = p.Restarted.Add(-f.ClockAhead)
		}
	}
	eventsOnOurClock(f.Events, f.ClockAhead)
}

func eventsOnOurClock(events []flows.EventFacts, ahead time.Duration) {
	for i := range events {
		if e := &events[i]; !e.At.IsZero() {
			e.At = e.At.Add(-ahead)
		}
	}
}

// resourceOf is the resource name, as the API server writes it, of a kind that it does not
// serve.
func (c *Cluster) resourceOf(s *store) string {
	gvk, err := c.client.GroupVersionKindFor(s.newList())
	if err != nil {
		return s.kind
	}
	gvk.Kind = s.kind
	mapping, err := c.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return s.kind
	}
	return fmt.Sprintf("%s.%s/%s", mapping.Resource.Resource, gvk.Group, gvk.Version)
}

// identify asks once for the cluster's UID and version.
func (c *Cluster) identify(ctx context.Context, facts *flows.ClusterFacts) *flows.Problem {
	c.identityOnce.Lock()
	defer c.identityOnce.Unlock()
	if c.version == "" {
		// An API server may take the connection and say nothing.
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		version, err := c.discovery.ServerVersionWithContext(ctx)
		if err != nil {
			return c.problem("ask for the version", err)
		}
		var ns corev1.Namespace
		err = c.client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &ns)
		if apierrors.IsForbidden(err) {
			c.userTenant.Store(tenantOf(c.user(ctx)))
		} else if err != nil {
			return c.problem("read Namespace kube-system", err)
		}
		c.uid, c.version = string(ns.UID), version.GitVersion
	}
	facts.UID, facts.Version = c.uid, c.version
	facts.AsPeer = c.userTenant.Load() != nil && c.userTenant.Load() != ""
	return nil
}

// user is our user name as the API server sees it; "" if it does not tell.
func (c *Cluster) user(ctx context.Context) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.client.Create(ctx, &review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// peeringUser matches the names of the users that Liqo makes for one peer's admin. They
// consist of the peer's cluster ID and 16 random bytes.
var peeringUser = regexp.MustCompile(`^liqo-peer-user-(.+)-[0-9a-f]{32}$`)

// tenantOf returns the tenant namespace for which Liqo or we made a peering user; "" for
// other users.
func tenantOf(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, _ := strings.Cut(account, ":"); name == peering.UserName {
			return namespace
		}
		return ""
	}
	m := peeringUser.FindStringSubmatch(user)
	if m == nil {
		return ""
	}
	return wire.TenantNamespaceName(wire.ClusterID(m[1]))
}
