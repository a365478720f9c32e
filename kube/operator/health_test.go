package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The kubelet asks over all terms: liveness never depends on them.
func TestHealthIsAnsweredOverAllTerms(t *testing.T) {
	var h health
	server, err := h.server(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	for _, step := range []struct {
		name  string
		does  func()
		ready string // "" is ready, else what is said
	}{
		{"stands by", func() {}, ""},
		{"waits at the gate", h.leads, "is the leader but cannot work"},
		{"failed", func() { h.ended(errors.New("no such kind")) }, "starts again after an error: no such kind"},
		{"another one leads", h.anotherLeads, ""},
		{"lost the lease", func() { h.leads(); h.ended(nil) }, ""},
	} {
		step.does()
		if code, text := get(t, "http://"+server.Listener.Addr().String()+"/healthz"); code != http.StatusOK {
			t.Errorf("%s: got liveness %d %q, want %d", step.name, code, text, http.StatusOK)
		}
		code, text := get(t, "http://"+server.Listener.Addr().String()+"/readyz")
		if (code == http.StatusOK) != (step.ready == "") || !strings.Contains(text, step.ready) {
			t.Errorf("%s: got readiness %d %q, want %q", step.name, code, text, step.ready)
		}
	}
	h.works(nil)
	_, text := get(t, "http://"+server.Listener.Addr().String()+"/metrics")
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), " "); !strings.HasPrefix(name, "liqo_tui_operator_leads") &&
			!slices.ContainsFunc(ofController, func(known string) bool { return strings.HasPrefix(name, known) }) {
			t.Errorf("got metric %s", name)
		}
	}
	if !strings.Contains(text, "\nliqo_tui_operator_leads 1\n") {
		t.Errorf("got metrics %q, want that this replica works", text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) (code int, text string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
