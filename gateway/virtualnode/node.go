// Package virtualnode is the virtual kubelet: the program of one virtual node. It reports the measured state
// of the Node, and renews the Node's Lease. The operator creates and deletes both. The provider runs the pods
// that are bound to the Node, and the virtual kubelet copies their status back.
package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Options identify the virtual node.
type Options struct {
	Namespace, Name string // of the VirtualNode; the Node has its name
	// KubeconfigSecret is the Secret in Namespace that has the access to the provider.
	KubeconfigSecret string
	// Provider is the cluster ID of the provider, Consumer that of this cluster.
	Provider, Consumer string
	// Listen is the address for API servers' requests for logs and streams, such as ":10250"; "" for no
	// server.
	Listen string
	// Patience is how long the provider may be silent before the node is not ready. 0 means as long as
	// Kubernetes waits for a kubelet. Kubernetes sends no packets to the pods of a node that is not ready,
	// although these pods still run.
	Patience time.Duration
	Log      *slog.Logger
}

const (
	leaseSeconds = 40
	beatEvery    = 10 * time.Second // of the Lease, the same as kubelets
	// heartbeat is the interval at which an unchanged status is written, the same as for kubelets.
	heartbeat = 5 * time.Minute
	// The provider counts as silent after two requests without an answer, which takes 4 to 8 s.
	askEvery  = 2 * time.Second
	askWithin = 3 * time.Second
	patience  = 2
	// tryAgain is how soon a failed attempt is repeated.
	tryAgain = time.Second
	writer   = "liqo-tui-node"
)

var leaseKind = coordinationv1.SchemeGroupVersion.WithKind("Lease")

type virtualNode struct {
	Options

	cache  cache.Cache
	client client.Client
	system corev1.NodeSystemInfo
	woken  chan struct{}

	mu     sync.Mutex
	answer error     // the provider's, see [known]
	silent time.Time // since when the provider is silent; zero if it has answered or refused
	reach  *provider // the connections over which it has answered

	follower network.Follower
	told     told
	mirror   *mirror
	mapped   map[string]string // see the function [mapped]; kept when the NamespaceMap is gone. nil if there was none yet
	began    time.Time
	left     []peering.Leftover // at the last call of look
	unsure   bool               // left has more than the call before has found
}

// told has the last written values.
type told struct {
	status corev1.NodeStatus
	at     time.Time // zero: the present state of the Node is not known
	of     string    // version of the VirtualNode
	lease  time.Time
}

// Run is the virtual kubelet, until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	n, err := newNode(config, o)
	if err != nil {
		return fmt.Errorf("set up the virtual node: %w", err)
	}
	if err := n.watch(ctx); err != nil {
		return fmt.Errorf("watch what the virtual node follows from: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.cache.Start(ctx) })
	group.Go(func() error { return n.askAll(ctx) })
	group.Go(func() error { return n.keep(ctx) })
	group.Go(func() error { return n.mirror.run(ctx) })
	if o.Listen != "" {
		group.Go(func() error { return newKubelet(n.mirror).serve(ctx, o.Listen) })
	}
	return group.Wait()
}

func newNode(config *rest.Config, o Options) (*virtualNode, error) {
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), networkingv1beta1.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// A fixed mapper: discovery would cost more requests.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), meta.RESTScopeRoot)
	for version, kinds := range map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion:            {"Pod", "Event", "Secret", "ConfigMap", "Service"},
		discoveryv1.SchemeGroupVersion:       {"EndpointSlice"},
		offloadingv1beta1.SchemeGroupVersion: {offloadingv1beta1.VirtualNodeKind, "NamespaceMap", "ShadowPod", "ShadowEndpointSlice"},
		networkingv1beta1.GroupVersion:       {networkingv1beta1.ConnectionKind, networkingv1beta1.ConfigurationKind},
	} {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), meta.RESTScopeNamespace)
			mapper.Add(version.WithKind(kind+"List"), meta.RESTScopeNamespace) // the cache looks up the list's kind, too
		}
	}
	mapper.Add(leaseKind, meta.RESTScopeNamespace)
	if o.Patience == 0 {
		o.Patience = leaseSeconds * time.Second
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	only := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}}}
	}
	all := cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}}}
	kept, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&offloadingv1beta1.VirtualNode{}: only(o.Name), &corev1.Secret{}: only(o.KubeconfigSecret),
			&networkingv1beta1.Connection{}: all, &networkingv1beta1.Configuration{}: all,
			&offloadingv1beta1.NamespaceMap{}: only(o.Provider),
		},
	})
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	version, err := d.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	return &virtualNode{
		Options: o, cache: kept, client: c, woken: make(chan struct{}, 1), answer: errNotAsked, silent: time.Now(), began: time.Now(), mirror: newMirror(o, config, c),
		system: corev1.NodeSystemInfo{KubeletVersion: version.GitVersion, OperatingSystem: "linux"},
	}, nil
}

