package wizard

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// action is what a command does on its screen.
type action uint8

const (
	actInfo action = iota
	actFilter
	actChoose
	actLeave
	actAddFile
	actExplain
	actProblems
	actPass
	actLeft
	actRight
	actSubmit
	actZoom
)

// move is what leads to another screen.
type move uint8

const (
	goBack move = iota
	goClusters
	goSettings
	goPlan
	goLocally // the plan for cluster A alone
	goSwapped // the plan with the other cluster as the server
	goApply
	goAgain // apply what was approved
	goBoard
)

// Messages by which a screen asks something of the wizard.
type (
	chosenMsg    flows.ContextRef // a cluster
	submittedMsg flows.Params     // the form
	takeAwayMsg  session.Goal     // the plan that takes a connection away
	editMsg      string           // the form, at the setting of this name
)
