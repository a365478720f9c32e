// Command image packs static binaries into a container image, without a
// container engine. The image has one layer and no base. It is a tar archive
// that containerd and docker load. The same files give the same bytes.
//
//	image -o OUT.tar -tag NAME:TAG FILE=/PATH... -- ENTRYPOINT [ARG...]
//
// With a platform before each file, the result is an OCI archive with an image
// for each platform. containerd, skopeo and crane read such archives.
//
//	image -o OUT.tar -tag NAME:TAG linux/amd64:FILE=/PATH linux/arm/v7:FILE=/PATH... -- ENTRYPOINT [ARG...]
package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

const usage = "usage: image -o OUT.tar -tag NAME:TAG [PLATFORM:]FILE=/PATH... -- ENTRYPOINT [ARG...]"

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("o", "", "archive to write")
	tag := flags.String("tag", "", "name:tag of the image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	split := slices.Index(flags.Args(), "--")
	if *out == "" || *tag == "" || split < 1 || split == flags.NArg()-1 {
		return errors.New(usage)
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return err
	}
	files, entrypoint := flags.Args()[:split], flags.Args()[split+1:]
	if !strings.HasPrefix(files[0], "linux/") {
		img, err := build(files, entrypoint, v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
		if err != nil {
			return err
		}
		return tarball.WriteToFile(*out, ref, img)
	}
	index, err := buildIndex(files, entrypoint)
	if err != nil {
		return err
	}
	return writeOCI(*out, ref, index)
}

// buildIndex makes an image for each platform, in the order of the arguments.
func buildIndex(files, entrypoint []string) (v1.ImageIndex, error) {
	var platforms []string
	byPlatform := map[string][]string{}
	for _, f := range files {
		platform, file, ok := strings.Cut(f, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want PLATFORM:FILE=/PATH, as for the others", f)
		}
		if byPlatform[platform] == nil {
			platforms = append(platforms, platform)
		}
		byPlatform[platform] = append(byPlatform[platform], file)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		for _, f := range byPlatform[text] {
			if err := checkMachine(f, platform.Architecture); err != nil {
				return nil, err
			}
		}
		img, err := build(byPlatform[text], entrypoint, *platform)
		if err != nil {
			return nil, err
		}
		img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

// checkMachine returns an error if a binary is for another machine. Otherwise
// only a node of that kind would show the mistake.
func checkMachine(file, architecture string) error {
	from, _, _ := strings.Cut(file, "=")
	want, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM}[architecture]
	if !ok {
		return fmt.Errorf("%s: unknown architecture %s", from, architecture)
	}
	binary, err := elf.Open(from)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer binary.Close()
	if binary.Machine != want {
		return fmt.Errorf("%s is for %s, not for %s", from, binary.Machine, architecture)
	}
	return nil
}

// writeOCI writes an OCI image layout as one archive. Its index has the image's
// name; for containerd, in an annotation of its own.
func writeOCI(out string, ref name.Tag, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(), "io.containerd.image.name": ref.Name(),
	}))
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}

func build(files, entrypoint []string, platform v1.Platform) (v1.Image, error) {
	content, err := layer(files)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config.Entrypoint = entrypoint
	return mutate.ConfigFile(img, config)
}

// layer returns a tar archive with the files at their paths, owned by root.
func layer(files []string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{}
	for _, f := range files {
		from, to, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want FILE=/PATH", f)
		}
		to = strings.TrimPrefix(path.Clean(to), "/")
		if err := parents(w, made, path.Dir(to)); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o755, Size: int64(len(data))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func parents(w *tar.Writer, made map[string]bool, dir string) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := parents(w, made, path.Dir(dir)); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
}
