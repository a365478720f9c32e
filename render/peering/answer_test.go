package peering

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
)

func TestTheSameOutageIsTheSameErrorEachTime(t *testing.T) {
	outage := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://192.0.2.1/livez", Err: &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 6443}, Err: errors.New("connection reset by peer"),
		}}
	}
	for err, want := range map[error]string{
		outage(40001):            "its API server https://192.0.2.1 does not answer: connection reset by peer",
		outage(40002):            "its API server https://192.0.2.1 does not answer: connection reset by peer",
		context.DeadlineExceeded: "its API server https://192.0.2.1 does not answer: not in time",
	} {
		if got := NoAnswer("https://192.0.2.1", err).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
