package main

import (
	"fmt"
	"strings"
	"text/template"
)

// asset is an archive in the form that package managers need.
type asset struct {
	OS, Arch, URL, Digest, Binary string
}

func (r release) assets(platforms []platform) ([]asset, error) {
	var all []asset
	for _, p := range platforms {
		name := r.archiveName(p)
		sum, err := r.digest(name)
		if err != nil {
			return nil, err
		}
		all = append(all, asset{p.os, p.arch, fmt.Sprintf("%s/%s/%s", r.url, r.version, name), sum, p.binary()})
	}
	return all, nil
}

// manifests writes a formula for Homebrew and a manifest for krew.
func (r release) manifests(platforms []platform) error {
	assets, err := r.assets(platforms)
	if err != nil {
		return err
	}
	data := map[string]any{"Version": r.version, "Number": r.number(), "Assets": assets}
	for name, t := range map[string]*template.Template{program + ".rb": formula, program + ".krew.yaml": krew} {
		var out strings.Builder
		if err := t.Execute(&out, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := r.write(name, []byte(out.String())); err != nil {
			return err
		}
	}
	return nil
}

// Homebrew's names for systems and processors
var formula = template.Must(template.New("formula").Funcs(template.FuncMap{
	"system": func(os string) string { return map[string]string{"darwin": "macos", "linux": "linux"}[os] },
	"cpu":    func(arch string) string { return map[string]string{"amd64": "intel", "arm64": "arm"}[arch] },
}).Parse(`class LiqoTui < Formula
  desc "Connect the pod networks of two Kubernetes clusters"
  homepage "https://github.com/liqo-tui/liqo-tui"
  version "{{ .Number }}"
  license "Apache-2.0"
{{ range .Assets }}{{ with system .OS }}
  on_{{ . }} do
{{- end }}{{ if system .OS }}
    on_{{ cpu .Arch }} do
      url "{{ .URL }}"
      sha256 "{{ .Digest }}"
    end
  end
{{ end }}{{ end }}
  def install
    bin.install "liqo-tui"
    man1.install Dir["man/*.1"]
    bash_completion.install "completion/liqo-tui.bash" => "liqo-tui"
    zsh_completion.install "completion/liqo-tui.zsh" => "_liqo-tui"
    fish_completion.install "completion/liqo-tui.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/liqo-tui version")
  end
end
`))

// The plug-in has the same commands as the program. With other words, nobody would
// find it.
var krew = template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: liqo-tui
spec:
  version: {{ .Version }}
  homepage: https://github.com/liqo-tui/liqo-tui
  shortDescription: Connect the pod networks of two clusters
  description: |
    Connects the pod networks of two Kubernetes clusters through an encrypted
    tunnel, also when both use the same addresses. Shows a plan before it
    changes anything, and says what is wrong from both sides.
  platforms:
{{- range .Assets }}
  - selector:
      matchLabels: {os: {{ .OS }}, arch: {{ .Arch }}}
    uri: {{ .URL }}
    sha256: {{ .Digest }}
    bin: {{ .Binary }}
    files:
    - {from: {{ .Binary }}, to: .}
    - {from: LICENSE, to: .}
{{- end }}
`))
