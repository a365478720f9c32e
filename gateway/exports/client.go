package exports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

const (
	dialTime   = 5 * time.Second
	answerTime = 10 * time.Second // until the header of an answer
	// sliceTime is the longest time for a slice of a list.
	sliceTime = 20 * time.Second
	// quietTime is the longest time between two events. It is longer than two intervals of bookmarks.
	quietTime = 150 * time.Second
	// settled is the time after which a watch counts as one that works.
	settled = 30 * time.Second
	// retryFirst is the first pause after failures. The pause doubles up to retryMost.
	retryFirst = time.Second
	retryMost  = 15 * time.Second
	retryTold  = time.Minute // the longest pause that the peer can ask for
	// againTime is the time until the next list after a slice was refused by this cluster's API server, for
	// example because of a quota, or by a limit of [services.Budget].
	againTime = 5 * time.Minute
	// maxAnswer is the largest header of an answer, in bytes.
	maxAnswer = 16 << 10
	// segment is the size of TCP segments between gateways. With it, a datagram has 576 bytes, which every
	// path carries. The gateways' own sockets don't learn that a path carries less than the tunnel's device.
	segment = 576 - 40
)

// ErrNoServices means that the peer's gateway does not serve exports.
var ErrNoServices = errors.New("the peer's gateway is of a release without Services")

// A Check judges a slice that a peer has sent, which may be hostile. It returns the part that may be written
// into this cluster, or nil. problems are texts about the refused or omitted parts.
type Check func(*discoveryv1.EndpointSlice) (admitted *discoveryv1.EndpointSlice, problems []string)

// A Sink stores the slices that a Client reads. After an error, the Client lists again.
type Sink interface {
	Begin(context.Context) error // a list begins
	// Put stores a slice that has passed the Check. from is the name of the slice in the peer's cluster.
	// refused is the reason that this cluster's API server does not accept it.
	Put(ctx context.Context, from types.NamespacedName, s *discoveryv1.EndpointSlice) (refused, err error)
	Drop(ctx context.Context, from types.NamespacedName) error
	// End ends a list. If the list is complete, it deletes all slices that were not Put since Begin.
	End(ctx context.Context, complete bool) (refused map[types.NamespacedName]error, err error)
}

// Client reads the exports of a peer.
type Client struct {
	URL   string // with [Path]
	HTTP  http.RoundTripper
	Check Check
	Sink  Sink
	Log   *slog.Logger
	// Changed is called when Status may have changed. It must not block. It may be nil.
	Changed func()

	quiet, slice time.Duration // quietTime and sliceTime, except in tests

	version string // the version at which a watch can resume; "" if a list is needed
	again   bool   // a slice was refused here, and a later list may find it accepted
	budget  services.Budget

	mu     sync.Mutex
	known  map[types.NamespacedName]judged // all slices of the peer
	status Status
}

// judged is the decision about a slice.
type judged struct {
	taken   bool
	of      types.NamespacedName // the Service of a slice that was taken
	size    int                  // the size of the taken part, in bytes
	problem string               // the reason to refuse the slice or a part of it; "" if there is none
}

// Status describes what a Client has read.
type Status struct {
	Slices  int       // the number of taken slices
	Refused []Refusal // slices that were refused, or taken in part; the most frequent reason first
	// Complete is the time of the last complete list; zero: never. Heard is the time of the last answer or
	// event of the peer. The peer may have changed the slices since then.
	Complete, Heard time.Time
	Problem         error // the reason that nothing is read now; nil if the watch works
}

// Refusal is a reason to refuse slices, or parts of them.
type Refusal struct {
	Reason  string
	Slices  int
	Example string // namespace and name of one of these slices, as text for people
}

// maxRefusals is the largest number of reasons in a Status.
const maxRefusals = 4

// Status returns the present status.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Slices, s.Refused = c.count()
	return s
}

// Transport returns a transport to a peer's gateway, which sends from the address own in the tunnel. It uses
// no proxy, and accepts no compressed answers.
func Transport(own netip.Addr) *http.Transport {
	dialer := &net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0)), Timeout: dialTime, KeepAliveConfig: keepAlive, Control: smallSegments,
	}
	return &http.Transport{
		Proxy: nil, DisableCompression: true, DialContext: dialer.DialContext, ResponseHeaderTimeout: answerTime,
		MaxResponseHeaderBytes: maxAnswer, MaxConnsPerHost: 2, MaxIdleConns: 1, IdleConnTimeout: idleTime,
	}
}

