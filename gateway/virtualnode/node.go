// Package virtualnode is the virtual kubelet: the program of one virtual node. The virtual kubelet writes the
// measured state into the Node's status, and renews the Node's Lease. The operator creates and deletes the Node
// and the Lease. The virtual kubelet copies pods that are bound to the Node to the provider, which runs them. It
// copies their status back.
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

// Options name the virtual node, and configure the requests to the provider.
type Options struct {
	Namespace, Name string // of the VirtualNode; the Node has the same name
	// KubeconfigSecret is the name of the Secret in Namespace with the kubeconfig for the provider.
	KubeconfigSecret string
	// Provider is the cluster ID of the provider. Consumer is the cluster ID of this cluster.
	Provider, Consumer string
	// Listen is the address, such as ":10250", at which this cluster's API server asks for logs and streams of
	// pods; "" to serve none.
	Listen string
	// Patience is the time for which the Node stays ready after the provider has become silent. 0 means 40 s,
	// the time that Kubernetes before 1.32 waits for a kubelet (50 s since). Services send no packets to the
	// pods of a Node that is not ready, although these pods may still run.
	Patience time.Duration
	Log      *slog.Logger
}

const (
	leaseSeconds = 40 // the Lease's duration, as kubelets have it
	// beatEvery is the interval between two renewals of the Lease. Kubelets have the same interval.
	beatEvery = 10 * time.Second
	// heartbeat is the interval at which a status without other changes gets new heartbeat times. Kubelets
	// have the same interval.
	heartbeat = 5 * time.Minute
	// askEvery is the pause between two requests to the provider, askWithin the time limit of one request.
	askEvery  = 2 * time.Second
	askWithin = 3 * time.Second
	// patience is the number of failed requests in a row after which the provider counts as silent. This is 4 to
	// 10 s after its last answer: 4 s if both requests fail at once, 10 s if both reach their time limit.
	patience = 2
	// tryAgain is the pause before a failed attempt is repeated.
	tryAgain = time.Second
	writer   = "liqo-tui-node" // the field manager of this program
)

var leaseKind = coordinationv1.SchemeGroupVersion.WithKind("Lease")

type virtualNode struct {
	Options

	cache  cache.Cache
	client client.Client
	system corev1.NodeSystemInfo
	woken  chan struct{}

	mu     sync.Mutex
	answer error     // see the field answer of [known]
	silent time.Time // the time at which the provider became silent; zero if it answers or refuses requests
	reach  *provider // the connections over which the provider has answered last; nil if it does not answer

	follower network.Follower
	written  written
	mirror   *mirror
	mapped   map[string]string // see the function [mapped]; it stays if the NamespaceMap is deleted. nil before the first NamespaceMap
	began    time.Time
	left     []peering.Leftover // unowned objects that the last call of look has found
	unsure   bool               // the last call of look has found new unowned objects
}

// written holds the values that this program has written last.
type written struct {
	status corev1.NodeStatus
	at     time.Time // since when the Node has this status; zero if that is unknown
	of     string    // the resource version of the VirtualNode at the last write
	lease  time.Time // the last renewal of the Lease
}

// Run runs the virtual kubelet until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	n, err := newNode(config, o)
	if err != nil {
		return fmt.Errorf("set up the virtual node: %w", err)
	}
	if err := n.watch(ctx); err != nil {
		return fmt.Errorf("watch the objects of the virtual node: %w", err)
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
	// A fixed list of kinds, because discovery would cost more requests.
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
			mapper.Add(version.WithKind(kind+"List"), meta.RESTScopeNamespace) // the cache also looks up the kind of the list
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

// watch starts the watches. Each change wakes the loop of keep. The API server may refuse the watches at first,
// because new rights take effect with a delay. client-go then tries again.
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
	default: // the loop was woken before, and has not started its next round yet
	}
}

