// Package credentials provides transports to API servers, with the credentials of a kubeconfig. It runs
// credentials plug-ins, and can stop them. When the API server refuses the credentials, it reads the
// kubeconfig again.
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
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// A plug-in that has failed runs again after firstPause. The pause doubles with each failure, up to
// longestPause, because each run may open a window on a person's screen, or count as a wrong password.
const (
	firstPause   = 30 * time.Second
	longestPause = 5 * time.Minute
)

// plugin gets credentials from the program that a kubeconfig's user names. client-go's plug-ins can't be
// stopped, and give the program our stdin and stderr, so that it would ask for passwords and write on our
// screen.
type plugin struct {
	config clientcmdapi.ExecConfig
	info   string // the value of KUBERNETES_EXEC_INFO

	mu      sync.Mutex
	current *credential
	running *run          // the present run; nil if there is none
	err     error         // the error of the last run; nil if it gave credentials
	pause   time.Duration // the pause after the last run; 0 if it did not fail
	next    time.Time     // after a failure, the time of the next run
}

// plugins are the plug-ins of this process. The key contains everything that a run depends on. Contexts with
// the same user share a plug-in, so that a person logs in only once.
var plugins = struct {
	sync.Mutex
	all map[string]*plugin
}{all: map[string]*plugin{}}

// sharedPlugin returns the plug-in for the program that config names.
func sharedPlugin(config *rest.Config) (*plugin, error) {
	spec := clientauthenticationv1.ExecCredentialSpec{}
	if config.ExecProvider.ProvideClusterInfo {
		c, err := rest.ConfigToExecCluster(config)
		if err != nil {
			return nil, err
		}
		spec.Cluster = &clientauthenticationv1.Cluster{
			Server: c.Server, TLSServerName: c.TLSServerName, InsecureSkipTLSVerify: c.InsecureSkipTLSVerify,
			CertificateAuthorityData: c.CertificateAuthorityData, ProxyURL: c.ProxyURL, DisableCompression: c.DisableCompression,
			Config: runtime.RawExtension{Object: c.Config},
		}
	}
	e := config.ExecProvider
	info, err := json.Marshal(map[string]any{"apiVersion": e.APIVersion, "kind": "ExecCredential", "spec": spec})
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal([]any{e.Command, e.Args, e.Env, e.InteractiveMode, string(info)})
	if err != nil {
		return nil, err
	}
	plugins.Lock()
	defer plugins.Unlock()
	p, ok := plugins.all[string(key)]
	if !ok {
		p = &plugin{config: *e, info: string(info)}
		plugins.all[string(key)] = p
	}
	return p, nil
}

// EndPlugins ends the running plug-ins, which would outlive this program, because they have their own
// sessions.
func EndPlugins() {
	plugins.Lock()
	defer plugins.Unlock()
	for _, p := range plugins.all {
		p.mu.Lock()
		r := p.running
		p.mu.Unlock()
		if r != nil {
			r.cancel()
			<-r.done
		}
	}
}

// longestWords is the length of the part of a program's stderr that is kept, in bytes.
const longestWords = 4096

// run is one run of a plug-in. Its result may be read when done is closed.
type run struct {
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	result *credential
	err    error

	mu     sync.Mutex
	stderr []byte // the last part of the program's stderr
	told   string // the last words that were passed on
}

// Write implements [io.Writer] for the program's stderr.
func (r *run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stderr = append(r.stderr, p...)
	r.stderr = r.stderr[max(0, len(r.stderr)-longestWords):]
	return len(p), nil
}

// lastWords returns the last line of stderr, because programs usually write there why they wait or end.
func (r *run) lastWords() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return LastLine(string(r.stderr))
}

// tell calls to with err, unless the last words of this run have not changed since the last call.
func (r *run) tell(to func(error), err error) {
	words := r.lastWords() + " " // not empty, unlike r.told at the start
	r.mu.Lock()
	news := r.told != words
	r.told = words
	r.mu.Unlock()
	if news {
		to(err)
	}
}

type credential struct {
	token   string
	cert    *tls.Certificate
	since   time.Time
	expires time.Time // zero: never
}

