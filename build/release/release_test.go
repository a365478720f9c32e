package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
)

// built is a folder as release.sh makes it, with this test as the program.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"linux-amd64/liqo-tui": binary, "darwin-arm64/liqo-tui": binary, "windows-amd64/liqo-tui.exe": binary,
		"gateway/amd64": binary, "dns/amd64": binary, "man/liqo-tui.1": []byte("manual"), "completion/liqo-tui.bash": []byte("bash"),
		"completion/liqo-tui.zsh": []byte("zsh"), "completion/liqo-tui.fish": []byte("fish"),
		"chart/Chart.yaml": []byte("name: liqo-tui"), "chart/templates/a.yaml": []byte("a"), "LICENSE": []byte("license"),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, in string) string {
	t.Helper()
	out := t.TempDir()
	if err := run([]string{"-version", "v1.2.3-rc.1", "-commit", "abc", "-time", "1700000000", "-in", in, "-out", out}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestARelease(t *testing.T) {
	in := built(t)
	out := packed(t, in)
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := strings.Fields(`checksums.txt liqo-gateway_1.2.3-rc.1.spdx.json liqo-tui-chart-1.2.3-rc.1.tgz liqo-tui-dns_1.2.3-rc.1.spdx.json liqo-tui.krew.yaml liqo-tui.rb
		liqo-tui_1.2.3-rc.1.spdx.json liqo-tui_1.2.3-rc.1_darwin_arm64.tar.gz
		liqo-tui_1.2.3-rc.1_linux_amd64.apk liqo-tui_1.2.3-rc.1_linux_amd64.deb liqo-tui_1.2.3-rc.1_linux_amd64.rpm liqo-tui_1.2.3-rc.1_linux_amd64.tar.gz
		liqo-tui_1.2.3-rc.1_windows_amd64.zip`)
	if !slices.Equal(names, want) {
		t.Errorf("got %q\nwant %q", names, want)
	}
	t.Run("holds what was built", func(t *testing.T) { holdsTheProgram(t, out, in) })
	t.Run("names its digests", func(t *testing.T) { namesItsDigests(t, out) })
	t.Run("lists its modules", func(t *testing.T) { listsItsModules(t, out) })
	t.Run("is the same when it is packed again", func(t *testing.T) {
		later := time.Now().Add(time.Hour)
		for _, name := range []string{"LICENSE", "linux-amd64/liqo-tui", "man/liqo-tui.1"} {
			if err := os.Chtimes(filepath.Join(in, name), later, later); err != nil {
				t.Fatal(err)
			}
		}
		first, second := read(t, out, checksumsFile), read(t, packed(t, in), checksumsFile)
		if first != second {
			t.Errorf("got\n%s\nand\n%s", first, second)
		}
	})
	t.Run("shows that a file was changed", func(t *testing.T) {
		check := func() ([]byte, error) { // as SECURITY.md says
			c := exec.CommandContext(t.Context(), "sha256sum", "--check", "--ignore-missing", checksumsFile)
			c.Dir = out
			return c.CombinedOutput()
		}
		if text, err := check(); err != nil {
			t.Fatalf("a release that nobody has changed: %v\n%s", err, text)
		}
		archive := filepath.Join(out, "liqo-tui_1.2.3-rc.1_linux_amd64.tar.gz")
		if err := os.WriteFile(archive, append([]byte(read(t, out, filepath.Base(archive))), 0), 0o644); err != nil {
			t.Fatal(err)
		}
		if text, err := check(); err == nil || !strings.Contains(string(text), filepath.Base(archive)+": FAILED") {
			t.Errorf("got %v\n%s", err, text)
		}
	})
}

// holdsTheProgram unpacks all that has one.
func holdsTheProgram(t *testing.T, out, in string) {
	program, err := os.ReadFile(filepath.Join(in, "linux-amd64", "liqo-tui"))
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(out, "liqo-tui_*_*_*"))
	if err != nil || len(archives) != 6 {
		t.Fatalf("got %q, %v", archives, err)
	}
	for _, archive := range archives {
		files, prefix, binary := unpacked(t, archive), "usr/share/man/man1/", "usr/bin/liqo-tui"
		switch filepath.Ext(archive) {
		case ".zip":
			prefix, binary = "man/", "liqo-tui.exe"
		case ".gz":
			prefix, binary = "man/", "liqo-tui"
		default:
			for path, want := range map[string]string{
				"usr/share/bash-completion/completions/liqo-tui": "bash", "usr/share/zsh/site-functions/_liqo-tui": "zsh",
				"usr/share/fish/vendor_completions.d/liqo-tui.fish": "fish", "usr/share/doc/liqo-tui/copyright": "license",
			} {
				if got := string(files[path]); got != want {
					t.Errorf("%s: %s is %q, want %q", filepath.Base(archive), path, got, want)
				}
			}
		}
		if !bytes.Equal(files[binary], program) {
			t.Errorf("%s: %s has %d bytes, want the %d of the program", filepath.Base(archive), binary, len(files[binary]), len(program))
		}
		if got := string(files[prefix+"liqo-tui.1"]); got != "manual" {
			t.Errorf("%s: the manual is %q", filepath.Base(archive), got)
		}
	}
	chart := unpacked(t, filepath.Join(out, "liqo-tui-chart-1.2.3-rc.1.tgz"))
	if string(chart["liqo-tui/Chart.yaml"]) != "name: liqo-tui" || string(chart["liqo-tui/templates/a.yaml"]) != "a" {
		t.Errorf("the chart has %d files: %q", len(chart), chart)
	}
}

// namesItsDigests compares the checksums with the files, and what Homebrew and krew
// fetch with the checksums.
func namesItsDigests(t *testing.T, out string) {
	sums := map[string]string{}
	for line := range strings.Lines(read(t, out, checksumsFile)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
		got := sha256.Sum256([]byte(read(t, out, name)))
		if hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s is not what %s says", name, checksumsFile)
		}
	}
	for file, archives := range map[string][]string{"liqo-tui.rb": {"darwin", "linux"}, "liqo-tui.krew.yaml": {"darwin", "linux", "windows"}} {
		text := read(t, out, file)
		for name, sum := range sums {
			isArchive := strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip")
			wanted := isArchive && slices.ContainsFunc(archives, func(os string) bool { return strings.Contains(name, "_"+os+"_") })
			if got := strings.Contains(text, sum) && strings.Contains(text, "/"+name); got != wanted {
				t.Errorf("%s names %s: %v, want %v", file, name, got, wanted)
			}
		}
	}
	if entries, _ := os.ReadDir(out); len(sums) != len(entries)-1 {
		t.Errorf("%d checksums for %d files", len(sums), len(entries)-1)
	}
}

func listsItsModules(t *testing.T, out string) {
	bills, err := filepath.Glob(filepath.Join(out, "*.spdx.json"))
	if err != nil || len(bills) != 3 {
		t.Fatalf("got %q, %v", bills, err)
	}
	for _, bill := range bills {
		f, err := os.Open(bill)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		doc, err := spdxjson.Read(f)
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(bill), err)
		}
		var names []string
		for _, p := range doc.Packages {
			if p.PackageVersion == "" {
				t.Errorf("%s: %s has no version", filepath.Base(bill), p.PackageName)
			}
			names = append(names, p.PackageName)
		}
		if !slices.Contains(names, "stdlib") || len(names) < 5 || len(doc.Relationships) != len(names) {
			t.Errorf("%s: got %q and %d relations", filepath.Base(bill), names, len(doc.Relationships))
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWhatIsNeededOfARelease(t *testing.T) {
	if err := run([]string{"-version", "1.2.3", "-time", "1", "-in", "x", "-out", "y"}); err == nil {
		t.Error("a version without its v is accepted")
	}
	err := run([]string{"-version", "v1.2.3", "-time", "1", "-in", t.TempDir(), "-out", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "has no program") {
		t.Errorf("got %v of an empty folder", err)
	}
}
