package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
)

// BenchmarkIdle is what the operator costs while nothing happens but the
// gateways' reports, one in 10 s from each: memory of its own, CPU, and traffic
// with the API server. Run it with -benchtime 1x; it takes about 100 s per case.
func BenchmarkIdle(b *testing.B) {
	for _, peers := range []int{1, 200} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			w := newWorld(b)
			w.node("node-a", "192.0.2.11")
			w.tenants(peers)
			w.configure(0, peers)
			w.atOnce(0, peers, func(i int) error {
				tenant := nthPeer(i)
				return w.Create(b.Context(), render.GatewayClient(render.ClientParams{
					Tenant: tenant, Template: render.TemplateRef{Name: render.ClientTemplate, Namespace: "liqo"},
					Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
				}))
			})
			p := startProcess(b, w.config)
			w.untilRemapped(peers)
			go w.report(b.Context(), peers)
			const settle, idle = 30 * time.Second, time.Minute // by then each gateway has reported twice
			time.Sleep(settle)
			before := p.usage()
			time.Sleep(idle)
			after := p.usage()
			b.ReportMetric(float64(after.anonymous)/(1<<20), "MiB-RssAnon")
			b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/idle.Seconds(), "%cpu")
			b.ReportMetric(float64(after.Bytes-before.Bytes)/idle.Seconds(), "bytes/s")
			b.ReportMetric(float64(after.Requests-before.Requests)/idle.Seconds(), "requests/s")
			b.ReportMetric(0, "ns/op") // means nothing here
		})
	}
}

// report plays the gateways.
func (w *world) report(ctx context.Context, peers int) {
	const interval = 10 * time.Second
	for i := 0; ctx.Err() == nil; i = (i + 1) % peers {
		tenant := nthPeer(i)
		text, _ := json.Marshal(render.Report{At: time.Now(), Interval: 10, Reason: render.ReasonPinged, LatencyMicros: 700, Message: "the peer's gateway answers pings"})
		var conn networkingv1beta1.Connection
		if w.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: render.GatewayObjectName(string(tenant.Remote))}, &conn) == nil {
			before := conn.DeepCopy()
			annotate(&conn, render.AnnotationStatus, string(text))
			_ = w.Patch(ctx, &conn, client.MergeFrom(before))
			before = conn.DeepCopy()
			conn.Status.Value = networkingv1beta1.Connected
			_ = w.Status().Patch(ctx, &conn, client.MergeFrom(before))
		}
		time.Sleep(interval / time.Duration(peers))
	}
}

// process is the operator in a process of its own.
type process struct {
	b   *testing.B
	cmd *exec.Cmd
	ask *json.Encoder
	say *bufio.Scanner
}

const kubeconfigVariable = "OPERATOR_TEST_KUBECONFIG"

func startProcess(b *testing.B, config *rest.Config) *process {
	b.Helper()
	file := b.TempDir() + "/kubeconfig"
	err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"u": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), kubeconfigVariable+"="+file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &process{b: b, cmd: cmd, ask: json.NewEncoder(in), say: bufio.NewScanner(out)}
}

type usage struct {
	Requests, Bytes int64 // with the API server
	anonymous       int64 // bytes of memory of its own
	cpu             time.Duration
}

func (p *process) usage() usage {
	p.b.Helper()
	var u usage
	if err := p.ask.Encode("?"); err != nil || !p.say.Scan() || json.Unmarshal(p.say.Bytes(), &u) != nil {
		p.b.Fatalf("the operator does not answer: %v, %q", err, p.say.Text())
	}
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		p.b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				p.b.Fatal(err)
			}
			u.anonymous = kib << 10
		}
	}
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		p.b.Fatal(err)
	}
	// After the name in parentheses, utime and stime are fields 12 and 13, in ticks of 10 ms (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			p.b.Fatal(err)
		}
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	return u
}

// runAsProcess is what [startProcess] starts: the operator, which says on each
// line of input what it has sent and received so far.
func runAsProcess(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	var requests, bytes atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return countedConn{Conn: c, bytes: &bytes}, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return countedRequests{next: next, requests: &requests}
	})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Printf("{\"Requests\": %d, \"Bytes\": %d}\n", requests.Load(), bytes.Load())
		}
	}()
	return Run(ctx, config, Options{Namespace: "liqo", Identity: "process"})
}

type countedConn struct {
	net.Conn

	bytes *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

type countedRequests struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

func (c countedRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.next.RoundTrip(r)
}
