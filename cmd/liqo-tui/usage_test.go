package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A script that reads an empty file must not take it for a result.
func TestResultsThatCannotBeWrittenAreAnError(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, line := range []string{"version", "explain", "--help", "explain config", "demo --help", "explain peerings-schema"} {
		var errs bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), full{}, &errs)
		if code != exit.Unexpected || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: got exit code %d, %q", line, code, errs.String())
		}
	}
}

func TestKubeconfigTakesAListOfFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	colon := "a" + string(filepath.ListSeparator) + "b"
	for _, c := range []struct {
		given []string
		want  []string
	}{{[]string{"x"}, []string{"x"}}, {[]string{colon}, []string{"a", "b"}}, {[]string{"x", colon}, []string{"x", "a", "b"}}} {
		var flags clusterFlags
		for _, g := range c.given {
			if err := (*kubeconfigs)(&flags).Set(g); err != nil {
				t.Fatal(err)
			}
		}
		alone := ""
		if len(c.want) == 1 {
			alone = c.want[0]
		}
		if !slices.Equal(flags.files, c.want) || flags.kubeconfig != alone {
			t.Errorf("%q: got %q and %q, want %q", c.given, flags.files, flags.kubeconfig, c.want)
		}
	}
}

// At -v 8, a log has the content of Secrets.
func TestALogIsReadByItsOwnerAlone(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, nil, 0o644); err != nil { //nolint:gosec // as an admin's umask may make it
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"version", "--log-file", file}, strings.NewReader(""), &out, &errs); code != exit.OK {
		t.Fatalf("got exit code %d, %s", code, errs.String())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

// Scripts tell a wrong command line, which nothing helps, from other failures by the exit code.
func TestWrongCommandLinesHaveTheirExitCode(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "absent")
	fails := func(args ...string) {
		var out, errs bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errs); code != exit.Usage {
			t.Errorf("%s: got exit code %d (%s), want %d", strings.Join(args, " "), code, strings.TrimSpace(errs.String()), exit.Usage)
		}
	}
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	var visit func(*cobra.Command, []string)
	visit = func(c *cobra.Command, words []string) {
		fails(append(words, "--no-such-flag")...)
		fails(append(words, "one", "two", "three")...)
		for _, sub := range c.Commands() {
			visit(sub, append(slices.Clip(words), sub.Name()))
		}
	}
	visit(root, nil)
	for _, line := range []string{
		"address", "network connect -f x --shortcuts", "network connect --export x --install", "network connect -f x --replace-peer",
		"dashboard --contexts a --all-contexts", "discover --domain a --interface b", "--color green", "check -v 6",
	} {
		fails(strings.Fields(line)...)
	}
}

// What comes after an installation depends on what is there: a connected cluster is not to be connected.
func TestTheNextStepAfterInstallIsTrue(t *testing.T) {
	connected := []networkingv1beta1.Configuration{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{wire.LabelRemoteCluster: "milan"}}}}
	for next, c := range map[string]flows.ClusterFacts{
		"liqo-tui network connect --context 'a b' --remote-context CONTEXT": {},
		"liqo-tui info --context 'a b'":                                     {Configurations: connected},
		"liqo-tui peer --context 'a b' --remote-context CONTEXT":            {Configurations: connected, Operator: flows.OperatorFacts{Peering: render.PeeringBoth}},
	} {
		c.ID, c.Namespace = "rome", "liqo"
		if got := installed(c, clusterFlags{context: "a b"}).Next[0].Command.String(); got != next {
			t.Errorf("got %s, want %s", got, next)
		}
	}
}
