package credentials

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Guard is an API server as far as its door: it lets one token in, and answers
// who it let in with "not found".
type Guard struct {
	*httptest.Server
	token atomic.Value // string
}

func NewGuard(t *testing.T, token string) *Guard {
	g := &Guard{}
	g.token.Store(token)
	g.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
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

// Kubeconfig is a file with one context, whose user is as given in YAML.
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

// get asks for anything, and says what the API server or the plug-in answers.
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

// Script is a credentials plug-in.
func Script(t *testing.T, body string) *clientcmdapi.ExecConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return &clientcmdapi.ExecConfig{Command: path, APIVersion: PluginAPI, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode}
}

func answer(status string) string {
	return `echo '{"apiVersion": "` + PluginAPI + `", "kind": "ExecCredential", "status": ` + status + "}'\n"
}

func pluginRoundTripper(t *testing.T, g *Guard, e *clientcmdapi.ExecConfig, timeout time.Duration) http.RoundTripper {
	t.Helper()
	config := &rest.Config{Host: g.URL, ExecProvider: e, TLSClientConfig: rest.TLSClientConfig{CAData: g.ca()}}
	if err := usePlugin(config); err != nil {
		t.Fatal(err)
	}
	config.Transport.(pluginTransport).plugin.timeout = timeout
	rt, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func TestPluginGivesTheCredentials(t *testing.T) {
	g := NewGuard(t, "first")
	runs := filepath.Join(t.TempDir(), "runs")
	t.Setenv("RUNS", runs)
	rt := pluginRoundTripper(t, g, Script(t, `echo run >> $RUNS
if [ $(wc -l < $RUNS) = 1 ]; then token=first; else token=second; fi
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'$token'"}}'
`), time.Minute)
	count := func() int {
		data, err := os.ReadFile(runs)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
	for range 3 {
		if status, err := get(t, rt, g.URL); status != http.StatusNotFound || err != nil {
			t.Fatalf("got %d, %v; want to be let in", status, err)
		}
	}
	if count() != 1 {
		t.Errorf("the plug-in ran %d times, want once", count())
	}
	g.token.Store("second")
	if status, _ := get(t, rt, g.URL); status != http.StatusUnauthorized {
		t.Errorf("got %d with a token that is no longer good", status)
	}
	if status, _ := get(t, rt, g.URL); status != http.StatusNotFound || count() != 2 {
		t.Errorf("after being refused: got %d and %d runs, want to be let in with a new token", status, count())
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
		"hangs, and so does its child": {Script(t, "echo opening the browser >&2\nsleep 600 &\nwait"), "it did not end within 500ms; its last words: opening the browser", "run it by hand"},
		"reads a password":             {Script(t, "echo -n Password: >&2\nread password || exit 3"), "exit status 3: Password:", "log in with that program"},
		"reads it from the terminal":   {Script(t, "(read password < /dev/tty) 2>/dev/null || { echo no terminal >&2; exit 4; }"), "exit status 4: no terminal", ""},
		"needs a terminal":             {asks, "it wants to ask on the terminal", "log in by using kubectl once"},
		"fails":                        {Script(t, "echo one >&2\necho token expired, log in >&2\nexit 1"), "exit status 1: token expired, log in", ""},
		"is not installed":             {missing, "it is not installed", "get it from your provider"},
		"answers nonsense":             {Script(t, "echo hello"), "its answer is not JSON", ""},
		"answers nothing":              {Script(t, answer("{}")), "it gave neither a token nor a certificate", ""},
		"answers another version":      {Script(t, strings.ReplaceAll(answer(`{"token": "x"}`), "/v1", "/v1alpha1")), "it answered ExecCredential client.authentication.k8s.io/v1alpha1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			_, err := get(t, pluginRoundTripper(t, g, c.plugin, 500*time.Millisecond), g.URL)
			failed, ok := errors.AsType[*PluginError](err)
			if !ok || !strings.HasPrefix(failed.Reason, c.reason) || !strings.HasPrefix(failed.Hint(), c.hint) {
				t.Errorf("got %v, hint %v; want %s, hint %s", err, failed, c.reason, c.hint)
			}
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
