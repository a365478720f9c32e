package command

import (
	"fmt"
	"slices"
)

// Hint is what an admin can do: a sentence, and the commands in it. The zero value is none.
type Hint struct {
	text     string
	commands []Command
}

// Hintf formats a sentence, and keeps the commands among args, those of other hints too.
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

// Text is a sentence without commands, such as what an error advises.
func Text(sentence string) Hint { return Hint{text: sentence} }

// Texts are sentences without commands.
func Texts(sentences ...string) []Hint {
	hints := make([]Hint, len(sentences))
	for i, s := range sentences {
		hints[i] = Text(s)
	}
	return hints
}

// Join makes one sentence of several ways.
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

// Commands are those of the sentence, in its order.
func (h Hint) Commands() []Command { return slices.Clone(h.commands) }

// IsZero reports whether there is nothing to say.
func (h Hint) IsZero() bool { return h.text == "" }

// Equal reports whether both say the same, and mean the same commands.
func (h Hint) Equal(o Hint) bool {
	return h.text == o.text && slices.EqualFunc(h.commands, o.commands, Command.Equal)
}
