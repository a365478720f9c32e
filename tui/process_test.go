//go:build linux

package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// The figures here are of a whole process on a terminal: this test binary,
// which TestMain turns into a dashboard of clusters in memory.

const (
	processEnv = "TUI_PROCESS" // how many status changes a second
	resultEnv  = "TUI_PROCESS_RESULT"
	// processPeerings is what the bounds are for.
	processPeerings = 1000
	// quiet is how long nothing is written once everything is on the screen.
	quiet = 2 * time.Second
)

func TestMain(m *testing.M) {
	if changes := os.Getenv(processEnv); changes != "" {
		if err := runProcess(changes); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// processResult is what the process has measured of itself.
type processResult struct {
	Seconds float64
	CPU     float64 // seconds, user and system
	Writes  int64   // to the terminal: one for each frame
	Bytes   int64
	Changes int // of states that were made
	Events  int // on the dashboard
}

// memoryCluster is a cluster whose facts somebody else changes.
type memoryCluster struct {
	engine.Absent
	mu      sync.Mutex
	facts   flows.ClusterFacts
	changed chan struct{}
	looks   atomic.Int64
}

func (c *memoryCluster) Observe(context.Context) (flows.ClusterFacts, error) {
	c.looks.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts, nil
}

func (c *memoryCluster) Changed() <-chan struct{} { return c.changed }

// flip changes the state of one connection.
func (c *memoryCluster) flip(i, version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.facts.Connections = slices.Clone(c.facts.Connections)
	conn := &c.facts.Connections[i]
	conn.ResourceVersion = fmt.Sprint("v", version)
	if conn.Status.Value == isConnected {
		conn.Status.Value = networkingv1beta1.ConnectionError
	} else {
		conn.Status.Value = isConnected
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// countingTerminal counts what is written to the terminal.
type countingTerminal struct {
	*os.File
	writes, bytes *atomic.Int64
}

func (c countingTerminal) Write(p []byte) (int, error) {
	c.writes.Add(1)
	c.bytes.Add(int64(len(p)))
	return c.File.Write(p)
}

// runProcess shows a dashboard on the terminal and measures it.
func runProcess(changes string) error {
	var perSecond, seconds int
	if _, err := fmt.Sscanf(changes, "%d %d", &perSecond, &seconds); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	mesh := newMesh(processPeerings)
	backend := &world{clusters: map[flows.ContextRef]engine.Cluster{}}
	clusters := make([]*memoryCluster, len(mesh.ids))
	const fresh = 24 * time.Hour // so that nothing changes by becoming stale
	for i, ref := range mesh.refs {
		clusters[i] = &memoryCluster{facts: mesh.facts(i, 0, time.Now().Add(fresh)), changed: make(chan struct{}, 1)}
		backend.add(session.Context{Ref: ref}, clusters[i])
	}
	var writes, bytes atomic.Int64
	program := tea.NewProgram(New(ctx, session.Options{Backend: backend, Start: session.StartDashboard, Contexts: mesh.refs}),
		tea.WithInput(os.Stdin), tea.WithOutput(countingTerminal{os.Stdout, &writes, &bytes}), tea.WithoutSignalHandler(), tea.WithFPS(FramesPerSecond))
	var result processResult
	go func() {
		settle(clusters, &writes)
		if s := time.Now().Second(); perSecond == 0 && s+seconds > 58 {
			time.Sleep(time.Duration(62-s) * time.Second) // not across a minute, with which ages change
		}
		before, written, wrote, began := cpuTime(), bytes.Load(), writes.Load(), time.Now()
		changes := disturb(clusters, perSecond, began.Add(time.Duration(seconds)*time.Second))
		result = processResult{time.Since(began).Seconds(), cpuTime() - before, writes.Load() - wrote, bytes.Load() - written, changes, 0}
		program.Quit()
	}()
	final, err := program.Run()
	if err != nil {
		return err
	}
	result.Events = final.(Model).dashboard.Board.Log.Total
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(resultEnv), text, 0o600)
}

// settle waits until every cluster was looked at again, with nothing new, and
// nothing has been written for a while: a busy machine takes its time.
func settle(clusters []*memoryCluster, writes *atomic.Int64) {
	for _, c := range clusters {
		for c.looks.Load() < 2 {
			select {
			case c.changed <- struct{}{}:
			default:
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	last, since := writes.Load(), time.Now()
	for time.Since(since) < quiet {
		time.Sleep(50 * time.Millisecond)
		if now := writes.Load(); now != last {
			last, since = now, time.Now()
		}
	}
}

// disturb flips connections, so many a second, until the end.
func disturb(clusters []*memoryCluster, perSecond int, end time.Time) (changes int) {
	if perSecond == 0 {
		time.Sleep(time.Until(end))
		return 0
	}
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for ; time.Now().Before(end); changes++ {
		<-ticker.C
		i := rand.IntN(len(clusters))
		clusters[i].flip(rand.IntN(len(clusters)-1), changes)
	}
	return changes
}

// cpuTime is what this process has used, in seconds.
func cpuTime() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

// onTerminal runs the process on a terminal of 120 columns.
func onTerminal(t *testing.T, perSecond, seconds int) processResult {
	t.Helper()
	control, terminal := openTerminal(t, 120, 40)
	file := t.TempDir() + "/result.json"
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SSH_") }),
		"TERM=xterm-256color", "LANG=C.UTF-8", fmt.Sprintf("%s=%d %d", processEnv, perSecond, seconds), resultEnv+"="+file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	screen, err := io.ReadAll(control)
	if err != nil && !strings.Contains(err.Error(), "input/output error") { // how a terminal ends
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, screen)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r processResult
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// openTerminal makes a pseudo-terminal: what is typed at and read from control
// is what a person at the terminal would type and see.
func openTerminal(t *testing.T, width, height uint16) (control, terminal *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { control.Close() })
	fd := int(control.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return control, terminal
}

// TestProcessOnATerminal measures what a dashboard of a thousand peerings costs
// while nothing happens, and while a hundred states change every second.
func TestProcessOnATerminal(t *testing.T) {
	seconds := 4
	measured := os.Getenv("BENCH_TUI") != ""
	if measured {
		seconds = 40
	}
	if testing.Short() {
		t.Skip("takes about 20 s")
	}
	for _, test := range []struct {
		name      string
		perSecond int
		core      float64 // share of a core
		frames    float64 // per second
	}{
		{"idle", 0, 0.005, 0},
		{"100 changes a second", 100, 0.10, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := onTerminal(t, test.perSecond, seconds)
			core, frames := r.CPU/r.Seconds, float64(r.Writes)/r.Seconds
			if test.perSecond > 0 && r.Writes > 0 {
				frames = float64(r.Writes-1) / r.Seconds // the first comes with the first change
			}
			t.Logf("%.2f%% of a core, %.1f frames/s, %.0f bytes/s, %d events of %d changes in %.0f s", core*100, frames, float64(r.Bytes)/r.Seconds, r.Events, r.Changes, r.Seconds)
			if frames > test.frames {
				t.Errorf("got %.1f frames/s, want at most %.0f", frames, test.frames)
			}
			// A machine that does other things as well charges us for them.
			if measured && core > test.core {
				t.Errorf("got %.2f%% of a core, want at most %.2f%%", core*100, test.core*100)
			}
			// An end whose other end is down already changes nothing. A machine
			// that does other things makes fewer changes, and none that are lost.
			if want := r.Changes / 4; r.Events < want || test.perSecond > 0 && r.Changes == 0 {
				t.Errorf("got %d events of %d changes, want at least %d", r.Events, r.Changes, want)
			}
		})
	}
}
