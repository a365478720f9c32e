package credentials

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Guard simulates an API server that only authenticates. It accepts one token, and answers "not found" to
// requests with this token.
type Guard struct {
	*httptest.Server
	token atomic.Value // string
	taken atomic.Value // string: the user whom the last request has impersonated
}

func NewGuard(t *testing.T, token string) *Guard {
	g := &Guard{}
	g.token.Store(token)
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		g.taken.Store(r.Header.Get("Impersonate-User"))
		if r.Header.Get("Authorization") != "Bearer "+g.token.Load().(string) {
			status = http.StatusUnauthorized
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q}`,
			status, strings.ReplaceAll(http.StatusText(status), " ", ""))
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *Guard) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
}

// Kubeconfig writes a file with one context, whose user is given in YAML.
func (g *Guard) Kubeconfig(t *testing.T, path, user string) {
	t.Helper()
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: rome,
contexts: [{name: rome, context: {cluster: k8s, user: ada}}],
clusters: [{name: k8s, cluster: {server: %s, certificate-authority-data: %s}}],
users: [{name: ada, user: %s}]}`, g.URL, base64.StdEncoding.EncodeToString(g.ca()), user)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get sends a request, and returns the answer of the API server or the plug-in's error.
func get(t *testing.T, rt http.RoundTripper, url string) (status int, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := rt.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

const PluginAPI = "client.authentication.k8s.io/v1"

// Script returns a credentials plug-in with this body.
func Script(t *testing.T, body string) *clientcmdapi.ExecConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Cleanup(EndPlugins)
	return &clientcmdapi.ExecConfig{Command: path, APIVersion: PluginAPI, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode}
}

func answer(status string) string {
	return `echo '{"apiVersion": "` + PluginAPI + `", "kind": "ExecCredential", "status": ` + status + "}'\n"
}

