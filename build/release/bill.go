package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

func (r release) billName(name string) string { return name + "_" + r.number() + ".spdx.json" }

// bills writes which modules the programs contain, in SPDX. The linker has written
// the list of modules into the program of each platform, so nothing is guessed.
func (r release) bills(platforms []platform) error {
	var programs []string
	for _, p := range platforms {
		programs = append(programs, filepath.Join(r.in, p.String(), p.binary()))
	}
	of := map[string][]string{program: programs}
	for name, folder := range map[string]string{"liqo-gateway": "gateway", "liqo-tui-dns": "dns"} {
		var err error
		if of[name], err = filepath.Glob(filepath.Join(r.in, folder, "*")); err != nil {
			return err
		}
	}
	for name, binaries := range of {
		doc, err := r.bill(name, binaries)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var out bytes.Buffer
		if err := spdxjson.Write(doc, &out, spdxjson.Indent("  ")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := r.write(r.billName(name), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (r release) bill(name string, binaries []string) (*spdx.Document, error) {
	modules := map[string]string{} // by module: its version
	for _, file := range binaries {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		modules["stdlib"] = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m.Version
		}
	}
	if len(modules) < 2 {
		return nil, fmt.Errorf("%d programs name no modules", len(binaries))
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      name + "-" + r.number(),
		DocumentNamespace: fmt.Sprintf("https://github.com/liqo-tui/liqo-tui/spdx/%s-%s-%s", name, r.number(), r.commit),
		CreationInfo: &spdx.CreationInfo{
			Created: r.at.Format("2006-01-02T15:04:05Z"), Creators: []common.Creator{{CreatorType: "Tool", Creator: "liqo-tui-release"}},
		},
	}
	add := func(path, version, license string) {
		p := &spdx.Package{
			PackageName: path, PackageVersion: version, PackageSPDXIdentifier: identifier(path),
			PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
			PackageExternalReferences: []*spdx.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + path + "@" + version,
			}},
		}
		doc.Packages = append(doc.Packages, p)
		from, kind := identifier(name), "DEPENDS_ON"
		if path == name {
			from, kind = "DOCUMENT", "DESCRIBES"
		}
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(identifier(path))), Relationship: kind,
		})
	}
	add(name, r.version, "Apache-2.0")
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		add(path, modules[path], "NOASSERTION")
	}
	return doc, nil
}

var notInIdentifier = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

func identifier(path string) common.ElementID {
	return common.ElementID("Package-" + notInIdentifier.ReplaceAllString(path, "-"))
}
