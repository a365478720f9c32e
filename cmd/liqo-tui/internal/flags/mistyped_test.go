package flags

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A file that is named once has both clusters, unless kubectl's own files have the remote one.
func TestOneKubeconfigIsOfBothClusters(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, contexts ...string) string {
		text := "apiVersion: v1\nkind: Config\ncontexts:\n"
		for _, c := range contexts {
			text += "- {name: " + c + ", context: {cluster: c, user: u}}\n"
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := write("own", "home", "milan")
	t.Setenv("KUBECONFIG", own)
	lab := write("lab", "rome", "milan", "napoli")
	for line, want := range map[string][]string{
		"--kubeconfig LAB --context rome --remote-context napoli":                           {lab},
		"--remote-context napoli --kubeconfig LAB --kubeconfig OTHER":                       {lab, "OTHER"},
		"--kubeconfig LAB --context rome --remote-context milan":                            nil,        // as it was meant where both have it
		"--kubeconfig LAB --context rome --remote-context nowhere":                          {own, lab}, // the error names both
		"--kubeconfig LAB --context rome --remote-kubeconfig OTHER --remote-context napoli": {"OTHER"},
		"--kubeconfig LAB --context rome":                                                   nil,
		"--remote-context napoli":                                                           nil,
	} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.StringArray("kubeconfig", nil, "")
		f.String("context", "", "")
		remote := f.StringArray("remote-kubeconfig", nil, "")
		f.String("remote-context", "", "")
		if err := f.Parse(strings.Fields(strings.ReplaceAll(line, "LAB", lab))); err != nil {
			t.Fatal(err)
		}
		if err := RemoteFile(f); err != nil || !slices.Equal(*remote, want) {
			t.Errorf("%s: got %q, %v, want %q", line, *remote, err, want)
		}
	}
}

func TestAValueAfterASpaceIsItsFlags(t *testing.T) {
	for line, want := range map[string]string{
		"connect --wait verified --yes":         "connect --wait=verified --yes",
		"connect --dry-run server":              "connect --dry-run=server",
		"connect --wait --yes":                  "connect --wait --yes",
		"connect --wait":                        "connect --wait",
		"connect --wait=none none":              "connect --wait=none none",
		"join --dry-run invitation.yaml":        "join --dry-run invitation.yaml",
		"reset --wait false --context verified": "reset --wait=false --context verified",
	} {
		if got := JoinValues(strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
