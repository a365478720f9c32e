package exports_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// memory is a Sink that keeps slices in memory.
type memory struct {
	mu    sync.Mutex
	kept  map[string]string // name: first address
	seen  map[string]bool
	lists int
	fail  error
}

func (m *memory) Begin(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = map[string]bool{}
	if m.kept == nil {
		m.kept = map[string]string{}
	}
	return m.fail
}

func (m *memory) Put(_ context.Context, from types.NamespacedName, s *discoveryv1.EndpointSlice) (refused, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	address := ""
	if len(s.Endpoints) > 0 {
		address = s.Endpoints[0].Addresses[0]
	}
	m.kept[from.String()], m.seen[from.String()] = address, true
	return nil, nil
}

func (m *memory) Drop(_ context.Context, from types.NamespacedName) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, from.String())
	return nil
}

func (m *memory) End(_ context.Context, complete bool) (map[types.NamespacedName]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.kept {
		if complete && !m.seen[name] {
			delete(m.kept, name)
		}
	}
	if complete {
		m.lists++
	}
	return nil, nil
}

func (m *memory) get(name string) (address string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	address, ok = m.kept["payments/"+name]
	return address, ok
}

func (m *memory) state() (slices, lists int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept), m.lists
}

// admit refuses names that no object can have, as the check of the gateway does.
func admit(s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, []string) {
	if s.Namespace != "payments" || s.Name == "" || strings.ContainsAny(s.Name, "./_") {
		return nil, []string{"has a name that is not allowed"}
	}
	out := &discoveryv1.EndpointSlice{AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	out.Labels = map[string]string{corev1.IsHeadlessService: ""}
	return out, nil
}

// read runs a client until the test ends.
func read(t testing.TB, url string, sink exports.Sink, patience time.Duration) *exports.Client {
	t.Helper()
	transport := exports.Transport(loopback)
	transport.ResponseHeaderTimeout = time.Second
	c := &exports.Client{URL: url, HTTP: transport, Check: admit, Sink: sink, Log: slog.New(slog.DiscardHandler)}
	c.Hurry(patience)
	run(t, c)
	return c
}

func run(t testing.TB, c *exports.Client) { t.Cleanup(begin(t, c)) }

// begin runs a client until stop is called.
func begin(t testing.TB, c *exports.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if transport, ok := c.HTTP.(*http.Transport); ok {
			transport.CloseIdleConnections()
		}
	}
}

// until waits until a condition is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestExportsArriveAndFollow(t *testing.T) {
	st := store(t, 1000)
	url := serve(t, &exports.Server{Store: st})
	sink := &memory{}
	client := &exports.Client{URL: url, HTTP: exports.Transport(loopback), Check: admit, Sink: sink, Log: slog.New(slog.DiscardHandler)}
	run(t, client)
	until(t, "all slices", func() bool { n, _ := sink.state(); return n == 1000 })
	must(t, st.Put(milanSlice("db-0001", "10.244.0.9")))
	must(t, st.Put(milanSlice("new", "10.244.0.8")))
	must(t, st.Put(milanSlice("not.allowed", "10.244.0.8")))
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "db-0002"}))
	until(t, "the changes", func() bool {
		address, _ := sink.get("db-0001")
		_, added := sink.get("new")
		_, gone := sink.get("db-0002")
		return address == "10.244.0.9" && added && !gone
	})
	s := client.Status()
	if s.Slices != 1000 || len(s.Refused) != 1 || s.Refused[0].Slices != 1 || s.Refused[0].Example != "payments/not.allowed" || s.Complete.IsZero() || s.Problem != nil {
		t.Errorf("got %+v", s)
	}
	// A slice that is no longer allowed is removed. The reason is removed with the slice.
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "not.allowed"}))
	until(t, "no refusal", func() bool { return len(client.Status().Refused) == 0 })
}

