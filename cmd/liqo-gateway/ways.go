//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/measure"
	"github.com/liqo-tui/liqo-tui/render"
)

// Time limits of a probe that tries ways.
const (
	// waysLeast and waysMost limit the duration, even if the clocks are wrong.
	waysLeast, waysMost = 1500 * time.Millisecond, 6 * time.Second
	wayPackets          = 10
	wayInterval         = 20 * time.Millisecond
	wayPatience         = 300 * time.Millisecond
	// wayWarmUp is how long an attempt waits for the first answer. Each attempt uses
	// another source port. If a packet reaches a node before the node knows the Service,
	// the node keeps the packet and all later packets of the flow, until there is none for
	// some time.
	wayWarmUp = 500 * time.Millisecond
	// wayAttempt is the duration of an attempt without an answer.
	wayAttempt = wayWarmUp + wayPackets*wayInterval + wayPatience
	// apiPatience is longer than three attempts of TCP to open a connection.
	apiPatience = 3500 * time.Millisecond
)

// tryWays dials all addresses at the same time, and answers the other probe meanwhile. It
// ends when both sides have an answer, or when the time is up.
func tryWays(ctx context.Context, w render.ProbeWays, server *measure.Server) *render.ProbeWaysResult {
	window := min(max(time.Until(w.Until), waysLeast), waysMost)
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	r := &render.ProbeWaysResult{Dials: make([]render.ProbeDial, len(w.Addresses))}
	targets := make([]netip.AddrPort, len(w.Addresses))
	var token measure.Token
	_, wrong := hex.Decode(token[:], []byte(w.Token))
	var trying sync.WaitGroup
	for i, address := range w.Addresses {
		trying.Go(func() {
			d := &r.Dials[i]
			d.Address = address
			var err error
			if targets[i], err = resolve(ctx, address); err == nil {
				err = dialWay(ctx, measure.Config{
					Target: targets[i], Token: token, Packets: wayPackets, Interval: wayInterval,
					WarmUp: wayWarmUp, Patience: wayPatience, Stays: true,
				}, d)
			}
			if err = errors.Join(wrong, err); err != nil && d.Received == 0 && ctx.Err() == nil {
				d.Error = err.Error()
			}
		})
	}
	if w.API.URL != "" {
		trying.Go(func() {
			var err error
			if r.API, err = askAPI(ctx, w.API); err != nil {
				r.APIError = err.Error()
			}
		})
	}
	trying.Wait()
	for i, target := range targets {
		if r.Dials[i].Received > 0 {
			_ = measure.Bye(target, token) // without it, the other probe continues until the time is up
		}
	}
	if w.Alone {
		return r
	}
	select {
	case <-server.PeerDone():
	case <-ctx.Done():
	}
	packets, from := server.Arrived()
	r.Arrived = packets
	for _, a := range from {
		r.From = append(r.From, a.String())
	}
	return r
}

// dialWay tries again until there is an answer, or until too little time is left for
// another attempt.
func dialWay(ctx context.Context, c measure.Config, d *render.ProbeDial) error {
	end, _ := ctx.Deadline()
	for {
		m, err := measure.Run(ctx, c)
		d.Sent, d.Received, d.AvgMicros, d.LargestPacket = m.Sent, m.Received, m.Avg.Microseconds(), m.Largest
		if err != nil || m.Received > 0 || time.Until(end) < wayAttempt {
			return err
		}
	}
}

// resolve returns the address and port of host:port, whose host may be a name.
func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(ip, uint16(port)), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(all[0].Unmap(), uint16(port)), nil
}

// askAPI requests the version from an API server. Any status, even a refusal of the missing
// credentials, proves that the right server answers.
func askAPI(ctx context.Context, a render.ProbeAPI) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: len(a.CA) == 0} //nolint:gosec // no secret is sent, and the image has no list of authorities
	if len(a.CA) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(a.CA) {
			return 0, errors.New("the certificates to trust can't be read")
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(a.URL, "/")+"/version", http.NoBody)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return 0, fmt.Errorf("no answer from %s", request.URL.Host)
	case err != nil:
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // the status is enough for the result
	return response.StatusCode, response.Body.Close()
}
