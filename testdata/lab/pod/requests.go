package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	requestInterval = 50 * time.Millisecond
	// requestTimeout is longer than a busy machine needs (13 s were measured). Later, a request without an
	// answer is lost.
	requestTimeout = time.Minute
	// lostTold is the largest number of lost requests that are reported one by one.
	lostTold = 20
)

// outcome is the result of all requests to one target.
type outcome struct {
	Target  string        `json:"target"`
	Sent    int           `json:"sent"`
	Lost    int           `json:"lost"` // all others were answered
	Longest stall         `json:"longest"`
	Slowest time.Duration `json:"slowest"` // the slowest answer
	Reasons []string      `json:"reasons,omitempty"`
	// LastLost is when the last lost request was sent.
	LastLost time.Time `json:"lastLost,omitzero"`
}

// requests sends a request to each target, http://HOST:PORT/ or udp://HOST:PORT, at intervals until in ends,
// each time from another port. Then it prints an outcome for each target. It sends no datagram twice, so a
// datagram that the path loses counts as lost.
func requests(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("requests", flag.ContinueOnError)
	interval := flags.Duration("interval", requestInterval, "between requests to one target")
	timeout := flags.Duration("timeout", requestTimeout, "of a request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New(usage)
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	outcomes := make([]outcome, flags.NArg())
	var all sync.WaitGroup
	for i, target := range flags.Args() {
		u, err := url.Parse(target)
		if err != nil {
			return err
		}
		var request func(n int) error
		switch u.Scheme {
		case "http":
			client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableKeepAlives: true}}
			request = func(int) error { return ask(client, target, io.Discard) }
		case "udp":
			request = func(n int) error { return echoed(u.Host, n, *timeout) }
		default:
			return fmt.Errorf("%s: want http or udp\n%s", target, usage)
		}
		outcomes[i] = outcome{Target: target}
		all.Go(func() { outcomes[i].ask(ctx, *interval, request) })
	}
	_, _ = io.Copy(io.Discard, in)
	end()
	all.Wait()
	encoder := json.NewEncoder(out)
	for _, o := range outcomes {
		if err := encoder.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

// ask sends requests until ctx ends. It returns when all are answered or lost.
func (o *outcome) ask(ctx context.Context, interval time.Duration, request func(n int) error) {
	var mu sync.Mutex
	var pending sync.WaitGroup
	last := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		n := o.Sent
		o.Sent++
		pending.Go(func() {
			sent := time.Now()
			err := request(n)
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if sent.After(o.LastLost) {
					o.LastLost = sent
				}
				if o.Lost++; o.Lost <= lostTold {
					o.Reasons = append(o.Reasons, fmt.Sprintf("%s to %s: %v", sent.Format("15:04:05.000"), now.Format("15:04:05.000"), err))
				}
				return
			}
			o.Slowest = max(o.Slowest, now.Sub(sent))
			if now.Sub(last) > o.Longest.First.Sub(o.Longest.Last) {
				o.Longest = stall{last, now}
			}
			last = now
		})
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	pending.Wait()
}

// echoed sends one datagram and waits for it to come back.
func echoed(to string, n int, timeout time.Duration) error {
	c, err := net.DialTimeout("udp4", to, timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	text := strconv.Itoa(n)
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	buffer := make([]byte, len(text)+1)
	got, err := c.Read(buffer)
	if err == nil && string(buffer[:got]) != text {
		err = fmt.Errorf("got %q, want %q", buffer[:got], text)
	}
	return err
}
