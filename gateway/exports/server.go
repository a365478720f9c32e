package exports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Path is the path at which a gateway serves its cluster's exports. A later version of the data gets another
// path.
const Path = "/v1/exports"

const (
	// listEvery and watchEvery are the shortest times between two lists, and between two watches. A
	// gateway that works lists once, and then watches.
	listEvery  = 5 * time.Second
	watchEvery = time.Second
	// bookmarkEvery is the interval of bookmarks. They tell the peer that a quiet watch works.
	bookmarkEvery = time.Minute
	// listTime and eventTime are the longest times that the peer may take to read a list, and an event. A
	// peer that does not read must not keep memory in use.
	listTime  = time.Minute
	eventTime = 10 * time.Second
	// maxConnections is the largest number of open connections. A gateway needs one, but connections of its
	// previous pod may still be open. So a new connection ends the oldest.
	maxConnections = 8
	maxHeader      = 4 << 10 // of a request, in bytes
	headerTime     = 5 * time.Second
	// idleTime is how long a connection without a request stays open.
	idleTime = 2 * time.Minute
	// sendBuffer limits the part of an answer that the kernel holds, in bytes.
	sendBuffer = 128 << 10
)

// keepAlive finds within 20 s that the other gateway, or its pod, is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

// Server serves a store to one peer.
type Server struct {
	Store *Store
	Peer  netip.Addr // the address of the peer's gateway in the tunnel. Requests from other addresses are refused
	Log   *slog.Logger

	bookmarks time.Duration // bookmarkEvery, except in tests

	mu        sync.Mutex
	lastList  time.Time
	lastWatch time.Time
	endStream context.CancelFunc // ends the present watch; nil if there is none

	streams atomic.Int64 // watches that run now
}

// Watched reports whether the peer watches now.
func (s *Server) Watched() bool { return s.streams.Load() > 0 }

// Serve answers requests on l until ctx ends. Then it ends all streams and connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		// The handler answers "OPTIONS *", too.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // at level Debug, because the peer decides how much is logged
		BaseContext:                  func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(&fromPeer{Listener: l, peer: s.Peer})
	_ = server.Close()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve exports at %s: %w", l.Addr(), err)
}

// ServeHTTP answers a list or a watch.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != Path:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing but "+Path)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "exports can only be read")
		return
	case r.ContentLength != 0:
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "a request has no body")
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the query can't be read")
		return
	}
	// A client that sends one of these parameters would misunderstand the answer. Other unknown parameters
	// are ignored, as Kubernetes does.
	for _, name := range []string{"labelSelector", "fieldSelector", "continue", "sendInitialEvents"} {
		if q.Get(name) != "" {
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, name+" is not supported")
			return
		}
	}
	if is, _ := strconv.ParseBool(q.Get("watch")); is {
		s.watch(w, r, q)
		return
	}
	s.list(w)
}

// wait returns 0 if a request may be answered now, and otherwise the time to wait. last is the time of the
// last answered request.
func (s *Server) wait(last *time.Time, every time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if left := every - now.Sub(*last); left > 0 {
		return left
	}
	*last = now
	return 0
}

func (s *Server) list(w http.ResponseWriter) {
	all, version, ok := s.Store.list()
	if !ok {
		later(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second, "the exports are not read yet")
		return
	}
	if left := s.wait(&s.lastList, listEvery); left > 0 {
		later(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, left, "one list in 5 s")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listTime))
	w.Header().Set("Content-Type", "application/json")
	_, err := fmt.Fprintf(w, `{"kind":"EndpointSliceList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, sliceType.APIVersion, version)
	for i := 0; i < len(all) && err == nil; i++ {
		if i > 0 {
			_, err = w.Write([]byte{','})
		}
		if err == nil {
			_, err = w.Write(all[i])
		}
	}
	if err == nil {
		_, err = w.Write([]byte("]}\n"))
	}
	if err != nil {
		// The answer must not look complete.
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, q url.Values) {
	version, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "a watch begins at the resourceVersion of a list")
		return
	}
	if left := s.wait(&s.lastWatch, watchEvery); left > 0 {
		later(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, left, "one watch in 1 s")
		return
	}
	changes, changed, err := s.Store.since(version)
	if err != nil {
		refuse(w, http.StatusGone, metav1.StatusReasonExpired, err.Error())
		return
	}
	bookmarks, _ := strconv.ParseBool(q.Get("allowWatchBookmarks"))
	ctx, end := context.WithCancel(r.Context())
	defer end()
	s.mu.Lock()
	if s.endStream != nil {
		s.endStream()
	}
	s.endStream = end
	s.mu.Unlock()
	s.streams.Add(1)
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	send := func(line []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(eventTime))
		if len(line) > 0 {
			if _, err := w.Write(line); err != nil {
				return false
			}
		}
		return control.Flush() == nil
	}
	if !send(nil) { // the peer knows at once that the watch has begun
		return
	}
	every := s.bookmarks
	if every == 0 {
		every = bookmarkEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		for _, c := range changes {
			if ctx.Err() != nil || !send(c.json) {
				return
			}
			version = c.version
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
			if bookmarks && !send(bookmark(version)) {
				return
			}
		}
		if changes, changed, err = s.Store.since(version); err != nil {
			send(eventLine(watch.Error, statusOf(http.StatusGone, metav1.StatusReasonExpired, err.Error())))
			return
		}
	}
}

// bookmark returns an event that tells the peer the present version.
func bookmark(version uint64) []byte {
	// A constant and a number can't fail.
	object, _ := json.Marshal(&discoveryv1.EndpointSlice{TypeMeta: sliceType, ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10)}})
	return eventLine(watch.Bookmark, object)
}

func statusOf(code int, reason metav1.StatusReason, message string) []byte {
	content, _ := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	return content
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(eventTime))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(statusOf(code, reason, message))
}

// later refuses a request that may be repeated after some time.
func later(w http.ResponseWriter, code int, reason metav1.StatusReason, left time.Duration, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(int((left+time.Second-1)/time.Second)))
	refuse(w, code, reason, message)
}

// fromPeer accepts connections of the peer's gateway, and closes all others.
type fromPeer struct {
	net.Listener
	peer netip.Addr

	mu   sync.Mutex
	open []*connection // the oldest first
}

type connection struct {
	net.Conn
	from *fromPeer
}

func (l *fromPeer) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil || from.Addr().Unmap() != l.peer {
			_ = c.Close()
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			if err := errors.Join(tcp.SetKeepAliveConfig(keepAlive), tcp.SetWriteBuffer(sendBuffer)); err != nil {
				_ = c.Close()
				continue
			}
		}
		out := &connection{c, l}
		l.mu.Lock()
		l.open = append(l.open, out)
		var oldest *connection
		if len(l.open) > maxConnections {
			oldest = l.open[0]
		}
		l.mu.Unlock()
		if oldest != nil {
			_ = oldest.Close()
		}
		return out, nil
	}
}

// Close closes the connection, and makes room for another one.
func (c *connection) Close() error {
	c.from.mu.Lock()
	for i, o := range c.from.open {
		if o == c {
			c.from.open = append(c.from.open[:i], c.from.open[i+1:]...)
			break
		}
	}
	c.from.mu.Unlock()
	return c.Conn.Close()
}
