package kube

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func watchFrom(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
}

// stores returns a store for each watch in [kinds.All] that the options need. If tenant is "", these
// are the watches that are not for one tenant namespace. Otherwise they are the watches for the
// namespace tenant.
func (c *Cluster) stores(tenant string) (all []*store) {
	uses := []kinds.Use{kinds.Connections}
	if c.options.Lending != LendingIgnored {
		uses = append(uses, kinds.LendingShown)
	}
	if c.options.Lending > LendingShown {
		uses = append(uses, kinds.LendingPlanned)
	}
	if c.options.Delegation {
		uses = append(uses, kinds.Delegation)
	}
	for _, use := range uses {
		for _, k := range kinds.All() {
			for _, w := range k.Watches {
				if w.For == use && (w.In == kinds.EachTenant) == (tenant != "") {
					all = append(all, c.storeOf(k, w, tenant))
				}
			}
		}
	}
	return all
}

func (c *Cluster) storeOf(k kinds.Kind, w kinds.Watch, tenant string) *store {
	var options client.ListOptions
	switch w.In {
	case kinds.Everywhere:
	case kinds.Installation:
		options.Namespace = c.namespace
	case kinds.System:
		options.Namespace = metav1.NamespaceSystem
	case kinds.EachTenant:
		options.Namespace = tenant
	}
	var err error
	if w.Labels != "" {
		options.LabelSelector, err = labels.Parse(w.Labels)
	}
	if w.Field != "" {
		options.FieldSelector = fields.OneTermEqualSelector(w.Field, w.Value)
	}
	if err != nil {
		panic(err) // a selector in kinds.All can't be parsed
	}
	s := newStore(k.Kind, func() client.ObjectList { return c.newList(k) }, c.notify, &options)
	s.watch, s.narrow = w, c.narrow(w.Narrow)
	if w.For.Lending() && c.options.Lending != LendingPlanned { // without a plan, nothing depends on these kinds
		s.watch.Optional, s.watch.Minor = true, true
	}
	return s
}

func (c *Cluster) newList(k kinds.Kind) client.ObjectList {
	of := k.GroupVersion().WithKind(k.Kind + "List")
	if k.Untyped {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(of)
		return l
	}
	l, err := c.client.Scheme().New(of)
	if err != nil {
		panic(err) // the group of a kind in kinds.All is not in the scheme
	}
	return l.(client.ObjectList)
}

// narrow returns a function for users who may not list all objects of a kind. The function returns the
// list option for the objects that such a user may list. Its second result is false if their
// namespace is not known. narrow returns nil if such users have no objects of the kind to list.
func (c *Cluster) narrow(to kinds.Narrow) func() (client.ListOption, bool) {
	switch to {
	case kinds.NotAtAll:
	case kinds.ToInstallation:
		return func() (client.ListOption, bool) { return client.InNamespace(c.namespace), true }
	case kinds.ToTenant:
		return c.tenantNamespace
	case kinds.ToConnection:
		return c.connectionNamespace
	case kinds.ToNonce:
		return func() (client.ListOption, bool) {
			return client.MatchingFields{metav1.ObjectNameField: peering.NonceName}, true
		}
	}
	return nil
}

// tenant returns the tenant namespace to list if this user may not list all namespaces; "" if no such
// namespace is known.
func (c *Cluster) tenant() string {
	known, _ := c.userTenant.Load().(string)
	return cmp.Or(c.options.Tenant, known)
}

func (c *Cluster) tenantNamespace() (client.ListOption, bool) {
	return client.InNamespace(c.tenant()), c.tenant() != ""
}

// facts returns the facts that are known without a request: the context and the API server.
func (c *Cluster) facts() flows.ClusterFacts {
	return flows.ClusterFacts{Context: c.options.Context, Instead: c.options.Instead, ContextNamespace: c.standard, Server: c.server, Namespace: c.namespace}
}

