package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A role is created before its binding, even if each request takes long.
func TestObjectsOfOneKindAreWrittenSideBySide(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var objects []wire.Object
	for i := range 12 {
		objects = append(objects, &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i)}})
	}
	for i := range 12 {
		objects = append(objects, &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i)}})
	}
	var roles atomic.Int32
	server := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			time.Sleep(2 * time.Second)
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			time.Sleep(2 * time.Second)
			kind := o.(interface{ GetKind() string }).GetKind()
			if kind == "ClusterRoleBinding" && roles.Load() < 24 { // 12 in each of the two runs
				t.Error("a binding is written before the last role")
			}
			if kind == "ClusterRole" && roles.Add(1) == 3 {
				return errFull
			}
			return nil
		},
	}).Build()
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{client: server, changed: make(chan struct{}, 1)}
		began := time.Now()
		if changes, err := c.Apply(t.Context(), objects); !errors.Is(err, errFull) || len(changes) != 11 {
			t.Errorf("got %d changes and %v, want those of the other roles and the error of one", len(changes), err)
		}
		changes, err := c.Apply(t.Context(), objects)
		if took := time.Since(began); err != nil || len(changes) != 24 || changes[23].Object != "ClusterRoleBinding r11" || took > 12*time.Second {
			t.Errorf("got %d changes within %s, %v; want all, in order, within 12 s", len(changes), took, err)
		}
	})
}

var errFull = errors.New("etcd is full")

// In TestLongListsComeInPages, an API server returns two nodes at a time, whatever the requested number is.
func TestLongListsComeInPages(t *testing.T) {
	asked := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(options)
			if o.Limit == 0 {
				t.Error("asks for everything at once")
			}
			from := 0
			if o.Continue != "" {
				if _, err := fmt.Sscan(o.Continue, &from); err != nil {
					return err
				}
			}
			nodes := list.(*corev1.NodeList)
			for i := from; i < min(from+2, 5); i++ {
				nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
			}
			if asked++; from+2 < 5 {
				nodes.Continue = fmt.Sprint(from + 2)
			}
			nodes.ResourceVersion = "7"
			return nil
		},
	}).Build()
	s := newStore("Node", func() client.ObjectList { return &corev1.NodeList{} }, func() {})
	list, _, err := s.list(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if objects, err := s.snapshot(); err != nil || len(objects) != 5 || asked != 3 || list.GetResourceVersion() != "7" {
		t.Errorf("got %d objects in %d answers, to watch on from %s (%v), want 5 in 3, from 7", len(objects), asked, list.GetResourceVersion(), err)
	}
}

// Ten pages that take 2 s each are slow. No page is read twice.
func TestAListOfManyPagesTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		server := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				asked++
				if asked < 10 {
					list.SetContinue("more")
				}
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
				return ctx.Err()
			},
		}).Build()
		s := newStore("Node", func() client.ObjectList { return &corev1.NodeList{} }, func() {})
		if _, _, err := s.list(t.Context(), server); err != nil || asked != 10 {
			t.Errorf("got %v after %d pages, want all 10", err, asked)
		}
	})
}

// Requests to a failing API server are rare, and also to a server that ends each watch at once.
func TestListsAreRepeatedWithAPause(t *testing.T) {
	for name, c := range map[string]struct {
		refuses error
		fails   bool // each watch ends by an error
		most    int  // the largest number of lists within a minute
	}{
		"lists are refused":       {errors.New("too many requests"), false, 70},
		"watches fail at once":    {nil, true, 70},
		"watches end immediately": {nil, false, 600},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				asked := 0
				server := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
					List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
						if asked++; asked > c.most {
							stop()
						}
						return c.refuses
					},
					Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(1, false)
						if c.fails {
							w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError})
						}
						w.Stop()
						return w, nil
					},
				}).Build()
				newStore("Pod", func() client.ObjectList { return &corev1.PodList{} }, func() {}).run(ctx, server)
				if asked < 10 || asked > c.most {
					t.Errorf("listed %d times within a minute, want 10 to %d", asked, c.most)
				}
			})
		})
	}
}

// TestKeysOfConnectedGatewaysAreLeftAlone observes a hub of Liqo twice, with 10 s in between.
func TestKeysOfConnectedGatewaysAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		value networkingv1beta1.ConnectionStatusValue
		want  int
	}{{"connected", networkingv1beta1.Connected, 1}, {"not connected", networkingv1beta1.ConnectionError, 2}} {
		t.Run(c.name, func(t *testing.T) {
			scheme, err := wire.Scheme()
			if err != nil {
				t.Fatal(err)
			}
			meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "1", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}}
			read := 0
			cluster := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "keys"}, Data: map[string][]byte{wire.SecretPublicKey: make([]byte, 32)},
			}).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					read++
					return c.Get(ctx, key, o, options...)
				},
			}).Build()}
			f := flows.ClusterFacts{
				Software: flows.Liqo,
				Servers:  []networkingv1beta1.GatewayServer{{ObjectMeta: meta, Status: networkingv1beta1.GatewayServerStatus{SecretRef: &corev1.ObjectReference{Name: "keys"}}}},
				Connections: []networkingv1beta1.Connection{{
					ObjectMeta: meta, Status: networkingv1beta1.ConnectionStatus{Value: c.value},
				}},
			}
			for range 2 {
				if err := cluster.addKeys(t.Context(), &f); err != nil || len(f.Keys) != 1 {
					t.Fatalf("got %d keys, %v", len(f.Keys), err)
				}
				for name, k := range cluster.secretKeys.read {
					k.at = k.at.Add(-2 * secretAgain)
					cluster.secretKeys.read[name] = k
				}
			}
			if read != c.want {
				t.Errorf("read the Secret %d times, want %d", read, c.want)
			}
		})
	}
}

type failing struct {
	next http.RoundTripper
	path string
}

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, f.path) {
		return nil, fmt.Errorf("the API server has no answer for %s", f.path)
	}
	return f.next.RoundTrip(r)
}

// In testMinorKinds, the lists of some optional kinds always fail. Then the list of a necessary kind fails.
func testMinorKinds(t *testing.T, env *envtest.Environment) {
	without := func(path string) flows.ClusterFacts {
		config := rest.CopyConfig(env.Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return failing{next, path} })
		return observe(t, open(t, config))
	}
	for _, path := range []string{"/api/v1/nodes", "/api/v1/services", "/api/v1/pods"} {
		if f := without(path); f.Problem != nil || !f.HasCRDs {
			t.Errorf("without %s: got problem %v, want the rest of the facts", path, f.Problem)
		}
	}
	for _, path := range []string{"/apis/apps/v1/deployments", "/apis/networking.liqo.io/v1beta1/connections"} {
		if f := without(path); f.Problem == nil {
			t.Errorf("without %s: got no problem", path)
		}
	}
}
