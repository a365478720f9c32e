package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// collectLending adds the objects of one store of lending kinds.
func (c *Cluster) collectLending(f *flows.ClusterFacts, s *store) {
	l := f.Lending
	objects, err := s.snapshot()
	switch {
	case apierrors.IsNotFound(err):
		l.Missing = append(l.Missing, resourceOf(s.kind))
	case err != nil && !s.watch.Minor:
		f.Problem = c.problem(fmt.Sprintf("list %s", s.kind), err)
		if f.Problem.Kind == flows.Forbidden {
			f.Problem.Fix = f.Alone().AskForRights("--peering")
		}
	}
	// Other kinds that are narrowed to a tenant namespace are complete.
	if s.isHidden() || s.kind == "Pod" && s.isNarrowed() {
		if l.Hidden == nil {
			l.Hidden = map[string]bool{}
		}
		l.Hidden[s.kind] = true
	}
	for _, o := range objects {
		secret, isSecret := o.(*corev1.Secret)
		pod, isPod := o.(*corev1.Pod)
		switch {
		case isSecret && secret.Name == peering.KeysName && secret.Namespace == c.namespace:
			c.request(l, secret, f.ID)
		case isPod && pod.Labels[peering.LabelKubelet] != "":
			if facts := collect.Pod(pod); !facts.Ready {
				l.Waiting[pod.Namespace+"/"+pod.Labels[peering.LabelVirtualNode]] = "pod " + pod.Name + ": " + cmp.Or(facts.Waiting, "it is not ready")
			}
		default:
			l.Add(o)
		}
	}
}

// request makes the part of the cluster's key that other clusters may see, and drops the key itself.
func (c *Cluster) request(l *lending.Facts, s *corev1.Secret, id wire.ClusterID) {
	r, err := peering.NewRequest(s.Data[wire.SecretPrivateKey], id, rand.Reader)
	if err != nil {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s: %v", s.Namespace, s.Name, err)
		return
	}
	l.Request = &r
}

// tenantSecrets mirrors the Secrets of lending, with a store for each tenant namespace. So a user who
// connects two clusters needs no right to list Secrets in other namespaces.
type tenantSecrets struct {
	mu sync.Mutex
	of map[string][]*store // by namespace
}

// secretsIn returns the mirrors for the tenant namespaces in all, and starts the new ones.
func (c *Cluster) secretsIn(all []corev1.Namespace) (stores []*store) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	for i := range all {
		ns := &all[i]
		if ns.Labels[wire.LabelTenantNamespace] == "" {
			continue
		}
		if _, known := c.secrets.of[ns.Name]; !known {
			if c.secrets.of == nil {
				c.secrets.of = map[string][]*store{}
			}
			c.secrets.of[ns.Name] = c.stores(ns.Name)
			for _, s := range c.secrets.of[ns.Name] {
				go s.run(c.ctx, c.client)
			}
		}
		stores = append(stores, c.secrets.of[ns.Name]...)
	}
	return stores
}

func (c *Cluster) mirrors(kind string) []*store {
	all := slices.Clone(c.mirrored)
	c.secrets.mu.Lock()
	for _, stores := range c.secrets.of {
		all = append(all, stores...)
	}
	c.secrets.mu.Unlock()
	return slices.DeleteFunc(all, func(s *store) bool { return s.kind != kind })
}

func (c *Cluster) startLending() {
	c.lend.Do(func() {
		for _, s := range c.watched(true) {
			go s.run(c.ctx, c.client)
		}
	})
}

// observeLending adds the objects of lending, if the options request them. Unless a plan needs the objects,
// it skips clusters without Liqo and without a role of our operator in lending, because they have none.
func (c *Cluster) observeLending(ctx context.Context, f *flows.ClusterFacts) error {
	if c.options.Lending == LendingIgnored || c.options.Lending != LendingPlanned && !f.Can().Consume && !f.Can().Provide {
		return nil
	}
	c.startLending()
	all := c.watched(true)
	var secrets []*store
	if c.options.Lending != LendingShown {
		secrets = c.secretsIn(f.Namespaces)
		all = append(all, secrets...)
	}
	if reads := tried(ctx, all); reads != "" {
		f.Problem = c.slow(reads)
		return ctx.Err()
	}
	f.Lending = &lending.Facts{Waiting: map[string]string{}}
	if c.tenant() != "" { // a user who can list only one tenant namespace does not know the others
		f.Lending.Hidden = map[string]bool{"Namespace": true}
	}
	for _, s := range all {
		c.collectLending(f, s)
	}
	for _, s := range secrets {
		if s.isHidden() {
			f.Lending.Unread = append(f.Lending.Unread, s.namespace())
		}
	}
	if l := f.Lending; l.Request == nil && l.RequestProblem == "" {
		l.RequestProblem = fmt.Sprintf("Secret %s/%s does not exist, or may not be read", c.namespace, peering.KeysName)
	}
	return nil
}

// evict requests the eviction of a pod, which Kubernetes does if PodDisruptionBudgets allow it.
func (c *Cluster) evict(ctx context.Context, o client.Object, seen client.Preconditions) error {
	return c.client.SubResource("eviction").Create(ctx, o, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: seen.UID}},
	})
}
