package credentials

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A request ends when its answer stops, and not when its answer is long. A watch does not end.
func TestAnAnswerMayBeSlowButNotSilent(t *testing.T) {
	const within = 300 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts, pause := 5, within/2
		switch r.URL.Path {
		case "/silent":
			parts, pause = 0, time.Minute
		case "/stops":
			parts = 1
		case "/watches":
			parts, pause = 1, 2*within
		}
		for range parts {
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path == "/silent" || r.URL.Path == "/stops" {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	rt, err := NewTransport(&rest.Config{Host: server.URL, Timeout: within}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		text   string
		silent bool
	}{"/slow": {"xxxxx", false}, "/silent": {"", true}, "/stops": {"x", true}, "/watches?watch=true": {"x", false}} {
		text, err := read(t, rt, server.URL+path)
		if text != want.text || errors.Is(err, context.DeadlineExceeded) != want.silent || err != nil && !want.silent {
			t.Errorf("%s: got %q, %v; want %q, silent: %v", path, text, err, want.text, want.silent)
		}
	}
}

func read(t *testing.T, rt http.RoundTripper, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := rt.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
