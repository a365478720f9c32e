package command_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

func TestCommandNamesWhatTheAdminHasNamed(t *testing.T) {
	rome := command.Cluster{Kubeconfigs: []string{"my configs/kc"}, Context: "rome (prod)", Namespace: "liqo-sys"}
	milan := command.Cluster{Context: "milan", Instead: command.Instead{Cluster: "m2", User: "ada"}}
	turin := command.Cluster{Context: "turin", Instead: command.Instead{As: "bob b", AsGroups: []string{"dev", "ops"}, AsUID: "7", RequestTimeout: "1m"}}
	for _, c := range []struct {
		name string
		got  command.Command
		want string
	}{
		{
			"of two clusters", command.Ours("network", "verify").On(rome, milan).Flag("--mtu", "1340"),
			"liqo-tui network verify --kubeconfig 'my configs/kc' --context 'rome (prod)' --liqo-namespace liqo-sys --remote-context milan --remote-cluster m2 --remote-user ada --mtu 1340",
		},
		{
			"as another user", command.Ours("network", "reset").On(turin, turin),
			"liqo-tui network reset --context turin --as 'bob b' --as-group dev --as-group ops --as-uid 7 --request-timeout 1m --remote-context turin --remote-as 'bob b' --remote-as-group dev --remote-as-group ops --remote-as-uid 7 --remote-request-timeout 1m",
		},
		{"of kubectl as another user", command.Kubectl(turin, "get", "pods"), "kubectl --context turin --as 'bob b' --as-group dev --as-group ops --as-uid 7 get pods"},
		{"of Helm as another user", command.Helm(turin, "list"), "helm list --kube-context turin --kube-as-user 'bob b' --kube-as-group dev --kube-as-group ops"},
		{
			"of kubectl, which knows no namespace of Liqo", command.Kubectl(rome, "-n", "liqo", "get", "pods"),
			"kubectl --kubeconfig 'my configs/kc' --context 'rome (prod)' -n liqo get pods",
		},
		{"of Helm", command.Helm(rome, "uninstall", "net"), "helm uninstall net --kubeconfig 'my configs/kc' --kube-context 'rome (prod)'"},
		{"of Helm, and the current context", command.Helm(command.Cluster{}, "list"), "helm list"},
		{"of the current context", command.Ours("check").On(command.Cluster{}), "liqo-tui check"},
		{"of two files", command.Ours("check").On(command.Cluster{Kubeconfigs: []string{"a", "b"}}), "liqo-tui check --kubeconfig a --kubeconfig b"},
		{"for the other admin", command.Ours("unpeer", "--local-only").For("milan"), "liqo-tui unpeer --local-only --context CONTEXT-OF-milan"},
		{"none", command.Command{}, ""},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.got, c.want)
		}
		if c.got.IsZero() != (c.want == "") {
			t.Errorf("%s: zero: %v", c.name, c.got.IsZero())
		}
	}
}

func TestCommandsOfOneBeginningAreTheirOwn(t *testing.T) {
	begin := command.Ours("network").Add("connect")
	a, b := begin.Flag("--mtu", "1"), begin.Flag("--port", "2")
	if a.String() != "liqo-tui network connect --mtu 1" || b.String() != "liqo-tui network connect --port 2" {
		t.Errorf("got %s and %s", a, b)
	}
	a.Args()[0] = "other"
	if a.Args()[0] != command.Program {
		t.Error("a caller can change a command by its arguments")
	}
}

func TestCommandAsJSON(t *testing.T) {
	for _, c := range []struct {
		command command.Command
		want    string
	}{
		{command.Ours("check", "a b"), `{"command":["liqo-tui","check","a b"],"text":"liqo-tui check 'a b'"}`},
		{command.Ours("check").For("milan"), `{"command":["liqo-tui","check","--context","CONTEXT-OF-milan"],"text":"liqo-tui check --context CONTEXT-OF-milan","for":"milan"}`},
	} {
		if got, err := json.Marshal(c.command); err != nil || string(got) != c.want {
			t.Errorf("got %s, %v\nwant %s", got, err, c.want)
		}
	}
}

func TestHintKeepsItsCommands(t *testing.T) {
	check, connect := command.Ours("check"), command.Ours("network", "connect")
	first := command.Hintf("see what is broken: %s", check)
	h := command.Hintf("%s; or let %s host the server: %s", first, "milan", connect)
	if want := "see what is broken: liqo-tui check; or let milan host the server: liqo-tui network connect"; h.String() != want {
		t.Errorf("got %s", h)
	}
	both := command.Join([]command.Hint{first, command.Text("100 % of it"), command.Hintf("%s", connect)}, "; or ")
	if want := "see what is broken: liqo-tui check; or 100 % of it; or liqo-tui network connect"; both.String() != want {
		t.Errorf("got %s", both)
	}
	for _, got := range []command.Hint{h, both} {
		if !slices.EqualFunc(got.Commands(), []command.Command{check, connect}, command.Command.Equal) {
			t.Errorf("%s: got commands %v", got, got.Commands())
		}
	}
	if !(command.Hint{}).IsZero() || h.IsZero() || !h.Equal(h) || h.Equal(command.Text(h.String())) { //nolint:gocritic // equal to itself
		t.Error("a hint is told from others by its text and its commands")
	}
}

// argv runs a line in the shell. The line begins with a program that prints its arguments, each with a NUL
// after it, and argv returns them.
func argv(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `liqo() { printf '%s\0' "$@"; }; liqo `+line).Output()
	if err != nil {
		t.Fatalf("sh -c %q: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func checkQuoting(t *testing.T, words ...string) {
	t.Helper()
	c := command.Ours(words...).On(command.Cluster{Kubeconfigs: words[:1]})
	if got := argv(t, c.String()); !slices.Equal(got, c.Args()) {
		t.Errorf("%s:\n got %q\nwant %q", c, got, c.Args())
	}
}

var hostile = []string{
	"", " ", "a b", "rome (prod)", "it's", `a"b`, `\`, `a\`, "$HOME", "$(id)", "`id`", "a;b", "a&b", "a|b", "a>b", "<a", "*", "?", "[a]", "{a,b}", "~", "~root",
	"#a", "a#b", "!a", "^", "=ls", "a=b", "-n", "--", "--a=b c", "\n", "a\nb", "\t", "\r", "é", "日本", "\u00a0", "’", "\xff", "a\xffb", "%s", "''", "'", "'a'",
}

func TestShellReadsTheSameArguments(t *testing.T) {
	for _, w := range hostile {
		checkQuoting(t, w, "end")
	}
	checkQuoting(t, hostile...)
}

func FuzzQuoting(f *testing.F) {
	for i, w := range hostile {
		f.Add(w, hostile[len(hostile)-1-i])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Contains(a+b, "\x00") {
			t.Skip("no argument of a program has a NUL")
		}
		checkQuoting(t, a, b)
		if utf8.ValidString(a) {
			if got, ok := command.ReadPowerShell(command.PowerShell(a)); !ok || got != a {
				t.Errorf("PowerShell: %q is read as %q", command.PowerShell(a), got)
			}
		}
	})
}
