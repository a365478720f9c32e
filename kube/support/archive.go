package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
)

const readme = `What liqo-tui bundle has read of clusters, for a bug report. Each folder is a cluster.

Of Secrets there are names, no values: they were not read. Fields that may have a
password, a token or a key are "<removed: N bytes>", and so is in texts and logs what
looks like one. Of WireGuard's keys there are fingerprints.

It has names and addresses of your clusters, nodes and namespaces. Have a look before
you hand it to somebody.
`

// Archive returns the files as a tar.gz, with one more file that describes them.
func (f Files) Archive() ([]byte, error) {
	files := maps.Clone(f)
	files["README.txt"] = []byte(readme)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}
