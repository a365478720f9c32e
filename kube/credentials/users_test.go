package credentials_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
)

// idToken returns a token of an identity provider that expires at this time.
func idToken(ends time.Time, of string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"exp":%d,"sub":%q}`, ends.Unix(), of)) + ".sig"
}

// identityProvider runs a server that gives a token for a refresh token.
func identityProvider(t *testing.T, token string) string {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			_, _ = fmt.Fprintf(w, `{"token_endpoint": %q}`, s.URL+"/token")
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token": "a", "id_token": %q, "token_type": "Bearer", "refresh_token": "next"}`, token)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A kubeconfig works here as with kubectl, or the error says what to do.
func TestEachKindOfUserWorksOrSaysWhatToDo(t *testing.T) {
	valid, expired := idToken(time.Now().Add(time.Hour), "ada"), idToken(time.Now().Add(-time.Hour), "ada")
	issuer := identityProvider(t, valid)
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("from-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := credentials.Script(t, `echo '{"apiVersion": "`+credentials.PluginAPI+`", "kind": "ExecCredential", "status": {"token": "from-plugin"}}'`)
	oidc := func(config string) string {
		return fmt.Sprintf("{auth-provider: {name: oidc, config: {idp-issuer-url: %s, client-id: liqo, %s}}}", issuer, config)
	}
	for name, c := range map[string]struct {
		user  string
		sends string // the token that reaches the API server
		says  string // otherwise, the end of the error
		hint  string
	}{
		"token":                       {user: "{token: plain}", sends: "plain"},
		"token file":                  {user: "{tokenFile: " + tokenFile + "}", sends: "from-file"},
		"plug-in":                     {user: fmt.Sprintf("{exec: {apiVersion: %s, command: %s, interactiveMode: IfAvailable}}", credentials.PluginAPI, plugin.Command), sends: "from-plugin"},
		"oidc":                        {user: oidc("id-token: " + valid), sends: valid},
		"oidc that has to be renewed": {user: oidc("id-token: " + expired + ", refresh-token: r"), sends: valid},
		"oidc that can't be renewed": {
			user: oidc("client-secret: s, id-token: " + expired), says: "auth-provider oidc: No valid id-token, and cannot refresh without refresh-token",
			hint: "log in again with the program that wrote the kubeconfig's user",
		},
		"oidc without an issuer": {
			user: "{auth-provider: {name: oidc, config: {client-id: liqo}}}", says: "auth-provider oidc: Must provide idp-issuer-url",
			hint: "correct the user's auth-provider in the kubeconfig",
		},
		"gcp": {
			user: "{auth-provider: {name: gcp}}", says: "auth-provider gcp: kubectl and client-go have removed it",
			hint: "use the plug-in gke-gcloud-auth-plugin; to write it into the kubeconfig, run: gcloud container clusters get-credentials NAME",
		},
		"azure": {
			user: "{auth-provider: {name: azure}}", says: "auth-provider azure: kubectl and client-go have removed it",
			hint: "use the plug-in kubelogin; to write it into the kubeconfig, run: kubelogin convert-kubeconfig",
		},
		"an unknown provider": {
			user: "{auth-provider: {name: acme}}", says: `auth-provider acme: no Auth Provider found for name "acme"`,
			hint: "correct the user's auth-provider in the kubeconfig",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := credentials.NewGuard(t, c.sends)
			path := filepath.Join(t.TempDir(), "config")
			g.Kubeconfig(t, path, c.user)
			cluster, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
			if err != nil {
				if c.says == "" || !strings.HasSuffix(err.Error(), c.says) || flows.HintOf(err).String() != c.hint {
					t.Errorf("got %v, hint %q; want %q, hint %q", err, flows.HintOf(err), c.says, c.hint)
				}
				return
			}
			defer cluster.Close()
			p := observe(t, cluster).Problem // the credentials were accepted; this server has no objects
			let := p != nil && p.Kind != flows.Unauthorized
			if c.sends != "" && !let || c.sends == "" && (let || !strings.HasSuffix(p.Message, c.says) || p.Fix.String() != c.hint) {
				t.Errorf("got %+v; want %q to be sent, or %q", p, c.sends, c.says)
			}
		})
	}
}

// client-go has one provider in a process for each combination of cluster, issuer and client ID.
func TestTwoUsersOfOneIdentityProviderKeepTheirTokens(t *testing.T) {
	ends := time.Now().Add(time.Hour)
	g := credentials.NewGuard(t, idToken(ends, "bob"))
	for user, want := range map[string]bool{"ada": false, "bob": true} {
		path := filepath.Join(t.TempDir(), user)
		g.Kubeconfig(t, path, fmt.Sprintf("{auth-provider: {name: oidc, config: {idp-issuer-url: https://issuer.invalid, client-id: liqo, id-token: %s}}}",
			idToken(ends, user)))
		c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if p := observe(t, c).Problem; p == nil || (p.Kind != flows.Unauthorized) != want {
			t.Errorf("%s: got %+v; let in: want %v", user, p, want)
		}
	}
}

// Another program with the same kubeconfig finds the renewed tokens in it.
func TestRenewedTokensAreKeptInTheKubeconfig(t *testing.T) {
	fresh := idToken(time.Now().Add(time.Hour), "ada")
	g := credentials.NewGuard(t, fresh)
	path := filepath.Join(t.TempDir(), "config")
	g.Kubeconfig(t, path, fmt.Sprintf("{auth-provider: {name: oidc, config: {idp-issuer-url: %s, client-id: liqo, refresh-token: first}}}", identityProvider(t, fresh)))
	c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := observe(t, c).Problem; p == nil || p.Kind == flows.Unauthorized {
		t.Errorf("got %+v, want to be let in", p)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "id-token: "+fresh) || !strings.Contains(string(text), "refresh-token: next") {
		t.Errorf("got %v and %s; want both tokens", err, text)
	}
}
