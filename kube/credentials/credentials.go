// Package credentials reaches an API server with the credentials of a kubeconfig:
// it runs credentials plug-ins, which can be stopped, and reads the kubeconfig
// again when the API server refuses what it said before.
package credentials

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pluginTimeout bounds a credentials plug-in: those of cloud providers take a
// few seconds, and one that waits for a person would wait for ever.
const pluginTimeout = 20 * time.Second

// plugin gets credentials from the program that a kubeconfig's user names. It
// stands in for client-go's own, which can't be stopped, and gives the program
// our stdin and stderr, so that it asks for passwords and writes into the screen.
type plugin struct {
	config  clientcmdapi.ExecConfig
	cluster *clientauthenticationv1.Cluster // nil unless the program wants to know it
	timeout time.Duration

	mu      sync.Mutex
	current *credential
	running chan struct{} // closed when the run that is under way has ended; nil if none is
	err     error         // of the last run
}

type credential struct {
	token   string
	cert    *tls.Certificate
	expires time.Time // zero: never
}

// PluginError is a credentials plug-in that gave no credentials.
type PluginError struct {
	Command string
	Reason  string
	Word    string // the reason in a list
	hint    string
}

func (e *PluginError) Error() string {
	return fmt.Sprintf("credentials plug-in %s: %s", e.Command, e.Reason)
}

// Hint says how to go on.
func (e *PluginError) Hint() string {
	return cmp.Or(e.hint, "log in with that program, then try again")
}

// usePlugin makes config take its credentials from the plug-in that it names.
func usePlugin(config *rest.Config) error {
	p := &plugin{config: *config.ExecProvider, timeout: pluginTimeout}
	if p.config.ProvideClusterInfo {
		p.cluster = &clientauthenticationv1.Cluster{
			Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
			CertificateAuthorityData: config.CAData,
		}
		if config.CAFile != "" && len(config.CAData) == 0 {
			data, err := os.ReadFile(config.CAFile)
			if err != nil {
				return err
			}
			p.cluster.CertificateAuthorityData = data
		}
	}
	config.ExecProvider = nil
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.GetClientCertificate = p.certificate
	base := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: tlsConfig, DialContext: config.Dial, Proxy: config.Proxy,
		DisableCompression: config.DisableCompression,
	})
	config.TLSClientConfig, config.Dial, config.Proxy = rest.TLSClientConfig{}, nil, nil
	config.Transport = pluginTransport{plugin: p, base: base}
	return nil
}

// certificate is what crypto/tls asks for in a handshake.
func (p *plugin) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c, err := p.credential(info.Context())
	if err != nil {
		return nil, err
	}
	if c.cert == nil {
		return &tls.Certificate{}, nil // crypto/tls sends none then
	}
	return c.cert, nil
}

type pluginTransport struct {
	plugin *plugin
	base   *http.Transport
}

func (t pluginTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	c, err := t.plugin.credential(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // as RoundTrip must
		}
		return nil, err
	}
	if c.token != "" && request.Header.Get("Authorization") == "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := t.base.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		if t.plugin.forget(c) {
			t.base.CloseIdleConnections() // they were opened with its certificate
		}
	}
	return response, err
}

// forget drops credentials that the API server did not accept, so that the next
// request asks for new ones.
func (p *plugin) forget(c *credential) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != c {
		return false
	}
	p.current = nil
	return true
}

// credentials are the plug-in's last ones while they are valid. Requests that
// need new ones at the same time share one run, and each waits as long as it
// may itself.
func (p *plugin) credential(ctx context.Context) (*credential, error) {
	p.mu.Lock()
	if c := p.current; c != nil && (c.expires.IsZero() || time.Now().Before(c.expires)) {
		p.mu.Unlock()
		return c, nil
	}
	if p.running == nil {
		p.running = make(chan struct{})
		go p.refresh(p.running) //nolint:contextcheck // the run is shared: it outlives whoever asked first
	}
	running := p.running
	p.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, p.hangs("it is still running")
		}
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.err
}

