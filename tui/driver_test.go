package tui

import (
	"context"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// driver is a terminal and the Bubble Tea runtime, in the fake time of a
// synctest bubble: it runs commands in goroutines and gives their messages to
// Update, one at a time.
type driver struct {
	t        testing.TB
	pair     *flowtest.Pair
	world    *world
	model    Model
	messages chan tea.Msg
	quit     bool
	clip     string // what was copied
	got      int    // messages
}

// world is a Backend of clusters in memory. What it holds may change while a
// program uses it.
type world struct {
	mu       sync.Mutex
	contexts []session.Context
	problems []error
	clusters map[flows.ContextRef]engine.Cluster
	files    map[string][]session.Context // to be added
	image    string                       // that installations get
}

func refOf(name string) flows.ContextRef {
	return flows.ContextRef{File: "/home/ada/.kube/config", Name: name}
}

// newWorld has the pair in one kubeconfig.
func newWorld(p *flowtest.Pair) *world {
	w := &world{clusters: map[flows.ContextRef]engine.Cluster{}, files: map[string][]session.Context{}, image: "example.org/liqo-gateway:v1"}
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Be(func(f *flows.ClusterFacts) { f.Context.File = refOf("").File })
		w.add(session.Context{Ref: c.Facts().Context, File: refOf("").File, Server: c.Facts().Server}, c)
	}
	return w
}

func (w *world) add(c session.Context, cluster engine.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contexts = append(w.contexts, c)
	w.clusters[c.Ref] = cluster
}

// replace puts another cluster behind a context.
func (w *world) replace(name string, c engine.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusters[refOf(name)] = c
}

func (w *world) Contexts(added []string) ([]session.Context, []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	contexts, problems := slices.Clone(w.contexts), slices.Clone(w.problems)
	for _, file := range added {
		if found, ok := w.files[file]; ok {
			contexts = append(contexts, found...)
			continue
		}
		problems = append(problems, fmt.Errorf("kubeconfig %s: %w", file, fs.ErrNotExist))
	}
	return contexts, problems
}

func (w *world) Open(ref flows.ContextRef) (engine.Cluster, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.clusters[ref]
	if !ok {
		return nil, fmt.Errorf("no context %s", ref)
	}
	return c, nil
}

// inBubble runs a test with a program for a pair of clusters that the command
// line has named. Time passes only when the driver waits.
func inBubble(t *testing.T, o session.Options, prepare func(*flowtest.Pair), test func(*testing.T, *driver)) {
	t.Helper()
	inWorld(t, func(p *flowtest.Pair, _ *world) session.Options {
		if prepare != nil {
			prepare(p)
		}
		o := o
		o.A, o.B = refOf("kind-rome"), refOf("kind-milan")
		return o
	}, test)
}

// inWorld is inBubble with contexts of the test's own, for the admin to choose.
func inWorld(t *testing.T, options func(*flowtest.Pair, *world) session.Options, test func(*testing.T, *driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pair := flowtest.NewPair()
		pair.Pacing = flowtest.Manual
		w := newWorld(pair)
		o := options(pair, w)
		o.Backend = w
		o.Params, o.Now = flows.Defaults(), pair.Now
		o.Params.ServiceType = corev1.ServiceTypeNodePort
		o.Install = func(f flows.ClusterFacts, id wire.ClusterID) (flows.Installation, error) {
			if id == "" {
				id = wire.ClusterID(strings.TrimPrefix(f.Context.Name, "kind-"))
			}
			return install.New(render.InstallParams{ClusterID: id, Image: w.image})
		}
		o.Command = func(r session.Request) command.Command {
			return command.Ours("network", r.Goal.String()).On(command.Cluster{Context: r.A.Name}, command.Cluster{Context: r.B.Name}).Flag("--server-service-type", string(r.Params.ServiceType))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &driver{t: t, pair: pair, world: w, model: New(ctx, o), messages: make(chan tea.Msg, 1000)}
		d.exec(d.model.Init())
		d.send(tea.WindowSizeMsg{Width: 80, Height: 24})
		d.settle()
		test(t, d)
	})
}

// exec runs a command as Bubble Tea does.
func (d *driver) exec(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				d.exec(c)
			}
		default:
			d.messages <- msg
		}
	}()
}

// send gives one message to Update, then all that follow from it at once.
func (d *driver) send(msg tea.Msg) {
	d.t.Helper()
	d.update(msg)
	d.drain()
}

