package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// sharedServer is an API server that several tests use, one after the other. To start
// one takes 3 s of CPU time and more, to empty it a tenth of that.
type sharedServer struct {
	client.Client
	env    *envtest.Environment
	config *rest.Config
	first  map[types.UID]bool // what it made itself; no test changes that
}

// servers are those that were started, and that no test uses now.
var servers struct {
	mu   sync.Mutex
	all  []*sharedServer
	idle []*sharedServer
}

// useServer gives the test an empty API server until it ends.
func useServer(t testing.TB) *sharedServer {
	t.Helper()
	apitest.Require(t)
	servers.mu.Lock()
	var s *sharedServer
	if n := len(servers.idle); n > 0 {
		s, servers.idle = servers.idle[n-1], servers.idle[:n-1]
	}
	servers.mu.Unlock()
	var err error
	if s == nil {
		s, err = startServer(t.Context())
	} else {
		err = s.empty(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		servers.mu.Lock()
		defer servers.mu.Unlock()
		servers.idle = append(servers.idle, s)
	})
	return s
}

func startServer(ctx context.Context) (*sharedServer, error) {
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	s := &sharedServer{env: &envtest.Environment{CRDDirectoryPaths: []string{"../../render/crds"}, Scheme: scheme}, first: map[types.UID]bool{}}
	if s.config, err = s.env.Start(); err != nil {
		return nil, fmt.Errorf("start an API server: %w", err)
	}
	servers.mu.Lock()
	servers.all = append(servers.all, s)
	servers.mu.Unlock()
	if s.Client, err = client.New(s.config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	objects, err := s.objects(ctx)
	for _, o := range objects {
		s.first[o.UID] = true
	}
	return s, err
}

// stopServers ends what useServer started.
func stopServers() error {
	var errs []error
	for _, s := range servers.all {
		if err := s.env.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop an API server: %w", err))
		}
	}
	return errors.Join(errs...)
}

// empty deletes all that was made since the server was started. Nothing else
// does that: the controllers that empty namespaces don't run here.
func (s *sharedServer) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		objects, err := s.objects(ctx)
		if err != nil {
			return err
		}
		made := slices.DeleteFunc(objects, func(o *metav1.PartialObjectMetadata) bool { return s.first[o.UID] })
		if len(made) == 0 {
			return nil
		}
		if err := s.remove(ctx, made); err != nil {
			return fmt.Errorf("empty the API server of %d objects: %w", len(made), err)
		}
	}
}

// remove deletes objects, and lets go of namespaces when nothing else is left.
func (s *sharedServer) remove(ctx context.Context, objects []*metav1.PartialObjectMetadata) error {
	isNamespace := func(o *metav1.PartialObjectMetadata) bool { return o.Kind == "Namespace" }
	onlyNamespaces := !slices.ContainsFunc(objects, func(o *metav1.PartialObjectMetadata) bool { return !isNamespace(o) })
	var g errgroup.Group
	g.SetLimit(10)
	for _, o := range objects {
		g.Go(func() error {
			err := client.IgnoreNotFound(s.Delete(ctx, o, client.GracePeriodSeconds(0)))
			if err == nil && isNamespace(o) && onlyNamespaces {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
				err = client.IgnoreNotFound(s.SubResource("finalize").Update(ctx, ns))
			}
			return err
		})
	}
	return g.Wait()
}

// objects is all that can be deleted, but what the API server keeps for itself.
func (s *sharedServer) objects(ctx context.Context) ([]*metav1.PartialObjectMetadata, error) {
	asked, err := clientdiscovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	kinds, err := asked.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("ask for the kinds of objects: %w", err)
	}
	var mu sync.Mutex
	var objects []*metav1.PartialObjectMetadata
	var g errgroup.Group
	g.SetLimit(10)
	for _, group := range kinds {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "delete") || !slices.Contains(kind.Verbs, "list") || isOfServer(gv.Group, kind.Name) {
				continue
			}
			g.Go(func() error {
				var list metav1.PartialObjectMetadataList
				list.SetGroupVersionKind(gv.WithKind(kind.Kind + "List"))
				err := s.List(ctx, &list)
				if apierrors.IsNotFound(err) {
					return nil // its definition was deleted; discovery names the kind for a moment longer
				}
				if err != nil {
					return fmt.Errorf("list %s: %w", kind.Name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range list.Items {
					list.Items[i].SetGroupVersionKind(gv.WithKind(kind.Kind))
					objects = append(objects, &list.Items[i])
				}
				return nil
			})
		}
	}
	return objects, g.Wait()
}

// isOfServer reports whether the API server makes and removes objects of a kind
// itself: of Services' addresses, and of definitions.
func isOfServer(group, resource string) bool {
	return resource == "ipaddresses" || group == "apiregistration.k8s.io" || group == "flowcontrol.apiserver.k8s.io"
}

// TestASharedServerIsAsNew makes objects of all sorts, in namespaces and not,
// some that are about to go, and sees nothing of them afterwards.
func TestASharedServerIsAsNew(t *testing.T) {
	apitest.Require(t)
	var before []string
	t.Run("used", func(t *testing.T) {
		w := newWorld(t)
		before = w.names()
		if !slices.ContainsFunc(before, func(name string) bool { return strings.HasPrefix(name, "Deployment liqo/") }) {
			t.Fatalf("got no Deployment among %q", before)
		}
		w.node("node-a", "192.0.2.11")
		w.runOperator()
		w.peer("milan", "10.244.0.0/16")
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "of-a-test"}})
	})
	t.Run("used again", func(t *testing.T) {
		w := newWorld(t)
		if after := w.names(); !slices.Equal(after, before) {
			t.Errorf("got %q, want %q", after, before)
		}
	})
}

// names are all objects' but those of the API server's own lease.
func (w *world) names() []string {
	w.t.Helper()
	objects, err := w.server.objects(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		if !w.server.first[o.UID] {
			names = append(names, o.Kind+" "+o.Namespace+"/"+o.Name)
		}
	}
	slices.Sort(names)
	return names
}
