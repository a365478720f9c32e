package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// life simulates one process of the operator inside of a test.
type life struct {
	stop   context.CancelFunc
	done   chan error
	fuse   atomic.Int64  // the number of writes after which the process ends; 0: it does not end
	struck chan struct{} // closed after the last write
	dead   atomic.Bool
}

// start begins a life. All lives have one identity, as all containers of one pod do.
func (w *world) start() *life {
	ctx, stop := context.WithCancel(context.Background())
	l := &life{stop: stop, done: make(chan error, 1), struck: make(chan struct{})}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return link{life: l, next: next} })
	go func() { l.done <- Run(ctx, config, Options{Namespace: "liqo", Identity: "pod"}) }()
	return l
}

// kill ends a life: with a normal shutdown, or as kill -9 does, without another request to the API server.
func (l *life) kill(hard bool) error {
	if hard {
		l.dead.Store(true)
	}
	l.stop()
	return <-l.done
}

// link connects a life with the API server until the life ends.
type link struct {
	life *life
	next http.RoundTripper
}

var errDead = errors.New("the process is dead")

func (w link) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.life.dead.Load() {
		return nil, errDead
	}
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/leases/") || w.life.fuse.Load() <= 0 || w.life.fuse.Add(-1) > 0 {
		return w.next.RoundTrip(r)
	}
	if w.life.dead.CompareAndSwap(false, true) {
		close(w.life.struck)
	}
	if answer, err := w.next.RoundTrip(r); err == nil { // the last write: the process ends before it gets the answer
		_ = answer.Body.Close()
	}
	return nil, errDead
}

// TestKilledAtRandomNothingIsLeft kills the operator while peers are connected and reset. There is no garbage
// collector here, so the operator itself deleted the objects.
func TestKilledAtRandomNothingIsLeft(t *testing.T) {
	t.Parallel() // because it mostly waits
	w := newWorld(t)
	w.node("node-a", "192.0.2.11")
	rnd := rand.New(rand.NewPCG(sample.Seed(t), 0))
	operator := w.start()
	defer func() {
		if err := operator.kill(false); err != nil {
			t.Errorf("the last operator ended with %v", err)
		}
	}()
	kills := 0
	// strike kills the operator after one of its next writes, or after all of them.
	strike := func() {
		for range 1 + rnd.IntN(2) {
			operator.fuse.Store(1 + rnd.Int64N(20))
			select {
			case <-operator.struck:
				kills++
			case <-time.After(300 * time.Millisecond):
			}
			_ = operator.kill(rnd.IntN(3) > 0) // after a hard end, the error has no meaning
			operator = w.start()
		}
	}
	rounds := sample.Of(15, 50)
	for i := range rounds {
		p := &struckPeer{world: w.under(t), tenant: render.Tenant{Namespace: fmt.Sprintf("liqo-tenant-peer-%d", i%3), Remote: wire.ClusterID(fmt.Sprintf("peer-%d", i%3))}, isServer: rnd.IntN(2) == 0}
		p.connect() // the operator may be halfway through before the fuse is set
		strike()
		p.untilComplete()
		p.reset()
		strike()
		p.untilNothingIsLeft(i)
	}
	t.Logf("%d rounds; %d times the operator died in the middle of its work", rounds, kills)
	if kills < rounds/2 {
		t.Error("the operator was hardly ever killed at work: this test shows nothing")
	}
}

// struckPeer is a peer that is connected and reset while the operator is killed.
type struckPeer struct {
	*world

	tenant   render.Tenant
	isServer bool
	conf     *networkingv1beta1.Configuration
	gateway  client.Object
	pod      *corev1.Pod
}

