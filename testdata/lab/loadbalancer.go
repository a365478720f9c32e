package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// lbRetry is the pause before a failed write is tried again.
const lbRetry = time.Second

// addressHolder is the network device that answers for balanced addresses.
type addressHolder interface {
	Add(netip.Addr) error
	Remove(netip.Addr) error
}

// nodeLink is the first node's device. kube-proxy on that node does the balancing.
type nodeLink struct{ s *supervisor }

func (l nodeLink) Add(a netip.Addr) error    { return l.ip("replace", a.String()+"/32") }
func (l nodeLink) Remove(a netip.Addr) error { return l.ip("del", a.String()+"/32") }

func (l nodeLink) ip(verb, address string) error {
	return l.s.run("loadbalancer", nil, "/usr/sbin/ip", "addr", verb, address, "dev", "eth0")
}

// serveLoadBalancers gives an address from pool to every Service of type
// LoadBalancer. It returns only if it can't start, or when ctx is done.
func serveLoadBalancers(ctx context.Context, api kubernetes.Interface, pool netip.Prefix, link addressHolder) error {
	factory := informers.NewSharedInformerFactory(api, 0)
	informer := factory.Core().V1().Services()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a value already waits
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return ctx.Err()
	}
	lb := loadBalancer{api: api, pool: pool, link: link, held: map[netip.Addr]bool{}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		services, err := informer.Lister().List(labels.Everything())
		if err == nil {
			err = lb.sync(ctx, services)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "load balancer:", err)
			time.AfterFunc(lbRetry, notify)
		}
	}
}

type loadBalancer struct {
	api  kubernetes.Interface
	pool netip.Prefix
	link addressHolder
	held map[netip.Addr]bool
}

// sync updates the device and the status of all Services.
func (lb *loadBalancer) sync(ctx context.Context, services []*corev1.Service) error {
	want, unserved := assign(services, lb.pool)
	wanted := map[netip.Addr]bool{}
	for _, a := range want {
		wanted[a] = true
	}
	for a := range lb.held {
		if wanted[a] {
			continue
		}
		if err := lb.link.Remove(a); err != nil {
			return err
		}
		delete(lb.held, a)
	}
	for a := range wanted {
		if lb.held[a] {
			continue
		}
		if err := lb.link.Add(a); err != nil {
			return err
		}
		lb.held[a] = true
	}
	for _, s := range services {
		if err := lb.report(ctx, s, want[serviceKey(s)]); err != nil {
			return err
		}
	}
	if len(unserved) > 0 {
		return fmt.Errorf("no address of %s is free for %v", lb.pool, unserved)
	}
	return nil
}

// report writes the address of s into its status, or removes it, unless the status
// is right already.
func (lb *loadBalancer) report(ctx context.Context, s *corev1.Service, address netip.Addr) error {
	if s.Spec.LoadBalancerClass != nil || reported(s) == address {
		return nil
	}
	updated := s.DeepCopy()
	updated.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	if address.IsValid() {
		updated.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address.String()}}
	}
	_, err := lb.api.CoreV1().Services(s.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of service %s: %w", serviceKey(s), err)
	}
	return nil
}

// assign chooses an address for every Service that needs one: its present address,
// else the one in its specification, else the lowest free one. It ignores Services
// with a class, which belong to other programs. It also returns the Services
// without an address.
func assign(services []*corev1.Service, pool netip.Prefix) (want map[string]netip.Addr, unserved []string) {
	want, taken := map[string]netip.Addr{}, map[netip.Addr]bool{}
	take := func(s *corev1.Service, a netip.Addr) {
		if _, has := want[serviceKey(s)]; !has && pool.Contains(a) && !taken[a] {
			want[serviceKey(s)], taken[a] = a, true
		}
	}
	var asking []*corev1.Service
	for _, s := range services {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil {
			asking = append(asking, s)
		}
	}
	slices.SortFunc(asking, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(serviceKey(a), serviceKey(b)))
	})
	for _, s := range asking {
		take(s, reported(s))
	}
	for _, s := range asking {
		if a, err := netip.ParseAddr(s.Spec.LoadBalancerIP); err == nil {
			take(s, a)
		}
	}
	for _, s := range asking {
		for a := pool.Masked().Addr(); pool.Contains(a); a = a.Next() {
			take(s, a)
		}
		if _, has := want[serviceKey(s)]; !has {
			unserved = append(unserved, serviceKey(s))
		}
	}
	return want, unserved
}

// reported returns the address in the status of s; zero if there is none.
func reported(s *corev1.Service) netip.Addr {
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil {
			return a
		}
	}
	return netip.Addr{}
}

func serviceKey(s *corev1.Service) string { return s.Namespace + "/" + s.Name }
