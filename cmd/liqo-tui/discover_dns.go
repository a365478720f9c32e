package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/discovery"
)

// discover requests from a domain's name servers the locations of the service (RFC 2782), and
// the ID of each cluster below its host, under a name with an underscore (RFC 8552).
const (
	dnsService = "liqo-tui"
	idScope    = "_liqo-tui."
)

// nameServer returns a resolver that uses server, or else the system's name server.
func nameServer(server string) *net.Resolver {
	if server == "" {
		return net.DefaultResolver
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(server, "53")
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
}

// clustersIn returns the clusters that a domain names.
func clustersIn(ctx context.Context, r *net.Resolver, domain string, wait time.Duration) ([]discoveredCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, records, err := r.LookupSRV(ctx, dnsService, "tcp", domain)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound && len(records) == 0 {
		return nil, nil
	}
	if err != nil && len(records) == 0 {
		return nil, fmt.Errorf("ask DNS for the clusters of %s: %w", domain, err)
	}
	var found []discoveredCluster
	var targets []string
	for _, srv := range records {
		host := strings.TrimSuffix(srv.Target, ".")
		if host == "" || srv.Port == 0 {
			continue // RFC 2782: the domain does not have the service
		}
		found = append(found, discoveredCluster{Server: "https://" + net.JoinHostPort(host, strconv.Itoa(int(srv.Port))), Source: "DNS of " + domain})
		targets = append(targets, srv.Target)
	}
	var group sync.WaitGroup
	problems := make([]error, len(found), len(found)+1)
	for i := range found {
		group.Go(func() {
			texts, err := r.LookupTXT(ctx, idScope+targets[i])
			if id := discovery.IDOf(texts); id.Validate() == nil {
				found[i].ID = id
			} else if missing, ok := errors.AsType[*net.DNSError](err); err != nil && (!ok || !missing.IsNotFound) { // a zone may lack the ID
				problems[i] = fmt.Errorf("ask DNS for the ID of %s: %w", found[i].Server, err)
			}
		})
	}
	group.Wait()
	return found, errors.Join(append(problems, err)...) // the resolver returns well-formed records together with an error about malformed ones
}
