package exports_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const head = `{"type":"ClusterSetIP","created":"2026-11-01T10:00:00Z","ports":[{"protocol":"TCP","port":80,"inSlices":""}]}`

// milanSlice is a slice that milan exports.
func milanSlice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "payments", Name: name, Annotations: map[string]string{wire.AnnotationServiceHead: head},
			Labels: map[string]string{
				mcsv1beta1.LabelSourceCluster: "milan", mcsv1beta1.LabelServiceName: "db", discoveryv1.LabelManagedBy: wire.ManagedBy,
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(5432))}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return s
}

var loopback = netip.MustParseAddr("127.0.0.1")

// serve runs a server on a loopback address until the test ends, and returns its URL.
func serve(t testing.TB, s *exports.Server) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if !s.Peer.IsValid() {
		s.Peer = loopback
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + exports.Path
}

// store returns a store with n slices.
func store(t testing.TB, n int) *exports.Store {
	t.Helper()
	s := exports.NewStore(time.Now())
	var all []*discoveryv1.EndpointSlice
	for i := range n {
		all = append(all, milanSlice(fmt.Sprintf("db-%04d", i), "10.244.0.5"))
	}
	if err := s.Replace(all); err != nil {
		t.Fatal(err)
	}
	return s
}

// answered is the answer to a request. The test closes its body at the end.
type answered struct{ *http.Response }

// ask sends one request with a new client.
func ask(t testing.TB, method, url string, body io.Reader) answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answered{answer}
}

func list(t testing.TB, url string) *discoveryv1.EndpointSliceList {
	t.Helper()
	answer := ask(t, http.MethodGet, url, nil)
	var all discoveryv1.EndpointSliceList
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("list: %s, %v", answer.Status, err)
	}
	return &all
}

// event is an event of a watch.
type event struct {
	Type   string
	Object struct {
		metav1.ObjectMeta `json:"metadata"`
		Kind              string
		Code              int
	}
}

// stream is a watch that has begun.
type stream struct {
	t     testing.TB
	lines *bufio.Scanner
}

func watch(t testing.TB, url, version string) stream {
	t.Helper()
	answer := ask(t, http.MethodGet, url+"?watch=1&allowWatchBookmarks=true&resourceVersion="+version, nil)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("watch: %s", answer.Status)
	}
	return stream{t, bufio.NewScanner(answer.Body)}
}

func (s stream) next() (e event, ok bool) {
	s.t.Helper()
	if !s.lines.Scan() {
		return e, false
	}
	if err := json.Unmarshal(s.lines.Bytes(), &e); err != nil {
		s.t.Fatal(err)
	}
	return e, true
}

func (s stream) want(kind, name string) event {
	s.t.Helper()
	e, ok := s.next()
	if !ok || e.Type != kind || e.Object.Name != name {
		s.t.Fatalf("got %s %q (%v), want %s %q", e.Type, e.Object.Name, ok, kind, name)
	}
	return e
}

func TestAPeerListsAndWatches(t *testing.T) {
	st := store(t, 1000)
	server := &exports.Server{Store: st}
	url := serve(t, server)
	all := list(t, url)
	if len(all.Items) != 1000 || all.Kind != "EndpointSliceList" || all.Items[7].Name != "db-0007" || all.Items[7].Endpoints[0].Addresses[0] != "10.244.0.5" {
		t.Fatalf("got %d slices of kind %s", len(all.Items), all.Kind)
	}
	w := watch(t, url, all.ResourceVersion)
	must(t, st.Put(milanSlice("db-0007", "10.244.0.6")))
	must(t, st.Put(milanSlice("new")))
	must(t, st.Put(milanSlice("new"))) // an equal slice is no change
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "db-0008"}))
	w.want("MODIFIED", "db-0007")
	resume := w.want("ADDED", "new").Object.ResourceVersion
	w.want("DELETED", "db-0008")

	// A watch resumes without another list.
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "new"}))
	again := retried(t, url, resume)
	again.want("DELETED", "db-0008")
	again.want("DELETED", "new")
	// A peer has one stream at a time, so the first stream has ended.
	w.want("DELETED", "new")
	if e, ok := w.next(); ok {
		t.Errorf("the older stream goes on with %s", e.Type)
	}
}

