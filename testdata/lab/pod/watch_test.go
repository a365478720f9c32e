package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWatchTellsWhoAnswers(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		if n == 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"hostname":"server-%d"}`, min(n/5, 1))
	}))
	defer server.Close()
	in, end := io.Pipe()
	time.AfterFunc(300*time.Millisecond, func() { end.Close() })
	var out strings.Builder
	if err := watch([]string{server.URL}, in, &out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
		var next turn
		if err := d.Decode(&next); err != nil {
			t.Fatal(err)
		}
		got = append(got, next.Hostname)
	}
	if want := "server-0  server-0 server-1"; strings.Join(got, " ") != want {
		t.Errorf("got the answers of %q, want %q", strings.Join(got, " "), want)
	}
}
