//go:build linux

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/render"
)

// at is the call of a server of the test.
func at(t *testing.T, address string, http bool) render.ProbeCall {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return render.ProbeCall{Host: a.Addr().String(), Port: a.Port(), HTTP: http}
}

func TestAServiceThatAnswersHTTPIsCalled(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/" {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer s.Close()
	got := callService(t.Context(), at(t, s.Listener.Addr().String(), true))
	if got.Status != http.StatusFound || got.Address != "127.0.0.1" || got.Micros == 0 || got.Problem != "" {
		t.Errorf("got %+v", got)
	}
}

// Many Services speak no HTTP, and write to logs what they do not understand. So nothing is sent there.
func TestAnAcceptedConnectionIsAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	read := make(chan int, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n, _ := conn.Read(make([]byte, 100))
		read <- n
	}()
	if got := callService(t.Context(), at(t, l.Addr().String(), false)); got.Problem != "" || got.Status != 0 || got.Micros == 0 {
		t.Errorf("got %+v", got)
	}
	if n := <-read; n != 0 {
		t.Errorf("got %d bytes sent, want none", n)
	}
}

func TestAServiceWithoutAnAnswerHasAReason(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	if got := callOnce(t.Context(), at(t, closed, false)); !strings.Contains(got.Problem, "refused") || got.Address != "127.0.0.1" || got.Micros != 0 {
		t.Errorf("got %+v", got)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if got := callOnce(t.Context(), at(t, silent.Addr().String(), true)); got.Problem != "no answer within 2s" {
		t.Errorf("got %+v", got)
	}
}

// A name may be new: the cluster's DNS can say for some seconds that it does not exist.
func TestAServiceIsCalledAgainUntilItAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	time.AfterFunc(time.Second, func() {
		if l, err := net.Listen("tcp", address); err == nil {
			t.Cleanup(func() { l.Close() })
		}
	})
	if got := callService(t.Context(), at(t, address, false)); got.Problem != "" {
		t.Errorf("got %+v", got)
	}
}

func TestANameWithoutAnAddressIsSaid(t *testing.T) {
	for _, c := range []struct{ err, want string }{{"x", "the name was not resolved: lookup web: x"}, {"no such host", "the name has no address"}} {
		if got := noName(&net.DNSError{Name: "web", Err: c.err, IsNotFound: c.err == "no such host"}); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
