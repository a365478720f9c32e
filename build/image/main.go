// Command image packs static binaries into a container image without a
// container engine: one layer on nothing, written as a tar archive that
// containerd and docker load. The same files give the same bytes.
//
//	image -o OUT.tar -tag NAME:TAG FILE=/PATH... -- ENTRYPOINT [ARG...]
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("o", "", "archive to write")
	tag := flags.String("tag", "", "name:tag of the image")
	arch := flags.String("arch", runtime.GOARCH, "architecture of the files, as Go names it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	split := slices.Index(flags.Args(), "--")
	if *out == "" || *tag == "" || split < 1 || split == flags.NArg()-1 {
		return errors.New("usage: image -o OUT.tar -tag NAME:TAG FILE=/PATH... -- ENTRYPOINT [ARG...]")
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return err
	}
	img, err := build(flags.Args()[:split], flags.Args()[split+1:], *arch)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(*out, ref, img)
}

func build(files, entrypoint []string, arch string) (v1.Image, error) {
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
	config.OS, config.Architecture = "linux", arch
	config.Config.Entrypoint = entrypoint
	return mutate.ConfigFile(img, config)
}

// layer is a tar archive with the files at their paths, owned by root.
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
