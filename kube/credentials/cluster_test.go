package credentials_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
)

func observe(t *testing.T, c *kube.Cluster) flows.ClusterFacts {
	t.Helper()
	f, err := c.Observe(t.Context())
	if err != nil {
		t.Fatalf("Observe: %v", err)
	}
	return f
}

// If there are no credentials, the problem is the plug-in, which fails, is missing or waits, and no refusal by
// the API server.
func TestPluginProblemIsAFactOfTheCluster(t *testing.T) {
	fails, waits := credentials.Script(t, "echo please log in >&2; exit 1"), credentials.Script(t, "sleep 600")
	for command, want := range map[string]struct{ word, message string }{
		fails.Command:                        {"plug-in failed", "please log in"},
		waits.Command:                        {"plug-in waits", "it has been running for 3s"},
		filepath.Join(t.TempDir(), "absent"): {"plug-in missing", "it is not installed"},
	} {
		t.Run(want.word, func(t *testing.T) {
			g := credentials.NewGuard(t, "x")
			path := filepath.Join(t.TempDir(), "config")
			g.Kubeconfig(t, path, fmt.Sprintf("{exec: {apiVersion: %s, command: %s, interactiveMode: IfAvailable}}", credentials.PluginAPI, command))
			c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			f, _ := c.Observe(ctx) // if the plug-in waits, ctx ends, and the facts have the reason
			p := f.Problem
			if p == nil || p.Kind != flows.Unauthorized || p.Word != want.word || !strings.Contains(p.Message, want.message) || p.Fix.IsZero() {
				t.Errorf("got %+v, want %s: %s", p, want.word, want.message)
			}
		})
	}
}

func TestExpiredCredentialsAreReadAgain(t *testing.T) {
	g := credentials.NewGuard(t, "new")
	path := filepath.Join(t.TempDir(), "config")
	g.Kubeconfig(t, path, "{token: old}")
	c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if f := observe(t, c); f.Problem == nil || f.Problem.Kind != flows.Unauthorized ||
		!strings.Contains(f.Problem.Message, "does not accept the credentials") || f.Problem.Fix.String() != "log in to the cluster again" {
		t.Fatalf("got %+v, want the credentials to be refused", f.Problem)
	}
	g.Kubeconfig(t, path, "{token: new}") // as after a login by another program
	deadline := time.Now().Add(20 * time.Second)
	for {
		f := observe(t, c)
		if f.Problem != nil && f.Problem.Kind != flows.Unauthorized {
			return // the credentials were accepted; this server has no objects
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new credentials are never used: %+v", f.Problem)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The certificate authority of a cluster may change, and its kubeconfig too.
func TestANewCertificateAuthorityIsReadFromTheKubeconfig(t *testing.T) {
	g := credentials.NewGuard(t, "x")
	path := filepath.Join(t.TempDir(), "config")
	g.Kubeconfig(t, path, "{token: x}")
	right, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	without := regexp.MustCompile("certificate-authority-data: [^}]*").ReplaceAllString(string(right), "disable-compression: true")
	if err := os.WriteFile(path, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := observe(t, c).Problem; p == nil || !strings.Contains(p.Message, "certificate") {
		t.Fatalf("got %+v, want the certificate to be refused", p)
	}
	if err := os.WriteFile(path, right, 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		p := observe(t, c).Problem // the credentials were accepted; this server has no objects
		if p != nil && !strings.Contains(p.Message, "certificate") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new authority is never used: %+v", p)
		}
	}
}
