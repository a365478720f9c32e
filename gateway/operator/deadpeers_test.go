package operator

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// silent returns the URL of an API server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "https://" + l.Addr().String()
}

// Peers that don't answer don't delay messages to a peer that answers.
func TestDeadPeersDelayNoLiveOne(t *testing.T) {
	told := make(chan struct{}, 100)
	live := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		told <- struct{}{}
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	t.Cleanup(live.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: live.Certificate().Raw})
	var objects []client.Object
	var requests []reconcile.Request
	dead := silent(t)
	for i := range 21 {
		server, namespace := dead, fmt.Sprint("liqo-tenant-", i)
		if i == 20 {
			server = live.URL
		}
		gateway := render.GatewayServer(render.ServerParams{
			Tenant:   render.Tenant{Namespace: namespace, Remote: wire.ClusterID(fmt.Sprint("peer-", i))},
			Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"}, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
		})
		gateway.UID = types.UID(fmt.Sprint(i))
		gateway.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind))
		access, err := render.Delegate{Tenant: render.Tenant{Namespace: namespace}, Gateway: gateway}.Access(render.PeerAccess{
			Server: server, CA: ca, Token: []byte("x"), Namespace: "there", Gateway: "gw", PublicKey: "key", Expires: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: accessNames[0]}}
		objects = append(objects, gateway, access, rights)
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(access)})
	}
	c := clusterWith(t, objects...)
	r := &delegates{client: c}
	r.begin()
	o := workers(delegating)
	queue := workqueue.NewTypedRateLimitingQueue(o.RateLimiter)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer queue.ShutDown()
	defer cancel()
	for _, request := range requests {
		queue.Add(request)
	}
	for range o.MaxConcurrentReconciles {
		all.Go(func() {
			for {
				request, ended := queue.Get()
				if ended || ctx.Err() != nil {
					return
				}
				if _, err := r.Reconcile(ctx, request); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", request, err)
				}
				queue.Done(request)
			}
		})
	}
	select {
	case <-told:
	case <-time.After(peerTimeout - time.Second):
		t.Error("the live one has to wait for the others")
	}
}
