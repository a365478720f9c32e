package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
)

// unpacked are the files of an archive or a package, by their paths, as its kind's
// own readers find them.
func unpacked(t *testing.T, file string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var files map[string][]byte
	switch filepath.Ext(file) {
	case ".zip":
		files, err = unzip(data)
	case ".deb":
		files, err = fromDeb(data)
	case ".rpm":
		files, err = fromRPM(data)
	default: // an apk is three archives in one
		files, err = untar(bytes.NewReader(data))
	}
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(file), err)
	}
	return files
}

// untar reads archives that follow each other, with or without an end.
func untar(in io.Reader) (map[string][]byte, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(h.Name, "./")] = data
	}
}

func unzip(data []byte) (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		if files[f.Name], err = io.ReadAll(in); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func fromDeb(data []byte) (map[string][]byte, error) {
	r := ar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("no data.tar.gz: %w", err)
		}
		if strings.HasPrefix(h.Name, "data.tar.gz") {
			return untar(r)
		}
	}
}

// fromRPM reads version 3 of the format: a lead, two headers of which the first one
// is padded to 8 bytes, and an archive of cpio's format "newc".
func fromRPM(data []byte) (map[string][]byte, error) {
	at := 96
	for range 2 {
		if len(data) < at+16 || !bytes.HasPrefix(data[at:], []byte{0x8e, 0xad, 0xe8}) {
			return nil, fmt.Errorf("no header at %d", at)
		}
		at = (at + 7) / 8 * 8
		at += 16 + 16*int(binary.BigEndian.Uint32(data[at+8:])) + int(binary.BigEndian.Uint32(data[at+12:]))
		if at%8 != 0 && bytes.HasPrefix(data[(at+7)/8*8:], []byte{0x8e, 0xad, 0xe8}) {
			at = (at + 7) / 8 * 8
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(data[at:]))
	if err != nil {
		return nil, err
	}
	archive, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for at := 0; ; {
		if !bytes.HasPrefix(archive[at:], []byte("070701")) {
			return nil, fmt.Errorf("no entry at %d of %d", at, len(archive))
		}
		field := func(n int) int {
			v, _ := strconv.ParseUint(string(archive[at+6+8*n:at+14+8*n]), 16, 32)
			return int(v)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(archive[at+110 : at+110+nameSize-1])
		begin := (at + 110 + nameSize + 3) / 4 * 4
		if name == "TRAILER!!!" {
			return files, nil
		}
		if mode&0o170000 == 0o100000 {
			files[strings.TrimPrefix(strings.TrimPrefix(name, "."), "/")] = archive[begin : begin+size]
		}
		at = (begin + size + 3) / 4 * 4
	}
}
