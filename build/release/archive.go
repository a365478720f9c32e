package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (r release) archiveName(p platform) string {
	kind := ".tar.gz"
	if p.os == "windows" {
		kind = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", program, r.number(), p.os, p.arch, kind)
}

// archive writes the archive with the program, its manual, completions and
// license.
func (r release) archive(p platform) error {
	files, err := r.content(map[string]string{"man": "man", "completion": "completion"}, func(_, name string) string { return name })
	if err != nil {
		return err
	}
	files = append([]file{
		{p.binary(), filepath.Join(r.in, p.String(), p.binary()), 0o755},
		{"LICENSE", filepath.Join(r.in, "LICENSE"), 0o644},
	}, files...)
	pack := r.tarball
	if p.os == "windows" {
		pack = r.zipped
	}
	data, err := pack(files)
	if err != nil {
		return err
	}
	return r.write(r.archiveName(p), data)
}

func (r release) tarball(files []file) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range files {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(data)), ModTime: r.at})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

func (r release) zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		header := &zip.FileHeader{Name: f.path, Method: zip.Deflate, Modified: r.at}
		header.SetMode(f.mode)
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// chart packs the folder chart as "helm package" does.
func (r release) chart() error {
	var files []file
	root := filepath.Join(r.in, "chart")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		files = append(files, file{program + "/" + filepath.ToSlash(name), path, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	// Chart.yaml comes first, as in archives of "helm package".
	for i, f := range files {
		if strings.HasSuffix(f.path, "/Chart.yaml") {
			files[0], files[i] = files[i], files[0]
		}
	}
	data, err := r.tarball(files)
	if err != nil {
		return err
	}
	return r.write(program+"-chart-"+r.number()+".tgz", data)
}

func (r release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

func (r release) digest(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.out, name))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// checksums writes the checksums of all files for sha256sum --check.
func (r release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, e := range entries {
		if e.Name() == checksumsFile || e.IsDir() {
			continue
		}
		sum, err := r.digest(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return r.write(checksumsFile, []byte(out.String()))
}

const checksumsFile = "checksums.txt"
