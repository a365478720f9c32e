package lending_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending"
	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// BenchmarkConsumersRestart measures a restart of the operator of a provider with 1,000 consumers. Each has
// access, resources, a namespace and up to two pods there. The restart ends when the operator has sent no
// request for 5 s. Run it with -benchtime 1x. CONSUMERS sets another number of consumers, and PROFILE names a
// file for the CPU profile.
func BenchmarkConsumersRestart(b *testing.B) {
	apitest.Require(b)
	consumers := 1000
	if text := os.Getenv("CONSUMERS"); text != "" {
		var err error
		if consumers, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	milan := newPlane(b, "milan", render.PeeringProvider)
	milan.stop()
	milan.node("node-a", "100000", "100000Gi")
	large := until(b, milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, "there", func(*corev1.Node) bool { return true })
	large.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("100000")
	if err := milan.Status().Update(b.Context(), large); err != nil {
		b.Fatal(err)
	}
	c := &crowd{plane: milan, b: b, consumer: newConsumer(b, "x")}
	c.each(consumers, c.admitted)

	first := c.begin()
	c.untilServed(consumers, 0)
	c.each(consumers, c.asks)
	c.untilServed(consumers, mostPods)
	first.untilQuiet(10*time.Minute, consumers)
	first.end()

	runtime.GC() // frees the memory of everything before the restart
	if file := os.Getenv("PROFILE"); file != "" {
		f, err := os.Create(file)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			b.Fatal(err)
		}
	}
	before := cpuTime(b)
	again := c.begin()
	again.untilQuiet(30*time.Minute, consumers)
	cpu := cpuTime(b) - before
	pprof.StopCPUProfile()
	again.end()

	read := float64(again.read.Load()) / 1e6
	b.ReportMetric(cpu.Seconds(), "cpu-s")
	b.ReportMetric(read, "MB-read")
	b.ReportMetric(float64(again.requests.Load()), "requests")
	b.ReportMetric(float64(again.writes.Load()), "writes")
	b.ReportMetric(0, "ns/op") // means nothing here
	if cpu > time.Minute {
		b.Errorf("%s of CPU time, want 60 s at most", cpu)
	}
	if read > 200 {
		b.Errorf("%.0f MB were read, want 200 at most", read)
	}
	if n := again.writes.Load(); n > int64(consumers/100) {
		b.Errorf("%d writes, and nothing had changed", n)
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// crowd contains the consumers of a provider.
type crowd struct {
	*plane
	b        *testing.B
	consumer consumer // all consumers have the same key
}

func (c *crowd) each(n int, do func(id wire.ClusterID, i int) error) {
	c.b.Helper()
	var g errgroup.Group
	g.SetLimit(20)
	for i := range n {
		g.Go(func() error { return do(wire.ClusterID(fmt.Sprintf("consumer-%04d", i)), i) })
	}
	if err := g.Wait(); err != nil {
		c.b.Fatal(err)
	}
}

// admitted creates a consumer with access and resources, as after the steps that an operator does only once,
// and with Kubernetes' signer.
func (c *crowd) admitted(id wire.ClusterID, _ int) error {
	there := render.Tenant{Namespace: "liqo-tenant-" + string(id), Remote: id}
	if err := c.Create(c.b.Context(), render.TenantNamespace(there)); err != nil {
		return err
	}
	plane, err := peering.NewRequest(c.consumer.private, id, nil)
	if err != nil {
		return err
	}
	tenant := peering.Tenant(there, peering.Applicant{ID: id, Request: plane, Signature: make([]byte, 64)})
	if err := c.Create(c.b.Context(), tenant); err != nil {
		return err
	}
	if err := c.signed(peering.OfTenant(tenant)); err != nil {
		return err
	}
	s := peering.SliceCopy(slice("", "milan"), id, there.Namespace)
	user, err := peering.SliceUser(s.Name, id).Request(c.consumer.private, nil)
	if err != nil {
		return err
	}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10")}
	s.Spec = authv1beta1.ResourceSliceSpec{ConsumerClusterID: new(corev1beta1.ClusterID(id)), Class: authv1beta1.ResourceSliceClassDefault, Resources: amounts, CSR: user.CSR}
	s.Annotations = map[string]string{peering.AnnotationJudged: "1"}
	if err := c.Create(c.b.Context(), s); err != nil {
		return err
	}
	if err := c.signed(peering.OfSlice(s, tenant)); err != nil {
		return err
	}
	s.Status.Resources = amounts
	s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{
		Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: metav1.Now(),
	}}
	if err := c.Status().Update(c.b.Context(), s); err != nil {
		return err
	}
	m := (&lent{id: id}).mapped(map[string]string{"demo": "demo-" + string(id)})
	return c.Create(c.b.Context(), m)
}

// signed creates the objects in which the operator keeps a certificate.
func (c *crowd) signed(of peering.Certified) error {
	block, _ := pem.Decode(of.PublicKey)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return err
	}
	certificate, err := c.authority.sign(key, pkix.Name{CommonName: of.User, Organization: []string{of.Group}}, time.Now().Add(-time.Minute), time.Now().Add(peering.CertificateLife))
	if err != nil {
		return err
	}
	keep := of.Secret(certificate)
	keep.Annotations = map[string]string{peering.AnnotationAuthority: fmt.Sprintf("%x", sha256.Sum256(c.config.CAData))[:16]}
	return c.Create(c.b.Context(), keep)
}

