package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// helm runs the real program, with folders of its own.
func (l lab) helm(t *testing.T, cluster string, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "../../../bin/helm", append(args, "--kubeconfig", l.kubeconfig, "--kube-context", "lab-"+cluster, "-n", "liqo")...)
	for _, folder := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Environ(), "HELM_"+folder+"_HOME="+t.TempDir())
	}
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %s (make bin/helm): %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// helmInstall installs the chart, and waits as Helm does.
func (l lab) helmInstall(t *testing.T, cluster, image string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "values") // a test's own folder has its name with a comma, at which Helm splits
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	values := filepath.Join(dir, "values.yaml")
	text := fmt.Sprintf("image: %s\nclusterID: %s\npodCIDR: [%s]\nimagePullSecrets: [{name: right}]\n", image, cluster, labPodCIDR)
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.helm(t, cluster, "install", "liqo-tui", "../../../charts/liqo-tui", "-f", values, "--wait", "--timeout", "60s")
}

// testHelms checks that our program does not change an installation that Helm
// manages.
func (l lab) testHelms(t *testing.T) {
	l.helm(t, "rome", "test", "liqo-tui", "--timeout", "60s")
	before := l.objects(t, "rome")
	at := []string{"--kubeconfig", l.kubeconfig, "--context", "lab-rome"}
	for _, command := range [][]string{{"install", "--gateway-replicas", "2"}, {"uninstall", "--yes"}} {
		got := l.tui(append(command, at...)...).want(t, exit.Conflict)
		if !strings.Contains(got.err, "Helm release liqo-tui in namespace liqo") || !strings.Contains(got.err, "helm uninstall liqo-tui -n liqo") {
			t.Errorf("%s: got %q, want whose it is, and what to run", command[0], got.err)
		}
	}
	if diff := cmp.Diff(before, l.objects(t, "rome")); diff != "" {
		t.Errorf("objects of rome changed (-before +after):\n%s", diff)
	}
}

// noDrift asks the API server whether an apply of the release's manifest would change
// anything. Argo CD and Flux ask the same at intervals.
func (l lab) noDrift(t *testing.T, cluster string) {
	t.Helper()
	cmd := l.command(t, "kubectl", cluster, "diff", "--server-side", "--field-manager", "helm", "-n", "liqo", "-f", "-")
	cmd.Stdin = strings.NewReader(l.helm(t, cluster, "get", "manifest", "liqo-tui"))
	out, err := cmd.CombinedOutput()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || failed.ExitCode() != 1) { // 1 is for differences
		t.Fatalf("kubectl diff: %v\n%s", err, out)
	}
	// Helm writes on each object that it belongs to Helm. The manifest does not have
	// this.
	helms := []string{"meta.helm.sh/release-", "app.kubernetes.io/managed-by: ", "  annotations:", "  generation: "}
	for line := range strings.Lines(string(out)) {
		differs := strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "--- ")
		if differs && !slices.ContainsFunc(helms, func(part string) bool { return strings.Contains(line, part) }) {
			t.Errorf("what runs differs from what Helm made: %s", line)
		}
	}
}

func (l lab) testHelmUpgrade(t *testing.T) {
	l.helm(t, "rome", "upgrade", "liqo-tui", "../../../charts/liqo-tui", "--reuse-values", "--set", "logLevel=debug", "--wait", "--timeout", "60s")
	for _, program := range []string{"deployment/liqo-tui-operator", "daemonset/liqo-tui-fabric"} {
		got := l.must(t, "kubectl", "rome", "-n", "liqo", "get", program, "-o", "jsonpath={.spec.template.spec.containers[*].env}")
		if !strings.Contains(got, "debug") {
			t.Errorf("%s: got environment %s, want the log level that was set", program, got)
		}
	}
	eventually(t, 30*time.Second, func() error { return l.worksBetween(t, connection{"rome", "milan"}) })
	l.both(connection{"rome", "milan"}, "check").want(t, exit.OK)
	l.noDrift(t, "rome")
}

func (l lab) testHelmUninstall(t *testing.T, before []string) {
	l.helm(t, "rome", "uninstall", "liqo-tui", "--wait", "--timeout", "60s")
	ours := func(name string) bool { // other objects of the CRDs' kinds, which Helm does not know
		kind, _, _ := strings.Cut(name, " ")
		return strings.HasSuffix(name, ".liqo.io") && (kind == "CustomResourceDefinition" || kind == "APIService") || kind == "InternalNode" || kind == "Network"
	}
	eventually(t, 60*time.Second, func() error {
		if diff := cmp.Diff(before, slices.DeleteFunc(l.objects(t, "rome"), ours)); diff != "" {
			return fmt.Errorf("objects of rome differ (-before +after):\n%s", diff)
		}
		return nil
	})
}
