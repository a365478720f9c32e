package kube

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

func watchFrom(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
}

// watchedKinds is everything that facts are made of.
func (c *Cluster) watchedKinds() []*store {
	s := func(kind string, newList func() client.ObjectList, options ...client.ListOption) *store {
		return newStore(kind, newList, c.notify, options...)
	}
	here := client.InNamespace(c.namespace)
	return []*store{
		s("Namespace", func() client.ObjectList { return &corev1.NamespaceList{} }),
		s("ConfigMap", func() client.ObjectList { return &corev1.ConfigMapList{} }, here, client.MatchingLabels{render.LabelAppName: render.ClusterIDAppName}),
		s("Deployment", func() client.ObjectList { return &appsv1.DeploymentList{} }, here),
		s("Pod", func() client.ObjectList { return &corev1.PodList{} }, client.MatchingLabels{render.LabelComponent: "gateway"}),
		s("Network", func() client.ObjectList { return &ipamv1alpha1.NetworkList{} }, here, client.HasLabels{render.LabelNetworkType}),
		s("Configuration", func() client.ObjectList { return &networkingv1beta1.ConfigurationList{} }),
		s("GatewayServer", func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} }),
		s("GatewayClient", func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} }),
		s("PublicKey", func() client.ObjectList { return &networkingv1beta1.PublicKeyList{} }),
		s("Connection", func() client.ObjectList { return &networkingv1beta1.ConnectionList{} }),
	}
}

// Observe waits for the first answer of every watch, then says what is there.
func (c *Cluster) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	c.start.Do(func() {
		for _, s := range c.kinds {
			go s.run(c.ctx, c.client)
		}
	})
	facts := flows.ClusterFacts{Context: c.options.Context, Server: c.server, Namespace: c.namespace}
	facts.Problem = c.identify(ctx, &facts)
	if facts.Problem != nil {
		return facts, ctx.Err()
	}
	for _, s := range c.kinds {
		select {
		case <-s.tried:
		case <-ctx.Done():
			return facts, ctx.Err()
		}
	}
	facts.HasCRDs = true
	for _, s := range c.kinds {
		objects, err := s.snapshot()
		switch {
		case apierrors.IsNotFound(err):
			facts.HasCRDs = false
		case err != nil:
			facts.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
		}
		for _, o := range objects {
			collect(&facts, o)
		}
	}
	sortFacts(&facts)
	return facts, c.addKeys(ctx, &facts)
}

// identify asks once who the cluster is.
func (c *Cluster) identify(ctx context.Context, facts *flows.ClusterFacts) *flows.Problem {
	c.identityOnce.Lock()
	defer c.identityOnce.Unlock()
	if c.uid == "" {
		// An API server may take the connection and say nothing.
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		version, err := c.discovery.ServerVersionWithContext(ctx)
		if err != nil {
			return c.problem("ask for the version", err)
		}
		var ns corev1.Namespace
		if err := c.client.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &ns); err != nil {
			return c.problem("read Namespace kube-system", err)
		}
		c.uid, c.version = string(ns.UID), version.GitVersion
	}
	facts.UID, facts.Version = c.uid, c.version
	return nil
}

// collect adds one object to the facts. Objects are copied: the store's own
// may be replaced at any time, but are never changed.
func collect(f *flows.ClusterFacts, o client.Object) {
	switch o := o.(type) {
	case *corev1.Namespace:
		if o.Labels[render.LabelTenantNamespace] == "true" || strings.HasPrefix(o.Name, render.TenantNamespaceName("")) {
			f.Tenants = append(f.Tenants, *o)
		}
	case *corev1.ConfigMap:
		f.ID = render.ClusterID(o.Data[render.ClusterIDKey])
	case *appsv1.Deployment:
		f.Software = max(f.Software, softwareOf(o))
	case *corev1.Pod:
		f.Pods = append(f.Pods, podFacts(o))
	case *ipamv1alpha1.Network:
		collectNetwork(f, o)
	case *networkingv1beta1.Configuration:
		f.Configurations = append(f.Configurations, *o)
	case *networkingv1beta1.GatewayServer:
		f.Servers = append(f.Servers, *o)
	case *networkingv1beta1.GatewayClient:
		f.Clients = append(f.Clients, *o)
	case *networkingv1beta1.PublicKey:
		f.PublicKeys = append(f.PublicKeys, *o)
	case *networkingv1beta1.Connection:
		f.Connections = append(f.Connections, *o)
	}
}

