// Package command represents command lines for the admin as values. It joins and quotes the words
// of a command line in one place. A command for a cluster contains the same kubeconfig and context
// by which the admin reached the cluster.
package command

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// Program is the name of the admin's program in a shell.
const Program = "liqo-tui"

// Command is a command line. The zero value means that there is no command. No method changes its
// receiver: each one returns a new Command.
type Command struct {
	args  []string
	admin string // see [Command.For]
}

// Cluster holds the values of the flags by which the admin reaches a cluster. A command contains no
// flag for an empty value.
type Cluster struct {
	Kubeconfigs []string
	Context     string
	Instead
	// Namespace is the namespace of Liqo or our operator; "" for the default namespace.
	Namespace string
}

// Instead holds the flags that replace values of the kubeconfig's context.
type Instead struct {
	Cluster, User string
	// As, AsUID and AsGroups name the user and the groups that we impersonate, like kubectl --as.
	As, AsUID string
	AsGroups  []string
	// RequestTimeout is the longest silence of the API server. Only our program gets it, because kubectl
	// would also end logs and watches after this time.
	RequestTimeout string
}

// Ours returns a command of this program. words are its subcommands, arguments and flags.
func Ours(words ...string) Command { return Of(Program, words...) }

// Kubectl returns a kubectl command for the cluster.
func Kubectl(c Cluster, words ...string) Command {
	c.Namespace, c.RequestTimeout = "", ""
	return Of("kubectl", c.flags("")...).Add(words...)
}

// Helm returns a helm command for the cluster.
func Helm(c Cluster, words ...string) Command {
	run := Of("helm", words...)
	for _, file := range c.Kubeconfigs {
		run = run.Flag("--kubeconfig", file)
	}
	if c.Context != "" {
		run = run.Flag("--kube-context", c.Context)
	}
	if c.As != "" {
		run = run.Flag("--kube-as-user", c.As)
	}
	for _, group := range c.AsGroups {
		run = run.Flag("--kube-as-group", group)
	}
	return run
}

// Of returns a command of any program.
func Of(program string, words ...string) Command {
	return Command{args: slices.Concat([]string{program}, words)}
}

// On adds the flags by which our program reaches its clusters. The first cluster is the local
// cluster, the second the remote cluster.
func (c Command) On(clusters ...Cluster) Command {
	for i, cluster := range clusters {
		c = c.Add(cluster.flags([...]string{"", "remote-"}[i])...)
	}
	return c
}

// flags returns the flags for a cluster, with a prefix such as "remote-" before their names.
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
	add("as", c.As)
	for _, group := range c.AsGroups {
		add("as-group", group)
	}
	add("as-uid", c.AsUID)
	add("request-timeout", c.RequestTimeout)
	add("liqo-namespace", c.Namespace)
	return words
}

// Add adds words, which may be subcommands, arguments, or flags.
func (c Command) Add(words ...string) Command {
	c.args = slices.Concat(c.args, words)
	return c
}

// Flag adds a flag and its value, such as "--mtu".
func (c Command) Flag(name, value string) Command { return c.Add(name, value) }

// For notes that the admin of another cluster has to run the command. It adds a placeholder for the
// context of that cluster, because only its admin knows the context.
func (c Command) For(cluster string) Command {
	c = c.Flag("--context", "CONTEXT-OF-"+cluster)
	c.admin = cluster
	return c
}

// Args returns the program and its arguments, in the form that package os/exec takes; nil if there
// is no command.
func (c Command) Args() []string { return slices.Clone(c.args) }

// IsZero reports whether there is no command.
func (c Command) IsZero() bool { return len(c.args) == 0 }

// Equal reports whether two commands have the same words and are for the same admin.
func (c Command) Equal(o Command) bool { return slices.Equal(c.args, o.args) && c.admin == o.admin }

// String returns the command as a text that the admin can paste into a POSIX shell; on Windows, into
// PowerShell.
func (c Command) String() string {
	if runtime.GOOS == "windows" {
		return c.join(powerShell)
	}
	return c.join(Word)
}

// join returns the words with spaces between them, after quoted has quoted each word.
func (c Command) join(quoted func(string) string) string {
	words := make([]string, len(c.args))
	for i, w := range c.args {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// MarshalJSON writes the command in two forms: the list of words for programs, and the text for the
// admin.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Command []string `json:"command"`
		Text    string   `json:"text"`
		For     string   `json:"for,omitempty"` // the ID of the other cluster whose admin has to run the command
	}{c.args, c.String(), c.admin})
}

// Word quotes a word for a POSIX shell, if the shell would change the word otherwise. It also quotes
// a word that begins with "=", because zsh replaces such a word by the path of a program.
func Word(word string) string {
	if plain(word, "-_./:@%+=,", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) && word[0] != '=' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// powerShell quotes a word for PowerShell 7.3 and later, if PowerShell would change the word
// otherwise. The rules are in PowerShell's help pages about_Quoting_Rules and about_Parsing.
// PowerShell takes a word that begins with a dash for the name of a parameter, and ends the name at
// a "." or ":" (https://github.com/PowerShell/PowerShell/issues/6291). It treats typographic quotes
// like plain quotes.
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

// quotes doubles all characters that PowerShell takes for single quotes.
var quotes = strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019", "\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b")

// plain reports whether a word needs no quotes: it is not empty, and each character is a letter by
// the function letter, or one of marks.
func plain(word, marks string, letter func(rune) bool) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !letter(r) && !strings.ContainsRune(marks, r) })
}
