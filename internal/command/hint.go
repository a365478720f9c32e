package command

import (
	"fmt"
	"slices"
)

// Hint is advice for an admin: a sentence, and the commands in it. The zero value means that there is no
// advice.
type Hint struct {
	text     string
	commands []Command
}

// Hintf formats a sentence, and keeps the commands in args, including the commands of hints in args.
func Hintf(format string, args ...any) Hint {
	h := Hint{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		switch a := a.(type) {
		case Command:
			h.commands = append(h.commands, a)
		case Hint:
			h.commands = append(h.commands, a.commands...)
		}
	}
	return h
}

// Text returns a sentence without commands, such as the advice of an error.
func Text(sentence string) Hint { return Hint{text: sentence} }

// Texts returns sentences without commands.
func Texts(sentences ...string) []Hint {
	hints := make([]Hint, len(sentences))
	for i, s := range sentences {
		hints[i] = Text(s)
	}
	return hints
}

// Join makes one sentence of alternatives.
func Join(ways []Hint, separator string) (all Hint) {
	for i, h := range ways {
		if i > 0 {
			all.text += separator
		}
		all.text += h.text
		all.commands = append(all.commands, h.commands...)
	}
	return all
}

func (h Hint) String() string { return h.text }

// Commands returns the commands in the sentence, in order.
func (h Hint) Commands() []Command { return slices.Clone(h.commands) }

// IsZero reports whether there is no advice.
func (h Hint) IsZero() bool { return h.text == "" }

// Equal reports whether both have the same sentence and the same commands.
func (h Hint) Equal(o Hint) bool {
	return h.text == o.text && slices.EqualFunc(h.commands, o.commands, Command.Equal)
}