func softwareOf(d *appsv1.Deployment) flows.Software {
	switch d.Labels[render.LabelAppName] {
	case render.OperatorName:
		return flows.Operator
	case "controller-manager":
		if d.Labels[render.LabelPartOf] == "liqo" {
			return flows.Liqo
		}
	}
	return flows.NoSoftware
}

func collectNetwork(f *flows.ClusterFacts, n *ipamv1alpha1.Network) {
	if n.Status.CIDR == "" {
		return
	}
	switch n.Labels[render.LabelNetworkType] {
	case render.NetworkPodCIDR:
		f.Networks.Pod = append(f.Networks.Pod, n.Status.CIDR)
	case render.NetworkExternalCIDR:
		f.Networks.External = append(f.Networks.External, n.Status.CIDR)
	}
}

// podFacts turns a pod's states into what it waits for.
func podFacts(p *corev1.Pod) flows.PodFacts {
	f := flows.PodFacts{Namespace: p.Namespace, Name: p.Name, Gateway: p.Labels[render.LabelGatewayName]}
	for _, cond := range p.Status.Conditions {
		switch {
		case cond.Type == corev1.PodReady:
			f.Ready = cond.Status == corev1.ConditionTrue
		case cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse:
			f.Waiting = cond.Message
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if f.Waiting == "" && s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" {
			f.Waiting = s.State.Waiting.Reason
			if s.State.Waiting.Message != "" {
				f.Waiting += ": " + s.State.Waiting.Message
			}
		}
	}
	return f
}

// sortFacts makes facts of the same state equal: the stores are maps.
func sortFacts(f *flows.ClusterFacts) {
	byName(f.Tenants)
	byName(f.Configurations)
	byName(f.Servers)
	byName(f.Clients)
	byName(f.PublicKeys)
	byName(f.Connections)
	slices.SortFunc(f.Pods, func(a, b flows.PodFacts) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(f.Networks.Pod)
	slices.Sort(f.Networks.External)
}

func byName[T any, O interface {
	*T
	client.Object
}](all []T) {
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(O(&a).GetNamespace(), O(&b).GetNamespace()), cmp.Compare(O(&a).GetName(), O(&b).GetName()))
	})
}

// addKeys finds the gateways' own public keys. Our operator writes them beside
// the gateway; of Liqo's, the Secret is read, and only its public half kept.
func (c *Cluster) addKeys(ctx context.Context, f *flows.ClusterFacts) error {
	f.Keys = map[string]wgtypes.Key{}
	for i := range f.Servers {
		c.addKey(ctx, f, &f.Servers[i], f.Servers[i].Status.SecretRef)
	}
	for i := range f.Clients {
		c.addKey(ctx, f, &f.Clients[i], f.Clients[i].Status.SecretRef)
	}
	return ctx.Err()
}

func (c *Cluster) addKey(ctx context.Context, f *flows.ClusterFacts, gateway client.Object, ref *corev1.ObjectReference) {
	var raw []byte
	if text, ok := gateway.GetAnnotations()[render.AnnotationPublicKey]; ok {
		raw, _ = base64.StdEncoding.DecodeString(text) // a bad one is no key: the length tells
	} else if ref != nil && f.Software != flows.Operator {
		var secret corev1.Secret
		if err := c.client.Get(ctx, types.NamespacedName{Namespace: gateway.GetNamespace(), Name: ref.Name}, &secret); err != nil {
			return // as good as not there yet; the step that needs it says so
		}
		raw = secret.Data[render.SecretPublicKey]
	}
	if key, err := wgtypes.NewKey(raw); err == nil {
		f.Keys[gateway.GetNamespace()+"/"+gateway.GetName()] = key
	}
}
