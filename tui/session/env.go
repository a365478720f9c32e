// Package session has what all screens of a program share: the options of the program,
// the clusters with their facts, and the messages by which a screen asks the program
// for an action.
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

// Env has the state of the program that a screen needs, for one message or one frame.
type Env struct {
	Ctx   context.Context  // ends when nobody reads messages any more
	Clock func() time.Time // for commands; Update has Now
	Now   time.Time        // the time in the latest message that has a time
	Theme draw.Theme
	Keys  keys.Map

	Width, Height int // of the terminal
	Body          int // the lines of the terminal that the screen has
	// Pane returns the visible lines of the screen's [Text].
	Pane func() []string

	Fleet Fleet
	// Boarded is set if the dashboard was shown, and is kept while other screens are
	// shown.
	Boarded bool
	// Pair has the clusters that the admin works on. Verified has the last measurement
	// between two clusters.
	Pair     [2]flows.ContextRef
	Verified Verification

	// Post sends a message to the program, which handles it before any other message.
	Post func(tea.Msg)
}

// FrameLines is the number of lines that the program draws: title, rule, keys.
const FrameLines = 3

// Room returns the number of lines for a screen without a note.
func (e Env) Room() int { return max(0, e.Height-FrameLines) }

// Text is the only part of a screen that scrolls. A text with another ID starts at its
// top. A text with the same ID keeps its position, even if the lines change.
type Text struct {
	ID       string // "" for none
	Lines    []string
	Height   int  // the visible lines
	Width    int  // 0: the width of the screen
	Sideways bool // it scrolls to the right as well; otherwise lines are cut
	Tail     bool // it starts at its end, and stays there while lines are added
	Cursor   int  // the line of the cursor, which is visible at the start
}

// Messages by which a screen asks the program for an action.
type (
	// NoteMsg shows an answer to the latest key, until the next key.
	NoteMsg string
	// QuitMsg ends the program. Err is the reason if the plan is not done.
	QuitMsg struct{ Err error }
	// RewatchMsg opens the watched clusters again, and observes them.
	RewatchMsg struct{}
	// SaveMsg saves a text in a new file. Without a text, it saves the screen.
	SaveMsg struct{ What, Text, Suffix string }
	// CopyMsg copies a text. The text is also printed at the end of the program.
	CopyMsg string
	// VisitMsg shows the plan for a pair of clusters. If the goal is [Connect], it
	// shows the settings, unless a Remedy already determines the plan.
	VisitMsg struct {
		Pair   [2]flows.ContextRef
		Goal   Goal
		Remedy *check.Remedy
	}
	// PairMsg says which two clusters the admin works on, A first. All screens then
	// call them A and B.
	PairMsg [2]flows.ContextRef
	// DiagnoseMsg shows the diagnosis of the connection of two clusters.
	DiagnoseMsg struct{ A, B wire.ClusterID }
	// ReturnMsg goes back to the screen from which a diagnosis was opened.
	ReturnMsg struct{}
	// ChooseMsg shows the list in which the admin chooses two clusters.
	ChooseMsg struct{}
	// VerifyMsg measures the connection of a pair of clusters with packets.
	VerifyMsg struct{ Pair [2]flows.ContextRef }
	// PromptMsg asks for a line of text. Submit turns the text into a message, or
	// returns the problem of the text.
	PromptMsg struct {
		Title, Explain string
		Submit         func(text string) (_ tea.Msg, problem string)
		Path           bool // the text is the path of a file
	}
	// AddFileMsg adds a kubeconfig file to the list of files.
	AddFileMsg string
	// StopMsg stands for a signal: a run stops after the requests that have begun, then
	// the program ends.
	StopMsg struct{}
	// InterruptMsg is ctrl+c.
	InterruptMsg struct{}
	// ClickMsg is a click on a line of the screen's body.
	ClickMsg struct{ X, Y int }
)
