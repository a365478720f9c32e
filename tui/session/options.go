package session

import (
	"errors"
	"iter"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// Start is the first screen of the program.
type Start uint8

const (
	// StartWizard connects two clusters. It starts at the first step that the command
	// line does not answer.
	StartWizard Start = iota
	// StartDashboard shows all connections.
	StartDashboard
	// StartAny shows the dashboard if there are connections, otherwise the wizard.
	StartAny
)

// Options determine the first screen of the terminal program, and its access to clusters.
type Options struct {
	Backend Backend
	Start   Start
	// A and B are the local and the remote cluster on the command line; zero if the admin
	// chooses them later.
	A, B flows.ContextRef
	// Contexts are the contexts of the dashboard; nil means all contexts.
	Contexts []flows.ContextRef
	// Params are the settings for a new connection. An existing connection keeps its
	// settings.
	Params flows.Params
	// Settings are the settings of a connection that the admin can choose; nil:
	// [flows.Settings].
	Settings []flows.ConnectionSetting
	// Command returns the command line for the same request without this program.
	Command func(Request) command.Command
	// InfoCommand returns the command line that shows one connection of a cluster.
	InfoCommand func(of flows.ContextRef, peer wire.ClusterID) command.Command
	// Looked has the kubeconfig files in which contexts were searched.
	Looked []string
	// Install returns the installation of our operator on a cluster without an operator,
	// with the given cluster ID. If the ID is "", Install chooses it. If Install is nil,
	// the program installs nothing.
	Install func(flows.ClusterFacts, wire.ClusterID) (flows.Installation, error)
	// Answers adds to the parameters the admin's earlier answers for the same clusters;
	// ok is false if there are none. It may be nil.
	Answers func(a, b flows.ContextRef, p flows.Params) (_ flows.Params, ok bool)
	// Timeout limits the time of waiting in one run; 0 means 5 minutes.
	Timeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ASCII is set for terminals and fonts that can show only ASCII characters.
	ASCII bool
	// HighContrast is set for admins who can't distinguish the terminal's own colours.
	HighContrast bool
	// Keys has the admin's own keys. They have to be valid.
	Keys keys.Own
	// Demo is set if all clusters are simulated.
	Demo Demo
	// Past has the observations from before the program began, the oldest first; nil:
	// none.
	Past iter.Seq[Observation]
	// Protected reports whether the admin has to type a context's name before its cluster
	// is changed. nil means that a yes is always enough.
	Protected func(flows.ContextRef) bool
}

// ConnectionSettings returns the settings of a connection that the admin can choose.
func (o Options) ConnectionSettings() []flows.ConnectionSetting {
	if o.Settings == nil {
		return flows.Settings()
	}
	return o.Settings
}

// Theme returns the theme for a terminal with a light or a dark background.
func (o Options) Theme(light bool) draw.Theme {
	t := draw.NewTheme(o.ASCII, light)
	if o.HighContrast {
		t = t.HighContrast(light)
	}
	return t
}

// Demo has the clusters of a demonstration, in which keys can cause faults.
type Demo interface {
	// Play carries out a trick on two clusters, and returns a sentence about it. The pair
	// is zero if no clusters are chosen. Commands call Play.
	Play(trick Trick, pair [2]flows.ContextRef) string
}

// Trick is the action of a key in a demonstration.
type Trick uint8

// All tricks. The first two are undone by the same key.
const (
	CutUDP Trick = iota
	SlowLink
	KillGateway
	AddCluster
)

// Observation has the facts about a cluster at some time.
type Observation struct {
	At    time.Time
	Ref   flows.ContextRef
	Facts flows.ClusterFacts
}

// Request is a change of two clusters that a command can also make.
type Request struct {
	Goal   Goal
	A, B   flows.ContextRef
	Params flows.Params
	// Removal has the options of a Disconnect or a Reset.
	Removal flows.RemoveOptions
}

// Goal is the purpose of a plan.
type Goal uint8

// The goals. For each there is a command with the same name.
const (
	Connect Goal = iota
	Disconnect
	Reset
)

func (g Goal) String() string { return [...]string{"connect", "disconnect", "reset"}[g] }

// Backend opens kubeconfigs and clusters for the program. Commands call its methods,
// several at the same time.
type Backend interface {
	// Contexts lists the contexts of all kubeconfig files. The files that the admin has
	// added in the program come last. If a file can't be read, the contexts of the other
	// files are still listed.
	Contexts(added []string) ([]Context, []error)
	// Open prepares the access to a cluster. If the result has a Close method, the
	// program calls it when it does not need the cluster any more.
	Open(flows.ContextRef) (engine.Cluster, error)
}

// Context is one entry of a kubeconfig.
type Context struct {
	Ref    flows.ContextRef
	File   string // the file of the context, even if Ref does not need it
	Server string // URL of the API server
	User   string // name of the kubeconfig's user
	// Current is set for kubectl's current context.
	Current bool
	// Problem is the reason that the context can't be used at all, such as a missing
	// user.
	Problem string
}

// ErrInterrupted is the error of a program that was stopped before its plan was done.
var ErrInterrupted = errors.New("interrupted")
