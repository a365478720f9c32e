// Command release packs the built programs into the files of a release: archives,
// packages for Linux, a Homebrew formula, a krew manifest, bills of materials and
// checksums. The same input gives the same bytes.
//
//	release -version VERSION -commit COMMIT -time SECONDS -in DIR -out DIR
//
// The DIR of -in has a folder OS-ARCH with the program for each platform. It also
// has man, completion, chart, gateway and dns (the image's programs, by architecture)
// and LICENSE.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release describes one release, and where its files come from and go to.
type release struct {
	version string // as in its tag, with a v
	commit  string
	at      time.Time // the time of all files
	url     string    // the URL below which the files can be downloaded
	in, out string
}

// number returns the version without its v.
func (r release) number() string { return strings.TrimPrefix(r.version, "v") }

// file is one file of an archive or a package.
type file struct {
	path string // in the archive; in a package, below /usr
	from string
	mode os.FileMode
}

const program = "liqo-tui"

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	var r release
	var seconds int64
	flags.StringVar(&r.version, "version", "", "version, as v1.2.3")
	flags.StringVar(&r.commit, "commit", "", "commit that was built")
	flags.Int64Var(&seconds, "time", 0, "time of all files, in seconds since 1970")
	flags.StringVar(&r.url, "url", "https://github.com/liqo-tui/liqo-tui/releases/download", "where releases can be downloaded")
	flags.StringVar(&r.in, "in", "", "folder with what was built")
	flags.StringVar(&r.out, "out", "", "folder to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.in == "" || r.out == "" || !strings.HasPrefix(r.version, "v") || seconds == 0 {
		return fmt.Errorf("-version, -time, -in and -out are needed")
	}
	r.at = time.Unix(seconds, 0).UTC()
	return r.pack()
}

func (r release) pack() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.archive(p); err != nil {
			return fmt.Errorf("archive for %s: %w", p, err)
		}
		if p.os == "linux" {
			if err := r.packages(p); err != nil {
				return fmt.Errorf("packages for %s: %w", p, err)
			}
		}
	}
	if err := r.chart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	if err := r.bills(platforms); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if err := r.manifests(platforms); err != nil {
		return err
	}
	return r.checksums()
}

// platform is one for which the program is built.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// binary returns the name of the program's file.
func (p platform) binary() string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// platforms returns the platforms with a program.
func (r release) platforms() ([]platform, error) {
	found, err := filepath.Glob(filepath.Join(r.in, "*-*", program+"*"))
	if err != nil {
		return nil, err
	}
	var all []platform
	for _, f := range found {
		os, arch, _ := strings.Cut(filepath.Base(filepath.Dir(f)), "-")
		all = append(all, platform{os, arch})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no program", r.in)
	}
	slices.SortFunc(all, func(a, b platform) int { return cmp.Or(cmp.Compare(a.os, b.os), cmp.Compare(a.arch, b.arch)) })
	return all, nil
}

// content returns the files of an archive or a package, except the program itself,
// sorted by path. rename returns the path of a file of a kind.
func (r release) content(dirs map[string]string, rename func(kind, name string) string) ([]file, error) {
	var all []file
	for kind, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(r.in, kind))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, file{dir + "/" + rename(kind, e.Name()), filepath.Join(r.in, kind, e.Name()), 0o644})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}