// PluginError means that a credentials plug-in, or another source of credentials, gave none.
type PluginError struct {
	Source string // such as "credentials plug-in kubelogin"
	Reason string
	Word   string // a short form of the reason, for lists
	hint   string
}

func (e *PluginError) Error() string { return e.Source + ": " + e.Reason }

// Hint returns the advice to the admin.
func (e *PluginError) Hint() command.Hint {
	return command.Text(cmp.Or(e.hint, "log in with that program, then try again"))
}

// usePlugin makes config use the credentials of the plug-in that it names.
func usePlugin(config *rest.Config) (*pluginTransport, error) {
	p, err := sharedPlugin(config)
	if err != nil {
		return nil, err
	}
	t := &pluginTransport{plugin: p}
	config.ExecProvider = nil
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tlsConfig.GetClientCertificate = t.certificate
	t.base = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: tlsConfig, DialContext: config.Dial, Proxy: config.Proxy,
		DisableCompression: config.DisableCompression,
	})
	t.bound = bounded{t.base, config.Timeout}
	config.TLSClientConfig, config.Dial, config.Proxy = rest.TLSClientConfig{}, nil, nil
	config.Transport = t
	return t, nil
}

// pluginTransport sends requests to one API server with a plug-in's credentials.
type pluginTransport struct {
	plugin *plugin
	base   *http.Transport
	bound  http.RoundTripper // base, with a bound for requests

	mu      sync.Mutex
	refused *credential   // the credentials that this API server has refused; other API servers may accept them
	pause   time.Duration // the pause after the API server refused new credentials
	next    time.Time     // when the plug-in may be called for other credentials
}

// certificate returns the certificate for a handshake of crypto/tls.
func (t *pluginTransport) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c, err := t.credential(info.Context())
	if err != nil {
		return nil, err
	}
	if c.cert == nil {
		return &tls.Certificate{}, nil // then crypto/tls sends no certificate
	}
	return c.cert, nil
}

// credential returns the credentials to try now. These are the refused ones until the plug-in may be called
// again, because the API server's answer is more useful than an error of ours.
func (t *pluginTransport) credential(ctx context.Context) (*credential, error) {
	t.mu.Lock()
	refused := t.refused
	if time.Now().Before(t.next) {
		refused = nil
	}
	t.mu.Unlock()
	return t.plugin.credential(ctx, refused)
}

func (t *pluginTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	c, err := t.credential(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // RoundTrip has to do this
		}
		return nil, err
	}
	if c.token != "" && request.Header.Get("Authorization") == "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := t.bound.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		t.refuse(c)
	}
	return response, err
}

// refuse notes that the API server does not accept the credentials. Old credentials are replaced at the next
// request. After new ones, the plug-in gets the same pauses as after a failure.
func (t *pluginTransport) refuse(c *credential) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == c {
		return
	}
	if time.Since(c.since) < firstPause {
		t.pause = longer(t.pause)
	} else {
		t.pause = 0
	}
	t.refused, t.next = c, time.Now().Add(t.pause)
	t.base.CloseIdleConnections() // these connections were opened with the refused certificate
}

func longer(pause time.Duration) time.Duration {
	return min(max(2*pause, firstPause), longestPause)
}

// credential returns the plug-in's last credentials while they are valid, unless the API server has refused
// them. Requests that need new credentials at the same time share one run. Each request waits no longer than
// its context and [OnWait] allow.
func (p *plugin) credential(ctx context.Context, refused *credential) (*credential, error) {
	c, r, err := p.begin(refused) //nolint:contextcheck // the run is shared, and outlives the first request
	if r == nil {
		return c, err
	}
	w, _ := ctx.Value(waitKey{}).(wait)
	var end <-chan time.Time
	if w.most > 0 {
		end = time.After(time.Until(r.began.Add(w.most)))
	}
	look := time.NewTicker(slow)
	defer look.Stop()
	for {
		select {
		case <-r.done:
			return r.result, r.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, p.waits(r)
			}
			return nil, ctx.Err()
		case <-end:
			return nil, p.waits(r)
		case <-look.C:
			if w.tell != nil {
				r.tell(w.tell, p.waits(r))
			}
		}
	}
}

