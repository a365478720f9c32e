//go:build release

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// make release runs this with what it has built: it installs the package of this
// machine as dpkg does, and runs the program from each artefact.
func TestTheReleaseRuns(t *testing.T) {
	dist := os.Getenv("RELEASE")
	namesItsDigests(t, dist)
	listsItsModules(t, dist)
	platform := "_linux_" + runtime.GOARCH
	var digests []string
	for _, kind := range []string{".tar.gz", ".deb", ".rpm", ".apk"} {
		found, err := filepath.Glob(filepath.Join(dist, "liqo-tui_*"+platform+kind))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: got %q, %v", kind, found, err)
		}
		root := t.TempDir()
		binary := filepath.Join(root, "usr/bin/liqo-tui")
		if kind == ".deb" {
			install(t, root, found[0])
		} else {
			for name, data := range unpacked(t, found[0]) {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, data, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		if kind == ".tar.gz" {
			binary = filepath.Join(root, "liqo-tui")
		}
		number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "liqo-tui_"), platform+kind)
		for args, want := range map[string]string{"version": "liqo-tui v" + number, "completion bash": "__start_liqo-tui", "man": ".TH \"LIQO-TUI\""} {
			got, err := exec.CommandContext(t.Context(), binary, strings.Fields(args)...).CombinedOutput()
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("%s: liqo-tui %s: %v, got %.200s, want %s", kind, args, err, got, want)
			}
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 50_000_000 {
			t.Errorf("%s: the program has %d bytes, at most 50 MB are allowed", kind, len(data))
		}
		if published, name := os.Getenv("REGISTRY"), imageOf(t, dist); published != "" {
			got, err := exec.CommandContext(t.Context(), binary, "version", "-o", "json").Output()
			if err != nil || !strings.Contains(string(got), name) {
				t.Errorf("%s: %v, the program names another image than %s: %s", kind, err, name, got)
			}
		}
		digests = append(digests, fmt.Sprintf("%x", sha256.Sum256(data)))
	}
	if len(slices.Compact(digests)) != 1 {
		t.Errorf("the artefacts have different programs: %q", digests)
	}
}

// imageOf is the digest by which the registry has the image of a release.
func imageOf(t *testing.T, dist string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, "liqo-gateway_*_image.tar"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got images %q, %v", found, err)
	}
	index, err := exec.CommandContext(t.Context(), "tar", "-xOf", found[0], "index.json").Output()
	if err != nil {
		t.Fatal(err)
	}
	digest := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(string(index))
	if digest == "" {
		t.Fatalf("no digest in %s", index)
	}
	return "@" + digest
}

// install has dpkg install a package below root, and compares the files with what it
// says of them.
func install(t *testing.T, root, deb string) {
	t.Helper()
	for _, dir := range []string{"updates", "info", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--log=" + filepath.Join(root, "log"), "-i", deb},
		{"--root=" + root, "--verify", "liqo-tui"},
	} {
		if out, err := exec.CommandContext(t.Context(), "dpkg", args...).CombinedOutput(); err != nil {
			t.Fatalf("dpkg %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
