package lending_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/gateway/operator"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending"
	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// patience is the limit for events that come at once on an idle machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// authority signs client certificates: those of the test's users, and, through Kubernetes' own controllers,
// those that are requested from the API.
type authority struct {
	folder string
	cert   *x509.Certificate
	key    crypto.Signer
}

func newAuthority(folder string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	template.NotBefore, template.NotAfter = time.Now().AddDate(-1, 0, 0), time.Now().AddDate(1, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &authority{folder: folder, key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for name, block := range map[string]*pem.Block{"ca.crt": {Type: "CERTIFICATE", Bytes: der}, "ca.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// sign returns a client certificate for a key, as PEM.
func (a *authority) sign(key any, subject pkix.Name, from, until time.Time) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, key, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func (a *authority) Configure(_ string, args *envtest.Arguments) error {
	args.Set("client-ca-file", filepath.Join(a.folder, "ca.crt"))
	return nil
}

func (a *authority) Start() error { return nil }
func (a *authority) Stop() error  { return nil }

func (a *authority) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	config.CertData, err = a.sign(key.Public(), pkix.Name{CommonName: user.Name, Organization: user.Groups}, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	return config, err
}

// plane is one cluster. It has a real API server, Kubernetes' own controllers for certificate requests and
// deletions, and our operator with the rights of an installation.
type plane struct {
	client.Client
	t         testing.TB
	id        wire.ClusterID
	config    *rest.Config
	as        func(user string, groups ...string) *rest.Config
	authority *authority
	server    string // URL of the API server
	kubecfg   string // file with an admin's access
	crashes   atomic.Int64
	lend      corev1.ResourceList // the operator's limit for lending
	stop      func()              // ends the operator

	programEnds    atomic.Int64 // the next program of a virtual node ends after so many writes, 0 for never
	programCrashes atomic.Int64
	programs       atomic.Int64 // the number of running virtual kubelets
	holdsPods      atomic.Bool  // keep consumers' pods that are deleted
}

func newPlane(t testing.TB, id wire.ClusterID, role render.PeeringRole) *plane {
	t.Helper()
	folder := t.TempDir()
	a, err := newAuthority(folder)
	if err != nil {
		t.Fatal(err)
	}
	api := apitest.Start(t, apitest.Options{
		Definitions: []string{"../../../render/crds", "../../../render/crds/peering"},
		Kinds:       []func(*runtime.Scheme) error{authv1beta1.AddToScheme, certificatesv1.AddToScheme, offloadingv1beta1.AddToScheme, authenticationv1.AddToScheme},
		Configure:   func(s *envtest.APIServer) { s.Authn = a },
	})
	p := &plane{Client: api, t: t, id: id, config: api.Config, authority: a, as: api.As}
	p.server = "https://" + strings.TrimSuffix(strings.TrimPrefix(p.config.Host, "https://"), "/")
	admin, err := api.Env.AddUser(envtest.User{Name: "controllers", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.runControllers(admin, folder)
	p.install(role)
	p.runOperator(role)
	return p
}

// runControllers runs Kubernetes' own controllers. They are in the same program as the API server, under
// another name.
func (p *plane) runControllers(admin *envtest.AuthenticatedUser, folder string) {
	p.t.Helper()
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.kubecfg = file
	var log bytes.Buffer
	stop, err := apitest.Controllers(file, &log,
		"--cluster-signing-cert-file", filepath.Join(folder, "ca.crt"), "--cluster-signing-key-file", filepath.Join(folder, "ca.key"),
		"--controllers=certificatesigningrequest-signing-controller,namespace-controller,garbage-collector-controller,resourcequota-controller",
		"--kube-api-qps=1000", "--kube-api-burst=1000", // otherwise quotas would be counted too late, and made again
	)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		stop()
		if p.t.Failed() {
			text := log.String()
			p.t.Logf("the end of what the controllers of %s wrote:\n%s", p.id, text[max(0, len(text)-1500):])
		}
	})
}

// install applies the objects of `liqo-tui install --peering`.
func (p *plane) install(role render.PeeringRole) {
	p.t.Helper()
	objects, err := render.Install(render.InstallParams{ClusterID: p.id, Image: "lab.local/liqo-gateway:dev", Peering: role, APIServer: p.server})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range objects {
		u, err := apply.Wanted(o)
		if err != nil {
			p.t.Fatal(err)
		}
		err = p.Apply(p.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"))
		if err != nil && (!render.Optional(o) || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err)) {
			p.t.Fatal(err)
		}
	}
	d := &appsv1.Deployment{}
	if err := p.Get(p.t.Context(), client.ObjectKey{Namespace: "liqo", Name: wire.OperatorName}, d); err != nil {
		p.t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UpdatedReplicas: 1, ObservedGeneration: d.Generation}
	if err := p.Status().Update(p.t.Context(), d); err != nil {
		p.t.Fatal(err)
	}
}

const operatorUser = "system:serviceaccount:liqo:liqo-tui-operator"

// runOperator runs the operator until the test ends, with the rights that it has on a cluster.
func (p *plane) runOperator(role render.PeeringRole) { p.runOperatorThatEnds(role, 0) }

// runOperatorThatEnds runs an operator that ends after so many of its writes, as after a crash of its node:
// it does not get the answer to the last write. Then another operator begins. 0 means that the operator does
// not end.
func (p *plane) runOperatorThatEnds(role render.PeeringRole, writes int64) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	run := func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, config, operator.Options{
			Namespace: "liqo", Identity: string(p.id),
			Stated: map[string][]netip.Prefix{
				wire.NetworkPodCIDR: {netip.MustParsePrefix("10.244.0.0/16")}, wire.NetworkServiceCIDR: {netip.MustParsePrefix("10.96.0.0/16")},
			},
			Lending: lending.Options{Role: role, APIServer: p.server, Home: "liqo", Lend: p.lend},
		})
	}
	go func() {
		config := p.as(operatorUser, "system:serviceaccounts")
		if writes > 0 {
			first, kill := context.WithCancel(ctx)
			defer kill()
			mortal, made := rest.CopyConfig(config), &atomic.Int64{} // also counts writes to other clusters
			mortal.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &crash{next: next, after: writes, made: made, kill: kill}
			})
			_ = run(first, mortal) // its connection is cut, so it can't clean up
			if ctx.Err() == nil {
				p.crashes.Add(1)
			}
		}
		done <- run(ctx, config)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the operator of %s ended with: %v", p.id, err)
		}
	})
	p.t.Cleanup(p.stop)
}

