//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/gateway/measure"
	"github.com/liqo-tui/liqo-tui/render"
)

type echoOptions struct {
	port              uint16
	token, target, to string
}

// Time limits of a probe. With them, a probe has a result within 10 s.
const (
	echoPackets    = 40
	echoInterval   = 50 * time.Millisecond
	echoWarmUp     = 1500 * time.Millisecond
	echoPatience   = 300 * time.Millisecond
	echoThroughput = 3 * time.Second
	// echoLookEvery is the interval at which the file with the target is read. The
	// kubelet replaces the file when the annotation changes.
	echoLookEvery = 50 * time.Millisecond
	// After its own measurement, a pod continues to answer until the other pod has
	// finished or is silent. echoSilence is longer than the pauses of the other pod.
	// echoNever is longer than the target of the other pod may be delayed. On a busy
	// node, the kubelet may deliver the target even later. Then the other pod reports
	// that it waits, and this pod answers for at most echoLongest.
	echoSilence = 2 * time.Second
	echoNever   = 3 * time.Second
	echoLongest = 20 * time.Second
)

func echoCommand() *cobra.Command {
	var o echoOptions
	cmd := &cobra.Command{
		Use: "echo", Short: "Answer the probe of another cluster, and measure the way to it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEcho(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.Uint16Var(&o.port, "port", render.ProbePort, "UDP and TCP port to answer on")
	f.StringVar(&o.token, "token", "", "32 hexadecimal digits that both probes know")
	f.StringVar(&o.target, "target-file", render.ProbeTargetFile, "file with the target, as JSON, once it is known")
	f.StringVar(&o.to, "result-file", "/dev/termination-log", "file for the result, as JSON")
	return cmd
}

func runEcho(ctx context.Context, o echoOptions) error {
	var token measure.Token
	if n, err := hex.Decode(token[:], []byte(o.token)); err != nil || n != len(token) {
		return fmt.Errorf("--token: want %d hexadecimal digits", 2*len(token))
	}
	server, err := measure.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), o.port), token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	target, err := awaitTarget(ctx, o.target)
	if err != nil {
		return err
	}
	server.Begin()
	switch {
	case target.Ways != nil:
		err = writeResult(o.to, render.ProbeResult{Ways: tryWays(ctx, *target.Ways, server)})
	case target.Call != nil:
		err = writeResult(o.to, render.ProbeResult{Call: callService(ctx, *target.Call)})
	default:
		if err = writeResult(o.to, resultOf(ctx, target, o.port, token, server.PeerDone())); err == nil {
			linger(ctx, server, func() bool { return waits(target, o.port, token) })
		}
	}
	cancel()
	return errors.Join(err, <-served)
}

func writeResult(file string, r render.ProbeResult) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// waits reports whether the other pod has no target yet, as it reports itself.
func waits(t render.ProbeTarget, port uint16, token measure.Token) bool {
	address, err := netip.ParseAddr(t.Address)
	return err == nil && measure.Waits(netip.AddrPortFrom(address, port), token)
}

// linger returns when the other pod has measured, or can't measure.
func linger(ctx context.Context, server *measure.Server, waits func() bool) {
	started := time.Now()
	look := time.NewTicker(echoLookEvery)
	defer look.Stop()
	for {
		select {
		case <-server.PeerDone():
			return
		case <-ctx.Done():
			return
		case now := <-look.C:
			ago, ever := server.Heard(now)
			since := now.Sub(started)
			if ever && ago > echoSilence || !ever && since > echoNever && (since > echoLongest || !waits()) {
				return
			}
		}
	}
}

func awaitTarget(ctx context.Context, file string) (render.ProbeTarget, error) {
	look := time.NewTicker(echoLookEvery)
	defer look.Stop()
	for {
		data, err := os.ReadFile(file)
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return render.ProbeTarget{}, err
		case len(bytes.TrimSpace(data)) > 0:
			var t render.ProbeTarget
			if err := json.Unmarshal(data, &t); err != nil {
				return t, fmt.Errorf("target in %s: %w", file, err)
			}
			return t, nil
		}
		select {
		case <-ctx.Done():
			return render.ProbeTarget{}, ctx.Err()
		case <-look.C:
		}
	}
}

func resultOf(ctx context.Context, t render.ProbeTarget, port uint16, token measure.Token, quiet <-chan struct{}) render.ProbeResult {
	address, err := netip.ParseAddr(t.Address)
	if err != nil {
		return render.ProbeResult{Error: err.Error()}
	}
	c := measure.Config{
		Target: netip.AddrPortFrom(address, port), Token: token,
		Packets: echoPackets, Interval: echoInterval, WarmUp: echoWarmUp, Patience: echoPatience, Quiet: quiet,
	}
	if t.Throughput {
		c.Throughput = echoThroughput
	}
	r, err := measure.Run(ctx, c)
	out := render.ProbeResult{
		Sent: r.Sent, Received: r.Received, LargestPacket: r.Largest, ToBits: int64(r.To), FromBits: int64(r.From),
		MinMicros: r.Min.Microseconds(), AvgMicros: r.Avg.Microseconds(), MaxMicros: r.Max.Microseconds(),
		Refused: r.Refused,
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}
