package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// BenchmarkIdle measures the operator while only the gateways report, each every 10 s: its own memory, CPU,
// and traffic with the API server. Run it with -benchtime 1x. It takes about 100 s per case.
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
					Tenant: tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
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

// BenchmarkNodeJoins measures the cost of one more node for the operator of a cluster with 1,000 nodes and
// 200 peers, half of which dial in through NodePorts. It ends when the operator has sent no request for 5 s.
// Run it with -benchtime 1x.
func BenchmarkNodeJoins(b *testing.B) {
	const nodes, peers = 1000, 200
	w := newWorld(b)
	join := func(i int) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		if err := w.Create(b.Context(), n); err != nil {
			return err
		}
		ip := netip.AddrFrom4([4]byte{192, 168, byte(i / 250), byte(1 + i%250)})
		n.Status = corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip.String()}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}
		if err := w.Status().Update(b.Context(), n); err != nil {
			return err
		}
		pods := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244 + byte(i/256), byte(i), 0}), 24)
		return w.Create(b.Context(), wire.InternalNode(n, wire.NodeReport{IP: ip, Addresses: []netip.Addr{ip}, Pods: []netip.Prefix{pods}}))
	}
	w.atOnce(0, nodes, join)
	w.tenants(peers)
	w.configure(0, peers)
	w.atOnce(0, peers, func(i int) error {
		if i%2 == 0 {
			return w.Create(b.Context(), render.GatewayServer(render.ServerParams{
				Tenant: nthPeer(i), Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
				ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340,
			}))
		}
		return w.Create(b.Context(), render.GatewayClient(render.ClientParams{
			Tenant: nthPeer(i), Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
			Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
		}))
	})
	p := startProcess(b, w.config)
	w.untilRemapped(peers)
	p.untilQuiet()
	before := p.usage()
	if err := join(nodes); err != nil {
		b.Fatal(err)
	}
	p.untilQuiet()
	after := p.usage()
	b.ReportMetric(float64(after.Writes-before.Writes), "writes")
	b.ReportMetric(float64(after.Requests-before.Requests), "requests")
	b.ReportMetric((after.cpu - before.cpu).Seconds(), "cpu-s")
	b.ReportMetric(0, "ns/op") // means nothing here
	if writes := after.Writes - before.Writes; writes > 1 {
		b.Errorf("%d writes, want one at most", writes)
	}
	if cpu := after.cpu - before.cpu; cpu > 2*time.Second {
		b.Errorf("%s of CPU time, want 2 s at most", cpu)
	}
}

// untilQuiet waits until the operator has sent no request for 5 s. Requests for its Lease and periodic lists
// don't count.
func (p *process) untilQuiet() {
	p.b.Helper()
	const look, few = 5 * time.Second, 10
	deadline := time.Now().Add(5 * patience)
	for last := p.usage(); ; {
		time.Sleep(look)
		now := p.usage()
		if now.Requests-last.Requests < few {
			return
		}
		if last = now; time.Now().After(deadline) {
			p.b.Fatal("the operator is never quiet")
		}
	}
}

// report acts as the gateways.
func (w *world) report(ctx context.Context, peers int) {
	const interval = 10 * time.Second
	for i := 0; ctx.Err() == nil; i = (i + 1) % peers {
		tenant := nthPeer(i)
		text, _ := json.Marshal(wire.Report{At: time.Now(), Interval: 10, Reason: wire.ReasonPinged, LatencyMicros: 700, Message: "the peer's gateway answers pings"})
		var conn networkingv1beta1.Connection
		if w.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: wire.GatewayObjectName(string(tenant.Remote))}, &conn) == nil {
			before := conn.DeepCopy()
			annotate(&conn, wire.AnnotationStatus, string(text))
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
	Writes          int64 // the requests that write, except for the Lease
	anonymous       int64 // bytes of memory that no other process shares
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

// runAsProcess is the program that [startProcess] starts: the operator. For each line of input, it prints the
// traffic so far.
func runAsProcess(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	var requests, writes, bytes atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return countedConn{Conn: c, bytes: &bytes}, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return countedRequests{next: next, requests: &requests, writes: &writes}
	})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Printf("{\"Requests\": %d, \"Writes\": %d, \"Bytes\": %d}\n", requests.Load(), writes.Load(), bytes.Load())
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
	next             http.RoundTripper
	requests, writes *atomic.Int64
}

func (c countedRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}