// Each Service of a peer can take an address of this cluster's range of Services.
func TestAPeerHasNoMoreServicesThanTheBound(t *testing.T) {
	st := store(t, services.MaxServices+1)
	byName := func(s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, []string) {
		out, problems := admit(s)
		if out != nil {
			out.Labels[wire.LabelServiceNamespace], out.Labels[wire.LabelServiceName] = s.Namespace, s.Name
		}
		return out, problems
	}
	sink := &memory{}
	client := &exports.Client{URL: serve(t, &exports.Server{Store: st}), HTTP: exports.Transport(loopback), Check: byName, Sink: sink, Log: slog.New(slog.DiscardHandler)}
	run(t, client)
	refused := func(n int) func() bool {
		return func() bool {
			r := client.Status().Refused
			return len(r) == 1 && r[0].Slices == n && strings.HasPrefix(r[0].Reason, "at most 2000 Services")
		}
	}
	until(t, "one Service is refused", refused(1))
	must(t, st.Put(milanSlice("new", "10.244.0.8")))
	until(t, "a new one is refused", refused(2))
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "db-0001"}))
	must(t, st.Put(milanSlice("more", "10.244.0.8")))
	until(t, "one instead of another one", func() bool { _, ok := sink.get("more"); return ok })
	if n, _ := sink.state(); n != services.MaxServices {
		t.Errorf("%d Services are kept", n)
	}
}