// Listen listens at the address own in the tunnel.
func Listen(ctx context.Context, own netip.AddrPort) (net.Listener, error) {
	config := net.ListenConfig{Control: smallSegments}
	l, err := config.Listen(ctx, "tcp4", own.String())
	if err != nil {
		return nil, fmt.Errorf("serve exports: %w", err)
	}
	return l, nil
}

func smallSegments(_, _ string, socket syscall.RawConn) error {
	var err error
	if failed := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment)
	}); failed != nil {
		return failed
	}
	return err
}

// Run lists and watches until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	c.quiet, c.slice = cmp.Or(c.quiet, quietTime), cmp.Or(c.slice, sliceTime)
	pause := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := c.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > settled {
			pause = retryFirst
		}
		wait := pause
		switch {
		case err == nil: // the watch has ended, and resumes
		case errors.Is(err, errGone):
			c.version = ""
		default:
			if c.Status().Problem == nil {
				c.Log.Warn("the peer's Services can't be read", "error", err)
			}
			c.note(func(s *Status) { s.Problem = err })
		}
		if told, ok := errors.AsType[*laterError](err); ok {
			wait = max(wait, told.after)
		}
		sleep.For(ctx, wait)
		pause = min(2*pause, retryMost)
	}
	return nil //nolint:nilerr // ctx has ended
}

// follow lists if a list is needed, and watches until the watch ends.
func (c *Client) follow(ctx context.Context) error {
	if c.version == "" {
		if err := c.list(ctx); err != nil {
			return err
		}
	}
	if c.again {
		limited, cancel := context.WithTimeoutCause(ctx, againTime, errGone)
		defer cancel()
		ctx = limited
	}
	return c.watch(ctx)
}

// get sends a request. It returns an error unless the answer has status 200 and is JSON.
func (c *Client) get(ctx context.Context, query url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	// RoundTrip follows no redirects and keeps no cookies.
	answer, err := c.HTTP.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("ask the peer's gateway: %w", err)
	}
	if err := usable(answer); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// usable returns the reason that an answer can't be used. It repeats no text of the peer.
func usable(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return ErrNoServices
	case code == http.StatusGone:
		return errGone
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return &laterError{code, min(max(time.Duration(seconds)*time.Second, retryFirst), retryTold)}
	case code != http.StatusOK:
		return fmt.Errorf("the peer's gateway answers %d %s", code, http.StatusText(code))
	case answer.Header.Get("Content-Encoding") != "":
		return errors.New("the peer's gateway sends a compressed answer, for which nobody has asked")
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errors.New("the peer's gateway sends no JSON")
	}
	return nil
}

// laterError is an answer that contains the time of the next attempt.
type laterError struct {
	code  int
	after time.Duration
}

func (e *laterError) Error() string {
	return fmt.Sprintf("the peer's gateway answers %d %s", e.code, http.StatusText(e.code))
}

// peerError is an error about data of the peer.
func peerError(err error) error { return fmt.Errorf("the peer's gateway %w", err) }

func (c *Client) list(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	answer, err := c.get(ctx, url.Values{})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	f := newFrames(ctx, answer.Body, maxList, c.slice, end)
	defer f.stop()
	if err := c.Sink.Begin(ctx); err != nil {
		return err
	}
	known := map[types.NamespacedName]judged{}
	c.budget, c.again = services.Budget{}, false
	var local error
	version, err := f.list(func(raw []byte) error {
		s, err := parseSlice(raw)
		if s == nil {
			return err
		}
		if _, twice := known[nameOf(s)]; twice {
			return errNotJSON
		}
		known[nameOf(s)], local = c.put(ctx, s, err)
		return local
	})
	refused, failed := c.Sink.End(ctx, err == nil)
	switch {
	case failed != nil:
		return failed
	case local != nil:
		return local
	case err != nil:
		return peerError(noEOF(err))
	}
	for key, reason := range refused {
		c.release(known[key])
		known[key] = judged{problem: short(reason.Error())}
	}
	c.version, c.again = version, c.again || len(refused) > 0
	now := time.Now()
	c.note(func(s *Status) {
		c.known = known
		s.Complete, s.Heard, s.Problem = now, now, nil
	})
	return nil
}

// noEOF replaces the error about an answer that ended too early by an error with a text.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("has ended its answer too early")
	}
	return err
}

// watch follows the changes after c.version.
func (c *Client) watch(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	answer, err := c.get(ctx, url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {c.version}})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer answer.Body.Close()
	c.note(func(s *Status) { s.Heard, s.Problem = time.Now(), nil })
	f := newFrames(ctx, answer.Body, -1, c.quiet, end)
	defer f.stop()
	for {
		f.next()
		var e struct {
			Type   watch.EventType
			Object json.RawMessage
		}
		if err := f.decode(&e); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, errGone) {
				return err
			}
			return peerError(noEOF(err))
		}
		f.stop()
		if err := c.event(ctx, e.Type, e.Object); err != nil {
			return err
		}
	}
}

