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

// Start is what the program opens with.
type Start uint8

const (
	// StartWizard connects two clusters, from the first step that the command
	// line has not answered.
	StartWizard Start = iota
	// StartDashboard shows all connections.
	StartDashboard
	// StartAny is the dashboard if there are connections, else the wizard.
	StartAny
)

// Options say what the terminal program shows first, and how it reaches clusters.
type Options struct {
	Backend Backend
	Start   Start
	// A and B are the local and the remote cluster, if the command line says
	// which; the zero value is for the admin to choose.
	A, B flows.ContextRef
	// Contexts are those of the dashboard; none stands for all.
	Contexts []flows.ContextRef
	// Params are what is wanted where no connection exists. One that exists
	// keeps its own.
	Params flows.Params
	// Settings are what can be chosen of a connection; nil: [flows.Settings].
	Settings []flows.ConnectionSetting
	// Command writes the command line that does the same without this program.
	Command func(Request) command.Command
	// InfoCommand writes the command line that tells of one cluster's peering.
	InfoCommand func(of flows.ContextRef, peer wire.ClusterID) command.Command
	// Looked are the kubeconfig files that contexts were looked for in.
	Looked []string
	// Install says how our operator is brought to a cluster where nothing manages
	// connections, under an ID; nil means not at all. The admin's "" for the ID
	// is for it to choose.
	Install func(flows.ClusterFacts, wire.ClusterID) (flows.Installation, error)
	// Answers completes parameters by what the admin chose in an earlier program for
	// the same clusters; ok is false where that was nothing. nil: nobody knows.
	Answers func(a, b flows.ContextRef, p flows.Params) (_ flows.Params, ok bool)
	// Timeout bounds the waiting of one run; 0 means 5 minutes.
	Timeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ASCII is for terminals and fonts that can't show more.
	ASCII bool
	// HighContrast is for who can't tell the terminal's own colours apart.
	HighContrast bool
	// Keys are the admin's own; they have to be valid.
	Keys keys.Own
	// Demo is set where no cluster is real.
	Demo Demo
	// Past is what was observed before the program began, the oldest first; nil: nothing.
	Past iter.Seq[Observation]
	// Protected reports whether a context's name has to be typed before its cluster
	// is changed; nil: a yes is enough for all.
	Protected func(flows.ContextRef) bool
}

// ConnectionSettings are what can be chosen of a connection.
func (o Options) ConnectionSettings() []flows.ConnectionSetting {
	if o.Settings == nil {
		return flows.Settings()
	}
	return o.Settings
}

// Theme is how things look on a terminal with a light or a dark background.
func (o Options) Theme(light bool) draw.Theme {
	t := draw.NewTheme(o.ASCII, light)
	if o.HighContrast {
		t = t.HighContrast(light)
	}
	return t
}

// Demo is a demonstration's world, in which keys can break something.
type Demo interface {
	// Play does what a key is for to two clusters, which are the zero value where none are
	// chosen, and says what it did. It is called by commands.
	Play(trick Trick, pair [2]flows.ContextRef) string
}

// Trick is what a key of a demonstration does.
type Trick uint8

// All tricks. The first two are taken back by the same key.
const (
	CutUDP Trick = iota
	SlowLink
	KillGateway
	AddCluster
)

// Observation is what a cluster has said of itself at a time.
type Observation struct {
	At    time.Time
	Ref   flows.ContextRef
	Facts flows.ClusterFacts
}

// Request is something to be done to two clusters, as a command does it.
type Request struct {
	Goal   Goal
	A, B   flows.ContextRef
	Params flows.Params
	// Removal says how much a Disconnect or a Reset takes away.
	Removal flows.RemoveOptions
}

// Goal is what a plan is for.
type Goal uint8

// The goals; each is a command of the same name.
const (
	Connect Goal = iota
	Disconnect
	Reset
)

func (g Goal) String() string { return [...]string{"connect", "disconnect", "reset"}[g] }

// Backend is the world outside of the program: kubeconfigs and clusters. Its
// methods are called by commands, several at once.
type Backend interface {
	// Contexts lists the contexts of all kubeconfig files, those that the admin
	// has added here last. A file that can't be read hides no other.
	Contexts(added []string) ([]Context, []error)
	// Open prepares to talk to a cluster. One that has a Close method is closed
	// when the program has no more use for it.
	Open(flows.ContextRef) (engine.Cluster, error)
}

// Context is one entry of a kubeconfig.
type Context struct {
	Ref    flows.ContextRef
	File   string // that it is in, also where Ref needs none
	Server string // URL of the API server
	User   string // name of the kubeconfig's user
	// Current says that it is kubectl's current context.
	Current bool
	// Problem is why it can't be used at all, such as a user that is missing.
	Problem string
}

// ErrInterrupted is why a program ended that was stopped before its plan was done.
var ErrInterrupted = errors.New("interrupted")
