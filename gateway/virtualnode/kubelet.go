package virtualnode

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// kubelet serves the part of a kubelet's API that API servers use for logs and streams of pods. It passes the
// requests on to the provider. The paths and parameters are the same as in k8s.io/kubernetes/pkg/kubelet/server.
// Like a real kubelet, it requires a client certificate of the cluster. Then it asks the API server whether the
// user in the certificate may send the request.
type kubelet struct {
	*mirror

	find func(ctx context.Context, namespace, pod string) (p *provider, mapped string, status int, err error)

	mu    sync.Mutex
	pool  *x509.CertPool
	until time.Time // after this time, the pool is read again

	handshakes sync.Mutex
	serving    *tls.Certificate // nil until there is one
	age        time.Time        // when serving was read
}

const (
	// callers is the ConfigMap in which the API server publishes the CAs of its clients. callersKey is the key of
	// the CAs in it.
	callers    = "extension-apiserver-authentication"
	callersKey = "client-ca-file"
	// callersAge is the time after which these CAs are read again.
	callersAge = time.Minute
	// certificateLife is the lifetime of the self-signed certificate. No pod lives longer. This certificate is
	// used until there is a signed one. Only API servers that don't verify kubelets accept it.
	certificateLife = 10 * 365 * 24 * time.Hour
	// servingAge is the time after which the signed certificate is read again, because each new pod gets its own
	// certificate.
	servingAge = 5 * time.Second
)

func newKubelet(m *mirror) *kubelet {
	k := &kubelet{mirror: m}
	k.find = k.locate
	return k
}

// serve answers requests at address at until ctx ends.
func (k *kubelet) serve(ctx context.Context, at string) error {
	itself, err := selfSigned(k.Name, time.Now())
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("serve logs and streams of pods: %w", err)
	}
	server := &http.Server{
		Handler: k.handler(), ReadHeaderTimeout: writeWithin, IdleTimeout: callersAge, ErrorLog: slog.NewLogLogger(k.Log.Handler(), slog.LevelDebug),
		// An empty map turns HTTP/2 off, because streams upgrade their connection, and HTTP/2 has no upgrades.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return k.certificate(ctx, &itself, time.Now()), nil
		}},
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve logs and streams of pods: %w", err)
	}
	return nil
}

// certificate returns the certificate that was signed for this virtual kubelet, or other if there is none.
func (k *kubelet) certificate(ctx context.Context, other *tls.Certificate, now time.Time) *tls.Certificate {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	k.handshakes.Lock()
	defer k.handshakes.Unlock()
	if now.Sub(k.age) > servingAge { // this also limits reads after failures, because every client may begin a TLS handshake
		k.age = now
		s := &corev1.Secret{}
		err := k.client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: peering.ServingName(k.Name)}, s)
		if err == nil {
			var pair tls.Certificate
			if pair, err = tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err == nil {
				k.serving = &pair
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			k.Log.Error("read the certificate for API servers", "error", err)
		}
	}
	if k.serving == nil {
		return other
	}
	return k.serving
}

