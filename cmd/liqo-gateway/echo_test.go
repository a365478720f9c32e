//go:build linux

package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/measure"
)

// The kubelet of a busy node tells a pod its target late. The other one, which has measured
// by then, still answers it: without an answer the path would count as broken.
func TestAPodThatIsToldItsTargetLateIsAnswered(t *testing.T) {
	server, err := measure.Listen(netip.MustParseAddrPort("127.0.0.1:0"), measure.Token{1})
	if err != nil {
		t.Fatal(err)
	}
	began, asked := time.Now(), 0
	linger(t.Context(), server, func() bool { asked++; return asked < 20 })
	if took := time.Since(began); asked != 20 || took < echoNever+19*echoLookEvery {
		t.Errorf("it ended after %s, when the other one had said %d times that it waits", took, asked)
	}
}
