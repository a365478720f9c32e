//go:build linux

package main

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/measure"
	"github.com/liqo-tui/liqo-tui/render"
)

var tokens = [2]measure.Token{{1}, {2}}

func answering(t *testing.T, address string, token measure.Token) *measure.Server {
	t.Helper()
	s, err := measure.Listen(netip.MustParseAddrPort(address), token)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(t.Context()) }()
	return s
}

func ways(token measure.Token, until time.Time, addresses ...string) render.ProbeWays {
	return render.ProbeWays{Token: hex.EncodeToString(token[:]), Addresses: addresses, Until: until}
}

// Two probes dial each other, of which one has an address too many, and one asks an
// API server. They end as soon as all is answered that will be.
func TestWaysAreTriedByTwoProbes(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			t.Errorf("got a request for %s", r.URL.Path)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(api.Close)
	a, b := answering(t, "127.0.0.1:16095", tokens[0]), answering(t, "127.0.0.1:16096", tokens[1])
	until := time.Now().Add(20 * time.Second) // more than a busy machine takes
	there := make(chan *render.ProbeWaysResult, 1)
	go func() { there <- tryWays(t.Context(), ways(tokens[0], until, "127.0.0.1:16095", "localhost:16095"), b) }()
	w := ways(tokens[1], until, "127.0.0.1:16096")
	w.API = render.ProbeAPI{URL: api.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})}
	got := tryWays(t.Context(), w, a)
	if len(got.Dials) != 1 || got.Dials[0].Received != wayPackets || got.Dials[0].LargestPacket == 0 || got.Dials[0].AvgMicros == 0 {
		t.Errorf("got %+v", got)
	}
	if got.Arrived < wayPackets || !slices.Equal(got.From, []string{"127.0.0.1"}) {
		t.Errorf("%d packets arrived, from %v", got.Arrived, got.From)
	}
	if got.API != http.StatusForbidden || got.APIError != "" {
		t.Errorf("the API server: got %d, %s", got.API, got.APIError)
	}
	if other := <-there; len(other.Dials) != 2 || other.Dials[0].Received != wayPackets || other.Dials[1].Received != wayPackets || other.API != 0 {
		t.Errorf("there: got %+v", other)
	}
	if time.Now().After(until) {
		t.Error("it took all the time there was")
	}
}

// What nobody answers, or somebody else, is no way; that packets arrived is known all
// the same.
func TestAWayThatIsClosed(t *testing.T) {
	a, b := answering(t, "127.0.0.1:16097", tokens[0]), answering(t, "127.0.0.1:16098", tokens[1])
	began := time.Now()
	there := make(chan *render.ProbeWaysResult, 1)
	go func() {
		// It dials itself: what it answers is its own token.
		there <- tryWays(t.Context(), ways(tokens[0], began.Add(2*time.Second), "127.0.0.1:16098"), b)
	}()
	w := ways(tokens[1], began.Add(2*time.Second), "127.0.0.1:9", "nowhere.invalid:1", "127.0.0.1:16098")
	w.API = render.ProbeAPI{URL: "https://127.0.0.1:9"}
	got := tryWays(t.Context(), w, a)
	if got.Dials[0].Received != 0 || got.Dials[1].Received != 0 || got.Dials[1].Error == "" || got.Dials[2].Received == 0 {
		t.Errorf("got %+v", got.Dials)
	}
	if got.API != 0 || !strings.Contains(got.APIError, "refused") {
		t.Errorf("the API server: got %d, %s", got.API, got.APIError)
	}
	if got.Arrived != 0 {
		t.Errorf("%d packets arrived, and nobody sent any", got.Arrived)
	}
	if other := <-there; other.Dials[0].Received != 0 || other.Arrived == 0 {
		t.Errorf("there: got %+v", other)
	}
}

func TestAnAPIServerThatIsNotTheOne(t *testing.T) {
	api := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	if status, err := askAPI(t.Context(), render.ProbeAPI{URL: api.URL, CA: []byte("none")}); err == nil {
		t.Errorf("got %d with certificates that can't be read", status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if _, err := askAPI(ctx, render.ProbeAPI{URL: api.URL}); err == nil || !strings.Contains(err.Error(), "no answer from 127.0.0.1:") {
		t.Errorf("got %v", err)
	}
}

// A probe that nobody dials waits for nobody.
func TestAnAPIServerIsAskedAlone(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(api.Close)
	w := ways(tokens[0], time.Now().Add(time.Minute))
	w.API, w.Alone = render.ProbeAPI{URL: api.URL}, true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := tryWays(ctx, w, answering(t, "127.0.0.1:16099", tokens[0]))
	if got.API != http.StatusUnauthorized || got.APIError != "" || time.Until(w.Until) < 56*time.Second {
		t.Errorf("got %+v with %s left", got, time.Until(w.Until))
	}
}
