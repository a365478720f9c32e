package wizard

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// action is the work of a command on its screen.
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

// move names the next screen.
type move uint8

const (
	goBack move = iota
	goClusters
	goSettings
	goChecks
	goPlan
	goLocally // the plan for cluster A only
	goSwapped // the plan with the server on the other cluster
	goApply
	goAgain // apply the approved plan again
	goBoard
)

// Messages by which a screen asks the wizard for an action.
type (
	chosenMsg    flows.ContextRef // a cluster
	submittedMsg flows.Params     // the settings of the form
	takeAwayMsg  session.Goal     // shows the plan that removes a connection
	editMsg      string           // shows the form at the setting with this name
)
