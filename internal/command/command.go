// Package command has commands that an admin may paste, as values. Their words are joined and
// quoted in one place, and they name the kubeconfig that the admin has named.
package command

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// Program is the name of the admin's program, as it is typed.
const Program = "liqo-tui"

// Command is a command line. The zero value is no command. Methods return a new command, and do not
// change theirs.
type Command struct {
	args  []string
	admin string
}

// Cluster has the flags by which the admin reaches a cluster. Empty ones are left out.
type Cluster struct {
	Kubeconfigs            []string
	Context, Cluster, User string
	// Namespace is the namespace of Liqo or our operator; "" for the default one.
	Namespace string
}

// Ours is a command of this program: its subcommands, arguments and flags.
func Ours(words ...string) Command { return Of(Program, words...) }

// Kubectl is a kubectl command for the cluster.
func Kubectl(c Cluster, words ...string) Command {
	c.Namespace = ""
	return Of("kubectl", c.flags("")...).Add(words...)
}

// Helm is a helm command for the cluster.
func Helm(c Cluster, words ...string) Command {
	run := Of("helm", words...)
	for _, file := range c.Kubeconfigs {
		run = run.Flag("--kubeconfig", file)
	}
	if c.Context != "" {
		run = run.Flag("--kube-context", c.Context)
	}
	return run
}

// Of is a command of any program.
func Of(program string, words ...string) Command {
	return Command{args: slices.Concat([]string{program}, words)}
}

// On adds the flags by which our program finds its clusters: the local one, then the
// remote one.
func (c Command) On(clusters ...Cluster) Command {
	for i, cluster := range clusters {
		c = c.Add(cluster.flags([...]string{"", "remote-"}[i])...)
	}
	return c
}

func (c Cluster) flags(prefix string) (words []string) {
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+prefix+flag, value)
		}
	}
	for _, file := range c.Kubeconfigs {
		add("kubeconfig", file)
	}
	add("context", c.Context)
	add("cluster", c.Cluster)
	add("user", c.User)
	add("liqo-namespace", c.Namespace)
	return words
}

// Add adds words: subcommands, arguments, or flags.
func (c Command) Add(words ...string) Command {
	c.args = slices.Concat(c.args, words)
	return c
}

// Flag adds a flag and its value, such as "--mtu".
func (c Command) Flag(name, value string) Command { return c.Add(name, value) }

// For notes that the admin of another cluster runs the command: only that admin knows the cluster's
// context.
func (c Command) For(cluster string) Command {
	c = c.Flag("--context", "CONTEXT-OF-"+cluster)
	c.admin = cluster
	return c
}

// Args are the program and its arguments, as exec takes them; nil if there is no command.
func (c Command) Args() []string { return slices.Clone(c.args) }

// IsZero reports whether there is no command.
func (c Command) IsZero() bool { return len(c.args) == 0 }

// Equal reports whether both run the same, for the same admin.
func (c Command) Equal(o Command) bool { return slices.Equal(c.args, o.args) && c.admin == o.admin }

// String is the command as a text to be pasted on this machine: into a POSIX shell, or on Windows
// into PowerShell.
func (c Command) String() string {
	if runtime.GOOS == "windows" {
		return c.join(powerShell)
	}
	return c.join(Word)
}

func (c Command) join(quoted func(string) string) string {
	words := make([]string, len(c.args))
	for i, w := range c.args {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// MarshalJSON writes the arguments for programs, and the text for the admin.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Command []string `json:"command"`
		Text    string   `json:"text"`
		For     string   `json:"for,omitempty"` // ID of the cluster whose admin runs it, if not this one
	}{c.args, c.String(), c.admin})
}

// Word quotes a word for a POSIX shell, if it needs that. For zsh, a "=" at the beginning names a
// path.
func Word(word string) string {
	if plain(word, "-_./:@%+=,", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) && word[0] != '=' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// powerShell quotes a word for PowerShell 7.3 and later, if it needs that: about_Quoting_Rules,
// about_Parsing. For PowerShell, a word that begins with a dash is a parameter's name, which ends
// at a "." or ":": https://github.com/PowerShell/PowerShell/issues/6291. PowerShell takes
// typographic quotes for plain ones.
func powerShell(word string) string {
	marks := `-_./:\+=`
	if strings.HasPrefix(word, "-") {
		marks = "-_"
	}
	if plain(word, marks, func(r rune) bool { return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) }) {
		return word
	}
	return "'" + quotes.Replace(word) + "'"
}

var quotes = strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019", "\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b")

func plain(word, marks string, letter func(rune) bool) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !letter(r) && !strings.ContainsRune(marks, r) })
}
