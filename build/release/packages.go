package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each kind of package registers itself
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packageKinds are the kinds of packages for Linux in every release.
var packageKinds = []string{"deb", "rpm", "apk"}

func (r release) packageName(p platform, kind string) string {
	return fmt.Sprintf("%s_%s_%s_%s.%s", program, r.number(), p.os, p.arch, kind)
}

func (r release) packages(p platform) error {
	content, err := r.content(map[string]string{"man": "share/man/man1", "completion": "share"}, func(kind, name string) string {
		if kind == "man" {
			return name
		}
		return map[string]string{
			"bash": "bash-completion/completions/" + program, "zsh": "zsh/site-functions/_" + program, "fish": "fish/vendor_completions.d/" + program + ".fish",
		}[strings.TrimPrefix(filepath.Ext(name), ".")]
	})
	if err != nil {
		return err
	}
	content = append(content,
		file{"bin/" + program, filepath.Join(r.in, p.String(), program), 0o755},
		file{"share/doc/" + program + "/copyright", filepath.Join(r.in, "LICENSE"), 0o644})
	for _, kind := range packageKinds {
		info := &nfpm.Info{
			Name: program, Arch: p.arch, Platform: p.os, Version: r.version, Section: "net", Priority: "optional",
			Maintainer:  "liqo-tui <https://github.com/liqo-tui/liqo-tui>",
			Description: "Connect the pod networks of two Kubernetes clusters\nthrough an encrypted tunnel, also when both use the same addresses.",
			Homepage:    "https://github.com/liqo-tui/liqo-tui", License: "Apache-2.0", MTime: r.at,
			Overridables: nfpm.Overridables{RPM: nfpm.RPM{BuildHost: "localhost"}}, // the machine's name is useless to readers
		}
		for _, f := range content {
			if strings.HasSuffix(f.path, "/") { // there is no folder for PowerShell's completion on Linux
				continue
			}
			info.Contents = append(info.Contents, &files.Content{
				Source: f.from, Destination: "/usr/" + f.path, FileInfo: &files.ContentFileInfo{Mode: f.mode, MTime: r.at, Owner: "root", Group: "root"},
			})
		}
		packager, err := nfpm.Get(kind)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		var out bytes.Buffer
		if err := nfpm.PrepareForPackager(info, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := packager.Package(info, &out); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := r.write(r.packageName(p, kind), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