// connect creates the objects of an admin.
func (p *struckPeer) connect() {
	p.t.Helper()
	if err := p.Create(p.t.Context(), render.TenantNamespace(p.tenant)); client.IgnoreAlreadyExists(err) != nil {
		p.t.Fatal(err)
	}
	p.conf = render.Configuration(p.tenant, render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16", "10.96.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
	p.create(p.conf)
	if p.isServer {
		p.gateway = render.GatewayServer(render.ServerParams{
			Tenant: p.tenant, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
			ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
		})
	} else {
		p.gateway = render.GatewayClient(render.ClientParams{
			Tenant: p.tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
			Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
		})
	}
	p.create(p.gateway)
	kind := map[bool]string{true: networkingv1beta1.GatewayServerKind, false: networkingv1beta1.GatewayClientKind}[p.isServer]
	p.gateway.GetObjectKind().SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(kind))
	p.create(render.PublicKey(p.tenant, [32]byte{1}, p.gateway))
}

// untilComplete acts as kubelet and gateway, and waits for all objects.
func (p *struckPeer) untilComplete() {
	p.t.Helper()
	name := metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: wire.GatewayObjectName(p.gateway.GetName())}
	deployment := until(p.world, &appsv1.Deployment{ObjectMeta: name}, "made for this gateway", p.isChild())
	p.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name + "-0", Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	p.pod.Spec.NodeName = "node-a"
	p.create(p.pod)
	p.pod.Status.PodIP, p.pod.Status.PodIPs = "10.244.0.9", []corev1.PodIP{{IP: "10.244.0.9"}}
	if err := p.Status().Update(p.t.Context(), p.pod); err != nil {
		p.t.Fatal(err)
	}
	conn := until(p.world, &networkingv1beta1.Connection{ObjectMeta: name}, "made for this gateway", func(c *networkingv1beta1.Connection) bool {
		return c.Spec.GatewayRef.UID == p.gateway.GetUID()
	})
	if conn.Status.Value != "" {
		p.t.Errorf("a new gateway's Connection: got %s, which was the earlier one's", conn.Status.Value)
	}
	conn.Status.Value = networkingv1beta1.Connected
	if err := p.Status().Update(p.t.Context(), conn); err != nil {
		p.t.Fatal(err)
	}
	until(p.world, p.conf, "remapped", func(c *networkingv1beta1.Configuration) bool {
		return c.Status.Remote != nil && len(c.Status.Remote.CIDR.Pod) == 2
	})
	until(p.world, &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: p.gateway.GetName()}}, "told of the pod",
		func(f *networkingv1beta1.InternalFabric) bool {
			return f.Spec.GatewayIP == "10.244.0.9" && len(f.Spec.RemoteCIDRs) == 3
		})
	if p.isServer {
		until(p.world, p.gateway.(*networkingv1beta1.GatewayServer), "with an endpoint", func(s *networkingv1beta1.GatewayServer) bool {
			return s.Status.Endpoint != nil && s.Status.SecretRef != nil
		})
	} else {
		until(p.world, p.gateway.(*networkingv1beta1.GatewayClient), "reported on", func(c *networkingv1beta1.GatewayClient) bool { return c.Status.SecretRef != nil })
	}
	until(p.world, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: string(p.tenant.Remote)}}, "enabled",
		func(fc *corev1beta1.ForeignCluster) bool { return fc.Status.Modules.Networking.Enabled })
}

func (p *struckPeer) isChild() func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool { return metav1.IsControlledBy(d, p.gateway) }
}

// reset deletes the admin's objects, and the pod, as its kubelet would.
func (p *struckPeer) reset() {
	p.t.Helper()
	for _, o := range []client.Object{p.gateway, p.conf, p.pod} {
		if err := p.Delete(p.t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *struckPeer) untilNothingIsLeft(round int) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		left := p.ofPeers()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("round %d left %s", round, strings.Join(left, ", "))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ofPeers lists all objects that belong to a peer, except the namespaces, because only a controller that does
// not run here can delete them.
func (w *world) ofPeers() []string {
	w.t.Helper()
	var left []string
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.PodList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &ipamv1alpha1.NetworkList{}, &corev1beta1.ForeignClusterList{},
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{},
		&networkingv1beta1.ConnectionList{}, &networkingv1beta1.PublicKeyList{}, &networkingv1beta1.InternalFabricList{},
	} {
		if err := w.List(w.t.Context(), list, client.HasLabels{wire.LabelRemoteCluster}); err != nil {
			w.t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			left = append(left, apply.Name(o.(client.Object)))
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return left
}
