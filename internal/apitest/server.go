package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Server is a real API server, without nodes and without Kubernetes' controllers. Its client has all rights.
type Server struct {
	client.WithWatch
	Config *rest.Config
	Env    *envtest.Environment

	first map[types.UID]bool // the objects of a new server of [Use], which no test changes
}

// Options configure an API server. The zero value serves only Kubernetes' own kinds.
type Options struct {
	Definitions []string                      // folders of CustomResourceDefinitions
	Kinds       []func(*runtime.Scheme) error // kinds of clients, in addition to those of [wire.Scheme]
	Configure   func(*envtest.APIServer)
}

// New starts an API server. It runs until Stop.
func New(o Options) (*Server, error) {
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	for _, add := range o.Kinds {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s := &Server{Env: &envtest.Environment{CRDDirectoryPaths: o.Definitions, Scheme: scheme}}
	if o.Configure != nil {
		o.Configure(s.Env.ControlPlane.GetAPIServer())
	}
	if s.Config, err = s.Env.Start(); err != nil {
		return nil, fmt.Errorf("start an API server: %w", err)
	}
	if s.WithWatch, err = client.NewWithWatch(s.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return s, nil
}

// Stop ends the API server.
func (s *Server) Stop() error {
	if err := s.Env.Stop(); err != nil {
		return fmt.Errorf("stop an API server: %w", err)
	}
	return nil
}

// Start starts an API server for one test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	Require(t)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// As returns the configuration of another user.
func (s *Server) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// Account returns the configuration of a ServiceAccount, with the token of a pod on a node.
func (s *Server) Account(namespace, name, node string) *rest.Config {
	config := s.As("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts")
	config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	return config
}

// Made returns the objects that were made since [Use] started the server.
func (s *Server) Made(ctx context.Context) ([]*metav1.PartialObjectMetadata, error) {
	objects, err := s.Objects(ctx)
	return slices.DeleteFunc(objects, func(o *metav1.PartialObjectMetadata) bool { return s.first[o.UID] }), err
}

// empty deletes the objects that were made since the server was started, because the controllers that empty
// namespaces don't run here.
func (s *Server) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		made, err := s.Made(ctx)
		if err != nil || len(made) == 0 {
			return err
		}
		if err := s.remove(ctx, made); err != nil {
			return fmt.Errorf("empty the API server of %d objects: %w", len(made), err)
		}
	}
}

// remove deletes objects. It removes the finalizers of namespaces when only namespaces are left.
func (s *Server) remove(ctx context.Context, objects []*metav1.PartialObjectMetadata) error {
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

// Objects returns all objects that can be deleted, except those that the API server makes
// itself.
func (s *Server) Objects(ctx context.Context) ([]*metav1.PartialObjectMetadata, error) {
	asked, err := clientdiscovery.NewDiscoveryClientForConfig(s.Config)
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
					return nil // the definition was deleted, and discovery is a moment late
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

// isOfServer reports whether the API server itself makes and removes objects of a kind: for the addresses of
// Services, and for definitions.
func isOfServer(group, resource string) bool {
	return resource == "ipaddresses" || group == "apiregistration.k8s.io" || group == "flowcontrol.apiserver.k8s.io"
}

// pool holds the API servers of [Use], by their definitions.
var pool struct {
	mu   sync.Mutex
	all  []*Server
	idle map[string][]*Server
}

// Use gives the test an empty API server until the test ends. Tests reuse servers, because the start of one
// takes 3 s of CPU time and more, ten times more than to empty it. TestMain ends the servers with [Stop].
func Use(t testing.TB, definitions ...string) *Server {
	t.Helper()
	Require(t)
	kind := strings.Join(definitions, " ")
	pool.mu.Lock()
	var s *Server
	if idle := pool.idle[kind]; len(idle) > 0 {
		s, pool.idle[kind] = idle[len(idle)-1], idle[:len(idle)-1]
	}
	pool.mu.Unlock()
	var err error
	if s == nil {
		s, err = startShared(t.Context(), definitions)
	} else {
		err = s.empty(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.idle[kind] = append(pool.idle[kind], s)
	})
	return s
}

func startShared(ctx context.Context, definitions []string) (*Server, error) {
	s, err := New(Options{Definitions: definitions})
	if err != nil {
		return nil, err
	}
	pool.mu.Lock()
	pool.all = append(pool.all, s)
	if pool.idle == nil {
		pool.idle = map[string][]*Server{}
	}
	pool.mu.Unlock()
	s.first = map[types.UID]bool{}
	objects, err := s.Objects(ctx)
	for _, o := range objects {
		s.first[o.UID] = true
	}
	return s, err
}

// Stop ends all API servers of [Use].
func Stop() error {
	var errs []error
	for _, s := range pool.all {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// Controllers runs some of Kubernetes' own controllers, selected by args, until stop is called. The program
// is the same as that of etcd, under another name. The API server may have another minor version.
func Controllers(kubeconfig string, log io.Writer, args ...string) (stop func(), err error) {
	program, err := filepath.EvalSymlinks(os.Getenv("KUBEBUILDER_ASSETS") + "/etcd")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), program)
	cmd.Args = append([]string{"kube-controller-manager", "--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"}, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Kubernetes' controllers: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill() // the process may have ended
		_ = cmd.Wait()         // killed
	}, nil
}
