// Package remote reaches the API servers of other clusters, each of them by connections
// that are used again for as long as it is reached the same way.
package remote

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Access is how a cluster is reached.
type Access struct {
	Server string // URL of its API server
	Proxy  string // URL; "" for the one of this process's environment, as a rule none
	CA     []byte // PEM
	// Certificate and Key, both PEM, or Token say who asks.
	Certificate, Key, Token []byte
}

// Config is for clients that are made of it. Each transport that is made of it has
// connections of its own: client-go shares none where there is a function for the proxy.
func (a Access) Config() (*rest.Config, error) {
	config := &rest.Config{
		Host: a.Server, BearerToken: string(a.Token), TLSClientConfig: rest.TLSClientConfig{CAData: a.CA, CertData: a.Certificate, KeyData: a.Key},
		QPS: -1, UserAgent: rest.DefaultKubernetesUserAgent(), Proxy: http.ProxyFromEnvironment,
	}
	if a.Proxy != "" {
		through, err := url.Parse(a.Proxy)
		if err != nil {
			return nil, fmt.Errorf("parse the proxy's URL: %w", err)
		}
		config.Proxy = http.ProxyURL(through)
	}
	return config, nil
}

// Cluster is another cluster, with the connections to it.
type Cluster struct {
	Access Access
	Config *rest.Config
	HTTP   *http.Client  // waits as long as who asks
	API    client.Client // of a [Clients]
}

// New reaches a cluster. wrap is of tests, and may be nil.
func New(a Access, wrap transport.WrapperFunc) (*Cluster, error) {
	config, err := a.Config()
	if err != nil {
		return nil, err
	}
	config.WrapTransport = wrap
	first, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Access: a, Config: config, HTTP: &http.Client{Transport: &connections{config: config, now: first}}}, nil
}

// Close closes the connections that nobody uses at the moment. The others are closed when
// they have been idle for a while.
func (c *Cluster) Close() { c.HTTP.CloseIdleConnections() }

// connections are those to one cluster. After a question without an answer, others are
// made: an end of a connection that has gone without a word is noticed by HTTP/2 only
// after 45 s.
type connections struct {
	config *rest.Config

	mu  sync.Mutex
	now http.RoundTripper
}

func (c *connections) current() http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// RoundTrip asks.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	by := c.current()
	answer, err := by.RoundTrip(r)
	if err == nil {
		return answer, nil
	}
	c.mu.Lock()
	if c.now == by {
		if next, failed := rest.TransportFor(c.config); failed == nil { // it was made before of the same
			c.now = next
		}
	}
	c.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(by)
	return nil, err
}

// CloseIdleConnections is what [http.Client] calls.
func (c *connections) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(c.current()) }

// Clients keep one client of each cluster. Which one a key means is the caller's matter.
type Clients struct {
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper       // of all kinds that are asked for: the clusters are not asked for theirs
	Within time.Duration         // for the answer to one request
	Wrap   transport.WrapperFunc // of tests

	mu  sync.Mutex
	all map[client.ObjectKey]*Cluster
}

// Get is the client for a key: the same one for as long as the access is the same.
func (c *Clients) Get(key client.ObjectKey, a Access) (*Cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.all[key]
	if was != nil && reflect.DeepEqual(was.Access, a) {
		return was, nil
	}
	next, err := New(a, c.Wrap)
	if err != nil {
		return nil, err
	}
	asks := *next.HTTP
	asks.Timeout = c.Within
	if next.API, err = client.New(next.Config, client.Options{Scheme: c.Scheme, Mapper: c.Mapper, HTTPClient: &asks}); err != nil {
		return nil, err
	}
	if was != nil {
		was.Close()
	}
	if c.all == nil {
		c.all = map[client.ObjectKey]*Cluster{}
	}
	c.all[key] = next
	return next, nil
}

// Forget closes the connections of a key that means nobody any more.
func (c *Clients) Forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.all[key]; was != nil {
		was.Close()
		delete(c.all, key)
	}
}
