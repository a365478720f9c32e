// Package remote connects to the API servers of other clusters. Connections are reused as long as the
// access to the cluster is the same.
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

// Access is the address of a cluster, and the credentials for it.
type Access struct {
	Server string // URL of its API server
	Proxy  string // URL; "" for the proxy of this process's environment, which usually has none
	CA     []byte // PEM
	// Certificate and Key, both PEM, or Token authenticate the client.
	Certificate, Key, Token []byte
}

// Config returns a client configuration. Transports that are made from it don't share connections, because
// client-go shares none if a configuration has a proxy function.
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
	HTTP   *http.Client  // has no timeout of its own
	API    client.Client // only if [Clients] has made the Cluster
}

// New returns a cluster with access a. wrap is for tests, and may be nil.
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

// Close closes the idle connections. The others are closed when they have been idle for a while.
func (c *Cluster) Close() { c.HTTP.CloseIdleConnections() }

// connections are the connections to one cluster. After a request without an answer, they are replaced,
// because HTTP/2 notices only after 45 s that the other end has disappeared.
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

func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	by := c.current()
	answer, err := by.RoundTrip(r)
	if err == nil {
		return answer, nil
	}
	c.mu.Lock()
	if c.now == by {
		if next, failed := rest.TransportFor(c.config); failed == nil { // can't fail: the same configuration has worked before
			c.now = next
		}
	}
	c.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(by)
	return nil, err
}

func (c *connections) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(c.current()) }

// Clients keeps one client for each cluster. The caller defines what a key means.
type Clients struct {
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper       // of all kinds that are used, so that clients need no discovery
	Within time.Duration         // for the answer to one request
	Wrap   transport.WrapperFunc // for tests

	mu  sync.Mutex
	all map[client.ObjectKey]*Cluster
}

// Get returns the client for a key. It returns the same client as long as the access is the same.
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

// Forget closes the connections of a key that is not used any more.
func (c *Clients) Forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.all[key]; was != nil {
		was.Close()
		delete(c.all, key)
	}
}
