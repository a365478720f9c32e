package kubeconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// writeConfig writes a kubeconfig. Its lines are given in short form: "context NAME CLUSTER USER", "cluster
// NAME URL", "user NAME TOKEN", "current NAME".
func writeConfig(t *testing.T, path string, lines ...string) string {
	t.Helper()
	sections := map[string]string{"context": "contexts:\n", "cluster": "clusters:\n", "user": "users:\n"}
	current := ""
	for _, line := range lines {
		f := strings.Fields(line)
		switch f[0] {
		case "context":
			sections["context"] += "- {name: " + f[1] + ", context: {cluster: " + f[2] + ", user: " + f[3] + "}}\n"
		case "cluster":
			sections["cluster"] += "- {name: " + f[1] + ", cluster: {server: " + f[2] + "}}\n"
		case "user":
			sections["user"] += "- {name: " + f[1] + ", user: {token: " + f[2] + "}}\n"
		case "current":
			current = f[1]
		}
	}
	text := "apiVersion: v1\nkind: Config\ncurrent-context: " + current + "\n" + sections["context"] + sections["cluster"] + sections["user"]
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// twoAdmins returns two files that both call their context "admin", as kubeadm does.
func twoAdmins(t *testing.T) (rome, milan string) {
	dir := t.TempDir()
	rome = writeConfig(t, filepath.Join(dir, "rome"), "current admin", "context admin k8s root", "context spare k8s root", "cluster k8s https://rome:6443", "user root r")
	milan = writeConfig(t, filepath.Join(dir, "milan"), "current admin", "context admin k8s root", "cluster k8s https://milan:6443", "user root m")
	return rome, milan
}

func TestEachFileHasItsOwnContexts(t *testing.T) {
	rome, milan := twoAdmins(t)
	t.Setenv("KUBECONFIG", rome+string(os.PathListSeparator)+filepath.Join(t.TempDir(), "absent")+string(os.PathListSeparator)+milan)
	got, problems := Contexts(nil)
	want := []Context{
		{Ref: flows.ContextRef{File: rome, Name: "admin"}, File: rome, Server: "https://rome:6443", User: "root", Current: true},
		{Ref: flows.ContextRef{Name: "spare"}, File: rome, Server: "https://rome:6443", User: "root"},
		{Ref: flows.ContextRef{File: milan, Name: "admin"}, File: milan, Server: "https://milan:6443", User: "root"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("got %v; a file that isn't there is no problem for kubectl's rules", problems)
	}
	for _, c := range got {
		config, found, err := Load(Choice{Context: c.Ref})
		if err != nil || config.Host != c.Server || found.File != c.File {
			t.Errorf("opening %s: got %v of %s, %v; want %s of %s", c.Ref, config, found.File, err, c.Server, c.File)
		}
	}
}

func TestContextIsFoundOrExplained(t *testing.T) {
	rome, milan := twoAdmins(t)
	dir := t.TempDir()
	copied := writeConfig(t, filepath.Join(dir, "copy"), "context spare other someone", "cluster other https://rome:6443", "user someone r")
	split := writeConfig(t, filepath.Join(dir, "split"), "current apart", "context apart k8s root", "context lost nowhere root", "context anonymous k8s nobody")
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("contexts: {not: [closed"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	for name, c := range map[string]struct {
		choice  Choice
		server  string // or
		problem string
		hint    string
	}{
		"by name and file":                      {Choice{Context: flows.ContextRef{File: milan, Name: "admin"}}, "https://milan:6443", "", ""},
		"the current one of the first file":     {Choice{Files: []string{milan, rome}}, "https://milan:6443", "", ""},
		"a name that one file has":              {Choice{Files: []string{milan, rome}, Context: flows.ContextRef{Name: "spare"}}, "https://rome:6443", "", ""},
		"a name that means the same everywhere": {Choice{Files: []string{rome, copied}, Context: flows.ContextRef{Name: "spare"}}, "https://rome:6443", "", ""},
		"cluster and user in another file":      {Choice{Files: []string{split, milan}}, "https://milan:6443", "", ""},
		"the same, with the context's file":     {Choice{Files: []string{split, milan}, Context: flows.ContextRef{File: split}}, "https://milan:6443", "", ""},
		"a name that means two clusters": {
			Choice{Files: []string{rome, milan}, Context: flows.ContextRef{Name: "admin"}},
			"",
			"context admin is in 2 kubeconfig files, and not the same in each",
			"choose a file with --kubeconfig: " + rome + " (https://rome:6443), " + milan + " (https://milan:6443)",
		},
		"an unknown name": {
			Choice{Context: flows.ContextRef{File: rome, Name: "romme"}},
			"",
			"no context romme of " + rome, "contexts there: admin, spare",
		},
		"no current one": {
			Choice{Files: []string{copied}},
			"",
			"no context is chosen, and no kubeconfig has a current one", "contexts there: spare",
		},
		"a cluster that is nowhere": {
			Choice{Context: flows.ContextRef{File: split, Name: "lost"}},
			"",
			"kubeconfig " + split + `: context "lost" names cluster "nowhere", which is not there`, "check --kubeconfig and KUBECONFIG",
		},
		"a user that is nowhere": {
			Choice{Files: []string{split, milan}, Context: flows.ContextRef{Name: "anonymous"}},
			"",
			"kubeconfig " + split + `: context "anonymous" names user "nobody", which is not there`, "check --kubeconfig and KUBECONFIG",
		},
		"a file that isn't there": {
			Choice{Context: flows.ContextRef{File: absent}},
			"",
			"kubeconfig " + absent + ": no such file or directory", "check --kubeconfig and KUBECONFIG",
		},
		"a folder": {Choice{Context: flows.ContextRef{File: dir}}, "", "kubeconfig " + dir + ": is a directory", "check --kubeconfig and KUBECONFIG"},
		"a file that is no kubeconfig": {
			Choice{Context: flows.ContextRef{File: broken}},
			"",
			"kubeconfig " + broken + ": ", "check --kubeconfig and KUBECONFIG",
		},
		"found in spite of a broken file": {Choice{Files: []string{broken, rome}, Context: flows.ContextRef{Name: "spare"}}, "https://rome:6443", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := Load(c.choice)
			if c.problem == "" {
				if err != nil {
					t.Fatal(err)
				}
				if config.Host != c.server {
					t.Errorf("got %s, want %s", config.Host, c.server)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.problem) {
				t.Fatalf("got error %v, want %s", err, c.problem)
			}
			hinted, ok := errors.AsType[interface {
				error
				Hint() command.Hint
			}](err)
			if !ok || hinted.Hint().String() != c.hint {
				t.Errorf("got hint %v, want %s", hinted, c.hint)
			}
		})
	}
}

// Flags replace parts of the kubeconfig's user, as with kubectl. The other parts stay.
func TestAnotherUserIsImpersonated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: k8s, cluster: {server: "https://rome:6443"}}],
contexts: [{name: plain, context: {cluster: k8s, user: plain}}, {name: bob, context: {cluster: k8s, user: bob}}],
users: [{name: plain, user: {token: x}}, {name: bob, user: {token: x, as: bob, as-groups: [ops]}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		context string
		instead command.Instead
		want    rest.ImpersonationConfig
		timeout time.Duration
		problem string
	}{
		"nobody":                   {"plain", command.Instead{}, rest.ImpersonationConfig{}, 0, ""},
		"of the kubeconfig":        {"bob", command.Instead{}, rest.ImpersonationConfig{UserName: "bob", Groups: []string{"ops"}}, 0, ""},
		"of flags":                 {"plain", command.Instead{As: "eve", AsGroups: []string{"dev", "qa"}, AsUID: "7", RequestTimeout: "2m"}, rest.ImpersonationConfig{UserName: "eve", Groups: []string{"dev", "qa"}, UID: "7"}, 2 * time.Minute, ""},
		"of both":                  {"bob", command.Instead{As: "eve", RequestTimeout: "7"}, rest.ImpersonationConfig{UserName: "eve", Groups: []string{"ops"}}, 7 * time.Second, ""},
		"another group":            {"bob", command.Instead{AsGroups: []string{"dev"}, RequestTimeout: "0"}, rest.ImpersonationConfig{UserName: "bob", Groups: []string{"dev"}}, 0, ""},
		"a group without its user": {"plain", command.Instead{AsGroups: []string{"dev"}}, rest.ImpersonationConfig{}, 0, "a group or UID is given to impersonate, and no user"},
		"a UID without its user":   {"plain", command.Instead{AsUID: "7"}, rest.ImpersonationConfig{}, 0, "a group or UID is given to impersonate, and no user"},
	} {
		config, _, err := Load(Choice{Context: flows.ContextRef{File: path, Name: c.context}, Instead: c.instead})
		if c.problem != "" {
			file, ok := errors.AsType[*Error](err)
			if !ok || !strings.HasSuffix(err.Error(), c.problem) || !strings.Contains(file.Hint().String(), "--as") {
				t.Errorf("%s: got %v, want %s", name, err, c.problem)
			}
			continue
		}
		if err != nil || cmp.Diff(c.want, config.Impersonate, cmpopts.EquateEmpty()) != "" || config.Timeout != c.timeout {
			t.Errorf("%s: got %+v within %s, %v; want %+v within %s", name, config.Impersonate, config.Timeout, err, c.want, c.timeout)
		}
	}
}

// minikube writes the time of its last change into the cluster.
func TestNotesOfProgramsMakeNoOtherContext(t *testing.T) {
	var files []string
	for _, noted := range []string{"Mon", "Tue"} {
		path := filepath.Join(t.TempDir(), "config")
		text := `{apiVersion: v1, kind: Config, clusters: [{name: k8s, cluster: {server: "https://rome:6443", extensions: [{name: cluster_info, extension: {last-update: ` + noted + `}}]}}],
contexts: [{name: rome, context: {cluster: k8s, user: ada}}], users: [{name: ada, user: {token: x}}]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	if _, found, err := Load(Choice{Files: files, Context: flows.ContextRef{Name: "rome"}}); err != nil || found.File != files[0] {
		t.Errorf("got %s, %v; want the first file's", found.File, err)
	}
}

// KUBECONFIG may name a missing file. If there is no other file, the error names it.
func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", path)
	want := "kubeconfig " + path + ": no such file or directory"
	for _, name := range []string{"", "rome"} {
		_, _, err := Load(Choice{Context: flows.ContextRef{Name: name}})
		if file, ok := errors.AsType[*Error](err); !ok || err.Error() != want || file.Hint().IsZero() {
			t.Errorf("context %q: got %v, want %s", name, err, want)
		}
	}
	contexts, problems := Contexts(nil)
	if len(contexts) > 0 || len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("got %v and %v, want %s", contexts, problems, want)
	}
}

func TestAKubeconfigWithoutContextsSaysWhereItLooked(t *testing.T) {
	path := writeConfig(t, filepath.Join(t.TempDir(), "config"))
	t.Setenv("KUBECONFIG", path)
	_, _, err := Load(Choice{})
	unknown, ok := errors.AsType[*ContextError](err)
	if !ok || err.Error() != "no context is chosen, and no kubeconfig has a current one" || !strings.Contains(unknown.Hint().String(), path) {
		t.Errorf("got %v", err)
	}
}

func TestAnUnreadableFileIsAProblemOfThatFile(t *testing.T) {
	rome, _ := twoAdmins(t)
	absent := filepath.Join(t.TempDir(), "absent")
	contexts, problems := Contexts([]string{rome, absent})
	if len(contexts) != 2 {
		t.Errorf("got %d contexts, want those of the other file", len(contexts))
	}
	if len(problems) != 1 || problems[0].File != absent || !errors.Is(problems[0], fs.ErrNotExist) {
		t.Errorf("got problems %v, want one with %s", problems, absent)
	}
}
