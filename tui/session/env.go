// Package session is what all screens of a program share: what it was started
// with, the clusters and what is known of them, and what a screen may ask of the
// program around it.
package session

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// Env is what a screen knows of the program around it, for one message or one
// frame.
type Env struct {
	Ctx   context.Context  // ends when nobody reads messages any more
	Clock func() time.Time // for commands; Update has Now
	Now   time.Time        // as of the latest message that told it
	Theme draw.Theme
	Keys  keys.Map

	Width, Height int // of the terminal
	Body          int // lines that the screen has of them
	// Pane makes the lines in sight of the screen's [Text].
	Pane func() []string

	Fleet Fleet
	// Boarded is set when the dashboard was shown, and goes on behind other screens.
	Boarded bool
	// Pair are the clusters that are worked on, and Verified what was measured
	// between two.
	Pair     [2]flows.ContextRef
	Verified Verification

	// Post gives the program a message that it takes at once, before any other.
	Post func(tea.Msg)
}

// FrameLines are the lines of the screen that the program has: title, rule, keys.
const FrameLines = 3

// Room is how many lines a screen has that has nothing to note.
func (e Env) Room() int { return max(0, e.Height-FrameLines) }

// Text is the one part of a screen that scrolls. Another ID starts at its top;
// the same with new lines stays where it is.
type Text struct {
	ID       string // "" for none
	Lines    []string
	Height   int  // in sight
	Width    int  // 0: the screen's
	Sideways bool // it scrolls to the right, too; else lines are cut
	Tail     bool // it starts at its end, and stays there while lines are added
	Cursor   int  // the line that it starts with in sight
}

// Messages by which a screen asks something of the program.
type (
	// NoteMsg answers the latest key, until the next one.
	NoteMsg string
	// QuitMsg ends the program; Err is why before all was done.
	QuitMsg struct{ Err error }
	// RewatchMsg opens the watched clusters again, and asks them.
	RewatchMsg struct{}
	// SaveMsg saves a text in a new file, or without one the screen.
	SaveMsg struct{ What, Text, Suffix string }
	// CopyMsg copies a text that is printed at the end, too.
	CopyMsg string
	// VisitMsg shows the plan for a pair, or for [Connect] its settings, unless a
	// Remedy says already what is to be planned.
	VisitMsg struct {
		Pair   [2]flows.ContextRef
		Goal   Goal
		Remedy *check.Remedy
	}
	// PairMsg says which two clusters are worked on, A first: all screens call them so.
	PairMsg [2]flows.ContextRef
	// DiagnoseMsg shows the diagnosis of two clusters' connection.
	DiagnoseMsg struct{ A, B wire.ClusterID }
	// ReturnMsg leads back to where a diagnosis was asked for.
	ReturnMsg struct{}
	// ChooseMsg lets two clusters be chosen.
	ChooseMsg struct{}
	// VerifyMsg measures the connection of a pair with packets.
	VerifyMsg struct{ Pair [2]flows.ContextRef }
	// PromptMsg asks for a line of text. Submit makes a message of it, or says what
	// is the problem with it.
	PromptMsg struct {
		Title, Explain string
		Submit         func(text string) (_ tea.Msg, problem string)
		Path           bool // the text is the path of a file
	}
	// AddFileMsg adds a kubeconfig file to those that are listed.
	AddFileMsg string
	// StopMsg is a signal from outside: a run stops after the requests that are
	// under way, then the program ends.
	StopMsg struct{}
	// InterruptMsg is ctrl+c.
	InterruptMsg struct{}
	// ClickMsg is a click on a line of the screen's body.
	ClickMsg struct{ X, Y int }
)