// askAll asks the provider's API server at intervals whether it answers, until ctx ends.
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
			p, err = newProvider(s.Data[peering.KeyKubeconfig], n.mirror.config.WrapTransport) // tests replace the wrapper
			of, failures = s.ResourceVersion, patience                                         // the first result with this kubeconfig counts at once
		}
		if p != nil {
			asking, cancel := context.WithTimeout(ctx, askWithin)
			err = p.ask(asking, time.Now())
			cancel()
		} else if err == nil {
			err = n.answered() // the Secret has not changed, and is unusable: the earlier result stays
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

// say notes the result of requests to the provider, and wakes the loop of keep if the result is new. The parameter
// answering holds the connections over which the provider answered.
func (n *virtualNode) say(answer error, answering *provider) {
	n.mu.Lock()
	was, with, since := n.answer, n.reach, n.silent
	n.answer, n.reach = answer, nil
	switch {
	case answer == nil:
		n.reach, n.silent = answering, time.Time{}
	case !errors.Is(answer, peering.ErrNoAnswer) && !apierrors.IsNotFound(answer): // a missing Secret is no refusal by the provider: the operator creates it again
		n.silent = time.Time{}
	case n.silent.IsZero():
		n.silent = time.Now()
	}
	changed := (was == nil) != (answer == nil) || with != answering && answer == nil || since.IsZero() != n.silent.IsZero()
	n.mu.Unlock()
	if changed {
		n.Log.Info("the provider", "answers", answer == nil, "error", fmt.Sprint(answer))
		n.wake()
	}
}

// keep writes the Node's status and Lease at intervals and after each change, until ctx ends.
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
			n.Log.Error("write the Node's status", "error", err)
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

// write writes the Node's status, and renews the Node's Lease. It writes the status with each renewal, even if the
// status is unchanged. An unchanged write causes no watch event, but it undoes changes by other programs.
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
	status := corev1.NodeStatus{Capacity: k.granted, Allocatable: k.allocatable(), Conditions: k.conditions(n.written.status.Conditions, now), NodeInfo: n.system}
	status.NodeInfo.Architecture = k.arch
	if n.written.at.Add(heartbeat).After(now) && same(status, n.written.status) {
		status = n.written.status
	}
	beat := now.Sub(n.written.lease) >= beatEvery-tryAgain
	// The operator changes the VirtualNode in two cases: it has created the Node again, or the Node is not ready
	// although our last status says that it is. So each change of the VirtualNode makes this program write.
	if beat || k.of != n.written.of || !equality.Semantic.DeepEqual(status, n.written.status) {
		if err := n.apply(ctx, status); err != nil {
			n.written.at = time.Time{}
			return fmt.Errorf("write the status of Node %s: %w", n.Name, err)
		}
		if n.written.of = k.of; !equality.Semantic.DeepEqual(status, n.written.status) {
			n.written.status, n.written.at = status, now
		}
	}
	if !beat {
		return nil
	}
	if err := n.renew(ctx, now); err != nil {
		return fmt.Errorf("renew the Lease of Node %s: %w", n.Name, err)
	}
	n.written.lease = now
	return nil
}

// look finds the unowned objects on the provider. An object counts only if two calls in a row find it, because a
// change on one side reaches the other side with a delay.
func (n *virtualNode) look(ctx context.Context, k *known) {
	all, err := n.mirror.leftovers(ctx)
	if k.answer != nil { // the caches are out of date
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

// same reports whether two statuses are equal, apart from their heartbeat times.
func same(a, b corev1.NodeStatus) bool {
	a.Conditions, b.Conditions = slices.Clone(a.Conditions), slices.Clone(b.Conditions)
	for _, all := range [][]corev1.NodeCondition{a.Conditions, b.Conditions} {
		for i := range all {
			all[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// know collects the state of the virtual node. there is false if the VirtualNode is deleted, or is being deleted.
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
		return k, false, fmt.Errorf("list the Configurations and Connections of the network: %w", err)
	}
	m := &offloadingv1beta1.NamespaceMap{}
	switch err := n.cache.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: string(v.Spec.ClusterID)}, m); {
	case err == nil:
		n.mapped = mapped(n.mapped, m)
	case client.IgnoreNotFound(err) != nil:
		return k, false, fmt.Errorf("read the NamespaceMap for %s: %w", v.Spec.ClusterID, err)
	}
	// lost: this program has seen no NamespaceMap since its start. Perhaps the map was deleted while no process ran.
	// The program waits for it up to Patience, because the operator creates it again sooner.
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

// wasReady reports whether the last written status says that the Node is ready, also if an earlier process has
// written it.
func (n *virtualNode) wasReady(v *offloadingv1beta1.VirtualNode) bool {
	if n.written.of != "" {
		return slices.ContainsFunc(n.written.status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	return slices.ContainsFunc(v.Status.Conditions, func(c offloadingv1beta1.VirtualNodeCondition) bool {
		return c.Type == offloadingv1beta1.NodeConditionType && c.Status == offloadingv1beta1.RunningConditionStatusType
	})
}

// apply writes the status. This program owns all fields of the status, except for addresses and daemonEndpoints:
// the operator writes these two.
func (n *virtualNode) apply(ctx context.Context, status corev1.NodeStatus) error {
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	delete(content, "daemonEndpoints") // an empty value would take the field over from the operator
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	u.SetName(n.Name)
	return n.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(writer), client.ForceOwnership)
}

// renew renews the Lease. This program may not create a Lease, so renew fails if the operator has not created it.
func (n *virtualNode) renew(ctx context.Context, now time.Time) error {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"holderIdentity": n.Name, "leaseDurationSeconds": int64(leaseSeconds), "renewTime": now.UTC().Format(metav1.RFC3339Micro),
	}}}
	u.SetGroupVersionKind(leaseKind)
	u.SetNamespace(corev1.NamespaceNodeLease)
	u.SetName(n.Name)
	return n.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(writer), client.ForceOwnership)
}