// Observe waits for the first answer of every watch, and returns the cluster's facts. If the cluster can't be
// used, the Problem of the facts is the reason. Observe returns an error only if ctx has ended.
func (c *Cluster) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	facts := c.facts()
	if c.options.Delegation {
		facts.Delegation = &flows.DelegationFacts{CA: c.ca}
	}
	// The time limits of requests begin after the login, because a login can take minutes.
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
	stores := c.watched(false)
	if reads := tried(ctx, stores); reads != "" {
		facts.Problem = c.slow(reads)
		return facts, ctx.Err()
	}
	var all collect.Collection
	for _, s := range stores {
		objects, err := s.snapshot()
		switch {
		case s.watch.Optional && apierrors.IsNotFound(err):
		case apierrors.IsNotFound(err):
			facts.MissingKinds = append(facts.MissingKinds, resourceOf(s.kind))
		case err != nil && !s.watch.Minor:
			facts.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
		}
		c.noteUnlisted(&facts, s)
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
	c.warnings.add(&facts, troubled(&facts))
	facts.ClockAhead = c.clock.Difference()
	onOurClock(&facts)
	c.addDefinitions(ctx, &facts)
	return facts, c.addKeys(ctx, &facts)
}

// noteUnlisted records in the facts that this user can't list all objects of a kind. Without this, a
// check would conclude that an unseen object does not exist.
func (c *Cluster) noteUnlisted(f *flows.ClusterFacts, s *store) {
	if s.watch.Unlisted == nil {
		return
	}
	only := ""
	switch {
	case !s.isNarrowed():
	case s.watch.Narrow == kinds.ToInstallation:
		only = c.namespace
	default:
		only = c.tenant()
	}
	s.watch.Unlisted(f, s.isHidden(), only)
}

// watched returns the stores of lending kinds, or the stores of all other kinds.
func (c *Cluster) watched(lending bool) []*store {
	return slices.DeleteFunc(slices.Clone(c.mirrored), func(s *store) bool { return s.watch.For.Lending() != lending })
}

// tried waits for the first answer of every watch. If ctx ends before, it returns the kind of the first
// watch without an answer, otherwise "".
func tried(ctx context.Context, all []*store) (reads string) {
	for _, s := range all {
		select {
		case <-s.tried:
		case <-ctx.Done():
			return s.kind
		}
	}
	return ""
}

// onOurClock converts times in Pods and Events of the facts from the cluster's clock to this machine's
// clock. Kubernetes' objects in the facts keep the cluster's times.
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

// resourceOf returns the resource of a kind with its group and version, such as
// "gatewayservers.networking.liqo.io/v1beta1".
func resourceOf(kind string) string {
	k, _ := kinds.Named(kind)
	return fmt.Sprintf("%s.%s/%s", k.Resource(), k.Group, k.Version)
}

// identify adds the cluster's UID, its version and AsPeer to the facts. It sends requests at each call until
// one succeeds, and then reuses the answers.
func (c *Cluster) identify(ctx context.Context, facts *flows.ClusterFacts) *flows.Problem {
	c.identityOnce.Lock()
	defer c.identityOnce.Unlock()
	if c.version == "" {
		version, err := c.discovery.ServerVersionWithContext(ctx)
		if apierrors.IsForbidden(err) { // the discovery client loses the API server's message, but the API server also refuses this request, with the message
			err = cmp.Or(c.client.Create(ctx, &authenticationv1.SelfSubjectReview{}), err)
		}
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

// user returns the name of this user on the API server; "" if the API server does not return it.
func (c *Cluster) user(ctx context.Context) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.client.Create(ctx, &review); err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// peeringUser matches the names of the users that Liqo makes for the admin of a peer. Such a name
// contains the peer's cluster ID and 16 random bytes.
var peeringUser = regexp.MustCompile(`^liqo-peer-user-(.+)-[0-9a-f]{32}$`)

// tenantOf returns the tenant namespace of a user that Liqo or liqo-tui made for the admin of a peer;
// "" for other users.
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
