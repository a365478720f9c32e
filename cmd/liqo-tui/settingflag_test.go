package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// withCable adds a setting to the table of this program, until the test ends.
func withCable(t *testing.T) {
	t.Helper()
	cable := "red"
	before := connectionSettings
	t.Cleanup(func() { connectionSettings = before })
	connectionSettings = append(flows.Settings(), flows.ConnectionSetting{
		Name: "cable", Liqoctl: "gw-cable", Help: "colour of the cable", Kind: setting.Choice,
		Options: []setting.Option{{Value: "red"}, {Value: "blue"}},
		Store:   setting.Store[flows.Params]{Write: func(flows.Params) string { return cable }, Read: func(_ *flows.Params, text string) { cable = text }},
	})
}

// An entry of the table is all that a setting needs here. The form and the
// questions have tests of their own.
func TestASettingOfTheTableIsEverywhere(t *testing.T) {
	withCable(t)
	folder := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", folder)
	file := filepath.Join(folder, "many.yaml")
	const many = "peerings:\n- context: rome\n  remote-context: milan\n  cable: green\n"
	if err := os.WriteFile(file, []byte(many), 0o600); err != nil {
		t.Fatal(err)
	}
	connect := []string{"network", "connect", "--context", "rome", "--remote-context", "milan"}
	for name, test := range map[string]struct {
		env  string
		args []string
		want string
	}{
		"flag":              {"", append(connect, "--cable=green"), `error: --cable "green": want red or blue`},
		"liqoctl's flag":    {"", append(connect, "--gw-cable=green"), `error: --cable "green": want red or blue`},
		"environment":       {"green", connect, `error: LIQO_TUI_CABLE: --cable "green": want red or blue`},
		"file":              {"", []string{"network", "connect", "-f", file}, file + `:4: --cable "green": want red or blue`},
		"help":              {"", []string{"network", "connect", "--help"}, "colour of the cable"},
		"completion":        {"", []string{"__complete", "network", "connect", "--cable", ""}, "red\nblue\n:4"},
		"completed name":    {"", []string{"__complete", "network", "connect", "--cab"}, "--cable\tcolour of the cable"},
		"manual":            {"", []string{"man", folder}, ""},
		"the file's schema": {"", []string{"explain", "peerings-schema"}, `"cable": {`},
	} {
		if test.env != "" {
			t.Setenv("LIQO_TUI_CABLE", test.env)
		}
		var out, errs bytes.Buffer
		run(test.args, strings.NewReader(""), &out, &errs)
		if got := out.String() + errs.String(); !strings.Contains(got, test.want) {
			t.Errorf("%s: got\n%s\nwant %q in it", name, got, test.want)
		}
		if err := os.Unsetenv("LIQO_TUI_CABLE"); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(folder, "liqo-tui-network-connect.1"))
	if err != nil || !strings.Contains(string(page), "colour of the cable") {
		t.Errorf("the manual page of network connect says nothing of the setting (%v)", err)
	}
	pair := &pairFlags{local: clusterFlags{namespace: wire.DefaultNamespace}, remote: clusterFlags{namespace: wire.DefaultNamespace}}
	p := flows.Defaults()
	if got, want := connectCommandLine(pair, p).String(), "liqo-tui network connect"; got != want {
		t.Errorf("got the command %q, want %q", got, want)
	}
	if err := fitsSchema(t, strings.Replace(many, "green", "blue", 1)); err != nil {
		t.Errorf("the schema refuses blue: %v", err)
	}
	if fitsSchema(t, many) == nil {
		t.Error("the schema takes green")
	}
}

// fitsSchema holds a file of peerings against the schema.
func fitsSchema(t *testing.T, file string) error {
	t.Helper()
	var out bytes.Buffer
	run([]string{"explain", "peerings-schema"}, strings.NewReader(""), &out, &out)
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("peerings.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("peerings.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// What the schema says of a file and what the program says of it is the same.
func TestTheSchemaOfPeeringsKnowsTheirKeys(t *testing.T) {
	for file, good := range map[string]bool{
		"defaults: {server-service-type: NodePort}\npeerings:\n- {context: rome, remote-context: milan, mtu: 1280}\n":        true,
		"peerings:\n- {context: rome, remote-context: milan, mtu: auto, server-location: auto, node-port: 0}\n":              true,
		"peerings:\n- {context: rome, remote-kubeconfig: [a, b], install: true, image: x, remote-cluster-id: m, wait: none}": true,
		"peerings:\n- {context: rome, remote-context: milan, speed: high}\n":                                                 false,
		"peerings:\n- {context: rome, remote-context: milan, mtu: 1}\n":                                                      false,
		"peerings:\n- {context: rome, remote-context: milan, server-port: 0}\n":                                              false,
		"peerings:\n- {context: rome, remote-context: milan, server-service-type: Pigeon}\n":                                 false,
		"peerings:\n- {context: rome, remote-context: milan, install: perhaps}\n":                                            false,
		"peerings: []\n": false,
	} {
		if err := fitsSchema(t, file); (err == nil) != good {
			t.Errorf("the schema says of %q: %v", file, err)
		}
		path := filepath.Join(t.TempDir(), "many.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, flags, _ := newPeering()
		if _, err := files.ReadPairs(path, flags, newPeering); (err == nil) != good {
			t.Errorf("the program says of %q: %v", file, err)
		}
	}
}

// Flags that can be repeated reach the rows of a file as they were given.
func TestRepeatedFlagsAreThoseOfEachPair(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "many.yaml")
	if err := os.WriteFile(path, []byte("peerings:\n- {context: rome, remote-context: milan}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given, flags, _ := newPeering()
	for _, words := range [][2]string{{"kubeconfig", "a"}, {"kubeconfig", "b"}, {"as", "bob"}, {"as-group", "dev"}, {"as-group", "ops"}} {
		if err := flags.Set(words[0], words[1]); err != nil {
			t.Fatal(err)
		}
	}
	all, err := files.ReadPairs(path, flags, newPeering)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	if got, want := all[0].pair.local, given.pair.local; !slices.Equal(got.files, want.files) || !reflect.DeepEqual(got.Instead, want.Instead) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