// watch wakes the virtual node at each change. The API server may refuse the watches at first, because new
// rights take effect with a delay: client-go tries again.
func (n *virtualNode) watch(ctx context.Context) error {
	for _, kind := range []client.Object{
		&offloadingv1beta1.VirtualNode{}, &offloadingv1beta1.NamespaceMap{}, &corev1.Secret{}, &networkingv1beta1.Connection{}, &networkingv1beta1.Configuration{},
	} {
		informer, err := n.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		wake := func(any) { n.wake() }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, o any) { wake(o) }, DeleteFunc: wake}); err != nil {
			return err
		}
	}
	return nil
}

func (n *virtualNode) wake() {
	select {
	case n.woken <- struct{}{}:
	default: // it is woken already
	}
}

// askAll checks at intervals whether the provider answers, until ctx ends.
func (n *virtualNode) askAll(ctx context.Context) error {
	if !n.cache.WaitForCacheSync(ctx) {
		return nil
	}
	var p *provider
	var of string // the Secret's version
	failures := patience
	for {
		s := &corev1.Secret{}
		err := n.cache.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.KubeconfigSecret}, s)
		if err != nil {
			p, of, err = nil, "", fmt.Errorf("read Secret %s: %w", n.KubeconfigSecret, err)
		} else if of != s.ResourceVersion {
			if p != nil {
				p.close()
			}
			p, err = newProvider(s.Data[peering.KeyKubeconfig], n.mirror.config.WrapTransport) // the wrapper is for tests
			of, failures = s.ResourceVersion, patience                                         // results of the earlier access do not count
		}
		if p != nil {
			asking, cancel := context.WithTimeout(ctx, askWithin)
			err = p.ask(asking, time.Now())
			cancel()
		} else if err == nil {
			err = n.answered() // no new result
		}
		if failures++; err == nil {
			failures = 0
		}
		if err == nil || failures >= patience {
			n.say(err, p)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

func (n *virtualNode) answered() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answer
}

func (n *virtualNode) say(answer error, by *provider) {
	n.mu.Lock()
	was, with, since := n.answer, n.reach, n.silent
	n.answer, n.reach = answer, nil
	switch {
	case answer == nil:
		n.reach, n.silent = by, time.Time{}
	case !errors.Is(answer, peering.ErrNoAnswer) && !apierrors.IsNotFound(answer): // not found is not a refusal: the operator creates a deleted Secret again
		n.silent = time.Time{}
	case n.silent.IsZero():
		n.silent = time.Now()
	}
	changed := (was == nil) != (answer == nil) || with != by && answer == nil || since.IsZero() != n.silent.IsZero()
	n.mu.Unlock()
	if changed {
		n.Log.Info("the provider", "answers", answer == nil, "error", fmt.Sprint(answer))
		n.wake()
	}
}

// keep writes the state of the node, until ctx ends.
func (n *virtualNode) keep(ctx context.Context) error {
	if !n.cache.WaitForCacheSync(ctx) {
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.woken:
		case <-timer.C:
		}
		next := beatEvery
		if err := n.write(ctx, time.Now()); err != nil && ctx.Err() == nil {
			n.Log.Error("tries again", "error", err)
			next = tryAgain
		}
		if n.unsure {
			next = tryAgain
		}
		n.mu.Lock()
		if left := time.Until(n.silent.Add(n.Patience)); left > 0 {
			next = min(next, left)
		}
		n.mu.Unlock()
		timer.Reset(next)
	}
}

// write reports the state of the node, and renews its Lease. It also writes an unchanged status with each
// renewal: this causes no event, and undoes changes by others.
func (n *virtualNode) write(ctx context.Context, now time.Time) error {
	k, there, err := n.know(ctx, now)
	if err != nil {
		return err
	}
	n.mirror.follow(ctx, k)
	if !there {
		return nil
	}
	n.look(ctx, &k)
	status := corev1.NodeStatus{Capacity: k.granted, Allocatable: k.allocatable(), Conditions: k.conditions(n.told.status.Conditions, now), NodeInfo: n.system}
	status.NodeInfo.Architecture = k.arch
	if n.told.at.Add(heartbeat).After(now) && same(status, n.told.status) {
		status = n.told.status
	}
	beat := now.Sub(n.told.lease) >= beatEvery-tryAgain
	// The operator changes the VirtualNode when it has created the Node again, or when the Node is not
	// ready although it was reported as ready. Then the status is written, too.
	if beat || k.of != n.told.of || !equality.Semantic.DeepEqual(status, n.told.status) {
		if err := n.apply(ctx, status); err != nil {
			n.told.at = time.Time{}
			return fmt.Errorf("say how Node %s is: %w", n.Name, err)
		}
		if n.told.of = k.of; !equality.Semantic.DeepEqual(status, n.told.status) {
			n.told.status, n.told.at = status, now
		}
	}
	if !beat {
		return nil
	}
	if err := n.renew(ctx, now); err != nil {
		return fmt.Errorf("renew the Lease of Node %s: %w", n.Name, err)
	}
	n.told.lease = now
	return nil
}

