package kube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
)

// A file that is deleted or changed later does not disturb an opened cluster.
func TestAFileThatDisappearsLeavesOpenClustersAlone(t *testing.T) {
	rome := filepath.Join(t.TempDir(), "rome")
	text := "{clusters: [{name: k8s, cluster: {server: 'https://rome:6443'}}], users: [{name: root}], contexts: [{name: admin, context: {cluster: k8s, user: root}}], current-context: admin}"
	if err := os.WriteFile(rome, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := Open(Options{Context: flows.ContextRef{File: rome}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	if err := os.Remove(rome); err != nil {
		t.Fatal(err)
	}
	f := observe(t, cluster)
	if f.Server != "https://rome:6443" || f.Problem == nil || f.Problem.Kind != flows.Unreachable {
		t.Errorf("got %+v", f.Problem)
	}
	if _, err := Open(Options{Context: flows.ContextRef{File: rome}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening it again: got %v", err)
	}
}