func (c *Client) event(ctx context.Context, kind watch.EventType, raw []byte) error {
	if kind == watch.Error {
		var s metav1.Status
		if json.Unmarshal(raw, &s) == nil && s.Code == http.StatusGone {
			return errGone
		}
		return peerError(errors.New("ends the watch with an error"))
	}
	s, err := parseSlice(raw)
	if s == nil {
		return peerError(err)
	}
	version := s.ResourceVersion
	if version == "" || len(version) > maxVersion {
		return peerError(errNotJSON)
	}
	from := nameOf(s)
	change := func() {}
	switch kind {
	case watch.Added, watch.Modified:
		if _, ok := c.known[from]; !ok && len(c.known) == maxSlices {
			return peerError(errTooMany)
		}
		c.release(c.known[from])
		is, err := c.put(ctx, s, err)
		if err != nil {
			c.version = "" // so that the Client lists again
			return err
		}
		change = func() { c.known[from] = is }
	case watch.Deleted:
		if err := c.Sink.Drop(ctx, from); err != nil {
			return err
		}
		c.release(c.known[from])
		change = func() { delete(c.known, from) }
	case watch.Bookmark:
	default:
		return peerError(errNotJSON)
	}
	c.version = version
	c.note(func(s *Status) {
		change()
		s.Heard = time.Now()
	})
	return nil
}

// nameOf returns the peer's name of a slice. It cuts names that no object can have, to save memory, because
// such slices are refused.
func nameOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: cut(s.Namespace, 63), Name: cut(s.Name, 253)}
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}

// put judges a slice, and passes it to the sink. If the slice is refused, the sink deletes its earlier
// version. bad is the reason that the slice can't be read, or nil.
func (c *Client) put(ctx context.Context, s *discoveryv1.EndpointSlice, bad error) (judged, error) {
	from := nameOf(s)
	if bad != nil {
		return judged{problem: short(bad.Error())}, c.Sink.Drop(ctx, from)
	}
	admitted, problems := c.Check(s)
	out := judged{problem: short(strings.Join(problems, "; "))}
	if admitted == nil {
		return out, c.Sink.Drop(ctx, from)
	}
	if full := c.budget.Add(admitted); full != "" {
		c.again = true
		return judged{problem: full}, c.Sink.Drop(ctx, from)
	}
	out.taken, out.of, out.size = true, services.CopyOf(admitted), admitted.Size()
	refused, err := c.Sink.Put(ctx, from, admitted)
	if refused == nil || err != nil {
		return out, err
	}
	c.again = true
	c.release(out)
	return judged{problem: short(refused.Error())}, c.Sink.Drop(ctx, from)
}

// release takes a slice out of the budget.
func (c *Client) release(is judged) {
	if is.taken {
		c.budget.Remove(is.of, is.size)
	}
}

// short returns a problem in the length that is stored for each slice.
func short(problem string) string { return cut(problem, 200) }

func (c *Client) note(change func(*Status)) {
	c.mu.Lock()
	before := c.status
	change(&c.status)
	after := c.status
	c.mu.Unlock()
	// An event alone waits for the next report, because peers decide how many events there are.
	if c.Changed != nil && (fmt.Sprint(after.Problem) != fmt.Sprint(before.Problem) || after.Complete != before.Complete) {
		c.Changed()
	}
}

// count returns the number of accepted slices, and the reasons to refuse others.
func (c *Client) count() (taken int, refused []Refusal) {
	reasons := map[string]*Refusal{}
	for key, is := range c.known {
		if is.taken {
			taken++
		}
		switch r := reasons[is.problem]; {
		case is.problem == "":
		case r == nil:
			reasons[is.problem] = &Refusal{is.problem, 1, key.String()}
		default:
			r.Slices++
			r.Example = min(r.Example, key.String())
		}
	}
	for _, r := range slices.SortedFunc(maps.Values(reasons), func(a, b *Refusal) int {
		return cmp.Or(b.Slices-a.Slices, cmp.Compare(a.Reason, b.Reason))
	}) {
		if len(refused) < maxRefusals {
			r.Reason, r.Example = services.Printable(r.Reason), services.Printable(r.Example)
			refused = append(refused, *r)
		}
	}
	return taken, refused
}

// refusedHere reports whether this cluster's API server refuses an object until an admin changes something.
func refusedHere(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err)
}
