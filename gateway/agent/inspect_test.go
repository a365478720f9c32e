package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

type states struct{ wanted, found gateway.KernelState }

func (s states) States() (wanted, found gateway.KernelState, err error) {
	return s.wanted, s.found, nil
}

func TestInspectShowsWhatDiffersAndNoKey(t *testing.T) {
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	s := states{wanted: gateway.KernelState{
		Tunnels: []gateway.Tunnel{{Device: gateway.TunnelDevice, PrivateKey: gateway.PrivateKey(key)}},
		Rules:   []gateway.Rule{{Preference: 20, Input: gateway.TunnelDevice, Table: gateway.LocalTable}},
	}}
	s.found.Tunnels = s.wanted.Tunnels
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- serveInspect(s)(ctx) }()
	var out bytes.Buffer
	for Inspect(ctx, &out, false) != nil { // it begins to listen
		if ctx.Err() != nil {
			t.Fatal("nobody answers")
		}
		out.Reset()
	}
	var got Inspection
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	if len(got.Differences) != 1 || !strings.Contains(got.Differences[0], "missing: ip rule add pref 20 iif liqo-tunnel") {
		t.Errorf("got differences %q", got.Differences)
	}
	if text := out.String(); !strings.Contains(text, key.PublicKey().String()) || strings.Contains(text, key.String()) {
		t.Errorf("got %s; want the public key and not the private one", text)
	}
	out.Reset()
	if err := Inspect(ctx, &out, true); err != nil {
		t.Fatal(err)
	}
	want := "# the kernel is not as wanted:\n#   missing: ip rule add pref 20 iif liqo-tunnel lookup 18001\n\nip link add liqo-tunnel"
	if text := out.String(); !strings.HasPrefix(text, want) || strings.Contains(text, key.String()) {
		t.Errorf("as text: got\n%s\nwant it to begin with\n%s", text, want)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
