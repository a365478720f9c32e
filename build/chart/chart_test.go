package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What lies in the repository is what people read, and what the test with Helm
// renders. UPDATE=1 writes it.
func TestTheChartIsWhatInstallMakes(t *testing.T) {
	const dir = "../../charts/liqo-tui"
	want, err := Files(Release{Version: unreleased})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := write(dir, want); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		got[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("charts/liqo-tui is older than what it is made of; make generate writes it (-there +made):\n%s", diff)
	}
}
