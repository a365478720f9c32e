package main

import (
	"bytes"
	"fmt"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestWhatOthersWroteDoesNotCommandTheTerminal(t *testing.T) {
	now := flowtest.Epoch()
	const evil = "answers\x1b]0;owned\x07\x1b[2J\u009b31m\u202etxt.exe\r"
	shown := info.Describe(connectionOf(networkingv1beta1.Connected, now, &wire.Report{At: now, Interval: 10, Message: evil}), now)
	var out bytes.Buffer
	if err := info.WritePeers(report.Printable{Writer: &out}, shown); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes(), []byte("answers�]0;owned��[2J�31m�txt.exe�")) {
		t.Errorf("got %q", out.String())
	}
	const fine = "μs · 253.18.0.0/16 → münchen 東京\n\ttable"
	out.Reset()
	if n, err := fmt.Fprint(report.Printable{Writer: &out}, fine); err != nil || n != len(fine) || out.String() != fine {
		t.Errorf("got %q of %d bytes, %v", out.String(), n, err)
	}
}