func selfSigned(name string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func (k *kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", k.to("log", nil))
	streams := map[string]string{"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}
	for _, verb := range []string{"exec", "attach"} {
		mux.Handle("/"+verb+"/{namespace}/{pod}/{container}", k.to(verb, streams))
		mux.Handle("/"+verb+"/{namespace}/{pod}/{uid}/{container}", k.to(verb, streams))
	}
	mux.Handle("/portForward/{namespace}/{pod}", k.to("portforward", nil))
	mux.Handle("/portForward/{namespace}/{pod}/{uid}", k.to("portforward", nil))
	return mux
}

// to returns a handler that passes requests on to a subresource of the remote pod. switches maps the names of
// parameters of kubelets to the names that API servers have for them.
func (k *kubelet) to(subresource string, switches map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := k.admit(r); err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		p, mapped, status, err := k.find(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		base, err := url.Parse(p.server)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		query := r.URL.Query()
		for theirs, ours := range switches {
			on := query.Get(theirs) == "1"
			if query.Del(theirs); on {
				query.Set(ours, "true")
			}
		}
		if container := r.PathValue("container"); container != "" {
			query.Set("container", container)
		}
		base.Path = cmp.Or(base.Path, "/")
		to := base.JoinPath("api/v1/namespaces", mapped, "pods", r.PathValue("pod"), subresource)
		to.RawQuery = query.Encode()
		(&httputil.ReverseProxy{
			Rewrite: func(out *httputil.ProxyRequest) {
				out.Out.URL, out.Out.Host = to, to.Host
				maps.DeleteFunc(out.Out.Header, func(name string, _ []string) bool { // the provider must take this node for the client, not the sender of the request
					return name == "Authorization" || strings.HasPrefix(name, "Impersonate-")
				})
			},
			Transport: p.streams, FlushInterval: -1, ErrorLog: slog.NewLogLogger(k.Log.Handler(), slog.LevelDebug),
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, fmt.Sprintf("%s: %v", k.Provider, err), http.StatusBadGateway)
			},
		}).ServeHTTP(w, r)
	})
}

// locate returns the connections to the provider that runs a pod of this node, and the mapped namespace. With an
// error, it also returns the HTTP status for the client.
func (k *kubelet) locate(ctx context.Context, namespace, name string) (p *provider, mapped string, status int, err error) {
	s, _ := k.view(namespace)
	if s == nil || !s.here.synced(ctx, &corev1.Pod{}) {
		return nil, "", http.StatusNotFound, fmt.Errorf("namespace %s is not offloaded to %s", namespace, k.Name)
	}
	switch pod, err := s.here.pod(ctx, namespace, name); {
	case err != nil:
		return nil, "", http.StatusInternalServerError, err
	case pod == nil:
		return nil, "", http.StatusNotFound, fmt.Errorf("pod %s/%s is not on node %s", namespace, name, k.Name)
	case s.reach == nil:
		return nil, "", http.StatusServiceUnavailable, fmt.Errorf("%s, which runs pod %s/%s, can't be asked now", k.Provider, namespace, name)
	}
	return s.reach, s.mapped, 0, nil
}

// admit returns nil if the client may send this request. Otherwise it returns the reason, and the HTTP status for
// the client.
func (k *kubelet) admit(r *http.Request) (status int, err error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return http.StatusUnauthorized, errors.New("a client certificate of the cluster is needed")
	}
	pool, err := k.callers(r.Context(), time.Now())
	if err != nil {
		return http.StatusInternalServerError, err
	}
	between := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	who := r.TLS.PeerCertificates[0]
	if _, err := who.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return http.StatusUnauthorized, fmt.Errorf("the client's certificate is not one of the cluster: %w", err)
	}
	verb := "create"
	if r.Method == http.MethodGet {
		verb = "get"
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Subject.CommonName, Groups: append(who.Subject.Organization, "system:authenticated"),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: "proxy", Name: k.Name},
	}}
	if err := k.client.Create(r.Context(), review); err != nil {
		return http.StatusInternalServerError, fmt.Errorf("ask whether %s may: %w", who.Subject.CommonName, err)
	}
	if !review.Status.Allowed {
		return http.StatusForbidden, fmt.Errorf("%s may not %s nodes/proxy of %s", who.Subject.CommonName, verb, k.Name)
	}
	return 0, nil
}

// callers returns the CAs that sign client certificates of this cluster.
func (k *kubelet) callers(ctx context.Context, now time.Time) (*x509.CertPool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pool != nil && now.Before(k.until) {
		return k.pool, nil
	}
	c := &corev1.ConfigMap{}
	if err := k.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: callers}, c); err != nil {
		return nil, fmt.Errorf("read the certificate authorities of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.Data[callersKey])) {
		return nil, fmt.Errorf("ConfigMap %s/%s names no certificate authority of clients", c.Namespace, c.Name)
	}
	k.pool, k.until = pool, now.Add(callersAge)
	return pool, nil
}
