package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// elfHeader is the begin of a program: all that says for which machine it is.
func elfHeader(t *testing.T, class byte, machine uint16) string {
	t.Helper()
	size := map[byte]int{1: 52, 2: 64}[class]
	h := make([]byte, size)
	copy(h, []byte{0x7f, 'E', 'L', 'F', class, 1, 1})
	binary.LittleEndian.PutUint16(h[16:], 2) // an executable
	binary.LittleEndian.PutUint16(h[18:], machine)
	binary.LittleEndian.PutUint32(h[20:], 1)
	binary.LittleEndian.PutUint16(h[map[byte]int{1: 40, 2: 52}[class]:], uint16(size))
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, h, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImagesForSeveralPlatforms(t *testing.T) {
	amd64, arm64, arm := elfHeader(t, 2, 62), elfHeader(t, 2, 183), elfHeader(t, 1, 40)
	out := filepath.Join(t.TempDir(), "out.tar")
	args := []string{
		"-o", out, "-tag", "example.org/gateway:v1",
		"linux/amd64:" + amd64 + "=/gateway", "linux/arm64:" + arm64 + "=/gateway", "linux/arm/v7:" + arm + "=/gateway", "--", "/gateway",
	}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	files := read(t, out)
	var top v1.IndexManifest
	decode(t, files["index.json"], &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "example.org/gateway:v1" {
		t.Fatalf("index: got %s", files["index.json"])
	}
	var index v1.IndexManifest
	decode(t, blob(t, files, top.Manifests[0].Digest), &index)
	var platforms []string
	for _, m := range index.Manifests {
		platforms = append(platforms, m.Platform.String())
		var manifest v1.Manifest
		decode(t, blob(t, files, m.Digest), &manifest)
		var config v1.ConfigFile
		decode(t, blob(t, files, manifest.Config.Digest), &config)
		if got := config.Platform().String(); got != m.Platform.String() || !slices.Equal(config.Config.Entrypoint, []string{"/gateway"}) {
			t.Errorf("image for %s: its own configuration says %s, %v", m.Platform, got, config.Config.Entrypoint)
		}
		if len(manifest.Layers) != 1 {
			t.Errorf("image for %s: %d layers, want one", m.Platform, len(manifest.Layers))
		}
	}
	if want := []string{"linux/amd64", "linux/arm64", "linux/arm/v7"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms: got %v, want %v", platforms, want)
	}

	before := files
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	for name, content := range read(t, out) {
		if !bytes.Equal(content, before[name]) {
			t.Errorf("%s: not the same bytes the second time", name)
		}
	}
}

func TestProgramsForAnotherMachineAreRefused(t *testing.T) {
	amd64 := elfHeader(t, 2, 62)
	err := run([]string{"-o", filepath.Join(t.TempDir(), "out.tar"), "-tag", "a:b", "linux/arm64:" + amd64 + "=/gateway", "--", "/gateway"})
	if err == nil || !strings.Contains(err.Error(), "EM_X86_64, not for arm64") {
		t.Errorf("got %v", err)
	}
}

func read(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func blob(t *testing.T, files map[string][]byte, digest v1.Hash) []byte {
	t.Helper()
	content, ok := files["blobs/"+digest.Algorithm+"/"+digest.Hex]
	if !ok {
		t.Fatalf("%s is missing", digest)
	}
	return content
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
