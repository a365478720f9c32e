package kube

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
)

// The API server's own clock counts, already in the first observation, and also after the clock was set.
func TestTheClusterTellsItsTime(t *testing.T) {
	var ahead atomic.Int64
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(ahead.Load())).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = fmt.Fprint(w, `{"major": "1", "minor": "35", "gitVersion": "v1.35.0"}`)
		case "/api/v1/namespaces/kube-system":
			_, _ = fmt.Fprint(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "1"}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}`)
		}
	}))
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(api.Close)
	config := func() *rest.Config {
		return &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	}
	const wrong = 35 * time.Second
	ahead.Store(int64(wrong))
	c := open(t, config())
	if f := observe(t, c); (f.ClockAhead - wrong).Abs() > 2*time.Second {
		t.Errorf("got %s ahead, want %s; the problem is %v", f.ClockAhead, wrong, f.Problem)
	}
	ahead.Store(int64(-wrong))
	await(t, c, "the clock that was set", func(f flows.ClusterFacts) bool { return (f.ClockAhead + wrong).Abs() <= 2*time.Second })
	first := observe(t, c)
	if again := observe(t, c); !view.Equal(again, first) {
		t.Errorf("got %+v, then %+v", first, again)
	}
}