func (d *driver) update(msg tea.Msg) {
	d.got++
	if _, ok := msg.(tea.QuitMsg); ok {
		d.quit = true
		return
	}
	if reflect.TypeOf(msg).String() == "tea.setClipboardMsg" {
		d.clip = reflect.ValueOf(msg).String()
		return
	}
	if d.quit {
		return
	}
	next, cmd := d.model.Update(msg)
	d.model = next.(Model)
	d.exec(cmd)
}

// drain takes messages until no goroutine can send another without time passing.
func (d *driver) drain() {
	for {
		synctest.Wait()
		select {
		case msg := <-d.messages:
			d.update(msg)
		default:
			return
		}
	}
}

// wait lets time pass, for the program and on the clusters.
func (d *driver) wait(total time.Duration) {
	const step = 10 * time.Millisecond
	for passed := time.Duration(0); passed < total; passed += step {
		d.drain()
		// The clusters change between the moments at which timers end that were
		// started by the program, or by what a change set off a whole number of
		// seconds before: at the same moment, either might be first.
		time.Sleep(step / 2)
		if passed%flowtest.TickLength == 0 {
			time.Sleep(time.Millisecond)
			d.pair.Tick()
			d.drain()
		}
		time.Sleep(step / 2)
	}
	d.drain()
}

// settle waits until what the clusters have told by now was taken in, too.
func (d *driver) settle() {
	time.Sleep(gather)
	d.drain()
}

// keys presses keys: single characters, or names as Bubble Tea writes them.
// keys presses keys one after the other. "pause" is a second without any.
func (d *driver) keys(names ...string) {
	d.t.Helper()
	for _, name := range names {
		if name == "pause" {
			d.wait(time.Second)
			continue
		}
		d.send(press(name))
	}
}

func press(name string) tea.KeyPressMsg {
	switch name {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "up":
		return tea.KeyPressMsg{Code: tea.KeyUp}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "left":
		return tea.KeyPressMsg{Code: tea.KeyLeft}
	case "right":
		return tea.KeyPressMsg{Code: tea.KeyRight}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "ctrl+e":
		return tea.KeyPressMsg{Code: 'e', Mod: tea.ModCtrl}
	case "ctrl+u":
		return tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}
	case "pgdown":
		return tea.KeyPressMsg{Code: tea.KeyPgDown}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// view is the screen at a size, without styles. It must fit.
func (d *driver) view(w, h int) string {
	d.t.Helper()
	d.send(tea.WindowSizeMsg{Width: w, Height: h})
	return d.screen()
}

func (d *driver) screen() string {
	d.t.Helper()
	text := d.model.View().Content
	checkTogether(d.t, d.model)
	checkFits(d.t, text, d.model.width, d.model.height)
	return ansi.Strip(text) + "\n"
}

// checkFits is the invariant of every screen.
func checkFits(t testing.TB, text string, w, h int) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) > max(h, 1) {
		t.Errorf("%d lines, want at most %d:\n%s", len(lines), h, text)
	}
	for _, line := range lines {
		if got := ansi.StringWidth(line); got > w {
			t.Errorf("a line of %d cells, want at most %d: %q", got, w, line)
		}
		if plain := ansi.Strip(line); strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("control characters reach the terminal: %q", line)
		}
	}
}

// has checks what the screen says, on one line or over several.
func (d *driver) has(parts ...string) {
	d.t.Helper()
	screen := d.screen()
	flat := strings.Join(strings.Fields(screen), " ")
	for _, part := range parts {
		if !strings.Contains(screen, part) && !strings.Contains(flat, part) {
			d.t.Errorf("the screen does not say %q:\n%s", part, screen)
		}
	}
}

// selected is the row of a list that is selected, "" for none.
func (d *driver) selected() string {
	d.t.Helper()
	for line := range strings.Lines(d.screen()) {
		if row, ok := strings.CutPrefix(strings.TrimPrefix(line, "│ "), "┃ "); ok {
			return strings.Trim(row, "│ \n")
		}
	}
	return ""
}

// at checks which screen is shown.
func (d *driver) at(want wizard.Step) {
	d.t.Helper()
	if got := d.model.wizard.Step; got != want {
		d.t.Errorf("got %v, want %v:\n%s", got, want, d.screen())
	}
}

func (d *driver) hasNot(parts ...string) {
	d.t.Helper()
	screen := d.screen()
	for _, part := range parts {
		if strings.Contains(screen, part) {
			d.t.Errorf("the screen says %q:\n%s", part, screen)
		}
	}
}
