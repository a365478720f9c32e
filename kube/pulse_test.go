package kube

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/flows"
)

// sieve is a TCP proxy that can drop all packets, as a firewall does.
type sieve struct {
	address string
	drops   atomic.Bool
}

func newSieve(t *testing.T, server string) *sieve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &sieve{address: l.Addr().String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			go s.pass(near, far)
			go s.pass(far, near)
		}
	}()
	return s
}

func (s *sieve) pass(from, to net.Conn) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		for s.drops.Load() {
			time.Sleep(10 * time.Millisecond) // TCP would try again and again
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// In testSilence, the API server stops to answer, and answers again later.
func testSilence(t *testing.T, config *rest.Config) {
	s := newSieve(t, strings.Trim(strings.TrimPrefix(config.Host, "https:"), "/"))
	config = rest.CopyConfig(config)
	config.Host = "https://" + s.address
	c := open(t, config)
	await(t, c, "the cluster", func(f flows.ClusterFacts) bool { return f.Problem == nil })
	s.drops.Store(true)
	started := time.Now()
	f := await(t, c, "that it does not answer", func(f flows.ClusterFacts) bool { return f.Problem != nil })
	if f.Problem.Kind != flows.Unreachable || !strings.Contains(f.Problem.Message, "does not answer") {
		t.Errorf("got %+v", f.Problem)
	}
	if took := time.Since(started); took > 2*(pulseInterval+pulseTimeout) {
		t.Errorf("it took %s to see that", took)
	}
	s.drops.Store(false)
	await(t, c, "the cluster again", func(f flows.ClusterFacts) bool { return f.Problem == nil })
}