// asks creates the requests of a consumer that runs pods.
func (c *crowd) asks(id wire.ClusterID, i int) error {
	for n := range i % (mostPods + 1) {
		if err := c.Create(c.b.Context(), shadow("demo-"+string(id), fmt.Sprint("web-", n), nil)); err != nil {
			return err
		}
	}
	return nil
}

// mostPods is the largest number of a consumer's pods. The first consumer has none, and the second has one.
const mostPods = 2

// untilServed waits until all consumers have their objects.
func (c *crowd) untilServed(n, pods int) {
	c.b.Helper()
	for i, deadline := 0, time.Now().Add(20*time.Minute); i < n; {
		err := c.served(wire.ClusterID(fmt.Sprintf("consumer-%04d", i)), i%(pods+1))
		if err == nil {
			i++
			continue
		}
		if time.Now().After(deadline) {
			c.b.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// served returns an error that names an object that a consumer does not have yet; nil if it has all.
func (c *crowd) served(id wire.ClusterID, want int) error {
	l := &lent{id: id}
	tenant, s, m, pods := &authv1beta1.Tenant{}, &authv1beta1.ResourceSlice{}, l.mapped(nil), &corev1.PodList{}
	for o, name := range map[client.Object]string{tenant: string(id), s: "milan", m: m.Name} {
		if err := c.Get(c.b.Context(), client.ObjectKey{Namespace: l.namespace(), Name: name}, o); err != nil {
			return err
		}
	}
	if err := c.List(c.b.Context(), pods, client.InNamespace("demo-"+string(id))); err != nil {
		return err
	}
	if tenant.Status.AuthParams == nil || s.Status.AuthParams == nil || len(s.Status.Resources) == 0 ||
		m.Status.CurrentMapping["demo"].Phase != offloadingv1beta1.MappingAccepted || len(pods.Items) != want {
		return fmt.Errorf("consumer %s has: Tenant %v, slice %v, map %v, %d pods", id, tenant.Annotations, s.Status.Conditions, m.Status, len(pods.Items))
	}
	return nil
}

// counted is one run of the operator.
type counted struct {
	b    *testing.B
	stop context.CancelFunc
	done chan error

	requests, writes, read atomic.Int64
	waits                  atomic.Int64 // requests without an answer

	mu    sync.Mutex
	kinds map[string]int // requests by method and resource
}

// begin runs the operator with the rights that it has on a cluster.
func (c *crowd) begin() *counted {
	ctx, stop := context.WithCancel(context.Background())
	run := &counted{b: c.b, stop: stop, done: make(chan error, 1), kinds: map[string]int{}}
	config := c.as(operatorUser, "system:serviceaccounts")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, run} })
	go func() { run.done <- runProvider(ctx, config, c.plane) }()
	c.b.Cleanup(stop)
	return run
}

func runProvider(ctx context.Context, config *rest.Config, p *plane) error {
	return operator.Run(ctx, config, operator.Options{
		Namespace: "liqo", Identity: string(p.id),
		Stated: map[string][]netip.Prefix{
			wire.NetworkPodCIDR: {netip.MustParsePrefix("10.244.0.0/16")}, wire.NetworkServiceCIDR: {netip.MustParsePrefix("10.96.0.0/16")},
		},
		Lending: lending.Options{Role: render.PeeringProvider, APIServer: p.server, Home: "liqo"},
	})
}

func (r *counted) end() {
	r.b.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		r.b.Fatalf("the operator ended with: %v", err)
	}
}

// untilQuiet waits until the operator has sent no request for 5 s, and before that at least one for each
// consumer. It counts looks and not time. So a machine without CPU time for this process does not seem quiet.
func (r *counted) untilQuiet(within time.Duration, consumers int) {
	r.b.Helper()
	const look, looks = 100 * time.Millisecond, 50
	deadline := time.Now().Add(within)
	r.mu.Lock()
	before := maps.Clone(r.kinds)
	r.mu.Unlock()
	for last, quiet := int64(-1), 0; quiet < looks; time.Sleep(look) {
		now := r.requests.Load()
		if quiet++; now != last || now < int64(consumers) || r.waits.Load() > 0 {
			quiet = 0
		}
		if last = now; time.Now().After(deadline) {
			r.mu.Lock()
			defer r.mu.Unlock()
			since := map[string]int{}
			for kind, n := range r.kinds {
				if n > before[kind] {
					since[kind] = n - before[kind]
				}
			}
			r.b.Fatalf("the operator is not quiet after %s and %d requests, since then: %v", within, now, since)
		}
	}
}

var names = regexp.MustCompile(`/(namespaces/)?[^/]*consumer-[0-9]+[^/]*`)

// counting counts all requests except those for the operator's Lease. Of an answer it counts the decompressed
// content.
type counting struct {
	next http.RoundTripper
	run  *counted
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/leases") {
		return c.next.RoundTrip(r)
	}
	c.run.requests.Add(1)
	c.run.mu.Lock()
	c.run.kinds[r.Method+" "+names.ReplaceAllString(r.URL.Path, "")]++
	c.run.mu.Unlock()
	if r.Method != http.MethodGet {
		c.run.writes.Add(1)
	}
	if r.URL.Query().Get("watch") == "" {
		c.run.waits.Add(1)
		defer c.run.waits.Add(-1)
	}
	answer, err := c.next.RoundTrip(r)
	if err == nil {
		answer.Body = countedBody{answer.Body, c.run}
	}
	return answer, err
}

type countedBody struct {
	io.ReadCloser

	run *counted
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.run.read.Add(int64(n))
	return n, err
}
