package frozen

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

const sample = `
-- go.mod --
module example.com

go 1.26
-- theirs/theirs.go --
package theirs

type Meta struct{ Name string }

type ObjectMeta struct {
	Name                string
	Labels, Annotations map[string]string
}

func (o *ObjectMeta) GetLabels() map[string]string { return o.Labels }

type Service struct{ ObjectMeta }

type Role struct{ ObjectMeta }

type Condition struct{ Type, Reason string }

type FieldOwner string

type Recorder interface{ Eventf(about any, kind, reason string) }

func Write(o *Service, owner FieldOwner) {}

func Getenv(string) string { return "" }
-- ours/names/names.go --
package names

type Word string

const (
	Good   Word = "good"
	Bad    Word = "bad"
	Domain      = "example.dev/key"
)

func Gateway(of string) string { return "gw-" + of }

func Hosts(of string) string { return Gateway(of) + "-hosts" }
-- ours/ours.go --
package ours

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"example.com/ours/names"
	"example.com/theirs"
)

type maker struct{ name string }

func (m maker) meta(name string) theirs.ObjectMeta {
	return theirs.ObjectMeta{Name: name, Labels: m.labels("of-argument"), Annotations: map[string]string{names.Domain: ""}}
}

func (m maker) labels(key string) map[string]string {
	all := map[string]string{"of-literal": ""}
	all["of-assignment"] = ""
	all[key] = ""
	return all
}

func (m maker) service() *theirs.Service { return &theirs.Service{ObjectMeta: m.meta(names.Hosts(m.name))} }

func (m maker) role(n int) *theirs.Role {
	return &theirs.Role{ObjectMeta: theirs.ObjectMeta{Name: fmt.Sprintf("role-%s-%d", cmp.Or(m.name, "none"), n)}}
}

func decide(bad bool) (string, string) {
	if bad {
		return "Type", "OfResult"
	}
	return "Type", string(names.Good)
}

func conditions(say func(reason string)) (all []theirs.Condition) {
	one := func(reason string) { all = append(all, theirs.Condition{Type: "Closure", Reason: reason + "Accepted"}) }
	one("OfClosure")
	var c theirs.Condition
	c.Type, c.Reason = decide(true)
	for _, reason := range []string{"OfLoop", "OfLoopToo"} {
		c.Reason = reason
	}
	for reason := range map[string]int{"OfKey": 1} {
		c.Reason = reason
	}
	say("OfCallback")
	return append(all, c)
}

func write(r theirs.Recorder, s *theirs.Service) {
	conditions(func(reason string) { r.Eventf(s, "kind", reason) })
	const owner = "manager"
	theirs.Write(s, owner)
	if s.Labels["of-read"] == "" && s.GetLabels()["of-getter"] == "" {
		open(theirs.Getenv)
	}
}

func open(env func(string) string) string { return filepath.Join(env("HOME_OF"), "dir", "file.yaml") }

type document struct {
	Kept  string     ` + "`json:\"kept\"`" + `
	Word  names.Word ` + "`json:\"word,omitempty\"`" + `
	Parts []part     ` + "`json:\"parts\"`" + `
	not   int
	Bare  map[string]untagged
}

type part struct {
	Size int ` + "`json:\"size\"`" + `
}

type untagged struct{ Field bool }

type alone struct{ Inner untagged }

func print() {
	text(alone{})
	text(document{})
	write(nil, maker{}.service())
	maker{}.role(1)
}

type files map[string]int

func (f files) each() {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		_ = theirs.Getenv(name)
	}
}

func bundle() {
	f := files{}
	f["OF_RECEIVER"] = 1
	f.each()
}

func text(v any) { _, _ = json.Marshal(v) }
`

func TestValuesAreFoundHoweverTheyGetThere(t *testing.T) {
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(sample)).Files {
		file := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(dir, "example.com/ours", "./ours")
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile
	for _, of := range []struct {
		what string
		got  []string
		want string
	}{
		{"constants", s.Constants(re(`^example\.dev/`)), "example.dev/key"},
		{"labels", s.Keys(re(`^ObjectMeta$`), re(`^Labels$`)), "of-argument of-assignment of-getter of-literal of-read"},
		{"annotations", s.Keys(re(`^ObjectMeta$`), re(`^Annotations$`)), "example.dev/key"},
		{"types", s.Fields(re(`^Condition$`), re(`^Type$`)), "Closure Type"},
		{"reasons", s.Fields(re(``), re(`^Reason$`)), "good OfClosureAccepted OfKey OfLoop OfLoopToo OfResult"},
		{"managers", s.Conversions("FieldOwner"), "manager"},
		{"events", s.Arguments(re(`Eventf$`), 2), "OfCallback"},
		{"environment", s.Arguments(re(`Getenv$`), 0), "HOME_OF OF_RECEIVER"},
		{"files", s.Arguments(re(`path/filepath\.Join$`), 1), "dir"},
		{"objects", s.Objects(), "Role role-none-1 Service gw-*-hosts"},
		{"documents", s.Documents(), "{Bare, kept, parts, word} Bare{}.Field: bool Bare{}: object kept: string parts[].size: int parts[]: object word: string: bad|good (omitempty) {Inner} Inner.Field: bool Inner: object"},
	} {
		if diff := cmp.Diff(of.want, strings.Join(strings.Fields(strings.Join(of.got, " ")), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of.what, diff)
		}
	}
}
