package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that go build has left in a module's folder was committed, with 78 MB.
func TestNoProgramIsCommitted(t *testing.T) {
	root := filepath.Join("..", "..")
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 1000 {
		t.Fatalf("got %d files, which can't be all", len(files))
	}
	for _, name := range files {
		file, err := os.Open(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 4)
		n, _ := file.Read(head) // an empty file has no head
		_ = file.Close()
		if bytes.Equal(head[:n], []byte("\x7fELF")) {
			t.Errorf("%s is a program: git rm --cached it", name)
		}
	}
}