// The stream ends if another pod of the exporter's gateway takes over. The client lists again, because the
// new pod does not know the version.
func TestATakeoverLosesNothing(t *testing.T) {
	var config net.ListenConfig
	start := func(address string, st *exports.Store) (string, context.CancelFunc) {
		var l net.Listener
		until(t, "listen again", func() (ok bool) {
			var err error
			l, err = config.Listen(t.Context(), "tcp4", address)
			return err == nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		server := &exports.Server{Store: st, Peer: loopback, Log: slog.New(slog.DiscardHandler)}
		go func() { done <- server.Serve(ctx, l) }()
		return l.Addr().String(), func() { cancel(); must(t, <-done) }
	}
	address, stop := start("127.0.0.1:0", store(t, 3))
	sink := &memory{}
	client := &exports.Client{URL: "http://" + address + exports.Path, HTTP: exports.Transport(loopback), Check: admit, Sink: sink, Log: slog.New(slog.DiscardHandler)}
	run(t, client)
	until(t, "all slices", func() bool { n, _ := sink.state(); return n == 3 })
	stop()
	until(t, "the end of the stream", func() bool { return client.Status().Problem != nil })
	if n, _ := sink.state(); n != 3 {
		t.Errorf("%d slices while the peer is away", n)
	}
	_, stop = start(address, store(t, 2))
	until(t, "another list", func() bool { n, lists := sink.state(); return n == 2 && lists == 2 })
	stop()
}

// A watch that ends resumes without a list.
func TestAWatchResumesWithoutAList(t *testing.T) {
	st := store(t, 1)
	url := serve(t, &exports.Server{Store: st})
	sink := &memory{}
	client := read(t, url, sink, 700*time.Millisecond) // so short that watches end
	until(t, "the first list", func() bool { n, _ := sink.state(); return n == 1 })
	until(t, "the end of a watch", func() bool { return client.Status().Problem != nil })
	must(t, st.Put(milanSlice("new")))
	until(t, "the change", func() bool { _, ok := sink.get("new"); return ok })
	if _, lists := sink.state(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// whole is the start of an answer whose body ends with the connection.
const whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

const (
	begun = `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[`
	empty = begun + `]}`
)

// slow is part of the client's problem with a peer that sends nothing more.
const slow = "stopped in the middle"

// one is a slice with other fields.
func one(name, more string) string {
	quoted, _ := json.Marshal(name)
	return fmt.Sprintf(`{"metadata":{"namespace":"payments","name":%s,"resourceVersion":"8"},"addressType":"IPv4"%s}`, quoted, more)
}

// repeat writes n texts, with another text between them.
func repeat(w io.Writer, n int, text func(i int) string) {
	var b bytes.Buffer
	for i := range n {
		b.WriteString(text(i))
		if b.Len() > 64<<10 {
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
			b.Reset()
		}
	}
	_, _ = w.Write(b.Bytes())
}

func same(text string) func(int) string { return func(int) string { return text } }

// Each row is an answer of a hostile gateway. The client reports a problem, uses at most 20 MiB more memory,
// and keeps its slices.
func TestAHostilePeerIsBounded(t *testing.T) {
	elsewhere := make(chan string, 10)
	other := serveRaw(t, func(c net.Conn, request string) { elsewhere <- request })
	t.Setenv("HTTP_PROXY", "http://"+other)
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		name  string
		list  func(net.Conn)
		watch func(net.Conn)
		want  string // in the problem; for a row with refused slices, in the reason
	}{
		{"a line of 10^9 bytes", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"`)
			repeat(c, 1e9/len(long), same(long))
		}, nil, "more than 256 KiB"},
		{"a slice of 10^9 bytes", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+`{"metadata":{"name":"`)
			repeat(c, 1e9/len(long), same(long))
		}, nil, "more than 256 KiB"},
		{"10^6 slices", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun)
			repeat(c, 1e6, func(i int) string { return one(fmt.Sprint("n", i), "") + "," })
		}, nil, "more than 4000 slices"},
		{"10^6 slices with long names", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun)
			repeat(c, 1e6, func(i int) string { return one(fmt.Sprint(i, long), "") + "," })
		}, nil, "sends a list of more than 64 MiB"},
		{"one slice, twice", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+one("a", "")+","+one("a", "")+"]}")
		}, nil, "not a list"},
		{"10^6 fields", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{`)
			repeat(c, 1e6, func(i int) string { return fmt.Sprintf(`"f%d":1,`, i) })
		}, nil, "more than 256 KiB"},
		{"slices of empty endpoints", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun)
			repeat(c, 40, func(i int) string {
				return one(fmt.Sprint("n", i), `,"endpoints":[`+strings.Repeat("{},", 80_000)+`{}]`) + ","
			})
			_, _ = io.WriteString(c, one("z", "")+"]}")
		}, nil, "endpoints: more than 1000"},
		{"slices of empty addresses", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun)
			repeat(c, 40, func(i int) string {
				return one(fmt.Sprint("n", i), `,"endpoints":[{"addresses":[`+strings.Repeat(`"",`, 80_000)+`""]}]`) + ","
			})
			_, _ = io.WriteString(c, one("z", "")+"]}")
		}, nil, "addresses: more than 100"},
		{"slices of empty ports", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun)
			repeat(c, 40, func(i int) string {
				return one(fmt.Sprint("n", i), `,"ports":[`+strings.Repeat("{},", 80_000)+`{}]`) + ","
			})
			_, _ = io.WriteString(c, one("z", "")+"]}")
		}, nil, "ports: more than 100"},
		{"names that no object has", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+one("../../secrets", "")+","+one(long, "")+","+one("\x1b[31mred", "")+"]}")
		}, nil, "not allowed"},
		{"deep nesting", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+`{"metadata":`+strings.Repeat("[", 200_000))
		}, nil, "not a list"},
		{"an answer that never ends", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+`{"metadata":`)
			_, _ = io.Copy(io.Discard, c)
		}, nil, slow},
		{"a slow trickle", func(c net.Conn) {
			_, err := io.WriteString(c, whole+begun)
			for err == nil {
				time.Sleep(50 * time.Millisecond)
				_, err = io.WriteString(c, " ")
			}
		}, nil, slow},
		{"an end in the middle", func(c net.Conn) { _, _ = io.WriteString(c, whole+begun+one("a", "")) }, nil, "too early"},
		{"no version", func(c net.Conn) { _, _ = io.WriteString(c, whole+`{"kind":"EndpointSliceList","items":[]}`) }, nil, "not a list"},
		{"another kind", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+strings.Replace(empty, "EndpointSliceList", "PodList", 1))
		}, nil, "not a list"},
		{"slices of another kind", func(c net.Conn) {
			_, _ = io.WriteString(c, whole+begun+`{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"payments","name":"a"}}]}`)
		}, nil, "not a list"},
		{"no list", func(c net.Conn) { _, _ = io.WriteString(c, whole+`[1,2]`) }, nil, "not a list"},
		{"a page of HTML", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>")
		}, nil, "no JSON"},
		{"a compressed answer", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08")
		}, nil, "compressed"},
		{"a redirect", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://"+other+"/\r\n\r\n")
		}, nil, "302"},
		{"nothing there", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") }, nil, "of a release without Services"},
		{"an error with a text", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 \x1b[31mred\r\nContent-Length: 0\r\n\r\n")
		}, nil, "500 Internal Server Error"},
		{"not HTTP", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n") }, nil, "malformed"},
		{"no answer, as of Liqo's gateway", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, nil, "timeout"},
		{"a header of 10^8 bytes", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			repeat(c, 1e8/len(long), func(i int) string { return fmt.Sprintf("X-%d: %s\r\n", i, long) })
		}, nil, "exceeded"},
		{"a watch with a line of 10^9 bytes", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"type":"ADDED","object":"`)
			repeat(c, 1e9/len(long), same(long))
		}, "more than 256 KiB"},
		{"a watch with 10^6 slices", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole)
			repeat(c, 1e6, func(i int) string { return `{"type":"ADDED","object":` + one(fmt.Sprint("n", i), "") + "}\n" })
		}, "more than 4000 slices"},
		{"a watch of empty endpoints", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole)
			repeat(c, 40, func(int) string {
				return `{"type":"MODIFIED","object":` + one("a", `,"endpoints":[`+strings.Repeat("{},", 80_000)+`{}]`) + "}\n"
			})
			_, _ = io.WriteString(c, `{"type":"ERROR","object":{"code":500}}`)
		}, "ends the watch with an error"},
		{"a watch that never ends an event", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"type":`)
			_, _ = io.Copy(io.Discard, c)
		}, slow},
		{"a watch of an unknown event", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"type":"GROWN","object":`+one("a", "")+`}`)
		}, "not a list"},
		{"an event without a version", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"type":"ADDED","object":{"metadata":{"namespace":"payments","name":"a"}}}`)
		}, "not a list"},
		{"a watch with an error", nil, func(c net.Conn) {
			_, _ = io.WriteString(c, whole+`{"type":"ERROR","object":{"code":500,"message":"\u001b[31mred"}}`)
		}, "ends the watch with an error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := serveRaw(t, func(conn net.Conn, request string) {
				switch {
				case strings.Contains(request, "watch=1") && c.watch != nil:
					c.watch(conn)
				case strings.Contains(request, "watch=1"):
				case c.list != nil:
					c.list(conn)
				default:
					_, _ = io.WriteString(conn, whole+begun+one("kept", "")+"]}")
				}
			})
			sink := &memory{kept: map[string]string{"payments/kept": ""}}
			peak := watchMemory(t)
			patience := 20 * time.Second
			if c.want == slow {
				patience = 500 * time.Millisecond
			}
			client := read(t, "http://"+address+exports.Path, sink, patience)
			said := func() string {
				s := client.Status()
				return fmt.Sprint(s.Problem, s.Refused)
			}
			until(t, "the problem", func() bool { return strings.Contains(said(), c.want) })
			if text := said(); strings.Contains(text, "\x1b") || len(text) > 600 {
				t.Errorf("the report has what the peer has sent: %.600q", text)
			}
			if grown := peak(); grown > 20<<20 {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
			if _, lists := sink.state(); lists == 0 {
				if _, ok := sink.get("kept"); !ok {
					t.Error("something was deleted without a complete list")
				}
			}
		})
	}
	select {
	case request := <-elsewhere:
		t.Errorf("the client asked elsewhere: %q", request)
	default:
	}
	if exports.Transport(netip.MustParseAddr("127.0.0.1")).Proxy != nil {
		t.Errorf("the client uses the proxy %s", os.Getenv("HTTP_PROXY"))
	}
}

// watchMemory starts to measure the memory in use. peak returns the largest growth, in bytes.
func watchMemory(t *testing.T) (peak func() uint64) {
	base := inUse()
	stop, done := make(chan struct{}), make(chan uint64, 1)
	go func() {
		most := base
		for {
			select {
			case <-stop:
				done <- most - base
				return
			case <-time.After(3 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	}()
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	t.Cleanup(end)
	return func() uint64 { end(); return <-done }
}

// serveRaw answers the first request on each connection with raw bytes.
func serveRaw(t testing.TB, answer func(c net.Conn, request string)) (address string) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	var w sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	w.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			w.Go(func() {
				defer c.Close()
				request := make([]byte, 4096)
				n, _ := c.Read(request)
				answer(c, string(request[:n]))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		w.Wait()
	})
	return l.Addr().String()
}

// No goroutine outlives a client and a server.
func TestNothingGoesOnAfterTheEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("exchange", func(t *testing.T) {
		sink := &memory{}
		read(t, serve(t, &exports.Server{Store: store(t, 10)}), sink, time.Minute)
		until(t, "all slices", func() bool { n, _ := sink.state(); return n == 10 })
	})
	until(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// The client stops reading, whatever a peer sends, and usable slices are valid JSON.
func FuzzList(f *testing.F) {
	f.Add([]byte(empty))
	f.Add([]byte(begun + one("a", `,"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}],"ports":[{"port":1}]`) + "]}"))
	f.Add([]byte(`{"kind":"EndpointSliceList","items":null}`))
	f.Add([]byte(begun + strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if usable, err := exports.Parse(text); err == nil && usable > len(text)/20 {
			t.Errorf("%d slices of %d bytes", usable, len(text))
		}
	})
}
