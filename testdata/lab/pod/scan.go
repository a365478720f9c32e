package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// atOnce bounds the connections that a scan tries at the same time.
const atOnce = 256

// scan prints the TCP ports that accept connections, as one sorted address and port per
// line. A port that refuses, and one that does not answer, are not open.
func scan(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scan", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 500*time.Millisecond, "of a connection")
	list := flags.String("ports", "", "separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var ports []uint16
	for text := range strings.SplitSeq(*list, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return fmt.Errorf("--ports: %w\n%s", err, usage)
		}
		ports = append(ports, uint16(port))
	}
	var targets []netip.AddrPort
	for _, text := range flags.Args() {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		for a := prefix.Masked().Addr(); prefix.Contains(a); a = a.Next() {
			for _, port := range ports {
				targets = append(targets, netip.AddrPortFrom(a, port))
			}
		}
	}
	if len(targets) == 0 {
		return errors.New(usage)
	}
	for _, open := range openOf(targets, *timeout) {
		if _, err := fmt.Fprintln(out, open); err != nil {
			return err
		}
	}
	return nil
}

// openOf returns the targets that accept a connection, sorted.
func openOf(targets []netip.AddrPort, timeout time.Duration) (open []netip.AddrPort) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	limit := make(chan struct{}, atOnce)
	for _, target := range targets {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			conn, err := net.DialTimeout("tcp", target.String(), timeout)
			if err != nil {
				return
			}
			_ = conn.Close()
			mu.Lock()
			defer mu.Unlock()
			open = append(open, target)
		})
	}
	wait.Wait()
	slices.SortFunc(open, netip.AddrPort.Compare)
	return open
}
