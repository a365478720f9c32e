package keys

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// Command is something that the admin can do on a screen: with its key, or
// from the palette. Keys, help and palette are all made from these.
type Command struct {
	key.Binding
	Msg tea.Msg // does it: the screen, or else the program, takes it at once
	// Quiet is for moving about: it is in help, not in the palette.
	Quiet bool
	// Shown is for what has a row of its own: the screen's last line does not say it again.
	Shown bool
	Group Group
}

// Group is where help has a command.
type Group uint8

// The groups, in help's order.
const (
	Here Group = iota // what this screen is for
	Look
	Arrange
	Move
	Everywhere
	Groups // how many there are
)

func (g Group) String() string {
	return [...]string{"On this screen", "Look at", "Arrange", "Move", "Everywhere"}[g]
}

// In puts commands into a group.
func In(g Group, commands ...Command) []Command {
	for i := range commands {
		commands[i].Group = g
	}
	return commands
}

// MoveMsg selects another row of a list: so many further down.
type MoveMsg int

// Moving are the keys of a list.
func (k Map) Moving() []Command {
	const far = 1 << 20
	return In(Move, []Command{
		{Binding: k.Up, Msg: MoveMsg(-1), Quiet: true},
		{Binding: k.Down, Msg: MoveMsg(+1), Quiet: true},
		{Binding: k.Top, Msg: MoveMsg(-far), Quiet: true},
		{Binding: k.Bottom, Msg: MoveMsg(+far), Quiet: true},
	}...)
}

// Column is the width of a column with the keys of commands.
func Column(commands []Command, least int) int {
	for _, c := range commands {
		least = max(least, draw.Cells(Called(c.Binding)))
	}
	return least + 2
}
