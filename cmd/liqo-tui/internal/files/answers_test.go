package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
)

func TestAnswersAreKeptForTheirPair(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "liqo-tui", "answers.yaml")
	rome, milan := flows.ContextRef{Name: "rome"}, flows.ContextRef{File: "/home/ada/milan", Name: "admin"}
	chosen := flows.Defaults()
	chosen.Server, chosen.ServiceType, chosen.NodePort, chosen.MTU, chosen.Wait = flows.A, "NodePort", 31840, 1280, flows.WaitVerified
	chosen.ClientAddress = "gw.example.org" // not chosen, but adopted
	chosen.Given = flows.FieldServer | flows.FieldServiceType | flows.FieldNodePort | flows.FieldMTU
	if err := ReadAnswers(file).Keep(rome, milan, chosen); err != nil {
		t.Fatal(err)
	}
	if err := ReadAnswers(file).Keep(milan, rome, flows.Defaults()); err != nil { // another pair
		t.Fatal(err)
	}
	given := flows.Defaults()
	given.MTU, given.Given = 1300, flows.FieldMTU // on the command line
	got, ok := ReadAnswers(file).Complete(rome, milan, given)
	want := chosen
	want.MTU, want.ClientAddress = 1300, ""
	if !ok || got != want {
		t.Errorf("got %+v %v, want %+v", got, ok, want)
	}
	for _, pair := range [][2]flows.ContextRef{{milan, rome}, {rome, rome}} {
		if got, ok := ReadAnswers(file).Complete(pair[0], pair[1], given); ok || got != given {
			t.Errorf("%v: got %+v %v", pair, got, ok)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want a file for its owner only", info.Mode(), err)
	}
}

func TestAFileOfAnswersThatIsBrokenIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.yaml")
	rome := flows.ContextRef{Name: "rome"}
	for _, text := range []string{"[", "a: b", "- a: {context: rome}\n  b: {context: rome}\n  values: {mtu: large, node-port: -1, colour: red}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := ReadAnswers(file).Complete(rome, rome, flows.Defaults()); ok || got != flows.Defaults() {
			t.Errorf("%q: got %+v %v", text, got, ok)
		}
	}
}