func (p *plugin) refresh(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	c, err := p.run(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.err, p.running = c, err, nil
	close(done)
}

func (p *plugin) fail(hint, format string, arguments ...any) error {
	return &PluginError{Command: p.config.Command, Word: "plug-in failed", Reason: fmt.Sprintf(format, arguments...), hint: hint}
}

// hangs is the error of a plug-in that takes too long.
func (p *plugin) hangs(reason string) error {
	const hint = "run it by hand to see what it waits for; it gets no terminal to ask on here"
	return &PluginError{Command: p.config.Command, Word: "plug-in hangs", Reason: reason, hint: hint}
}

// run executes the plug-in: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
func (p *plugin) run(ctx context.Context) (*credential, error) {
	if p.config.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
		return nil, p.fail("log in by using kubectl once, or choose a user that needs no terminal",
			"it wants to ask on the terminal (interactiveMode Always), which it isn't given here")
	}
	info, err := json.Marshal(map[string]any{
		"apiVersion": p.config.APIVersion, "kind": "ExecCredential",
		"spec": clientauthenticationv1.ExecCredentialSpec{Cluster: p.cluster},
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.config.Command, p.config.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+string(info))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // for children of it that keep its output open
	detach(cmd)
	if err := cmd.Run(); err != nil {
		return nil, p.runError(ctx, err, stderr.String())
	}
	return p.parse(stdout.Bytes())
}

func (p *plugin) runError(ctx context.Context, err error, stderr string) error {
	last := LastLine(stderr)
	switch {
	case ctx.Err() != nil:
		reason := fmt.Sprintf("it did not end within %s", p.timeout)
		if last != "" {
			reason += "; its last words: " + last
		}
		return p.hangs(reason)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		hint := cmp.Or(LastLine(p.config.InstallHint), "install it, or correct the user's exec.command in the kubeconfig")
		return &PluginError{Command: p.config.Command, Word: "plug-in missing", Reason: "it is not installed", hint: hint}
	case last != "":
		return p.fail("", "%v: %s", err, last)
	}
	return p.fail("", "%v", err)
}

// LastLine of what a program wrote is where programs say why they end.
func LastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (p *plugin) parse(stdout []byte) (*credential, error) {
	var answer struct {
		APIVersion string
		Kind       string
		Status     *clientauthenticationv1.ExecCredentialStatus
	}
	if err := json.Unmarshal(stdout, &answer); err != nil {
		return nil, p.fail("", "its answer is not JSON: %v", err)
	}
	status := answer.Status
	switch {
	case answer.Kind != "ExecCredential" || answer.APIVersion != p.config.APIVersion:
		return nil, p.fail("", "it answered %s %s, the kubeconfig says ExecCredential %s", answer.Kind, answer.APIVersion, p.config.APIVersion)
	case status == nil, status.Token == "" && status.ClientCertificateData == "":
		return nil, p.fail("", "it gave neither a token nor a certificate")
	}
	c := &credential{token: status.Token}
	if status.ExpirationTimestamp != nil {
		c.expires = status.ExpirationTimestamp.Time
	}
	if status.ClientCertificateData != "" {
		pair, err := tls.X509KeyPair([]byte(status.ClientCertificateData), []byte(status.ClientKeyData))
		if err != nil {
			return nil, p.fail("", "its certificate can't be used: %v", err)
		}
		c.cert = &pair
	}
	return c, nil
}

// renewing is a cluster's transport. When the API server refuses the
// credentials, it reads the kubeconfig again: somebody who logs in elsewhere
// changes that, and a program that runs for weeks goes on.
type renewing struct {
	reload func() (*rest.Config, error)

	mu     sync.Mutex
	config *rest.Config // what current was made of
	rt     http.RoundTripper
	looked time.Time
}

// lookAgainAfter is how often the kubeconfig is read while the API server
// refuses the credentials.
const lookAgainAfter = 2 * time.Second

// dialTimeout bounds how long an API server that drops packets can hold up the
// first answer about it.
const dialTimeout = 5 * time.Second

// NewTransport reaches the API server as config says. When that refuses the
// credentials, reload reads them again; nil if they are not from a file. An error
// is of the config, and may be a [PluginError]; so may those of requests.
func NewTransport(config *rest.Config, reload func() (*rest.Config, error)) (http.RoundTripper, error) {
	rt, err := newTransport(config)
	return &renewing{reload: reload, config: config, rt: rt}, err
}

// newTransport reaches the API server as config says. Config stays as it is.
func newTransport(config *rest.Config) (http.RoundTripper, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "liqo-tui"
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}).DialContext
	if config.ExecProvider != nil {
		if err := usePlugin(config); err != nil {
			return nil, err
		}
	}
	return rest.TransportFor(config)
}

func (r *renewing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	rt := r.rt
	r.mu.Unlock()
	response, err := rt.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		r.renew(rt)
	}
	return response, err
}

// renew replaces the transport that was refused, if the kubeconfig now says
// something else. Whoever was refused tries again, as all who observe do.
func (r *renewing) renew(refused http.RoundTripper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reload == nil || r.rt != refused || time.Since(r.looked) < lookAgainAfter {
		return
	}
	r.looked = time.Now()
	config, err := r.reload()
	if err != nil || config.Host != r.config.Host || sameCredentials(config, r.config) {
		return // the answer to the request says what is wrong
	}
	if rt, err := newTransport(config); err == nil {
		r.config, r.rt = config, rt
	}
}

func sameCredentials(a, b *rest.Config) bool {
	return a.Username == b.Username && a.Password == b.Password && a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile &&
		reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig) && reflect.DeepEqual(a.ExecProvider, b.ExecProvider) &&
		reflect.DeepEqual(a.AuthProvider, b.AuthProvider) && slices.Equal(a.Impersonate.Groups, b.Impersonate.Groups) && a.Impersonate.UserName == b.Impersonate.UserName
}
