package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"slices"
	"sync"
)

// Files are parts of a bundle, by their paths. They are kept compressed, because the objects of 5,000 nodes
// are 100 MB of text.
type Files map[string]*File

// File is one part of a bundle.
type File struct {
	packed bytes.Buffer // members of gzip, one for each call of Add
	size   int64
}

// Add adds a text to the end of a file.
func (f Files) Add(path, text string) {
	if f[path] == nil {
		f[path] = &File{}
	}
	z, _ := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&f[path].packed)
	n, _ := io.WriteString(z, text) // a Buffer has no errors
	_ = z.Close()
	f[path].size += int64(n)
}

// packers are reused, because each needs 800 KB.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

const readme = `What liqo-tui bundle has read of clusters, for a bug report. Each folder is a cluster.

Of Secrets there are names, no values: they were not read. Fields that may have a
password, a token or a key are "<removed: N bytes>", and so is in texts and logs what
looks like one. Of WireGuard's keys there are fingerprints.

It has names and addresses of your clusters, nodes and namespaces. Have a look before
you hand it to somebody.
`

// Archive returns the files as a tar.gz, with one more file that describes the others.
func (f Files) Archive() ([]byte, error) {
	files := maps.Clone(f)
	files.Add("README.txt", readme)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: files[name].size}); err != nil {
			return nil, err
		}
		text, err := gzip.NewReader(bytes.NewReader(files[name].packed.Bytes()))
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, text); err != nil { //nolint:gosec // it is our own text
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}