// begin returns the present credentials, or the run that will get new ones.
func (p *plugin) begin(refused *credential) (*credential, *run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current; c != nil && c != refused && (c.expires.IsZero() || time.Now().Before(c.expires)) {
		return c, nil, nil
	}
	if p.running == nil && time.Now().Before(p.next) {
		return nil, nil, p.failedBefore()
	}
	if p.running == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p.running = &run{began: time.Now(), cancel: cancel, done: make(chan struct{})}
		go p.refresh(ctx, p.running)
	}
	return nil, p.running, nil
}

// failedBefore returns the last error, with the time of the next run.
func (p *plugin) failedBefore() error {
	failed, ok := errors.AsType[*PluginError](p.err)
	if !ok {
		return p.err
	}
	again := *failed
	again.hint = fmt.Sprintf("%s; it runs again at %s", failed.Hint(), p.next.Format(time.TimeOnly))
	return &again
}

func (p *plugin) refresh(ctx context.Context, r *run) {
	defer r.cancel()
	r.result, r.err = p.execute(ctx, r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running, p.err = nil, r.err; r.err == nil {
		p.current, p.pause, p.next = r.result, 0, time.Time{}
	} else {
		p.pause = longer(p.pause)
		p.next = time.Now().Add(p.pause)
	}
	close(r.done)
}

// slow is the time after which a plug-in's wait is reported; plug-ins of cloud providers need less.
const slow = 3 * time.Second

type waitKey struct{}

type wait struct {
	most time.Duration
	tell func(error)
}

// OnWait limits the time that a request with this context waits for a plug-in; 0 for no limit. tell is called
// with the reason that the plug-in waits; it may be nil.
func OnWait(ctx context.Context, most time.Duration, tell func(error)) context.Context {
	return context.WithValue(ctx, waitKey{}, wait{most, tell})
}

func (p *plugin) source() string { return "credentials plug-in " + p.config.Command }

func (p *plugin) fail(hint, format string, arguments ...any) error {
	return &PluginError{Source: p.source(), Word: "plug-in failed", Reason: fmt.Sprintf(format, arguments...), hint: hint}
}

// waits returns the error about a plug-in that is still running. The plug-in is not stopped, because a person
// may need minutes to log in.
func (p *plugin) waits(r *run) error {
	reason := fmt.Sprintf("it has been running for %s, and may have opened a browser", time.Since(r.began).Round(time.Second))
	if last := r.lastWords(); last != "" {
		reason += ": " + last
	}
	const hint = "log in where it asks you to; it gets no terminal to ask on here"
	return &PluginError{Source: p.source(), Word: "plug-in waits", Reason: reason, hint: hint}
}

// execute runs the plug-in: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
func (p *plugin) execute(ctx context.Context, r *run) (*credential, error) {
	if p.config.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
		return nil, p.fail("log in by using kubectl once, or choose a user that needs no terminal",
			"it wants to ask on the terminal (interactiveMode Always), which it isn't given here")
	}
	cmd := exec.CommandContext(ctx, p.config.Command, p.config.Args...)
	cmd.Env = os.Environ()
	for _, e := range p.config.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+p.info)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, r
	cmd.WaitDelay = time.Second // for child processes that keep the program's output open
	detach(cmd)
	if err := cmd.Run(); err != nil {
		return nil, p.runError(ctx, err, r.lastWords())
	}
	return p.parse(stdout.Bytes())
}

func (p *plugin) runError(ctx context.Context, err error, last string) error {
	switch {
	case ctx.Err() != nil:
		return p.fail("", "it was stopped")
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		hint := cmp.Or(LastLine(p.config.InstallHint), "install it, or correct the user's exec.command in the kubeconfig")
		return &PluginError{Source: p.source(), Word: "plug-in missing", Reason: "it is not installed", hint: hint}
	case last != "":
		return p.fail("", "%v: %s", err, last)
	}
	return p.fail("", "%v", err)
}