func pluginRoundTripper(t *testing.T, g *Guard, e *clientcmdapi.ExecConfig) *Transport {
	t.Helper()
	rt, err := NewTransport(&rest.Config{Host: g.URL, ExecProvider: e, TLSClientConfig: rest.TLSClientConfig{CAData: g.ca()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// counting returns a plug-in that records its runs, and a function that returns their number.
func counting(t *testing.T, body string) (e *clientcmdapi.ExecConfig, runs func() int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs")
	t.Setenv("RUNS", path)
	return Script(t, "echo run >> $RUNS\n"+body), func() int {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
}

// A user logs in once for all of their contexts.
func TestContextsOfOneUserShareTheLogin(t *testing.T) {
	e, runs := counting(t, answer(`{"token": "x"}`))
	var all sync.WaitGroup
	for range 10 {
		g := NewGuard(t, "x")
		rt := pluginRoundTripper(t, g, e)
		all.Go(func() {
			if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil {
				t.Errorf("got %d, %v; want to be let in", status, err)
			}
		})
	}
	all.Wait()
	if runs() != 1 {
		t.Errorf("the plug-in ran %d times for ten contexts, want once", runs())
	}
	other := *e
	other.Env = []clientcmdapi.ExecEnvVar{{Name: "AS", Value: "somebody else"}}
	g := NewGuard(t, "x")
	if status, err := get(t, pluginRoundTripper(t, g, &other), g.URL); status != http.StatusNotFound || err != nil || runs() != 2 {
		t.Errorf("another user: got %d, %v and %d runs; want a run of its own", status, err, runs())
	}
}

// The login is the same, and the users are different.
func TestContextsOfOneLoginImpersonateTheirOwnUsers(t *testing.T) {
	e, runs := counting(t, answer(`{"token": "x"}`))
	g := NewGuard(t, "x")
	users := []string{"bob", "", "eve"}
	all := make([]*Transport, len(users))
	for i, user := range users {
		config := &rest.Config{Host: g.URL, ExecProvider: e, TLSClientConfig: rest.TLSClientConfig{CAData: g.ca()}}
		config.Impersonate.UserName = user
		var err error
		if all[i], err = NewTransport(config, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for i, rt := range all {
			if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil {
				t.Errorf("got %d, %v; want to be let in", status, err)
			}
			if got := g.taken.Load(); got != users[i] {
				t.Errorf("the API server took %q for %q", users[i], got)
			}
		}
	}
	if runs() != 1 {
		t.Errorf("the plug-in ran %d times, want once", runs())
	}
}

// A program that fails may have opened a window or counted a wrong password.
func TestPluginThatFailedRunsAgainAfterAPauseThatGrows(t *testing.T) {
	e, runs := counting(t, "echo log in first >&2; exit 1")
	g := NewGuard(t, "x")
	transports := []*Transport{pluginRoundTripper(t, g, e), pluginRoundTripper(t, g, e)}
	p := transports[0].plugin.plugin
	for n, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause} {
		for i := range 20 {
			_, err := get(t, transports[i%2], g.URL)
			failed, ok := errors.AsType[*PluginError](err)
			if !ok || failed.Reason != "exit status 1: log in first" {
				t.Fatalf("got %v, want the plug-in's own words each time", err)
			}
			if again := strings.Contains(failed.Hint().String(), "it runs again at "); again != (i > 0) {
				t.Errorf("request %d: got hint %q", i, failed.Hint())
			}
		}
		if runs() != n+1 || p.pause != pause {
			t.Errorf("after 20 more requests: %d runs and a pause of %s, want %d and %s", runs(), p.pause, n+1, pause)
		}
		p.next = time.Now() // the pause is over
	}
}

// New requests to the plug-in don't change its refused credentials.
func TestNewCredentialsThatAreRefusedAreNotReplacedAtOnce(t *testing.T) {
	e, runs := counting(t, answer(`{"token": "x"}`))
	refuses, accepts := NewGuard(t, "another"), NewGuard(t, "x")
	refused, accepted := pluginRoundTripper(t, refuses, e), pluginRoundTripper(t, accepts, e)
	for _, pause := range []time.Duration{firstPause, 2 * firstPause} {
		for range 5 {
			if status, err := get(t, refused, refuses.URL); status != http.StatusUnauthorized || err != nil {
				t.Errorf("got %d, %v; want the API server's refusal", status, err)
			}
			if status, err := get(t, accepted, accepts.URL); status != http.StatusNotFound || err != nil {
				t.Errorf("another API server: got %d, %v; want to be let in", status, err)
			}
		}
		if got := refused.plugin.pause; got != pause {
			t.Errorf("got a pause of %s, want %s", got, pause)
		}
		refused.plugin.next = time.Now() // the pause is over
	}
	if runs() != 2 {
		t.Errorf("got %d runs, want one and another after the pause", runs())
	}
}

func TestPluginMayWaitForAPersonForAnyTime(t *testing.T) {
	login := filepath.Join(t.TempDir(), "login")
	t.Setenv("LOGIN", login)
	e, runs := counting(t, "echo open the browser >&2\nuntil [ -e $LOGIN ]; do sleep 0.05; done\n"+answer(`{"token": "x"}`))
	g := NewGuard(t, "x")
	rt := pluginRoundTripper(t, g, e)
	for range 3 { // as repeated observations do
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := rt.Ready(ctx)
		cancel()
		failed, ok := errors.AsType[*PluginError](err)
		if !ok || !strings.HasPrefix(failed.Reason, "it has been running for ") || !strings.HasSuffix(failed.Reason, "s, and may have opened a browser: open the browser") || failed.Hint().IsZero() {
			t.Fatalf("got %v, want what it waits for", err)
		}
	}
	var told []string
	ctx := OnWait(t.Context(), 0, func(err error) {
		told = append(told, err.Error())
		if err := os.WriteFile(login, nil, 0o600); err != nil { // ends the login
			t.Error(err)
		}
	})
	if err := rt.Ready(ctx); err != nil {
		t.Errorf("after the login: got %v", err)
	}
	if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil || runs() != 1 {
		t.Errorf("got %d, %v and %d runs; want to be let in after one run", status, err, runs())
	}
	if len(told) != 1 || !strings.HasSuffix(told[0], "s, and may have opened a browser: open the browser") {
		t.Errorf("somebody was told %q, want once what it waits for", told)
	}
}

// If nobody can log in, as in CI, a program that waits for a login waits for ever.
func TestPluginIsNotWaitedForLongerThanAllowed(t *testing.T) {
	e := Script(t, "sleep 600")
	rt := pluginRoundTripper(t, NewGuard(t, "x"), e)
	err := rt.Ready(OnWait(t.Context(), time.Second, nil))
	if failed, ok := errors.AsType[*PluginError](err); !ok || failed.Reason != "it has been running for 1s, and may have opened a browser" {
		t.Errorf("got %v, want that it is not waited for any longer", err)
	}
	rt.Login = new(1500 * time.Millisecond) // as set by the admin
	err = rt.Ready(OnWait(t.Context(), time.Minute, nil))
	if failed, ok := errors.AsType[*PluginError](err); !ok || failed.Word != "plug-in waits" {
		t.Errorf("got %v, want that it is not waited for any longer than the admin has said", err)
	}
}

// The plug-in has a session of its own, so no other program would end it or its children.
func TestPluginsEndWithTheProgram(t *testing.T) {
	e, runs := counting(t, "sleep 600 &\necho $! >> $RUNS\nwait")
	rt := pluginRoundTripper(t, NewGuard(t, "x"), e)
	ended := make(chan error, 1)
	go func() { ended <- rt.Ready(t.Context()) }()
	for runs() < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	EndPlugins()
	select {
	case err := <-ended:
		if failed, ok := errors.AsType[*PluginError](err); !ok || failed.Reason != "it was stopped" {
			t.Errorf("got %v, want that it was stopped", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the plug-in goes on")
	}
	data, err := os.ReadFile(os.Getenv("RUNS"))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(strings.Fields(string(data))[1]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its child goes on")
		}
	}
}

// alive reports whether a process runs. A dead process may still wait for its parent.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// If this machine's clock is ahead, kubectl's requests still succeed.
func TestCredentialsThatSeemToHaveExpiredAreTried(t *testing.T) {
	e, runs := counting(t, answer(`{"token": "x", "expirationTimestamp": "2020-01-01T00:00:00Z"}`))
	g := NewGuard(t, "x")
	rt := pluginRoundTripper(t, g, e)
	for range 3 {
		if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil {
			t.Errorf("got %d, %v; want to be let in", status, err)
		}
	}
	if runs() != 1 {
		t.Errorf("got %d runs, want one", runs())
	}
}

func TestPluginGivesTheCredentials(t *testing.T) {
	g := NewGuard(t, "first")
	e, count := counting(t, `if [ $(wc -l < $RUNS) = 1 ]; then token=first; else token=second; fi
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'$token'"}}'
`)
	rt := pluginRoundTripper(t, g, e)
	for range 3 {
		if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil {
			t.Fatalf("got %d, %v; want to be let in", status, err)
		}
	}
	if count() != 1 {
		t.Errorf("the plug-in ran %d times, want once", count())
	}
	g.token.Store("second")
	rt.plugin.plugin.current.since = time.Now().Add(-time.Hour)
	if status, _ := get(t, rt, g.URL); status != http.StatusUnauthorized {
		t.Errorf("got %d with a token that is no longer good", status)
	}
	if status, _ := get(t, rt, g.URL); status != http.StatusNotFound || count() != 2 {
		t.Errorf("after being refused: got %d and %d runs, want to be let in with a new token", status, count())
	}
}

// Plug-ins read an audience from the extension, and reach their issuer through the proxy.
func TestPluginLearnsAllThatKubectlTellsOfTheCluster(t *testing.T) {
	e := Script(t, `echo "$KUBERNETES_EXEC_INFO" > $INFO`+"\n"+answer(`{"token": "x"}`))
	info := filepath.Join(t.TempDir(), "info")
	t.Setenv("INFO", info)
	e.ProvideClusterInfo = true
	e.Config = &runtime.Unknown{Raw: []byte(`{"audience":"fleet"}`), ContentType: runtime.ContentTypeJSON}
	proxy, err := url.Parse("http://proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := NewTransport(&rest.Config{Host: "https://rome.example", ExecProvider: e, DisableCompression: true, Proxy: http.ProxyURL(proxy)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(info)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":{"server":"https://rome.example",` +
		`"proxy-url":"http://proxy.example:3128","disable-compression":true,"config":{"audience":"fleet"}},"interactive":false}}` + "\n"
	if string(data) != want {
		t.Errorf("got %s\nwant %s", data, want)
	}
}

func TestPluginThatGivesNothingSaysWhy(t *testing.T) {
	g := NewGuard(t, "x")
	asks := Script(t, "true")
	asks.InteractiveMode = clientcmdapi.AlwaysExecInteractiveMode
	missing := Script(t, "")
	missing.Command, missing.InstallHint = filepath.Join(t.TempDir(), "absent"), "get it from your provider"
	for name, c := range map[string]struct {
		plugin *clientcmdapi.ExecConfig
		reason string
		hint   string
	}{
		"reads a password":           {Script(t, "echo -n Password: >&2\nread password || exit 3"), "exit status 3: Password:", "log in with that program"},
		"reads it from the terminal": {Script(t, "(read password < /dev/tty) 2>/dev/null || { echo no terminal >&2; exit 4; }"), "exit status 4: no terminal", ""},
		"needs a terminal":           {asks, "it wants to ask on the terminal", "log in by using kubectl once"},
		"fails":                      {Script(t, "echo one >&2\necho token expired, log in >&2\nexit 1"), "exit status 1: token expired, log in", ""},
		"is not installed":           {missing, "it is not installed", "get it from your provider"},
		"answers nonsense":           {Script(t, "echo hello"), "its answer is not JSON", ""},
		"answers nothing":            {Script(t, answer("{}")), "it gave neither a token nor a certificate", ""},
		"answers another version":    {Script(t, strings.ReplaceAll(answer(`{"token": "x"}`), "/v1", "/v1alpha1")), "it answered ExecCredential client.authentication.k8s.io/v1alpha1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			_, err := get(t, pluginRoundTripper(t, g, c.plugin), g.URL)
			failed, ok := errors.AsType[*PluginError](err)
			if !ok || !strings.HasPrefix(failed.Reason, c.reason) || !strings.HasPrefix(failed.Hint().String(), c.hint) {
				t.Errorf("got %v, hint %v; want %s, hint %s", err, failed, c.reason, c.hint)
			}
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