// look lists the leftovers on the provider. A leftover counts only if two calls in a row find it: a change on
// one side reaches the other with a delay.
func (n *virtualNode) look(ctx context.Context, k *known) {
	all, err := n.mirror.leftovers(ctx)
	if k.answer != nil { // the caches have only earlier objects
		err = fmt.Errorf("%s does not answer", k.provider)
	}
	k.unseen = err
	for _, l := range all {
		if slices.Contains(n.left, l) {
			k.left = append(k.left, l)
		}
	}
	n.left, n.unsure = all, len(all) > len(k.left)
}

// same reports whether two statuses differ at most in the times of heartbeats.
func same(a, b corev1.NodeStatus) bool {
	a.Conditions, b.Conditions = slices.Clone(a.Conditions), slices.Clone(b.Conditions)
	for _, all := range [][]corev1.NodeCondition{a.Conditions, b.Conditions} {
		for i := range all {
			all[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// know collects the state of the virtual node. there is false if the virtual node is being removed.
func (n *virtualNode) know(ctx context.Context, now time.Time) (k known, there bool, err error) {
	v := &offloadingv1beta1.VirtualNode{}
	if err := n.cache.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.Name}, v); err != nil {
		return k, false, client.IgnoreNotFound(err)
	}
	if v.DeletionTimestamp != nil {
		return k, false, nil
	}
	var configurations networkingv1beta1.ConfigurationList
	var connections networkingv1beta1.ConnectionList
	of := client.MatchingLabels{wire.LabelRemoteCluster: string(v.Spec.ClusterID)}
	if err := errors.Join(n.cache.List(ctx, &configurations, of), n.cache.List(ctx, &connections, of)); err != nil {
		return k, false, fmt.Errorf("list what there is of the network: %w", err)
	}
	m := &offloadingv1beta1.NamespaceMap{}
	switch err := n.cache.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: string(v.Spec.ClusterID)}, m); {
	case err == nil:
		n.mapped = mapped(n.mapped, m)
	case client.IgnoreNotFound(err) != nil:
		return k, false, fmt.Errorf("read the NamespaceMap for %s: %w", v.Spec.ClusterID, err)
	}
	// Without a NamespaceMap since its start, this program does not know whether there was one before. A
	// deleted NamespaceMap is made again within the node's patience.
	lost := n.mapped == nil && now.Before(n.began.Add(n.Patience))
	offloaded := namespacesOf(v, n.mapped)
	n.mu.Lock()
	defer n.mu.Unlock()
	return known{
		of: v.ResourceVersion, provider: string(v.Spec.ClusterID), granted: v.Spec.ResourceQuota.Hard, arch: v.Spec.Labels[corev1.LabelArchStable], problem: v.Annotations[wire.AnnotationProblem],
		answer: n.answer, waits: now.Before(n.silent.Add(n.Patience)) && n.wasReady(v), reach: n.reach, tunnel: n.follower.Tunnel(len(configurations.Items) > 0, connections.Items, now),
		mapped: offloaded, going: going(offloaded, m), unsaid: unsaid(offloaded, m, lost), withdrawn: withdrawn(m), ranges: network.RangesOf(wire.First(configurations.Items)),
	}, true, nil
}

// wasReady reports whether this process or an earlier one has reported the node as ready.
func (n *virtualNode) wasReady(v *offloadingv1beta1.VirtualNode) bool {
	if n.told.of != "" {
		return slices.ContainsFunc(n.told.status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	return slices.ContainsFunc(v.Status.Conditions, func(c offloadingv1beta1.VirtualNodeCondition) bool {
		return c.Type == offloadingv1beta1.NodeConditionType && c.Status == offloadingv1beta1.RunningConditionStatusType
	})
}

// apply writes the status. All of it belongs to this program.
func (n *virtualNode) apply(ctx context.Context, status corev1.NodeStatus) error {
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	delete(content, "daemonEndpoints") // the operator writes where this program listens
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	u.SetName(n.Name)
	return n.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(writer), client.ForceOwnership)
}

// renew renews the Lease. This program has no right to create one.
func (n *virtualNode) renew(ctx context.Context, now time.Time) error {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"holderIdentity": n.Name, "leaseDurationSeconds": int64(leaseSeconds), "renewTime": now.UTC().Format(metav1.RFC3339Micro),
	}}}
	u.SetGroupVersionKind(leaseKind)
	u.SetNamespace(corev1.NamespaceNodeLease)
	u.SetName(n.Name)
	return n.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(writer), client.ForceOwnership)
}