// LastLine returns the last line of a program's output, which usually is the reason for its end.
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
	c := &credential{token: status.Token, since: time.Now()}
	// If this machine's clock is ahead, credentials can seem expired as soon as they arrive. Then the API
	// server decides, because otherwise each request would run the plug-in.
	if t := status.ExpirationTimestamp; t != nil && time.Now().Before(t.Time) {
		c.expires = t.Time
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

// Transport sends requests to one cluster. It reads the kubeconfig again if the API server refuses the
// credentials, if there are none, or if the API server's certificate is not trusted. So a login in another
// program, or a new certificate authority, has an effect without a restart.
type Transport struct {
	// Login replaces the limit of [OnWait] for logins if nobody can log in; 0 means no limit, and nil the
	// limit of OnWait.
	Login  *time.Duration
	reload func() (*rest.Config, error)

	mu     sync.Mutex
	config *rest.Config // the config of rt
	rt     http.RoundTripper
	plugin *pluginTransport // gives rt its credentials; nil if there is no plug-in
	looked time.Time
}

// lookAgainAfter is the shortest time between two reads of the kubeconfig while the credentials fail.
const lookAgainAfter = 2 * time.Second

// dialTimeout is the longest wait for an API server that drops packets.
const dialTimeout = 5 * time.Second

// NewTransport returns a transport to the API server in config. config.Timeout is the longest time without a
// part of an answer, except for watches; 0 for no limit. When the API server refuses the credentials, reload
// reads them again. It is nil if they are not from a file. The error is about config. It, and errors of
// requests, may be a [PluginError].
func NewTransport(config *rest.Config, reload func() (*rest.Config, error)) (*Transport, error) {
	rt, plugin, err := newTransport(config)
	return &Transport{reload: reload, config: config, rt: rt, plugin: plugin}, err
}

// Ready waits until a plug-in has given credentials, even for minutes, because a person may have to log in.
// It sends no request. Without a plug-in, it returns at once.
func (r *Transport) Ready(ctx context.Context) error {
	if plugin := r.usesPlugin(); plugin != nil {
		_, err := plugin.plugin.credential(r.onWait(ctx), nil)
		return err
	}
	return nil
}

func (r *Transport) onWait(ctx context.Context) context.Context {
	if w, _ := ctx.Value(waitKey{}).(wait); w.most > 0 && r.Login != nil {
		return OnWait(ctx, *r.Login, w.tell)
	}
	return ctx
}

// LogsIn reports whether the credentials come from a plug-in.
func (r *Transport) LogsIn() bool { return r.usesPlugin() != nil }

func (r *Transport) usesPlugin() *pluginTransport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugin
}

// newTransport returns a transport to the API server in config. It does not change config.
func newTransport(config *rest.Config) (_ http.RoundTripper, plugin *pluginTransport, err error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "liqo-tui"
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}).DialContext
	if config.ExecProvider != nil {
		if plugin, err = usePlugin(config); err != nil {
			return nil, nil, err
		}
	} else {
		config.Wrap(func(base http.RoundTripper) http.RoundTripper { return bounded{base, config.Timeout} })
	}
	if config.AuthProvider != nil {
		if err := useProvider(config); err != nil {
			return nil, nil, err
		}
	}
	rt, err := rest.TransportFor(config)
	return rt, plugin, err
}

// RoundTrip implements [http.RoundTripper].
func (r *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	rt := r.rt
	r.mu.Unlock()
	response, err := rt.RoundTrip(request.WithContext(r.onWait(request.Context())))
	_, nothing := errors.AsType[*PluginError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if nothing || untrusted || err == nil && response.StatusCode == http.StatusUnauthorized {
		r.renew(rt)
	}
	return response, err
}

// renew replaces the transport whose credentials failed, if the kubeconfig has other credentials now. The
// caller has to repeat its request.
func (r *Transport) renew(refused http.RoundTripper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reload == nil || r.rt != refused || time.Since(r.looked) < lookAgainAfter {
		return
	}
	r.looked = time.Now()
	config, err := r.reload()
	if err != nil || config.Host != r.config.Host || sameCredentials(config, r.config) {
		return // the answer to the request contains the reason
	}
	if rt, plugin, err := newTransport(config); err == nil {
		r.config, r.rt, r.plugin = config, rt, plugin
	}
}

func sameCredentials(a, b *rest.Config) bool {
	return a.Username == b.Username && a.Password == b.Password && a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile &&
		reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig) && reflect.DeepEqual(a.ExecProvider, b.ExecProvider) &&
		reflect.DeepEqual(a.AuthProvider, b.AuthProvider) && reflect.DeepEqual(a.Impersonate, b.Impersonate)
}
