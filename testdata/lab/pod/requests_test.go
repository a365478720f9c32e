package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRequestsCountWhatIsLost(t *testing.T) {
	echo, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if text := string(buffer[:n]); text != "3" && text != "5" {
				_, _ = echo.WriteToUDPAddrPort(buffer[:n], from)
			}
		}
	}()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	in, end := io.Pipe()
	time.AfterFunc(400*time.Millisecond, func() { end.Close() })
	var out strings.Builder
	if err := requests([]string{"--interval", "10ms", "--timeout", "2s", server.URL + "/", "udp://" + echo.LocalAddr().String()}, in, &out); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(out.String()))
	for _, lost := range []int{1, 2} {
		var got outcome
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if got.Sent < 6 || got.Lost != lost || len(got.Reasons) != lost || got.LastLost.IsZero() || got.Slowest == 0 || !got.Longest.First.After(got.Longest.Last) {
			t.Errorf("got %+v, want at least 6 requests of which %d were lost", got, lost)
		}
	}
}