// retried begins a watch as soon as the server allows another one.
func retried(t testing.TB, url, version string) stream {
	t.Helper()
	for {
		answer := ask(t, http.MethodGet, url+"?watch=1&resourceVersion="+version, nil)
		if answer.StatusCode == http.StatusOK {
			return stream{t, bufio.NewScanner(answer.Body)}
		}
		if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
			t.Fatalf("watch: %s", answer.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNotAListOrAWatchIsRefused(t *testing.T) {
	url := serve(t, &exports.Server{Store: store(t, 1)})
	root := strings.TrimSuffix(url, exports.Path)
	for _, c := range []struct {
		method, url, body string
		want              int
	}{
		{"GET", root + "/", "", 404},
		{"GET", root + "/v2/exports", "", 404},
		{"GET", url + "/", "", 404},
		{"GET", root + "/v1/../v1/exports", "", 404},
		{"GET", root + "/api/v1/secrets", "", 404},
		{"GET", root + "/metrics", "", 404},
		{"POST", url, "", 405},
		{"DELETE", url, "", 405},
		{"HEAD", url, "", 405},
		{"OPTIONS", url, "", 405},
		{"PATCH", url, "{}", 405},
		{"GET", url, "x", 400},
		{"GET", url + "?labelSelector=a%3Db", "", 400},
		{"GET", url + "?fieldSelector=a%3Db", "", 400},
		{"GET", url + "?continue=x", "", 400},
		{"GET", url + "?watch=1&sendInitialEvents=true&resourceVersion=1", "", 400},
		{"GET", url + "?watch=1", "", 400},
		{"GET", url + "?watch=1&resourceVersion=-1", "", 400},
		{"GET", url + "?%zz", "", 400},
		{"GET", url + "?a=" + strings.Repeat("x", 16<<10), "", 431},
		{"GET", url + "?limit=500&pretty=true&what=ever", "", 200},
		{"GET", url, "", 429},
		{"GET", url + "?watch=1&resourceVersion=1", "", 410},
	} {
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		answer := ask(t, c.method, c.url, body)
		if answer.StatusCode != c.want {
			t.Errorf("%s %.80s: got %s, want %d", c.method, c.url, answer.Status, c.want)
		}
	}
}

func TestOnlyThePeersGatewayIsAnswered(t *testing.T) {
	url := serve(t, &exports.Server{Store: store(t, 1), Peer: netip.MustParseAddr("127.0.0.2")})
	for from, want := range map[string]bool{"127.0.0.2": true, "127.0.0.1": false, "127.0.0.3": false} {
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		answer, err := transport.RoundTrip(r)
		if (err == nil) != want {
			t.Errorf("from %s: got %v", from, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}

func TestNothingIsListedBeforeAllIsRead(t *testing.T) {
	st := exports.NewStore(time.Now())
	url := serve(t, &exports.Server{Store: st})
	must(t, st.Put(milanSlice("one")))
	if answer := ask(t, http.MethodGet, url, nil); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("list: got %s", answer.Status)
	}
	must(t, st.Replace([]*discoveryv1.EndpointSlice{milanSlice("two")}))
	if all := list(t, url); len(all.Items) != 1 || all.Items[0].Name != "two" {
		t.Errorf("got %d slices", len(all.Items))
	}
}

func TestAWatchThatIsTooOldIsGone(t *testing.T) {
	st := store(t, 1)
	url := serve(t, &exports.Server{Store: st})
	before := list(t, url).ResourceVersion
	for i := range 1100 {
		must(t, st.Put(milanSlice("db-0000", fmt.Sprintf("10.244.%d.%d", i/256, i%256))))
	}
	if answer := ask(t, http.MethodGet, url+"?watch=1&resourceVersion="+before, nil); answer.StatusCode != http.StatusGone {
		t.Errorf("got %s", answer.Status)
	}
	// The version comes from another process, such as the earlier pod.
	time.Sleep(2 * time.Second)
	if answer := ask(t, http.MethodGet, url+"?watch=1&resourceVersion=99999999999999999", nil); answer.StatusCode != http.StatusGone {
		t.Errorf("a version of the future: got %s", answer.Status)
	}
}

// A peer that does not read costs no memory, because its stream ends and its missed changes are dropped.
func TestAPeerThatDoesNotReadKeepsNothing(t *testing.T) {
	st := store(t, 1)
	url := serve(t, &exports.Server{Store: st})
	version := list(t, url).ResourceVersion
	_ = watch(t, url, version) // the test does not read the stream
	addresses := make([]string, 900)
	before := inUse()
	for i := range 2000 {
		for j := range addresses {
			addresses[j] = fmt.Sprintf("10.244.%d.%d", j/256, (i+j)%256)
		}
		must(t, st.Put(milanSlice("db-0000", addresses...)))
	}
	if after := inUse(); after > before+20<<20 {
		t.Errorf("memory grew by %d MiB", (after-before)>>20)
	}
}

// inUse is the memory in use, in bytes.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestManyConnectionsEndTheOldest(t *testing.T) {
	url := serve(t, &exports.Server{Store: store(t, 1)})
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), exports.Path)
	var all []net.Conn
	for range 40 {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	must(t, all[0].SetReadDeadline(time.Now().Add(3*time.Second))) // less than the server waits for a header
	if _, err := all[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest connection: got %v", err)
	}
	list(t, url) // a new connection is still answered
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // of the connection itself
	return ok && e.Timeout()
}

func TestBookmarksComeOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store(t, 1)
		l := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		server := &exports.Server{Store: st, Peer: loopback, Log: slog.New(slog.DiscardHandler)}
		go func() { done <- server.Serve(ctx, l) }()
		transport := &http.Transport{DialContext: l.dial}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway"+exports.Path, nil)
		must(t, err)
		answer, err := transport.RoundTrip(r)
		must(t, err)
		var all discoveryv1.EndpointSliceList
		must(t, json.NewDecoder(answer.Body).Decode(&all))
		_ = answer.Body.Close()
		r.URL.RawQuery = "watch=1&allowWatchBookmarks=true&resourceVersion=" + all.ResourceVersion
		answer, err = transport.RoundTrip(r)
		must(t, err)
		began := time.Now()
		w := stream{t, bufio.NewScanner(answer.Body)}
		for i := 1; i <= 3; i++ {
			e := w.want("BOOKMARK", "")
			if since := time.Since(began); since != time.Duration(i)*time.Minute || e.Object.ResourceVersion != all.ResourceVersion {
				t.Errorf("bookmark %d after %s, version %s", i, since, e.Object.ResourceVersion)
			}
		}
		cancel()
		must(t, <-done)
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	})
}

// pipes is a listener without a network, for tests with a simulated clock.
type pipes struct {
	coming chan net.Conn
	ended  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

type pipe struct{ net.Conn }

func (pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.coming <- pipe{there}
	return here, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.coming:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return pipe{}.RemoteAddr() }
