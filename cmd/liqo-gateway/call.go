//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/render"
)

// Time limits of a request to a Service.
const (
	// callWindow is longer than the 5 s for which a cluster's DNS may remember that the name did not exist.
	callWindow = 15 * time.Second
	// callPatience is longer than the first repetition of a lost TCP SYN, after 1 s.
	callPatience = 2 * time.Second
	callPause    = 500 * time.Millisecond
)

// callService calls a Service until it answers, or until the time is up.
func callService(ctx context.Context, c render.ProbeCall) *render.ProbeCallResult {
	ctx, cancel := context.WithTimeout(ctx, callWindow)
	defer cancel()
	var last render.ProbeCallResult
	for {
		r := callOnce(ctx, c)
		if r.Problem == "" {
			return &r
		}
		if ctx.Err() == nil || last.Problem == "" { // the end of the time says nothing about the Service
			last = r
		}
		if !sleep.For(ctx, callPause) {
			return &last
		}
	}
}

// callOnce makes one request. It asks the pod's resolver for a name as every program of a pod does.
func callOnce(ctx context.Context, c render.ProbeCall) (r render.ProbeCallResult) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	target, err := resolve(ctx, net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if err != nil {
		r.Problem = noName(err)
		return r
	}
	r.Address = target.Addr().String()
	began := time.Now()
	if c.HTTP {
		r.Status, err = get(ctx, c, target)
	} else {
		err = dial(ctx, target)
	}
	if r.Micros = time.Since(began).Microseconds(); err != nil {
		r.Micros, r.Problem = 0, noAnswer(ctx, err)
	}
	return r
}

// noName says why the resolver has no address.
func noName(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "the name has no address"
	}
	return "the name was not resolved: " + err.Error()
}

// noAnswer says why a request has failed.
func noAnswer(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return fmt.Sprintf("no answer within %s", callPatience)
	}
	return err.Error()
}

func dial(ctx context.Context, target netip.AddrPort) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// get returns the status of the first answer. A redirection is an answer, too.
func get(ctx context.Context, c render.ProbeCall, target netip.AddrPort) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(), http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", "liqo-tui")
	var d net.Dialer
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, target.String())
	}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
