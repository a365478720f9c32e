package keys

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// Command is an action of the admin on a screen, by its key or from the palette. The keys,
// the help and the palette are made from commands.
type Command struct {
	key.Binding
	Msg tea.Msg // the screen, or else the program, does the action when it gets this message
	// Quiet is set for commands that only move the selection or the text. The help shows
	// them, the palette does not.
	Quiet bool
	// Shown is set if the command has its own row on the screen. The last line then leaves
	// it out.
	Shown bool
	Group Group
}

// Group is the group of a command in the help.
type Group uint8

// The groups, in the order of the help.
const (
	Here Group = iota // the main commands of the screen
	Look
	Arrange
	Move
	Everywhere
	Groups // the number of groups
)

func (g Group) String() string {
	return [...]string{"On this screen", "Look at", "Arrange", "Move", "Everywhere"}[g]
}

// In returns commands with a group.
func In(g Group, commands ...Command) []Command {
	for i := range commands {
		commands[i].Group = g
	}
	return commands
}

// MoveMsg moves the selection of a list down by a number of rows.
type MoveMsg int

// Moving returns the commands that move in a list.
func (k Map) Moving() []Command {
	const far = 1 << 20
	return In(Move, []Command{
		{Binding: k.Up, Msg: MoveMsg(-1), Quiet: true},
		{Binding: k.Down, Msg: MoveMsg(+1), Quiet: true},
		{Binding: k.Top, Msg: MoveMsg(-far), Quiet: true},
		{Binding: k.Bottom, Msg: MoveMsg(+far), Quiet: true},
	}...)
}

// Column returns the width of a column with the keys of commands.
func Column(commands []Command, least int) int {
	for _, c := range commands {
		least = max(least, draw.Cells(Called(c.Binding)))
	}
	return least + 2
}