// crash is a connection to the API server that ends with the operator.
type crash struct {
	next  http.RoundTripper
	after int64
	made  *atomic.Int64
	kill  func()
}

var errCrashed = errors.New("the process has crashed")

func (c *crash) RoundTrip(r *http.Request) (*http.Response, error) {
	writes := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.Contains(r.URL.Path, "/events") && r.URL.Query().Get("dryRun") == ""
	if c.made.Load() >= c.after {
		return nil, errCrashed
	}
	answer, err := c.next.RoundTrip(r)
	if err != nil || !writes || c.made.Add(1) != c.after {
		return answer, err
	}
	c.kill()
	_ = answer.Body.Close() // the operator does not get the answer
	return nil, errCrashed
}

// cluster returns the plane as the admin's program sees it.
func (p *plane) cluster() *kube.Cluster { return p.clusterBy(p.config) }

func (p *plane) clusterBy(config *rest.Config) *kube.Cluster {
	p.t.Helper()
	c, err := kube.ForConfig(config, kube.Options{Context: flows.ContextRef{Name: string(p.id)}, Lending: kube.LendingPlanned})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

func (p *plane) create(o client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), o); err != nil {
		p.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// until reads o again and again until the condition is true.
func until[O client.Object](t testing.TB, p *plane, o O, what string, holds func(O) bool) O {
	t.Helper()
	key := client.ObjectKeyFromObject(o)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		reflect.ValueOf(o).Elem().SetZero() // otherwise fields that are absent now would keep their old values
		err := p.Get(t.Context(), key, o)
		if err == nil && holds(o) {
			return o
		}
		if client.IgnoreNotFound(err) != nil {
			t.Fatalf("read %T %s: %v", o, key, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%T %s: never %s; last: %+v (%v)", o, key, what, o, err)
		}
	}
}

func untilGone(t testing.TB, p *plane, o client.Object) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) == nil && err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%T %s is still there", o, client.ObjectKeyFromObject(o))
		}
	}
}

// objects returns the names of all objects except temporary ones: Events, and the API server's own Leases.
func (p *plane) objects() []string {
	p.t.Helper()
	asked, err := clientdiscovery.NewDiscoveryClientForConfig(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	kinds, err := asked.ServerPreferredResources()
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, group := range kinds {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Kind == "Event" || kind.Kind == "ComponentStatus" {
				continue
			}
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(gv.WithKind(kind.Kind + "List"))
			if err := p.List(p.t.Context(), &list); err != nil {
				p.t.Fatal(err)
			}
			for _, o := range list.Items {
				names = append(names, kind.Kind+" "+o.Namespace+"/"+o.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// consumer is a cluster with its key.
type consumer struct {
	private []byte
	request peering.Request
}

func newConsumer(t testing.TB, id wire.ClusterID) consumer {
	t.Helper()
	private, _, err := peering.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := peering.NewRequest(private, id, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return consumer{private, r}
}

func (c consumer) sign(t testing.TB, nonce []byte) []byte {
	t.Helper()
	s, err := peering.Sign(c.private, nonce, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// proxy returns the URL of an HTTP proxy that connects to any address.
func proxy(t testing.TB) string {
	t.Helper()
	var open sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		_, _ = fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
		for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
			open.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // an error only means that the connection has ended
				_ = way[0].Close()
			})
		}
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + u.Host
}

func requireAPI(t *testing.T) {
	t.Helper()
	apitest.Require(t)
}
